"""The policies: where a job goes when a run of it has ended."""

from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redbike.config.settings import Settings
from redbike.loop.catchup import JUST_BEFORE, find_first_due, keep_failed, pass_surplus
from redbike.loop.changes import decide_again, decide_owed
from redbike.loop.policies import (
    MAX_ERROR,
    MAX_TRACEBACK,
    decide_done,
    decide_failed,
    decide_left,
    decide_lost,
    decide_overrun,
    decide_suspect,
)
from redbike.schedule.parser import parse
from redbike.store.enums import Left, Outcome, Skip
from redbike.store.inspection.fsck import fsck
from redbike.store.next_state import Answer, NextState
from redbike.store.records import RetryState
from redbike.store.run import Run
from redbike.store.store import Store
from redbike.worker.ends import commit
from tests.schedule.cost import HARD, is_short, measure
from tests.states import JOB, LATER, NEW, NOW, OLD, START, queue_for, take
from tests.verbs import run_job, set_job

RULES = [
    f"DTSTART;TZID=Europe/Berlin:20260101T000000\nRRULE:{rule}"
    for rule in (
        "FREQ=MINUTELY;INTERVAL=7",
        "FREQ=MINUTELY\nEXRULE:FREQ=HOURLY;BYMINUTE=0,30",
        "FREQ=HOURLY;BYMINUTE=7,9",
    )
]
ALL, QUEUE, RETRY = {"catchup": "all"}, {"overlap": "queue"}, {"on_error": "retry"}


def run(schedule="EVERY:10@0", due=100.0, start=100.0, **more):
    text = schedule if schedule == "garbage" else parse(schedule).text
    return replace(Run("job:A", due, "tag", start, start + 10, 0, 0, text, "work-A"), **more)


def due(instant, **more):
    return NextState("next", instant, **more)


