"""What is told of a job, step by step. Time is an argument."""

import json

import pytest

from redbike.loop.alerts.conditions import Condition
from redbike.loop.alerts.deciding import decide, decide_missed
from redbike.store.alerts import Known
from redbike.store.enums import Alert

EVERY = 100.0
LATE, FAILED, STOPPED, AWAITED = Alert.LATE, Alert.FAILED, Alert.STOPPED, Alert.RECOVERED
GONE, TO_RUN, OVER = "gone", "to run", "over"  # of a job of which nothing is wrong, and that has not run well


def tell(field, steps):
    """What is told at each of `steps`: an instant, and what is wrong then, or what has become of the job."""
    record, told = None, []
    for now, *alerts in steps:
        known = Known(now, {field: record} if record else {})
        wrong = {each: Condition(each, now, f"x is {each}", 5.0) for each in alerts if isinstance(each, Alert)}
        gone, is_well = {field} if GONE in alerts else set(), None if TO_RUN in alerts else OVER not in alerts
        found = {field: wrong} if wrong else {}
        [change] = decide(found, gone, known, EVERY, lambda *_, is_well=is_well: is_well) or [None]
        if change:
            assert change.was == record
            record = None if change.record == "{}" else change.record
        told.append([json.loads(line)["alert"] for line in change.lines] if change else [])
    return told, record


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # once, while it lasts, for however long
        ([(1, LATE), (2, LATE), (500, LATE), (501,), (502,)], [["late"], [], [], ["recovered"], []]),
        # each that begins; well again only when none lasts
        ([(1, LATE), (2, LATE, FAILED), (3, FAILED), (4,)], [["late"], ["failed"], [], ["recovered"]]),
        ([(1, FAILED, STOPPED), (2, FAILED, STOPPED), (3,)], [["failed", "stopped"], [], ["recovered"]]),
        # again soon: not before the time for repeats has passed, and then if it still lasts
        (
            [(1, FAILED), (2,), (3, FAILED), (4,), (5, FAILED), (90, FAILED)],
            [["failed"], ["recovered"], [], [], [], []],
        ),
        (
            [(1, FAILED), (2,), (50, FAILED), (101, FAILED), (102, FAILED), (103,)],
            [["failed"], ["recovered"], [], [], ["failed"], ["recovered"]],
        ),
        ([(1, FAILED), (2,), (200,), (201, FAILED)], [["failed"], ["recovered"], [], ["failed"]]),
        # told by a clock that was ahead
        ([(900, FAILED), (2,), (3, FAILED)], [["failed"], ["recovered"], ["failed"]]),
        # another one that was told a short time ago keeps it from being well
        (
            [(1, FAILED), (2,), (3, LATE), (4, LATE, FAILED), (5, FAILED), (6,)],
            [["failed"], ["recovered"], ["late"], [], [], ["recovered"]],
        ),
        # unset
        ([(1, FAILED), (2, GONE), (3,)], [["failed"], [], []]),
        # what was late is cancelled: well again when a later run ends well, and that may be late, too
        ([(1, LATE), (2, TO_RUN), (3, AWAITED), (500, TO_RUN), (501,)], [["late"], [], [], [], ["recovered"]]),
        ([(1, LATE), (2, TO_RUN), (200, AWAITED), (201, LATE), (202,)], [["late"], [], [], ["late"], ["recovered"]]),
        ([(1, LATE), (2, TO_RUN), (3, LATE, AWAITED), (4,), (5,)], [["late"], [], [], ["recovered"], []]),
        ([(1, LATE), (2, TO_RUN), (3, OVER), (4,)], [["late"], [], [], []]),
    ],
)
def test_a_job_is_told_of_when_it_changes(steps, expected):
    assert tell("job:x:A", steps)[0] == expected


def test_nothing_is_kept_when_the_time_for_repeats_has_passed():
    steps = [(1, FAILED), (2,), (101,)]
    assert tell("job:x:A", steps[:2])[1] is not None
    assert tell("job:x:A", steps)[1] is None


@pytest.mark.parametrize(
    ("field", "alert", "well"),
    [
        ("process:a", Alert.WORKER_LOST, []),
        ("rewind:1", Alert.REWOUND, []),
        ("dispatcher:", Alert.NO_DISPATCHER, 1),
        ("shard:{app:01}/4", Alert.SHARD_AWAY, 1),
    ],
)
def test_of_the_installation_only_a_dispatcher_or_a_shard_is_well_again(field, alert, well):
    assert tell(field, [(1, alert), (2, alert), (3,)])[0] == [[alert], [], ["recovered"] if well else []]


def test_a_damaged_record_is_as_if_nothing_had_been_told():
    for record in ("x", "[]", '{"active":5,"told":[]}', '{"active":{"failed":"x"}}'):
        found = {"job:x": {FAILED: Condition(FAILED, 1.0, "x", None)}}
        [change] = decide(found, set(), Known(5.0, {"job:x": record}), EVERY)
        assert (change.was, len(change.lines)) == (record, 1)


@pytest.mark.parametrize(
    ("number", "record", "is_first", "told", "after"),
    [
        ("7", None, True, None, "7"),
        ("7", None, False, 7, "7 500.000000"),
        ("7", "6", False, 1, "7 500.000000"),
        ("7", "5 900.000000", False, 2, "7 500.000000"),
        ("7", "5 390.000000", False, 2, "7 500.000000"),
        ("7", "5 401.000000", False, None, None),
        ("2", "5 390.000000", False, None, "2"),
    ],
)
def test_what_was_missed_is_counted_since_it_was_told(number, record, is_first, told, after):
    change = decide_missed("x:A", number, record, 500.0, EVERY, is_first)
    assert (change and change.record) == after
    lines = [json.loads(line)["text"] for line in change.lines] if change else []
    words = {1: "an occurrence", 2: "2 occurrences", 7: "7 occurrences"}
    assert lines == ([f"x:A has missed {words[told]}"] if told else [])
