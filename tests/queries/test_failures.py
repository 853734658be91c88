"""Failures in groups, and how long runs take."""

import pytest

from redbike.queries.failures import group_failures, name_group, normalize
from redbike.queries.unusual import measure_durations
from redbike.store.enums import Outcome
from redbike.store.history import PastRun
from redbike.store.past_runs import Failure


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("TimeoutError: no answer from 10.0.0.7:5432 after 30 s", "TimeoutError: no answer from N after N s"),
        ("KeyError: 'user-17'", "KeyError: '…'"),
        ('exit status 3: "a b"', "exit status N: '…'"),
        ("no row 5f2b8c1e-8d3a-4e0b-9c55-0a1b2c3d4e5f", "no row …"),
        ("object at 0x7f3a2c", "object at …"),
        ("", ""),
        ("the job backup:A has no disk", "the job … has no disk"),
    ],
)
def test_what_differs_each_time_is_left_out(error, message):
    assert normalize(Failure("backup:A", 1.0, error)) == message


def test_the_largest_group_comes_first():
    failures = [Failure(f"j{n}:A", 100.0 - n, f"ValueError: row {n}") for n in range(5)]
    failures += [Failure("x:A", 7.0, "KeyError: 1"), Failure("y:A", 9.0, "OSError")]
    found = group_failures(failures)
    assert [(each.message, each.count, each.first, each.last) for each in found] == [
        ("ValueError: row N", 5, 96.0, 100.0),
        ("OSError", 1, 9.0, 9.0),
        ("KeyError: N", 1, 7.0, 7.0),
    ]
    assert found[0].newest == failures[0]
    assert found[0].samples == ["j0:A", "j1:A", "j2:A"]
    assert found[0].key == name_group("ValueError: row N")


def test_a_long_message_and_half_a_pair_have_a_group():
    [found] = group_failures([Failure("j:A", 1.0, "\ud800" + "x" * 10_000)])
    assert len(found.key) == 12


def run(took, outcome=Outcome.OK):
    return PastRun("j:A", 0.0, 0.0, took, outcome, 1, "", "")


def test_runs_that_took_much_longer_than_the_others_are_unusual():
    found = measure_durations([run(1.0), run(1.1), run(9.0), run(1.2), run(0.9), run(20.0, Outcome.FAILED)])
    assert (found.median, found.longest, found.unusual) == (1.1, 20.0, {2, 5})


def test_few_runs_and_very_short_ones_are_never_unusual():
    assert measure_durations([run(1.0), run(9.0)]).unusual == frozenset()
    assert measure_durations([run(0.001)] * 9 + [run(0.04)]).unusual == frozenset()
    assert measure_durations([run(1.0, Outcome.LOST)]).median is None
    assert measure_durations([]).longest == 0