DONE = [
    # The next occurrence is after both now and the one that was run.
    ({}, {}, 101.0, due(110.0)),
    ({"due": 120.0}, {}, 101.0, due(130.0)),
    ({"schedule": "NOW"}, {}, 101.0, due(None)),
    ({"schedule": "AT:100"}, {}, 101.0, due(None)),
    # Due at 100, started at 125 (110 and 120 were missed), done at 155 (130, 140 and 150 came while it ran).
    ({"start": 125.0}, {}, 155.0, due(160.0, missed=2, overlapped=3)),
    # catchup = all runs each missed occurrence in turn, as far back as its limit: here 180, 190 and 200.
    ({"due": 110.0, "start": 126.0}, ALL, 127.0, due(120.0)),
    ({"start": 205.0}, ALL | {"catchup_limit": 3}, 205.0, due(180.0, missed=7)),
    # The limit holds also where more are missed than are counted.
    ({"start": 1000205.0}, ALL | {"catchup_limit": 3}, 1000205.0, due(1000180.0, missed=10_000)),
    ({"start": 1000205.0}, ALL | {"catchup_limit": 20_000}, 1000205.0, due(110.0)),
    # Counting is bounded.
    ({"schedule": "EVERY:1@0", "due": 0.0, "start": 1e9}, {}, 1e9, due(1e9 + 1, missed=10_000)),
    # A run that was asked for in between lets the schedule go on where it was.
    ({"due": 125.0, "start": 125.0, "after": 109.999999}, ALL, 126.0, due(110.0)),
    # A retry is the same occurrence: of those that came due since, it drops none but by catchup.
    ({"start": 135.0, "failures": 1, "tries": 1}, {}, 136.0, due(140.0, missed=3)),
    ({"start": 135.0, "failures": 1, "tries": 1}, ALL, 136.0, due(110.0)),
    # overlap = queue: the first occurrence that came due during the run is run when it ends,
    ({"start": 125.0}, QUEUE, 155.0, due(130.0, missed=2, overlapped=2, retry_state="0 0 0 - 155.000000")),
    ({"due": 130.0, "start": 155.0, "after": 155.0}, QUEUE, 156.0, due(160.0)),
    (
        {"due": 130.0, "start": 155.0, "after": 155.0},
        QUEUE,
        171.0,
        due(160.0, overlapped=1, retry_state="0 0 0 - 171.000000"),
    ),
    # also if it came due before the last try of that,
    (
        {"start": 135.0, "failures": 1, "tries": 1},
        QUEUE,
        136.0,
        due(110.0, overlapped=2, retry_state="0 0 0 - 136.000000"),
    ),
    ({"start": 112.0, "alone": True}, QUEUE, 115.0, due(110.0, retry_state="0 0 0 - 115.000000")),
    ({"start": 135.0, "failures": 1, "tries": 1}, QUEUE | ALL, 136.0, due(110.0)),
    # if there is one,
    ({"tries": 1}, QUEUE, 101.0, due(110.0)),
    ({}, QUEUE, 101.0, due(110.0)),
    ({"start": 125.0}, QUEUE, 126.0, due(130.0, missed=2)),
    # and if it is not late by then: 110, 120, 130 and 140 are; with less grace, all are.
    ({}, QUEUE | {"grace": 12.0}, 155.0, due(150.0, late=4, retry_state="0 0 0 - 155.000000")),
    ({}, QUEUE | {"grace": 1.0}, 155.0, due(160.0, overlapped=5)),
    # A one-off that came due during a run that somebody asked for, or while that was retried, is run in any case.
    ({"schedule": "AT:125", "after": 99.0}, {}, 155.0, due(125.0, retry_state="0 0 0 - 155.000000")),
    (
        {"schedule": "AT:125", "start": 130.0, "after": 99.0, "tries": 1},
        {},
        155.0,
        due(125.0, retry_state="0 0 0 - 155.000000"),
    ),
    # But not if it is too late by its own options.
    ({"schedule": "AT:125", "after": 99.0}, {"grace": 12.0}, 155.0, due(None, late=1)),
    ({"schedule": "AT:125", "after": 99.0}, {"expires": 12.0}, 155.0, due(None, expired=1)),
]


@pytest.mark.parametrize(
    ("text", "limit", "first", "missed"),
    [
        ("EVERY:10@0", 3, 1_000_180.0, 10_000),
        ("* * * * * */10", 9999, 900_220.0, 10_000),
        ("EVERY:10@0", 20_000, 110.0, 0),
    ],
)
def test_a_job_that_is_set_runs_no_more_than_its_limit(text, limit, first, missed):
    settings = Settings(catchup="all", catchup_limit=limit)
    found = find_first_due(parse(text), 100.0, 1_000_205.0, settings)
    assert found == (first, {Skip.MISSED: missed} if missed else {})


@pytest.mark.parametrize("text", HARD)
@pytest.mark.parametrize("limit", [1, 100, 9999])
def test_what_is_hard_to_count_is_passed_over_in_parts_and_its_limit_holds(text, limit):
    schedule, after, until = parse(text), 1.8e9, 2.1e9
    surplus, on = pass_surplus(schedule, after, until, limit)
    assert 0 < surplus <= schedule.count(after, on, 10_000)
    assert 0 < sum(1 for _ in islice(schedule.list_due(on, until), limit + 1)) <= limit
    surpluses = (measure(lambda since=since: pass_surplus(schedule, since, until, limit)) for since in range(5))
    assert any(is_short(cost / 10) for cost in surpluses)


@given(
    st.sampled_from(["* * * * *", "CRON_TZ=Europe/Berlin 7,9 1-3 * * *", "EVERY:90.5@0", *RULES]),
    st.sampled_from([1_774_700_000.0, 1_792_900_000.5]),
    st.integers(0, 400_000),
    st.integers(1, 400),
)
@settings(max_examples=50)
def test_it_passes_over_all_but_the_last_ones_that_its_limit_allows(text, after, span, limit):
    schedule, until = parse(text), after + span
    walked = [*schedule.list_due(after, until)]
    surplus, on = pass_surplus(schedule, after, until, limit)
    assert (surplus, [*schedule.list_due(on, until)]) == (len(walked[:-limit]), walked[-limit:])


