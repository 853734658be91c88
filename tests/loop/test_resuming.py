"""What happens to a job that was paused: what runs when it is resumed, for which due times, and what is counted."""

import pytest

from redbike.config.settings import Settings
from redbike.loop.catchup import give_up_paused
from redbike.loop.policies import decide_done
from redbike.loop.resuming import resume, resume_over
from redbike.schedule import parse
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.store import Store
from tests.loops import raising
from tests.states import JOB, QUEUE, inspect
from tests.verbs import dispatch, set_job, set_one, survey, take_one

HOUR, DAY = 3600.0, 86400.0
MIDNIGHT = 20 * DAY
NOON = MIDNIGHT + DAY / 2
RESUMED = NOON + DAY + HOUR / 2
HOURLY = "EVERY:1h@0.0"


def pause(store, now, until=None):
    [word] = store.at(now).pauses.pause([JOB], until, "me", "")
    return word


def move_due(store, now):
    found = survey(store.at(now))
    dispatch(store.at(now), [(jobid, due, store.queue_for(jobid)) for jobid, due in found.due])


def run_all(store, settings, now):
    """Dispatch and work what is due by `now`, each run for a second; the due times of all runs."""
    dues = []
    while True:
        move_due(store, now)
        run = take_one(store.at(now), [(QUEUE, 1000.0)], f"tag{now}")
        if run == "empty":
            return dues
        dues.append(run.due)
        now += 1
        assert store.at(now).runs.end(run, decide_done(run, None, settings, now)).word == "ok"


def hours(*numbers):
    return [MIDNIGHT + number * HOUR for number in numbers]


BEFORE, OVERDUE, QUEUED = (NOON - DAY, NOON + HOUR, NOON), (NOON - DAY, NOON - HOUR, NOON), (*hours(11, 11), NOON + 600)
# An hourly job that is paused at noon, and resumed at 12:30 of the next day: 24 occurrences came due, 13:00 to 12:00.
PAUSED = [
    # when it was set, first due and paused; policies, runs, skipped
    (BEFORE, {"catchup": "last"}, hours(13), {"paused": 23}),
    (BEFORE, {"catchup": "none"}, [], {"paused": 24}),
    (BEFORE, {"catchup": "all"}, hours(*range(13, 37)), {}),
    (BEFORE, {"catchup": "all", "catchup_limit": 5}, hours(*range(32, 37)), {"paused": 19}),
    (BEFORE, {"grace": 60}, [], {"late": 24}),
    (BEFORE, {"grace": 2 * HOUR}, hours(35), {"late": 22, "paused": 1}),
    (BEFORE, {"grace": 5 * HOUR, "catchup": "all", "catchup_limit": 2}, hours(35, 36), {"late": 19, "paused": 3}),
    (BEFORE, {"grace": 2 * HOUR, "catchup": "none"}, [], {"late": 22, "paused": 2}),
    # Overdue already when it was paused: no dispatcher ran.
    (OVERDUE, {"grace": 2 * HOUR}, hours(35), {"late": 24, "paused": 1}),
    (OVERDUE, {"grace": 2 * DAY}, hours(11), {"missed": 1, "paused": 24}),
    (OVERDUE, {"grace": 2 * DAY, "catchup": "none"}, hours(11), {"missed": 1, "paused": 24}),
    # The run of 11:00 waits in its queue since then, and runs in any case; 12:00 is missed when it is paused, at 12:10.
    (QUEUED, {"catchup": "last"}, hours(11), {"missed": 1, "paused": 24}),
    (QUEUED, {"catchup": "all"}, hours(*range(11, 37)), {}),
    (QUEUED, {"catchup": "all", "catchup_limit": 5}, hours(11, *range(32, 37)), {"missed": 1, "paused": 19}),
    # It is paused by a clock that is ahead.
    ((*hours(11, 11), RESUMED + 30 * DAY), {"catchup": "last"}, hours(11), {"missed": 25}),
    ((*hours(12, 13), RESUMED + 30 * DAY), {"catchup": "none"}, [], {"paused": 24}),
]


