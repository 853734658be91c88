"""What the options of a job change: when it runs late, overlaps, fails or loses its worker. Time is an argument."""

from dataclasses import replace

import pytest

from redbike.config.options import format_options, read_changes
from redbike.config.settings import Settings, override
from redbike.dispatcher.dispatcher import AHEAD, Dispatcher
from redbike.dispatcher.missed import skip_late, skip_missed
from redbike.loop.changes import decide_again
from redbike.loop.policies import decide_done, decide_failed, go_on_as_cron
from redbike.loop.retries import count_retries
from redbike.schedule.jitter import compute_jitter
from redbike.schedule.parser import parse
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet, SetMode
from redbike.store.lease import LEASE
from redbike.store.namespace import STEP
from redbike.store.next_state import Answer, NextState
from redbike.store.records import RetryState
from redbike.store.run import Run
from redbike.store.schedules import find_schedule
from tests.states import JOB, QUEUE, end, inspect
from tests.verbs import dispatch, run_job, set_job, set_one, survey, take_many, take_one

HOUR, DAY = 3600.0, 86400.0
MIDNIGHT = 100 * DAY
HOURLY = "EVERY:1h@0"


def put(store, due, now=MIDNIGHT, schedule=HOURLY, jobid=JOB, **options):
    stored = format_options({name.replace("_", "-"): value for name, value in options.items()})
    set_one(store.at(now), JobToSet(jobid, parse(schedule).text, due, False, QUEUE, options=stored))


def run(schedule="EVERY:10@0", due=100.0, **more):
    return Run(JOB, due, "tag", due, due + 5, 0, 0, parse(schedule).text, QUEUE, **more)


def run_all(store, pass_at, now):
    """Dispatch and run at `now` until nothing is due any more; the due times, in hours after midnight."""
    worked = []
    for _ in range(200):
        pass_at(now)
        taken = take_one(store.at(now), [(QUEUE, 500.0)], f"tag{len(worked)}")
        if taken == "empty":
            return worked
        worked.append((taken.due - MIDNIGHT) / HOUR)
        own = override(Settings(), taken.options)
        assert store.at(now).runs.end(taken, decide_done(taken, None, own, now)).word == "ok"
    raise AssertionError("it never ends")


# A host that was asleep for a day: the job was due from one o'clock on, and it is half past midnight of the next day.

ASLEEP = [
    ({"catchup": "last"}, [1.0], {"missed": 23}),
    ({"catchup": "none"}, [], {"missed": 24}),
    ({"catchup": "all"}, [float(hour) for hour in range(1, 25)], {}),
    ({"catchup": "all", "catchup_limit": 5}, [1.0, 20.0, 21.0, 22.0, 23.0, 24.0], {"missed": 18}),
    ({"catchup": "last", "grace": 2 * HOUR}, [23.0], {"late": 22, "missed": 1}),
    ({"catchup": "all", "grace": 2 * HOUR}, [23.0, 24.0], {"late": 22}),
    ({"catchup": "none", "grace": 2 * HOUR}, [], {"missed": 24}),
    ({"catchup": "last", "grace": 60.0}, [], {"late": 24}),
    ({"catchup": "all", "grace": 60.0}, [], {"late": 24}),
]


@pytest.mark.parametrize(("policy", "worked", "skipped"), ASLEEP)
def test_after_a_day_asleep_each_policy_runs_its_occurrences(store, pass_at, policy, worked, skipped):
    put(store, MIDNIGHT + HOUR, **policy)
    now = MIDNIGHT + DAY + HOUR / 2
    skip_missed(store.at(now), Settings(), MIDNIGHT, now)
    assert run_all(store, pass_at, now) == worked
    assert inspect(store).skipped == skipped
    assert inspect(store).timeline == MIDNIGHT + 25 * HOUR
    assert list(fsck(store)) == []


def test_an_option_counts_against_the_setting_in_both_directions(store):
    now = MIDNIGHT + DAY
    put(store, MIDNIGHT + HOUR, jobid="last:A", catchup="last")
    put(store, MIDNIGHT + HOUR, jobid="none:A", catchup="none")
    put(store, MIDNIGHT + HOUR, jobid="plain:A")
    skip_missed(store.at(now), Settings(catchup="none"), MIDNIGHT, now)
    assert [inspect(store, f"{name}:A").timeline for name in ("last", "none", "plain")] == [
        MIDNIGHT + HOUR,
        MIDNIGHT + 25 * HOUR,
        MIDNIGHT + 25 * HOUR,
    ]