@pytest.mark.parametrize(("ran", "settings", "now", "next_state"), DONE)
def test_a_run_that_is_done_goes_to_its_next_occurrence(ran, settings, now, next_state):
    assert decide_done(run(**ran), None, Settings(**settings), now) == next_state
    result = "a result, which means nothing without CONTINUE"
    assert decide_done(run(**ran), result, Settings(**settings), now) == next_state


@pytest.mark.parametrize(
    ("result", "pause"),
    [(None, "+0.000000"), (3, "+3.000000"), (2.5, "+2.500000"), (0, "+0.000000"), (-0.0, "+0.000000")],
)
def test_continue_goes_on_at_once_or_after_the_pause_that_the_worker_returns(result, pause):
    assert decide_done(run("CONTINUE"), result, Settings(), 101.0) == due(pause)


@pytest.mark.parametrize("result", [True, "soon", float("nan"), float("inf"), -1, 10**12])
def test_a_pause_that_is_none_is_refused(result):
    with pytest.raises((TypeError, ValueError), match="work\\(\\) returned"):
        decide_done(run("CONTINUE"), result, Settings(), 101.0)


def failed(ran, settings):
    return decide_failed(ran, ValueError("it\nbroke"), settings, 101.0)


def overrun(ran, settings):
    return decide_overrun(ran, settings, 115.0)


def lost(ran, settings):
    return decide_lost(ran, settings, 115.0)


BROKE, OVERRAN = "ValueError: it broke", "overran its timeout of 10 s"
ONCE, TWICE, THRICE = (f"its worker died or was cut off, {number} times in a row" for number in (1, 2, 3))
UNREADABLE = "BadSchedule: bad schedule 'garbage': no keyword, cron expression or rule"
SKIPS = {"on_error": "reschedule", "on_timeout": "reschedule", "on_lost": "reschedule"}
TRIED = {"tries": 4, "failures": 1}