@pytest.mark.parametrize(("times", "policies", "runs", "skipped"), PAUSED)
def test_a_job_that_was_paused_for_a_day(store, times, policies, runs, skipped):
    settings, (was_set, due, paused) = Settings(**policies), times
    set_job(store.at(was_set), JOB, HOURLY, due)
    assert pause(store, paused) == "held"
    for hour in (0, 1, 12):
        assert run_all(store, settings, paused + hour * HOUR) == []
    assert resume(store.at(RESUMED), settings, [JOB]) == ["queue" if runs else "timeline"]
    assert run_all(store, settings, RESUMED) == runs
    assert (inspect(store).skipped, inspect(store).timeline) == (skipped, NOON + DAY + HOUR), "the schedule goes on"
    assert run_all(store, settings, NOON + DAY + HOUR) == [NOON + DAY + HOUR]
    assert inspect(store).skipped == skipped
    assert list(fsck(store)) == []


@pytest.mark.parametrize(("times", "runs"), [(BEFORE, []), (QUEUED, hours(11))])
def test_the_limit_holds_also_where_more_came_due_than_is_counted(store, times, runs, monkeypatch):
    for name in ("catchup", "resuming"):
        monkeypatch.setattr(f"redbike.loop.{name}.COUNT_LIMIT", 7)
    settings, (was_set, due, paused) = Settings(catchup="all", catchup_limit=5), times
    set_job(store.at(was_set), JOB, HOURLY, due)
    assert pause(store, paused) == "held"
    resume(store.at(RESUMED), settings, [JOB])
    assert run_all(store, settings, RESUMED) == [*runs, *hours(*range(32, 37))]


@pytest.mark.parametrize("text", [f"AT:{NOON + HOUR}", "NOW", "CONTINUE"])
def test_what_has_but_one_occurrence_is_run_in_any_case(store, text):
    settings = Settings(catchup="none")
    set_job(store.at(NOON - HOUR), JOB, "STOP", None)
    pause(store, NOON - HOUR)
    due = NOON + HOUR if text.startswith("AT") else NOON
    store.at(NOON).jobs.set([JobToSet(JOB, text, due if text.startswith("AT") else "now", text != "CONTINUE", QUEUE)])
    assert resume(store.at(NOON + DAY), settings, [JOB]) == ["queue"]
    run = take_one(store.at(NOON + DAY), [(QUEUE, 1000.0)], "tag")
    assert run.due == due
    assert inspect(store).skipped == {}


@pytest.mark.parametrize(
    ("setting", "option", "late", "word"),
    [({"grace": 600.0}, "", 600, "queue"), ({"grace": 600.0}, "", 601, "stopped"), ({}, '{"grace":60}', 61, "stopped")],
)
def test_a_one_off_is_late_by_its_grace(store, setting, option, late, word):
    set_one(store.at(NOON), JobToSet(JOB, f"AT:{NOON + 60}", NOON + 60, True, QUEUE, options=option))
    pause(store, NOON)
    assert resume(store.at(NOON + 60 + late), Settings(**setting), [JOB]) == [word]


@pytest.mark.parametrize(
    ("settings", "skipped"), [(Settings(grace=60.0), {"late": 3}), (Settings(catchup="none"), {"paused": 3})]
)
def test_a_schedule_that_has_run_out_meanwhile_stops_and_keeps_its_text(store, settings, skipped):
    rule = "DTSTART:19700121T120000Z\nRRULE:FREQ=HOURLY;COUNT=3"
    set_job(store.at(NOON - 60), JOB, rule, NOON)
    pause(store, NOON - 60)
    assert resume(store.at(NOON + DAY), settings, [JOB]) == ["stopped"]
    assert (inspect(store).schedule, inspect(store).skipped) == (rule, skipped)
    assert inspect(store).has_event("STP")
    assert list(fsck(store)) == []


@pytest.mark.parametrize(
    ("later", "schedule", "queue_for", "word"),
    [
        pytest.param(HOUR, HOURLY, None, "queue", id="it is due at that instant"),
        pytest.param(DAY, "garbage", None, "queue", id="its schedule cannot be read"),
        pytest.param(DAY, HOURLY, raising(RuntimeError("no queue")), "timeline", id="it has no queue"),
    ],
)
def test_what_is_resumed_is_due_since_the_instant_at_which_it_was(
    store, client, prefix, later, schedule, queue_for, word
):
    set_job(store.at(NOON), JOB, HOURLY, NOON + HOUR)
    pause(store, NOON)
    client.hset(store.keys.schedules, JOB, schedule)
    own = Store(client, prefix, queue_for or store.queue_for)
    assert resume(own.at(NOON + later), Settings(), [JOB]) == [word]
    found = inspect(store)
    assert (found.waiting.due if word == "queue" else found.timeline) == NOON + HOUR
    assert later == DAY or found.skipped == {}