# Grace


@pytest.mark.parametrize(("late", "moved"), [(60.0, 1), (60.001, 0)])
def test_an_occurrence_is_late_after_its_grace(store, late, moved):
    put(store, MIDNIGHT + HOUR, grace=60)
    now = MIDNIGHT + HOUR + late
    assert dispatch(store.at(now), [(JOB, repr(MIDNIGHT + HOUR), QUEUE)]) == moved
    assert (inspect(store).waiting is not None) is bool(moved)


def test_a_try_of_an_occurrence_is_never_late(store, pass_at):
    put(store, MIDNIGHT, grace=60)
    taken = take_one(store.at(MIDNIGHT), [(QUEUE, 500.0)], "tag")
    settings = Settings(on_error="retry", backoff=5.0)
    store.at(MIDNIGHT + 1).runs.end(taken, decide_failed(taken, ValueError(), settings, MIDNIGHT + 1))
    assert pass_at(MIDNIGHT + DAY) == 1
    assert inspect(store).waiting.due == MIDNIGHT


def test_a_one_off_that_is_late_is_stopped_and_stays_so_when_it_is_loaded_again(store, pass_at):
    set_job(store.at(MIDNIGHT), JOB, f"AT:{MIDNIGHT + HOUR:.0f}", MIDNIGHT + HOUR, once=True)
    assert pass_at(MIDNIGHT + DAY, grace=60.0) == 0
    found = inspect(store)
    assert (found.schedule, found.status[:3], found.skipped) == ("STOP", "STP", {"late": 1})
    assert found.dropped == MIDNIGHT + HOUR
    # Whoever wants it all the same has the run that did not begin, and then it has run.
    run_job(store.at(MIDNIGHT + DAY), JOB)
    taken = take_one(store.at(MIDNIGHT + DAY), [(QUEUE, 500.0)], "tag")
    assert (taken.due, taken.attempt) == (MIDNIGHT + HOUR, 1)
    store.at(MIDNIGHT + DAY).runs.end(taken, decide_done(taken, None, Settings(), MIDNIGHT + DAY))
    assert (inspect(store).status[:3], inspect(store).dropped) == ("STP", None)


def test_what_has_no_due_times_of_its_own_is_never_late(store, pass_at):
    put(store, MIDNIGHT + HOUR, schedule="CONTINUE", grace=60)
    put(store, MIDNIGHT + HOUR, schedule="STOP", grace=60, jobid="bad:A")
    store.client.hset(store.keys.schedules, "bad:A", "never")
    assert pass_at(MIDNIGHT + DAY) == 2


def test_a_damaged_grace_does_not_keep_the_dispatcher_busy(store, pass_at):
    put(store, MIDNIGHT + HOUR)
    store.client.hset(store.keys.options, JOB, '{"grace":1e-300}')
    assert pass_at(MIDNIGHT + DAY) + len(inspect(store).skipped) == 1
    put(store, MIDNIGHT + HOUR, jobid="next:A")
    store.client.hset(store.keys.options, "next:A", '{"grace":5e9}')
    assert pass_at(MIDNIGHT + DAY) == 1


def test_late_jobs_do_not_hold_up_the_others(store, pass_at):
    number, text = STEP * (AHEAD + 2), parse(HOURLY).text
    jobs = [
        JobToSet(f"{n}:A", text, MIDNIGHT + 1 + n / 1e4, False, QUEUE, options='{"grace":60}' if n % 2 else "")
        for n in range(number)
    ]
    store.at(MIDNIGHT).jobs.set(jobs)
    assert pass_at(MIDNIGHT + DAY + HOUR / 2) == number // 2
    assert inspect(store, "1:A").timeline == MIDNIGHT + 25 * HOUR
    assert inspect(store, "1:A").skipped == {"late": 25}