ENDED_BADLY = [
    # how, the run, the settings; the place, the instant, what is kept of its tries, the failure
    (failed, {}, {}, "die", None, "", BROKE),
    (failed, {}, SKIPS, "next", 110.0, "", BROKE),
    # CONTINUE does not spin.
    (failed, {"schedule": "CONTINUE"}, SKIPS | {"backoff": 4.0}, "next", "+4.000000", "", BROKE),
    # A retry pauses longer each time, and then the job stops.
    (failed, {}, RETRY | {"retries": 3, "backoff": 2.0}, "due", "+2.000000", "1 0 1 100.000000 -", None),
    (failed, {"failures": 2}, RETRY | {"retries": 3, "backoff": 2.0}, "due", "+8.000000", "3 0 1 100.000000 -", None),
    (failed, {"failures": 3}, RETRY | {"retries": 3, "backoff": 2.0}, "die", None, "", BROKE),
    # With jitter it is shorter by a share that a hash gives: here by 0.7493 of a half.
    (failed, {}, RETRY | {"backoff": 8.0, "jitter": 0.5}, "due", "+5.002652", "1 0 1 100.000000 -", None),
    # CONTINUE goes on with another occurrence: that is no retry.
    (
        failed,
        {"schedule": "CONTINUE"},
        SKIPS | {"backoff": 4.0, "max_backoff": 1.0, "jitter": 1.0},
        *("next", "+4.000000", "", BROKE),
    ),
    (failed, {"due": 125.0, "after": 109.999999}, RETRY, "due", "+1.000000", "1 0 1 125.000000 109.999999", None),
    # A raise breaks a row of losses; every kind of try counts as an attempt.
    (failed, TRIED | {"losses": 2}, RETRY, "due", "+2.000000", "2 0 5 100.000000 -", None),
    (overrun, TRIED | {"losses": 2}, {"on_timeout": "requeue"}, "due", 100.0, "1 0 5 100.000000 -", None),
    (lost, TRIED | {"losses": 1}, {}, "due", 100.0, "1 2 5 100.000000 -", None),
    (overrun, {}, {"on_timeout": "stop"}, "die", None, "", OVERRAN),
    (overrun, {}, SKIPS, "next", 120.0, "", OVERRAN),
    (overrun, {}, {"on_timeout": "requeue"}, "due", 100.0, "0 0 1 100.000000 -", None),
    (lost, {}, {"on_lost": "stop"}, "die", None, "", ONCE),
    # The third loss in a row is the last.
    (lost, {}, SKIPS, "next", 120.0, "0 1", ONCE),
    # The next occurrence has retries of its own.
    (lost, {"losses": 1, "failures": 2, "tries": 2}, SKIPS, "next", 120.0, "0 2", TWICE),
    (lost, {"losses": 2}, SKIPS, "die", None, "", THRICE),
    (lost, {}, {"on_lost": "requeue"}, "due", 100.0, "0 1 1 100.000000 -", None),
    (lost, {"losses": 2}, {"on_lost": "requeue"}, "die", None, "", THRICE),
    # What fails at its last occurrence has failed for good, and so has what cannot be read.
    *(
        (how, {"schedule": schedule}, SKIPS, "die", None, retry_state, error)
        for schedule in ("NOW", "AT:100", "RRULE:FREQ=DAILY;COUNT=1")
        for how, retry_state, error in ((failed, "", BROKE), (overrun, "", OVERRAN), (lost, "0 1", ONCE))
    ),
    *((failed, {"schedule": "garbage"}, settings, "die", None, "", BROKE) for settings in ({}, SKIPS, RETRY)),
    (overrun, {"schedule": "garbage"}, SKIPS, "die", None, "", UNREADABLE),
    (lost, {"schedule": "garbage"}, SKIPS, "die", None, "", UNREADABLE),
    # When its retries are used up, a one-off has no occurrence after them, and CONTINUE pauses.
    *(
        (failed, {"schedule": schedule, "failures": 2}, RETRY | {"retries": 2, "stop_after": 5}, "die", None, "", BROKE)
        for schedule in ("NOW", "AT:100")
    ),
    (
        failed,
        {"schedule": "CONTINUE", "failures": 2},
        RETRY | {"retries": 2, "backoff": 7, "stop_after": 5},
        *("next", "+7.000000", "0 0 failed=1", BROKE),
    ),
    # Failed occurrences are counted where stop-after asks for it, kept during tries, and with what came due meanwhile.
    (failed, {"failed": 2}, SKIPS, "next", 110.0, "", BROKE),
    (failed, {"failed": 2}, RETRY | {"stop_after": 5}, "due", "+1.000000", "1 0 1 100.000000 - failed=2", None),
    (lost, {"failed": 2}, RETRY | {"stop_after": 5}, "due", 100.0, "0 1 1 100.000000 - failed=2", None),
]


@pytest.mark.parametrize(("how", "ran", "settings", "place", "instant", "retry_state", "error"), ENDED_BADLY)
def test_a_run_that_ended_badly_ends_by_its_policy(how, ran, settings, place, instant, retry_state, error):
    found = how(run(**ran), Settings(**settings))
    assert (found.place, found.due, found.retry_state) == (place, instant, retry_state)
    assert found.why == ("" if how is failed else how.__name__)
    assert found.retried == (place == "due" and how is not lost)
    assert (found.failure and found.failure["error"]) == error
    assert found.failure is None or found.failure["attempt"] == run(**ran).attempt


