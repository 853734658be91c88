"""The instant up to which all was dispatched, and one-offs that are forgotten, straight at the scripts."""

import pytest

from redbike.store import timeline
from tests.states import DUE, NOW, OLD, START, dump, take
from tests.verbs import set_job

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


@pytest.mark.parametrize(
    ("own", "mine", "noted_before", "known", "noted"),
    [
        # It has kept nothing yet, or does not know what it has kept, as after a clock that was ahead.
        (None, None, None, 950.0, None),
        (None, 900.0, None, 950.0, None),
        (900.0, None, None, 950.0, None),
        # The server has all of it.
        (900.0, 900.0, None, 950.0, None),
        (900.0, 900.0005, None, 950.0, None),
        (901.0, 900.0, None, 950.0, None),
        # It does not, though another dispatcher has kept the instant of all.
        (900.0, 900.001, None, 950.0, (900.0, 900.001)),
        (900.0, 940.0, None, 950.0, (900.0, 940.0)),
        (0.0, 940.0, None, 950.0, (0.0, 940.0)),
        (-5.0, 940.0, None, 950.0, (0.0, 940.0)),
        # Another one has noted that, or less.
        (900.0, 940.0, 939.0, 950.0, None),
        (900.0, 940.0, 938.0, 950.0, None),
        (900.0, 940.0, 937.9, 950.0, (900.0, 940.0)),
        # The instant of all has gone back, too.
        (900.0, 940.0, None, 990.0, (900.0, 940.0)),
        (900.0, 940.0, 940.0, 990.0, (960.0, 990.0)),
        (940.0, 940.0, None, 990.0, (960.0, 990.0)),
    ],
)
def test_what_a_dispatcher_has_kept_itself_tells_what_the_server_has_forgotten(
    store, client, own, mine, noted_before, known, noted
):
    had = {"until": 960.0, "until:OwnerOf1": own, "noted": noted_before}
    client.zadd(store.keys.dispatched, {member: score for member, score in had.items() if score is not None})
    told = store.at(NOW).timeline.advance(1000.0, known=known, owner="OwnerOf1", mine=mine)
    expected = noted and (f"{noted[0]:.6f}", f"{noted[1]:.6f} {NOW:.6f}")
    assert told == expected
    assert client.zscore(store.keys.dispatched, "until:OwnerOf1") == 1000.0
    assert client.zscore(store.keys.dispatched, "noted") == (noted[1] if noted else noted_before)
    assert store.counts.read()["rewinds::"] == (1 if noted else 0)


def test_of_a_clock_that_was_ahead_and_of_one_that_has_ended_no_instant_of_its_own_stays(store, client):
    ahead = {"until": 2000.0, "until:OwnerOf1": 2000.0}
    client.zadd(store.keys.dispatched, ahead)
    assert store.at(NOW).timeline.advance(1000.0, was_ahead=True, owner="OwnerOf1")
    assert dict(client.zrange(store.keys.dispatched, 0, -1, withscores=True)) == {
        b"until": 1000.0,
        b"until:OwnerOf1": 1000.0,
    }
    assert store.at(NOW).timeline.advance(1001.0, known=1000.0, owner="OwnerOf1", mine=1000.0, ended=True) is None
    assert client.zrange(store.keys.dispatched, 0, -1, withscores=True) == [(b"until", 1001.0)]


def test_what_is_new_after_a_clock_that_was_ahead_is_not_forgotten_first(store, client):
    keys = store.keys.requests, store.keys.failure_times
    for key in keys:
        client.zadd(key, {"old": NOW - 5.0, "new": NOW + 1.0, "ahead": LAST})
    for was_ahead, newest in ((False, b"ahead"), (True, b"new")):
        store.at(NOW).timeline.advance(NOW - 1, was_ahead)
        assert [client.zrange(key, 0, -1)[::2] for key in keys] == [[b"old", newest]] * 2


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


def set_spent(store, *jobids, ripe=NOW):
    store.client.zadd(store.keys.spent, dict.fromkeys(jobids, ripe))


def test_those_that_have_ended_long_enough_ago_are_forgotten_and_others_stay(store, client):
    for jobid in ("flies:A", "waits:A"):
        set_job(store.at(START), jobid, OLD, START)
    take(store)
    set_job(store.at(START), "again:A", OLD, DUE)
    for jobid in ("gone:A", "owned:A", "row:A", "ripe later:A", "text:A"):
        set_job(store.at(START), jobid, "STOP", None)
    store.jobs.set_groups({"owned:A": "a.csv", "row:A": "a.csv\nNOW"})
    client.hset(store.keys.schedules, "text:A", OLD)
    set_spent(store, "gone:A", "owned:A", "row:A", "text:A", "flies:A", "waits:A", "again:A", "nobody:A")
    set_spent(store, "ripe later:A", ripe=NOW + 0.001)
    before = dump(store)
    assert store.at(NOW - 1).timeline.forget() == (0, False)
    assert dump(store) == before
    assert store.at(NOW).timeline.forget() == (2, False)
    assert {jobid for jobid, _ in store.catalog.list_schedules()} == {
        *("flies:A", "waits:A", "again:A", "row:A", "ripe later:A", "text:A")
    }
    assert client.zrange(store.keys.spent, 0, -1, withscores=True) == [
        (b"ripe later:A", NOW + 0.001),
        *((jobid, NOW + 60) for jobid in (b"flies:A", b"waits:A")),  # looked at again then
    ]
    assert store.counts.read()["forgotten::"] == 2
    settled = dump(store)
    assert store.at(NOW).timeline.forget() == (0, False)
    assert dump(store) == settled


def test_many_are_forgotten_a_few_at_a_time(store, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_FORGOTTEN", 2)
    for jobid in ("a:A", "b:A", "c:A"):
        set_job(store.at(START), jobid, "STOP", None)
    set_spent(store, "a:A", "b:A", "c:A")
    assert [store.at(NOW).timeline.forget() for _ in range(2)] == [(2, True), (1, False)]
    assert store.counts.read()["forgotten::"] == 3