def test_a_late_job_whose_next_occurrence_is_due_is_moved_in_the_same_pass(store, pass_at):
    put(store, MIDNIGHT + HOUR, grace=60)
    put(store, MIDNIGHT + HOUR, grace=0, jobid="any:A")  # which overrides the setting
    assert pass_at(MIDNIGHT + 3 * HOUR + 30, grace=60.0) == 2
    assert inspect(store).waiting.due == MIDNIGHT + 3 * HOUR
    assert inspect(store).skipped == {"late": 2}
    assert inspect(store, "any:A").waiting.due == MIDNIGHT + HOUR


def test_one_that_was_set_meanwhile_is_not_late(store):
    put(store, MIDNIGHT + HOUR, grace=60)
    late = [(JOB, repr(MIDNIGHT + HOUR))]
    put(store, MIDNIGHT + 5 * HOUR, now=MIDNIGHT + 4 * HOUR, schedule="EVERY:5h@0")
    skip_late(store.at(MIDNIGHT + 4 * HOUR), Settings(), late, MIDNIGHT + 4 * HOUR)
    assert (inspect(store).timeline, inspect(store).skipped) == (MIDNIGHT + 5 * HOUR, {"withdrawn": 1})


# Overlap


@pytest.mark.parametrize(
    ("setting", "option", "is_queued"), [("queue", {}, True), ("skip", "queue", True), ("queue", "skip", False)]
)
def test_a_schedule_set_during_the_run_that_comes_due_is_run_when_it_ends(store, pass_at, setting, option, is_queued):
    settings = Settings(overlap=setting)
    options = {"overlap": option} if option else {}
    put(store, MIDNIGHT, **options)
    taken = take_one(store.at(MIDNIGHT), [(QUEUE, 5000.0)], "tag")
    put(store, MIDNIGHT + 10, now=MIDNIGHT + 5, schedule="EVERY:10@0", **options)
    pass_at(MIDNIGHT + 10, overlap=setting)
    left = (f"due:{MIDNIGHT + 10:.6f}", {}) if is_queued else ("set", {"running": 1})
    assert (inspect(store).run.next, inspect(store).skipped) == left
    if is_queued:
        end(store, taken, decide_done(taken, None, settings, MIDNIGHT + 90), MIDNIGHT + 90)
        assert inspect(store).waiting.due == MIDNIGHT + 10


# Failures


def fail(store, failures, since=MIDNIGHT):
    """Let the job run for nine hours, four times an hour at most; runs with an F fail. Its places and its state."""
    places, dispatcher = [], Dispatcher(store, Settings())
    for now in (since + hour * HOUR + tried * 60 for hour in range(9) for tried in range(4)):
        dispatcher.dispatch_due(now)
        taken = take_one(store.at(now), [(QUEUE, 500.0)], f"tag{now}")
        if taken != "empty":
            own = override(Settings(), taken.options)
            is_failure = failures[len(places) : len(places) + 1] == "F"
            next_state = (
                decide_failed(taken, ValueError("no"), own, now) if is_failure else decide_done(taken, None, own, now)
            )
            store.at(now).runs.end(taken, next_state)
            places.append(taken.due)
    dispatcher.close()
    return places, inspect(store)


RETRIES = {"on_error": "retry", "backoff": 1}
FAILURES = [
    # options, which runs fail, how many runs there are in nine hours, the status in the end
    ({"on_error": "stop"}, "FFF", 1, "DIE"),
    ({"on_error": "reschedule"}, "FFF", 9, "TML"),
    (RETRIES | {"retries": 2}, "FFF", 3, "DIE"),
    (RETRIES | {"retries": 3}, "FFF", 12, "TML"),
    ({"on_error": "reschedule", "stop_after": 3}, "FFF", 3, "DIE"),
    ({"on_error": "reschedule", "stop_after": 4}, "FFF", 9, "TML"),
    (RETRIES | {"retries": 2, "stop_after": 2}, "FFF", 11, "TML"),
    ({"on_error": "stop", "stop_after": 2}, "FFF", 1, "DIE"),
    # Retries come first, whatever decides after the last of them.
    ({"on_error": "reschedule", "retries": 2, "backoff": 1}, "FFF", 11, "TML"),
    ({"on_error": "reschedule", "retries": 2, "backoff": 1, "stop_after": 1}, "FFF", 3, "DIE"),
    # Failed occurrences are counted in a row: one that succeeds, or a retry that does, begins the count again.
    ({"on_error": "reschedule", "stop_after": 3}, "FF.FFF.", 6, "DIE"),
    (RETRIES | {"retries": 1, "stop_after": 2}, "FFF.FFFF", 8, "DIE"),
]