@pytest.mark.parametrize("schedule", ["EVERY:10@0", "CONTINUE"])
@pytest.mark.parametrize(
    ("how", "settings"), [(failed, {}), (overrun, {}), (lost, {}), (overrun, {"on_timeout": "requeue"})]
)
def test_stop_after_counts_each_kind_of_failed_occurrence(schedule, how, settings):
    settings = Settings(**SKIPS | settings, stop_after=2)
    first, second = how(run(schedule), settings), how(run(schedule, failed=1), settings)
    assert (first.place != "die", RetryState.parse(first.retry_state).failed) == (True, 1)
    assert (second.place, second.failure is not None, second.why) == ("die", True, first.why)


def test_what_is_kept_of_an_error():
    assert decide_failed(run(), ValueError("broken\npipe"), Settings(), 101.0).failure | {"traceback": ""} == {
        "jobid": "job:A",
        "due": 100.0,
        "attempt": 1,
        "failed": 101.0,
        "error": "ValueError: broken pipe",
        "traceback": "",
    }
    try:
        raise ValueError("x" * 100_000)
    except ValueError as error:
        kept = decide_failed(run(), error, Settings(), 101.0).failure
    assert len(kept["error"]) == MAX_ERROR
    # The message is cut, so that the lines before it stay.
    assert len(kept["traceback"]) <= MAX_TRACEBACK
    assert kept["traceback"].startswith("Traceback")
    assert kept["traceback"].endswith("x…\n")
    tried = decide_failed(run(), ValueError("no"), Settings(on_error="retry"), 101.0)
    assert (tried.outcome, tried.error) == (Outcome.RETRY, "ValueError: no")
    assert not decide_done(run(), None, Settings(on_error="retry"), 101.0).retried


def test_no_loss_is_counted_for_those_that_were_lost_together():
    tried = run(failures=1, losses=2, tries=3, after=120.0, failed=2)
    outcome = decide_suspect(tried)
    assert (outcome.place, outcome.due, outcome.why, outcome.outcome) == ("due", 100.0, "lost", Outcome.LOST)
    assert RetryState.parse(outcome.retry_state) == RetryState(1, 2, 3, 100.0, 120.0, alone=True, failed=2)
    assert RetryState.parse(decide_suspect(run()).retry_state) == RetryState(alone=True), "it was not tried yet"


def test_what_its_worker_leaves_to_others_is_the_same_try():
    tried = run(failures=1, losses=2, tries=3, after=120.0, alone=True, failed=2)
    kept = RetryState(1, 2, 3, 100.0, 120.0, alone=True, failed=2)
    assert RetryState.parse(decide_left(tried, 0.5).retry_state) == kept


# What was set or asked for during the run

OWED = "due:101.500000"
RETRIED = NextState("due", "+5", retry_state="1 0 1 100.000000 -", retried=True)
BROKEN = NextState("die", failure={"error": "it broke"})
LEFT = NextState("due", "+0.000000", retry_state="0 0 0 100.000000 -", retried=True, outcome=None)
ON_TIMELINE = {"place": "stay", "due": None, "retry_state": ""}
RUNS_OWED = {"place": "due", "due": 101.5, "retry_state": ""}


def again(outcome, left="set", schedule="EVERY:7@0", now=101.0, ran=None, **settings):
    """Where a job goes whose run had another outcome, but is answered that something was set meanwhile."""
    answer = Answer("changed", schedule if schedule == "garbage" else parse(schedule).text, left)
    return decide_again(ran or run(), outcome, answer, Settings(**settings), now)


@pytest.mark.parametrize("why", ["", "overrun", "lost"])
def test_what_was_set_during_the_run_counts_and_how_it_ended_is_kept(why):
    for outcome in (NextState("stop"), NextState("unset"), due(110.0), NextState("due", "+5", retry_state="1 0")):
        assert again(outcome) == due(105.0, left="set")
    assert again(NextState("die"), schedule="CONTINUE").due == "+0"
    assert again(NextState("die"), schedule="STOP") == due(None, left="set")
    assert again(replace(BROKEN, why=why)) == due(105.0, why=why, failure=BROKEN.failure, left="set")
    assert again(replace(RETRIED, why=why)) == due(105.0, why=why, retried=True, left="set")
    assert again(LEFT) == due(105.0, retried=True, left="set", outcome=None, given_up=Skip.WITHDRAWN)


