"""The instant up to which everything due was dispatched, and when it went back, straight at the script."""

import pytest

from tests.states import NOW, dump

LAST = 999999999999.0


@pytest.mark.parametrize(
    ("had", "until", "was_ahead", "known", "kept", "noted"),
    [
        (None, 1000.0, False, None, 1000.0, None),
        (900.0, 1000.0, False, None, 1000.0, None),
        (2000.0, 1000.0, False, None, 2000.0, None),
        # The server has what a dispatcher knows, up to rounding, or more.
        (900.0, 1000.0, False, 900.0, 1000.0, None),
        (900.0, 1000.0, False, 900.0005, 1000.0, None),
        (950.0, 1000.0, False, 900.0, 1000.0, None),
        # It has forgotten that.
        (900.0, 1000.0, False, 900.001, 1000.0, (900.0, 900.001)),
        (900.0, 1000.0, False, 950.0, 1000.0, (900.0, 950.0)),
        (None, 1000.0, False, 950.0, 1000.0, (0.0, 950.0)),
        (-5.0, 1000.0, False, 950.0, 1000.0, (0.0, 950.0)),
        # Its clock was ahead.
        (1060.0, 1000.0, True, None, 1000.0, None),
        (1060.5, 1000.0, True, None, 1000.0, (1000.0, 1060.5)),
        (2 * LAST, 1000.0, True, None, 1000.0, (1000.0, LAST)),
        (900.0, 1000.0, True, None, 1000.0, None),
        (900.0, 1000.0, True, 950.0, 1000.0, (900.0, 950.0)),
    ],
)
def test_it_goes_forward_and_what_goes_back_is_noted(store, client, had, until, was_ahead, known, kept, noted):
    if had is not None:
        client.zadd(store.keys.dispatched, {"until": had})
    told = store.at(NOW).timeline.advance(until, was_ahead, known)
    expected = noted and (f"{noted[0]:.6f}", f"{noted[1]:.6f} {NOW:.6f}")
    assert told == expected
    assert client.zscore(store.keys.dispatched, "until") == kept
    assert {field.decode(): value.decode() for field, value in client.hgetall(store.keys.rewinds).items()} == (
        dict([expected]) if expected else {}
    )
    assert store.counts.read()["rewinds::"] == (1 if noted else 0)


def test_a_hundred_are_noted_at_most_and_all_are_counted(store, client):
    for number in range(102):
        client.zadd(store.keys.dispatched, {"until": number + 1.0})
        assert store.at(NOW).timeline.advance(2000.0, known=1000.0)
    assert client.hlen(store.keys.rewinds) == 100
    assert store.counts.read()["rewinds::"] == 102
    assert store.at(NOW).timeline.advance(3000.0, known=2000.0) is None
    settled = dump(store)
    assert store.at(NOW).timeline.advance(2500.0, known=2000.0) is None
    assert dump(store) == settled