@pytest.mark.parametrize(("options", "failures", "runs", "status"), FAILURES)
def test_runs_that_fail_end_by_the_policies_of_their_job(store, options, failures, runs, status):
    put(store, MIDNIGHT, **options)
    places, found = fail(store, failures)
    assert (len(places), found.status[:3], RetryState.parse(found.retry_state).failed) == (runs, status, 0)
    assert (found.failure is not None) == (status == "DIE")


@pytest.mark.parametrize(
    ("given", "own", "retries"),
    [
        ({}, {}, 0),
        ({"on_error": "retry"}, {}, 3),
        ({"retries": 5}, {}, 5),
        ({"on_error": "stop", "retries": 5}, {}, 5),
        ({"retries": 5}, {"on_error": "retry"}, 5),
        ({"retries": 5}, {"on_error": "stop"}, 0),
        ({"on_error": "retry"}, {"on_error": "reschedule"}, 0),
        ({"on_error": "retry", "retries": 5}, {"retries": 0}, 0),
        ({}, {"on_error": "stop", "retries": 1}, 1),
    ],
)
def test_a_number_of_retries_counts_wherever_it_is_given(given, own, retries):
    stored = format_options(read_changes(own).options)
    assert count_retries(override(Settings(**given), stored)) == retries
    # Commands and functions do the same.
    policies = own.get("on_error"), None, own.get("retries")
    found = go_on_as_cron(run(options=stored), override(Settings(**given), stored), *policies)
    assert count_retries(found) == retries


def test_an_occurrence_fails_with_all_its_retries_before_the_next_one_is_tried(store):
    put(store, MIDNIGHT, retries=2, stop_after=3, **RETRIES)
    places, found = fail(store, "F" * 36)
    assert places == [MIDNIGHT + hour * HOUR for hour in (0, 0, 0, 1, 1, 1, 2, 2, 2)]
    assert (found.status[:3], found.failure["due"], found.failure["attempt"]) == ("DIE", MIDNIGHT + 2 * HOUR, 3)
    assert (found.skipped, list(fsck(store))) == ({}, [])


@pytest.mark.parametrize("how", ["set", "set unchanged", "run"])
def test_a_job_that_was_stopped_counts_its_failed_occurrences_from_the_beginning(store, how):
    put(store, MIDNIGHT, stop_after=3, on_error="reschedule")
    places, found = fail(store, "FFF")
    assert (len(places), found.status[:3], found.retry_state) == (3, "DIE", "")
    again = MIDNIGHT + 10 * HOUR
    if how == "run":
        store.at(again).jobs.run([JOB])
    else:
        mode = SetMode.KEEP_PLACE if how == "set unchanged" else SetMode.REPLACE
        set_one(store.at(again), JobToSet(JOB, parse(HOURLY).text, again, False, QUEUE, mode, known=found.options))
    places, found = fail(store, "FFF", again)
    assert (len(places), found.status[:3]) == (3, "DIE")


def test_an_explicit_run_forgets_the_failed_occurrences(store):
    put(store, MIDNIGHT, on_error="reschedule", stop_after=3)
    taken = take_one(store.at(MIDNIGHT), [(QUEUE, 500.0)], "tag")
    failed = decide_failed(taken, ValueError("no"), override(Settings(), taken.options), MIDNIGHT)
    store.at(MIDNIGHT).runs.end(taken, failed)
    assert RetryState.parse(inspect(store).retry_state).failed == 1
    store.at(MIDNIGHT + 60).jobs.run([JOB])
    assert RetryState.parse(inspect(store).retry_state).failed == 0


def test_a_run_that_is_asked_for_during_a_run_begins_the_count_again(store):
    put(store, MIDNIGHT, on_error="retry", retries=3, stop_after=3)
    settings = override(Settings(), inspect(store).options)
    taken = replace(take_one(store.at(MIDNIGHT), [(QUEUE, 500.0)], "tag"), failed=2)
    store.at(MIDNIGHT + 1).jobs.run([JOB])
    end(store, taken, decide_failed(taken, ValueError(), settings, MIDNIGHT + 2), MIDNIGHT + 2)
    assert RetryState.parse(inspect(store).retry_state).failed == 0