@pytest.mark.parametrize("catchup", ["last", "all", "none"])
def test_a_schedule_that_was_set_during_the_run_has_no_occurrence_before_and_waits_for_no_other(catchup):
    assert again(NextState("next"), ran=run(due=0.0), catchup=catchup) == due(105.0, left="set")
    # Those that came due while the run went on were overtaken by it.
    after = again(NextState("next"), now=120.0, ran=run(due=0.0), catchup=catchup)
    assert after == due(126.0, overlapped=3, left="set")
    assert again(due(500.0), ran=run(after=499.999999), catchup=catchup).due == 105.0


def test_a_schedule_that_was_set_and_cannot_be_read_is_given_up():
    outcome = again(due(110.0), schedule="garbage")
    assert (outcome.place, outcome.left, outcome.failure["error"]) == ("die", "set", UNREADABLE)


@pytest.mark.parametrize(
    ("paused", "failed", "changes"),
    [
        (125.0, 0, {"overlapped": 1, "retry_state": "0 0 0 - 125.000000"}),
        (125.0, 2, {"overlapped": 1, "retry_state": "0 0 0 - 125.000000 failed=2"}),
        (105.0, 0, {"overlapped": 0, "retry_state": ""}),
        (105.0, 2, {"overlapped": 0, "retry_state": "0 0 failed=2"}),
    ],
)
def test_what_comes_due_in_a_run_after_the_job_was_paused_is_for_whoever_resumes_it(paused, failed, changes):
    outcome = keep_failed(decide_done(run(), None, Settings(**QUEUE), 155.0), failed)
    left = f"{Left.NOTHING}{Left.WAS_PAUSED}{paused:.6f}"
    assert again(outcome, left, "EVERY:10@0", 155.0, **QUEUE) == replace(outcome, **changes, left=left)


AGAIN = [
    # how it ended, what was left meanwhile, the schedule by now; what becomes of that
    # What is on the timeline stays there.
    *(
        (outcome, left, "EVERY:7@0", ON_TIMELINE)
        for left in ("set+timeline", "once+timeline")
        for outcome in (
            due(110.0, retry_state="0 1"),
            RETRIED,
            NextState("die", why="overrun", failure={"error": "it overran"}),
            NextState("stop"),
            NextState("unset"),
        )
    ),
    # What its worker has left has not begun.
    (LEFT, "set+timeline", "EVERY:7@0", ON_TIMELINE | {"given_up": Skip.WITHDRAWN}),
    (LEFT, OWED, "EVERY:10@0", {"due": 100.0}),
    # A one-off that is owed runs next, and that is all.
    *(
        (outcome, OWED, schedule, RUNS_OWED)
        for schedule in ("NOW", "AT:100")
        for outcome in (due(110.0), due(None), BROKEN, RETRIED, NextState("unset"))
    ),
    *(
        (outcome, OWED, "AT:100", RUNS_OWED)
        for outcome in (NextState("die"), NextState("due", 300.0, retry_state="1 0"))
    ),
    # A new schedule does not go on from the place of the old one.
    *((outcome, OWED, "EVERY:7@0", RUNS_OWED) for outcome in (due(110.0), NextState("die"), NextState("stop"))),
    # A run that happens again is the one that is owed: at once, and for its own due time.
    *(
        (outcome, OWED, "EVERY:10@0", {"due": 100.0})
        for outcome in (
            RETRIED,
            NextState("due", 100.0, "overrun", retry_state="0 0 1 100.000000 -", retried=True),
            NextState("due", 100.0, "lost", retry_state="0 1 1 100.000000 -"),
            NextState("due", 100.0, "lost", retry_state="0 0 alone"),
        )
    ),
    # A run that is owed in between leaves the place of the schedule: it is another occurrence.
    *(
        (outcome, OWED, "EVERY:10@0", RUNS_OWED | {"retry_state": RetryState(after=after, tries=0, due=None).format()})
        for outcome, after in (
            (due(110.0), 110.0 - JUST_BEFORE),
            (due(70.0), 70.0 - JUST_BEFORE),  # with catchup = all
            (NextState("die"), 100.0),
            (NextState("die", why="lost"), 100.0),
        )
    ),
    # Its worker has stopped it, and the run that is owed comes all the same.
    *((NextState(place), OWED, "EVERY:10@0", RUNS_OWED | {"stops": True}) for place in ("stop", "unset")),
    # Where there is no next occurrence, no place is left: the rule has run out, or it continues whenever it is done.
    *((due(instant), OWED, "EVERY:10@0", RUNS_OWED) for instant in (None, "+0.000000")),
]