def test_more_pauses_than_a_survey_names_end_in_one_pass(store, dispatcher):
    jobids = [f"{number}:A" for number in range(1200)]
    for first in range(0, 1200, 100):
        store.at(NOON).jobs.set(
            [JobToSet(each, HOURLY, NOON + DAY, False, QUEUE) for each in jobids[first : first + 100]]
        )
    store.at(NOON).pauses.pause(jobids, NOON + 60, "me", "")
    dispatcher.dispatch_due(NOON + 60)
    assert store.client.exists(store.keys.timers, store.keys.pauses) == 0
    assert store.client.zcard(store.keys.timeline) == 1200


def test_a_timer_that_was_seen_before_the_job_was_paused_anew_ends_nothing(store):
    set_job(store.at(NOON), JOB, HOURLY, NOON + DAY)
    pause(store, NOON, NOON + 60)
    seen = survey(store.at(NOON + 60)).timers
    resume(store.at(NOON + 60), Settings(), [JOB])
    pause(store, NOON + 60, NOON + 120)
    assert resume_over(store.at(NOON + 60), Settings(), seen)
    assert inspect(store).pause.until == NOON + 120


def test_a_timer_without_a_pause_fires_once(store, client, dispatcher):
    client.zadd(store.keys.timers, {"job:nobody:A": NOON, "later:x": NOON})
    dispatcher.dispatch_due(NOON)
    assert not client.exists(store.keys.timers)


def test_what_changes_while_it_is_resumed_is_resumed_all_the_same(store, monkeypatch):
    set_job(store.at(NOON), JOB, HOURLY, NOON + HOUR)
    pause(store, NOON)
    inspected = store.questions.inspect

    def inspect_and_set(jobids):
        found = inspected(jobids)
        monkeypatch.undo()
        set_job(store.at(NOON), JOB, "EVERY:2h@0.0", NOON + 2 * HOUR)
        return found

    monkeypatch.setattr(store.questions, "inspect", inspect_and_set)
    assert resume(store, Settings(), [JOB]) == ["queue"]
    assert inspect(store).schedule == "EVERY:2h@0.0"
    assert inspect(store).pause is None


@pytest.mark.parametrize("late", [0.0, HOUR / 2])
def test_what_is_due_when_a_pause_ends_by_itself_was_not_missed(store, late):
    settings = Settings(catchup="none")
    set_job(store.at(NOON - 60), JOB, HOURLY, NOON + HOUR)
    assert pause(store, NOON, until=NOON + HOUR) == "held"
    now = NOON + HOUR + late
    assert resume_over(store.at(now), settings, [f"job:{JOB}"])
    assert (run_all(store, settings, now), inspect(store).skipped) == ([NOON + HOUR], {})


def test_no_more_than_what_came_due_in_a_pause_was_missed(store):
    settings = Settings(catchup="none")
    set_job(store.at(NOON - 60), JOB, HOURLY, NOON + HOUR)
    pause(store, NOON, until=NOON + 3 * HOUR)
    resume(store.at(NOON + 3 * HOUR), settings, [JOB])
    assert run_all(store, settings, NOON + 3 * HOUR) == [NOON + 3 * HOUR]
    assert inspect(store).skipped == {"paused": 2}


@pytest.mark.parametrize("name", [QUEUE, ""])
@pytest.mark.parametrize("has_dispatcher", [True, False])
def test_nor_when_the_pause_of_its_queue_ends_by_itself(store, name, has_dispatcher):
    schedule = parse(HOURLY)
    for number, is_missed in ((1, True), (2, False)):
        due = NOON + number * HOUR
        set_job(store.at(NOON), JOB, HOURLY, due)
        move_due(store, due)
        store.at(NOON).queue_limits.pause(name, NOON + 2 * HOUR)
        now = NOON + 2 * HOUR + 0.3
        if has_dispatcher:  # else a worker takes from the queue before anybody has noted that it is open
            store.at(now).queue_limits.open(name)
        run = take_one(store.at(now), [(QUEUE, 1000.0)], "tag")
        next_state = give_up_paused(run, schedule, Settings(catchup="none"), now)
        expected = (1, NOON + 2 * HOUR) if is_missed else None
        assert (run.due, next_state and (next_state.paused, next_state.due)) == (due, expected)
        store.client.flushdb()