# Lost runs


LOST = [
    ("stop", "stop", "DIE", None),
    ("reschedule", "requeue", "TML", None),
    ("requeue", "stop", "ENQ", MIDNIGHT),
]


@pytest.mark.parametrize(("option", "setting", "status", "due"), LOST)
def test_a_lost_run_ends_by_the_options_of_its_job(store, pass_at, option, setting, status, due):
    put(store, MIDNIGHT, on_lost=option)
    take_one(store.at(MIDNIGHT), [(QUEUE, 500.0)], "tag")
    pass_at(MIDNIGHT + LEASE, on_lost=setting)
    found = inspect(store)
    assert (found.status[:3], found.waiting and found.waiting.due) == (status, due)


# Timeouts


@pytest.mark.parametrize(
    ("stored", "timeout", "lease"),
    [
        ('{"timeout":0.5}', 0.5, 2.5),
        *(
            (bad, 500, LEASE)
            for bad in ('{"timeout":1e300}', '{"timeout":-1}', '{"timeout":[]}', '{"timeout":null}', "x")
        ),
    ],
)
def test_a_short_timeout_makes_a_short_lease_and_a_damaged_one_is_none(store, stored, timeout, lease):
    put(store, MIDNIGHT)
    store.client.hset(store.keys.options, JOB, stored)
    taken = take_one(store.at(MIDNIGHT), [(QUEUE, 500.0)], "tag")
    assert (taken.deadline, inspect(store).lease) == (MIDNIGHT + timeout, MIDNIGHT + lease)


# Data


def test_a_run_has_the_data_of_its_job_also_if_it_is_taken_twice(store):
    job = JobToSet(JOB, parse(HOURLY).text, MIDNIGHT, False, QUEUE, data='{"ä":[1]}')
    set_one(store.at(MIDNIGHT), job)
    for repeated in (False, True):
        taken = take_one(store.at(MIDNIGHT), [(QUEUE, 500.0)], "tag", repeated=repeated)
        assert taken.data == {"ä": [1]}
    assert run().data is None


def test_jobs_with_much_data_are_not_taken_together(store):
    text = f'"{"x" * 60_000}"'
    jobs = [JobToSet(f"{n}:A", parse(HOURLY).text, MIDNIGHT, False, QUEUE, data=text) for n in range(5)]
    store.at(MIDNIGHT).jobs.set(jobs)
    assert [len(take_many(store.at(MIDNIGHT), [(QUEUE, 500.0)], [1], f"t{n}", 9)) for n in range(3)] == [2, 2, 1]


# Spread


def test_after_a_run_the_schedule_goes_on_with_its_spread(store):
    options, share = '{"spread":600}', compute_jitter(JOB, 600)
    due = find_schedule(JOB, HOURLY, options).next(MIDNIGHT)
    assert due == MIDNIGHT + HOUR + share or due == MIDNIGHT + share
    next_state = decide_done(run(HOURLY, due, options=options), None, Settings(), due + 1)
    assert next_state == NextState("next", round(due + HOUR, 6))
    changed = Answer("changed", HOURLY, "set", options)
    again = decide_again(run("EVERY:5@0", due), next_state, changed, Settings(), due + 1)
    assert again.due == round(due + HOUR, 6)


def test_an_end_and_a_survey_tell_the_options_by_now(store):
    put(store, MIDNIGHT, jobid="one:A", retries=5)
    put(store, MIDNIGHT)
    first, taken = take_many(store.at(MIDNIGHT), [(QUEUE, 500.0)], [1], "tag", 9)
    lost = survey(store.at(MIDNIGHT + LEASE)).lost
    assert [(run.jobid, run.options) for run in lost] == [(first.jobid, '{"retries":5}'), (JOB, "")]
    put(store, MIDNIGHT - 5, now=MIDNIGHT + 10, schedule="EVERY:60@0", spread=60)
    answer = store.at(MIDNIGHT + 20).runs.end(taken, NextState("next", MIDNIGHT + HOUR))
    assert answer == ("changed", "EVERY:60@0", f"from:{MIDNIGHT - 5:.6f}", '{"spread":60}')
