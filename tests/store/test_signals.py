"""Which HALT concerns a process: one that was given after it had started, whatever the server has meanwhile."""

import pytest

from redbike.store.signals import Signal, has_new_halt

KNOWN = "HALT 100.000000"
START = 200.0  # when the process read the signal first


@pytest.mark.parametrize(
    ("known", "text", "now", "is_new"),
    [
        ("", "", 300.0, False),
        ("", "HALT 299.000000", 300.0, True),
        (KNOWN, KNOWN, 300.0, False),
        (KNOWN, "", 300.0, False),
        (KNOWN, "HALT 200.000000", 200.0, True),
        (KNOWN, "HALT 200.000001", 300.0, True),
        # The server went back, or is a copy of another one.
        ("", KNOWN, 300.0, False),
        (KNOWN, "HALT 50.000000", 300.0, False),
        (KNOWN, "HALT 197.999999", 300.0, False),
        # The clock was set back, before the process started or later.
        ("HALT 900.000000", "HALT 201.000000", 202.0, True),
        ("HALT 900.000000", "HALT 900.000000", 202.0, False),
        (KNOWN, "HALT 99.000000", 99.5, True),
        ("", "HALT 99.000000", 99.5, True),
        # It is the clock of another master, which is a little behind.
        (KNOWN, "HALT 198.500000", 300.0, True),
        # Somebody has put it there by hand.
        (KNOWN, "HALT", 300.0, True),
    ],
)
def test_a_halt_is_new_if_it_was_given_after_the_start(known, text, now, is_new):
    signals = {"app": Signal(known, START)}
    assert has_new_halt(signals, {"app": Signal(text, now)}) is is_new


def test_an_old_halt_does_not_hide_a_new_one():
    known = {"app": Signal("", START)}
    assert not has_new_halt(known, {"app": Signal(KNOWN, 300.0)})
    assert known["app"].text == KNOWN
    assert has_new_halt(known, {"app": Signal("HALT 301.000000", 302.0)})