@pytest.mark.parametrize(("outcome", "left", "schedule", "changes"), AGAIN)
def test_what_is_owed_or_on_the_timeline_comes_first(outcome, left, schedule, changes):
    assert again(outcome, left, schedule, 102.0) == replace(outcome, **changes, left=left)


@pytest.mark.parametrize(
    ("outcome", "changes"),
    [
        (NextState("next"), RUNS_OWED),
        (NextState("die"), RUNS_OWED),
        (NextState("due", 300.0, retry_state="1 0 1 100.000000 -"), {"due": 100.0}),
        (NextState("due", 100.0, "lost", retry_state="0 0 alone"), {"due": 100.0}),
    ],
)
def test_a_one_off_that_is_asked_for_during_its_run_runs_once_more_and_that_is_all(outcome, changes):
    found = again(outcome, OWED, "AT:100", 102.0, run("AT:100"))
    assert found == replace(outcome, **changes, left=OWED)


def test_what_is_owed_is_found_beside_what_another_hand_has_left():
    found = decide_owed(run(), due(None, left=f"{OWED}+timeline"), "EVERY:10@0")
    assert (found.due, found.left) == (101.5, f"{OWED}+timeline")
    # It takes the place of what came due during the run.
    next_state = decide_done(run(), None, Settings(**QUEUE), 125.0)
    owed = decide_owed(run(), replace(next_state, left="due:112.000000"), run().schedule)
    assert (owed.due, owed.overlapped, owed.retry_state) == (112.0, 2, "0 0 0 - 125.000000")


@pytest.fixture
def ended(client, prefix, monkeypatch):
    """Ends a run of `JOB` during which `first` was done; a run is asked for while its place is computed by that."""
    store = Store(client, prefix, queue_for)

    def ended(first, outcome):
        set_job(store.at(START), JOB, OLD, START)
        begun = take(store)
        first(store)

        def clock(_):
            run_job(store.at(NOW), JOB)
            return NOW

        monkeypatch.setattr(Run, "now", clock)
        assert commit(store.at(NOW), begun, outcome, Settings())[0] == Answer("ok", "queue")
        return take(store, "again", now=NOW), store

    return ended


def test_a_place_is_computed_again_from_how_the_run_ended_and_not_from_the_last_time(ended):
    broken = NextState("die", failure={"jobid": JOB, "due": START, "attempt": 1})
    again, store = ended(lambda store: set_job(store.at(NOW), JOB, NEW, LATER), broken)
    assert (again.due, again.after, again.schedule) == (NOW, None, NEW)
    assert store.questions.inspect([JOB])[0].failure == broken.failure
    assert list(fsck(store)) == []


def test_of_two_runs_that_are_asked_for_one_after_the_other_the_last_is_owed(ended):
    again, _ = ended(lambda store: run_job(store.at(NOW - 1), JOB), due(LATER))
    assert (again.due, again.after) == (NOW, pytest.approx(LATER))
