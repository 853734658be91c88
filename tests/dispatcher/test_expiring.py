"""What has not begun in time is skipped, wherever it waits. Time is an argument."""

from dataclasses import replace

import pytest

from redbike import Redbike
from redbike.config.options import format_options, read_changes
from redbike.config.settings import Settings, override
from redbike.control.jobs import cancel_jobs
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.loop.policies import decide_done, decide_failed, decide_handed_back, decide_suspect, decide_unwanted
from redbike.loop.requests import Request
from redbike.loop.resuming import resume
from redbike.schedule.parser import parse
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.run import LEASE
from redbike.worker.worker import Worker
from tests.states import end
from tests.store.inspection.mending import repaired
from tests.verbs import Quiet, run_job, set_one, take_many, take_one

JOB, QUEUE = "job:A", "work-A"
HOUR, DAY = 3600.0, 86400.0
NOON = 100 * DAY + DAY / 2
HOURLY = "EVERY:1h@0"
WAIT = 600.0  # seconds in which an occurrence must begin
EXPIRING = {"expires": WAIT}
SHORT = LEASE / 2  # a run goes on for so long without a heartbeat


@pytest.fixture
def pass_at(store):
    """One pass of a dispatcher at an instant, with these settings."""
    made = []

    def dispatch(now, **settings):
        made.append(Dispatcher(store, Settings(**settings)))
        return made[-1].dispatch_due(now)

    yield dispatch
    for dispatcher in made:
        dispatcher.close()


def put(store, schedule=HOURLY, due=NOON, now=NOON - HOUR / 2, jobid=JOB, settings=None, **options):
    """Set a job as users do; it is due first at `due`, unless its schedule says that."""
    own = Settings(**settings or {})
    request = Request(jobid, parse(schedule, anchor=now), QUEUE, now, now, False, read_changes(EXPIRING | options))
    request.known = state(store, jobid).options
    made = request.make_job(own)
    set_one(store.at(now), made if made.due == "now" or made.once else replace(made, due=due))


def state(store, jobid=JOB):
    return store.questions.inspect([jobid])[0]


def take(store, now, jobid=JOB):
    run = take_one(store.at(now), [(QUEUE, 1e6)], "tag")
    assert run.jobid == jobid
    return run


def timers(store):
    return store.client.zrange(store.keys.timers, 0, -1, withscores=True)


def fate(store, jobid=JOB):
    found = state(store, jobid)
    assert list(fsck(store)) == []
    return found.timeline, (found.status or "")[:3], found.skipped


SKIPPED = (NOON + HOUR, "TML", {"expired": 1})


# In a queue that nobody works


def test_an_occurrence_expires_in_a_queue_without_workers(store, pass_at):
    put(store)
    assert pass_at(NOON) == 1
    assert pass_at(NOON + WAIT - 0.001) == 0
    assert state(store).waiting.due == NOON
    assert pass_at(NOON + WAIT) == 0
    assert fate(store) == SKIPPED
    assert timers(store) == []
    # The next one is another occurrence.
    assert pass_at(NOON + HOUR) == 1
    assert (state(store).waiting.due, state(store).waits_until) == (NOON + HOUR, NOON + HOUR + WAIT)


def test_a_dispatcher_sleeps_until_then(store, pass_at):
    put(store)
    pass_at(NOON)
    dispatcher = Dispatcher(store, Settings())
    dispatcher.dispatch_due(NOON + 1)
    assert dispatcher._surveyed.next_timer == NOON + WAIT
    dispatcher.close()


def test_jobs_without_the_option_have_no_timer(store, pass_at):
    put(store, expires=None)
    put(store, jobid="zero:A", expires=0, settings=EXPIRING)
    assert pass_at(NOON) == 2
    assert timers(store) == []


def test_it_may_be_a_setting(store, pass_at):
    put(store, expires=None)
    put(store, jobid="own:A", expires="1h")
    put(store, jobid="none:A", expires="none")
    assert pass_at(NOON, expires=WAIT) == 3
    assert pass_at(NOON + WAIT, expires=WAIT) == 0
    assert fate(store) == SKIPPED
    assert pass_at(NOON + 10 * HOUR, expires=WAIT) == 1
    assert state(store, "own:A").skipped == {"expired": 1, "missed": 10}
    assert state(store, "none:A").waiting.due == NOON


@pytest.mark.parametrize("held", ["queue", "all", "at once"])
def test_it_expires_while_its_queue_is_paused_or_full(store, pass_at, held):
    put(store)
    pass_at(NOON)
    limits = store.at(NOON).queue_limits
    if held == "at once":
        put(store, jobid="other:A", now=NOON - 2 * HOUR, due=NOON - HOUR, expires=None)
        limits.limit(QUEUE, at_once=1)
        limits.reserve(QUEUE, "tag", "other:A", 1e6)
    else:
        limits.pause(QUEUE if held == "queue" else "")
    assert take_many(store.at(NOON + 1), [(QUEUE, 5.0)], [1], "tag", 1) == []
    pass_at(NOON + WAIT)
    found = state(store)
    assert (found.timeline, found.skipped) == (NOON + HOUR, {"expired": 1})


def test_many_expire_in_one_pass_and_leave_no_entries_behind(store, pass_at):
    for number in range(250):
        put(store, "NOW", now=NOON + number / 1000, jobid=f"{number}:A")
    assert store.client.llen(store.keys.queue(QUEUE)) == 250
    pass_at(NOON + WAIT + 1)
    assert {state(store, f"{number}:A").status[:3] for number in range(250)} == {"STP"}
    assert store.client.exists(store.keys.queue(QUEUE), store.keys.tombstones(QUEUE)) == 0
    assert store.counts.read()["skipped:expired:"] == 250
    assert list(fsck(store)) == []


def test_one_that_expires_out_of_turn_leaves_a_tombstone(store, pass_at):
    put(store, expires=None, jobid="first:A")
    pass_at(NOON)
    put(store, "NOW", now=NOON + 1)
    pass_at(NOON + 1 + WAIT)
    assert fate(store)[1:] == ("STP", {"expired": 1})
    assert take(store, NOON + DAY, "first:A").due == NOON
    assert take_one(store.at(NOON + DAY), [(QUEUE, 5.0)], "other") == "empty"
    assert list(fsck(store)) == []


def test_with_catchup_all_those_that_came_due_meanwhile_run_unless_they_have_expired(store, pass_at):
    put(store, catchup="all", expires=2.5 * HOUR)
    pass_at(NOON)
    assert pass_at(NOON + 2.5 * HOUR) == 1
    assert (state(store).waiting.due, state(store).skipped) == (NOON + HOUR, {"expired": 1})
    # After an outage of the dispatcher as well.
    assert pass_at(NOON + 6 * HOUR) == 1
    assert (state(store).waiting.due, state(store).skipped) == (NOON + 4 * HOUR, {"expired": 4})


def test_what_came_due_meanwhile_was_missed_otherwise(store, pass_at):
    put(store, expires=2.5 * HOUR)
    pass_at(NOON)
    pass_at(NOON + 2.5 * HOUR)
    assert fate(store) == (NOON + 3 * HOUR, "TML", {"expired": 1, "missed": 2})


def test_what_has_no_due_times_of_its_own_does_not_expire(store, pass_at):
    put(store, "CONTINUE", now=NOON)
    assert pass_at(NOON + DAY) == 0
    run = take(store, NOON + DAY)
    assert decide_unwanted(run, override(Settings(), run.options), NOON + DAY) is None
    assert timers(store) == []


def test_a_job_whose_schedule_cannot_be_read_is_left_to_a_worker(store, pass_at):
    put(store)
    pass_at(NOON)
    store.client.hset(store.keys.schedules, JOB, "never")
    assert pass_at(NOON + DAY) == 0
    assert (state(store).waiting.due, timers(store)) == (NOON, [])


def test_a_timer_of_which_nothing_waits_is_removed(store, pass_at):
    for jobid in ("taken:A", "unset:A", "paused:A", "cancelled:A", "set:A"):
        put(store, jobid=jobid, due=NOON - 1 if jobid == "taken:A" else NOON, expires=SHORT)
    assert pass_at(NOON) == 5
    take(store, NOON, "taken:A")
    store.jobs.unset("unset:A")
    store.at(NOON).pauses.pause(["paused:A"], None, "", "")
    cancel_jobs(store.at(NOON), ["cancelled:A"], Settings())
    put(store, jobid="set:A", schedule="EVERY:2h@0", due=NOON + 2 * HOUR, now=NOON + 1, expires=SHORT)
    assert len(timers(store)) == 4
    store.at(NOON).jobs.run(["set:A"])
    assert pass_at(NOON + SHORT) == 0
    assert [member for member, _ in timers(store)] == []
    assert state(store, "taken:A").running
    assert state(store, "paused:A").held == NOON
    # Somebody has asked for this run at noon, and it has expired as well.
    assert state(store, "set:A").skipped == {"withdrawn": 1, "expired": 1}


def test_an_option_that_changes_while_it_waits_counts_at_once(store, pass_at):
    put(store)
    pass_at(NOON)
    put(store, expires="5m", now=NOON + 10)
    assert state(store).waits_until == NOON + 300
    put(store, expires="2h", now=NOON + 20)
    pass_at(NOON + WAIT)
    assert state(store).waiting.due == NOON
    put(store, expires=None, now=NOON + WAIT)
    pass_at(NOON + DAY)
    assert (state(store).waiting.due, timers(store)) == (NOON, [])
    put(store, expires="30h", now=NOON + DAY)
    assert state(store).waits_until == NOON + 30 * HOUR


def test_a_timer_that_comes_too_early_is_set_anew(store, pass_at):
    put(store)
    pass_at(NOON)
    store.client.zadd(store.keys.timers, {f"expires:{JOB}": NOON + 1})
    pass_at(NOON + 2)
    assert state(store).waits_until == NOON + WAIT


# A late dispatcher


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"expires": WAIT}, "expired"),
        ({"expires": WAIT, "grace": HOUR}, "expired"),
        ({"expires": WAIT, "grace": WAIT}, "late"),
        ({"expires": WAIT, "grace": 60}, "late"),
    ],
)
def test_what_would_be_enqueued_too_late_counts_for_the_shorter_of_grace_and_expires(store, pass_at, options, reason):
    put(store, **options)
    assert pass_at(NOON + 5 * HOUR + WAIT + 1) == 0
    assert fate(store) == (NOON + 6 * HOUR, "TML", {reason: 6})


def test_the_first_that_has_not_expired_runs_with_catchup_last(store, pass_at):
    put(store)
    assert pass_at(NOON + 5 * HOUR + 1) == 1
    assert (state(store).waiting.due, state(store).skipped) == (NOON + 5 * HOUR, {"expired": 5})
    assert state(store).waits_until == NOON + 5 * HOUR + WAIT


# One-offs


def test_a_one_off_that_expires_is_stopped_and_never_ran(store, pass_at):
    put(store, f"AT:{NOON:.0f}", now=NOON - HOUR)
    assert pass_at(NOON) == 1
    pass_at(NOON + WAIT)
    assert fate(store) == (None, "STP", {"expired": 1})
    found = state(store)
    assert (found.schedule, found.dropped, found.spent) == ("STOP", NOON, None)  # the store of tests keeps it


@pytest.mark.parametrize("where", ["queue", "worker", "dispatcher"])
def test_whoever_wants_it_all_the_same_runs_it_for_its_due_time(store, pass_at, where):
    put(store, f"AT:{NOON:.0f}", now=NOON - HOUR)
    if where != "dispatcher":
        assert pass_at(NOON) == 1
    if where == "worker":
        begin(store, NOON + WAIT)
    else:
        pass_at(NOON + WAIT + 1)
    assert (fate(store), state(store).dropped) == ((None, "STP", {"expired": 1}), NOON)
    asked = NOON + 2 * HOUR
    run_job(store.at(asked), JOB)
    # From the instant of the order.
    assert state(store).waits_until == asked + WAIT
    assert pass_at(asked + WAIT - 1) == 0
    run = take(store, asked + WAIT - 1)
    assert (run.due, decide_unwanted(run, override(Settings(), run.options), asked + WAIT - 1)) == (NOON, None)
    store.at(asked + WAIT - 1).runs.release([run])
    pass_at(asked + 3 * WAIT)
    assert (fate(store), state(store).dropped) == ((None, "STP", {"expired": 2}), NOON)


def test_one_that_is_past_when_it_is_set_has_expired(store, pass_at):
    put(store, f"AT:{NOON - HOUR:.0f}", now=NOON)
    pass_at(NOON)
    assert fate(store) == (None, "STP", {"expired": 1})


# At a worker


def begin(store, now, settings=None):
    """Take the job, and end its run if it is not to begin; return whether it is."""
    run = take(store, now)
    unwanted = decide_unwanted(run, override(settings or Settings(), run.options), now)
    if unwanted is not None:
        assert store.at(now).runs.end(run, unwanted).word == "ok"
    return unwanted is None


@pytest.mark.parametrize(("waited", "begins"), [(WAIT - 0.001, True), (WAIT, False), (9 * HOUR, False)])
def test_a_worker_does_not_begin_what_has_expired(store, pass_at, waited, begins):
    put(store)
    pass_at(NOON)
    assert begin(store, NOON + waited) is begins
    if not begins:
        after = NOON + (waited // HOUR + 1) * HOUR
        missed = {"missed": int(waited // HOUR)} if waited >= HOUR else {}
        assert fate(store) == (after, "TML", {"expired": 1, **missed})
        pass_at(NOON + waited + 1)
        assert timers(store) == []


def test_what_an_older_process_has_enqueued_expires_at_a_worker(store, pass_at):
    put(store)
    pass_at(NOON)
    store.client.delete(store.keys.timers)
    pass_at(NOON + DAY)
    assert state(store).waiting.due == NOON
    assert not begin(store, NOON + DAY)
    assert fate(store) == (NOON + DAY + HOUR, "TML", {"expired": 1, "missed": 24})


def test_a_run_that_was_asked_for_goes_on_where_the_schedule_was(store, pass_at):
    put(store, now=NOON - HOUR / 2)
    run_job(store.at(NOON - HOUR / 4), JOB)
    assert not begin(store, NOON - HOUR / 4 + WAIT)
    assert fate(store) == (NOON, "TML", {"expired": 1})


def test_an_overdue_run_that_was_asked_for_counts_from_that_instant(store, pass_at):
    put(store)
    asked = NOON + HOUR / 2
    run_job(store.at(asked), JOB)
    assert (state(store).waiting.due, state(store).waits_until) == (NOON, asked + WAIT)
    run = take(store, asked + WAIT - 1)
    assert decide_unwanted(run, override(Settings(), run.options), run.start) is None
    store.at(run.start).runs.release([run])
    # Nobody knows by the run when that was.
    assert state(store).waits_until == run.start + WAIT
    pass_at(run.start + WAIT)
    assert fate(store) == (NOON + HOUR, "TML", {"expired": 1})


def test_failed_occurrences_in_a_row_stay_counted(store, pass_at):
    put(store, on_error="reschedule", stop_after=3)
    pass_at(NOON)
    run = take(store, NOON)
    own = override(Settings(), run.options)
    store.at(NOON + 1).runs.end(run, decide_failed(run, ValueError(), own, NOON + 1))
    pass_at(NOON + HOUR)
    pass_at(NOON + HOUR + WAIT)
    assert state(store).retry_state == "0 0 failed=1"
    pass_at(NOON + 2 * HOUR)
    assert not begin(store, NOON + 2 * HOUR + WAIT)
    assert state(store).retry_state == "0 0 failed=1"


# What has begun once


@pytest.mark.parametrize("how", ["failed", "handed back", "lost", "lost with others"])
def test_what_has_begun_does_not_expire(store, pass_at, how):
    put(store, on_error="retry", backoff=1)
    pass_at(NOON)
    run = take(store, NOON)
    own = override(Settings(), run.options)
    if how == "lost with others":
        store.at(NOON + LEASE).runs.end(run, decide_suspect(run))
    elif how == "lost":
        pass_at(NOON + LEASE + 1)
    else:
        decided = decide_handed_back(run) if how == "handed back" else decide_failed(run, ValueError(), own, NOON + 1)
        store.at(NOON + 1).runs.end(run, decided)
    pass_at(NOON + HOUR / 2)
    assert state(store).waiting.due == NOON
    assert state(store).waits_until is None
    assert list(fsck(store)) == []
    pass_at(NOON + DAY)
    assert state(store).waiting.due == NOON
    assert begin(store, NOON + DAY)


def test_what_a_worker_has_given_back_before_it_began_expires(store, pass_at):
    put(store, expires=SHORT)
    pass_at(NOON)
    run = take(store, NOON + 1)
    pass_at(NOON + SHORT)
    assert timers(store) == []  # it does not wait
    store.at(NOON + SHORT + 1).runs.release([run])
    pass_at(NOON + SHORT + 2)
    assert fate(store) == SKIPPED


# Overlaps


def test_a_run_that_is_owed_expires(store, pass_at):
    put(store)
    pass_at(NOON)
    run = take(store, NOON)
    run_job(store.at(NOON + 1), JOB)
    end(store, run, decide_done(run, None, override(Settings(), run.options), NOON + 2), now=NOON + 2)
    assert (state(store).waiting.due, state(store).waits_until) == (NOON + 1, NOON + 1 + WAIT)
    pass_at(NOON + 1 + WAIT)
    assert fate(store) == SKIPPED


def test_of_those_that_came_due_during_a_run_the_first_that_has_not_expired_runs(store, pass_at):
    put(store, overlap="queue", expires=1.5 * HOUR)
    pass_at(NOON)
    run, ended = take(store, NOON), NOON + 3.2 * HOUR
    decided = decide_done(run, None, override(Settings(), run.options), ended)
    assert store.at(ended).runs.end(run, decided).detail == "queue"
    found = state(store)
    assert (found.waiting.due, found.waits_until) == (NOON + 2 * HOUR, NOON + 3.5 * HOUR)
    assert found.skipped == {"expired": 1, "running": 1}
    pass_at(NOON + 3.5 * HOUR)
    assert fate(store) == (NOON + 4 * HOUR, "TML", {"expired": 2, "running": 1})


# Pauses of the job


def pause(store, now):
    store.at(now).pauses.pause([JOB], None, "", "")


def test_what_is_held_has_expired_when_it_is_resumed(store, pass_at):
    put(store)
    pass_at(NOON)
    pause(store, NOON + 1)
    assert resume(store.at(NOON + HOUR / 2), Settings(), [JOB]) == ["timeline"]
    assert fate(store) == SKIPPED


def test_what_is_resumed_in_time_expires_later(store, pass_at):
    put(store)
    pass_at(NOON)
    pause(store, NOON + 1)
    assert resume(store.at(NOON + 2), Settings(), [JOB]) == ["queue"]
    assert state(store).waits_until == NOON + WAIT


@pytest.mark.parametrize(
    ("options", "due", "skipped"),
    [
        ({}, NOON + 10 * HOUR, {"expired": 10}),
        ({"expires": 3.5 * HOUR}, NOON + 7 * HOUR, {"expired": 7, "paused": 3}),
        ({"expires": 3.5 * HOUR, "catchup": "none"}, NOON + 11 * HOUR, {"expired": 7, "paused": 4}),
        ({"expires": 3.5 * HOUR, "catchup": "all"}, NOON + 7 * HOUR, {"expired": 7}),
    ],
)
def test_of_what_came_due_during_a_pause_catchup_runs_only_what_has_not_expired(store, pass_at, options, due, skipped):
    put(store, **options)
    pass_at(NOON)
    pause(store, NOON + 1)
    resume(store.at(NOON + 10 * HOUR + WAIT / 2), Settings(), [JOB])
    found = state(store)
    assert (found.waiting.due if found.waiting else found.timeline, found.skipped) == (due, skipped)
    assert list(fsck(store)) == []


def test_a_one_off_that_is_held_expires_when_it_is_resumed(store, pass_at):
    put(store, "NOW", now=NOON)
    pause(store, NOON + 1)
    assert resume(store.at(NOON + HOUR), Settings(), [JOB]) == ["stopped"]
    assert (fate(store), state(store).dropped) == ((None, "STP", {"expired": 1}), NOON)


def test_a_run_of_a_paused_job_expires_and_the_job_stays_paused(store, pass_at):
    put(store)
    pause(store, NOON - 1)
    run_job(store.at(NOON + 1), JOB)
    pass_at(NOON + 1 + WAIT)
    found = state(store)
    assert (found.held, found.waiting, found.skipped) == (NOON + HOUR, None, {"expired": 1})
    assert list(fsck(store)) == []


# What is damaged


@pytest.fixture
def bike(client, prefix):
    return Redbike(Quiet("A"), prefix=prefix, redis_config=client)


def test_fsck_removes_the_timer_of_a_job_that_is_unknown(store, bike):
    store.client.zadd(store.keys.timers, {f"expires:{JOB}": NOON})
    assert list(bike.fsck()) == [f"{JOB!r}: it has no schedule, but is to be forgotten, or to expire"]
    [line] = repaired(bike)
    assert line.endswith(" -- repaired: no timer to expire")
    assert timers(store) == []


def test_what_is_put_into_its_queue_again_expires_there(store, pass_at, bike):
    put(store)
    pass_at(NOON)
    store.client.delete(store.keys.timers, store.keys.queued, store.keys.queue(QUEUE))
    repaired(bike)
    assert state(store).waits_until == NOON + WAIT
    pass_at(NOON + WAIT)
    assert fate(store) == SKIPPED


def test_a_job_that_runs_again_and_again_is_not_stopped_when_somebody_asks_for_it(store, pass_at):
    put(store, "CONTINUE", now=NOON)
    pause(store, NOON + 1)
    run_job(store.at(NOON + 2), JOB)
    pass_at(NOON + DAY)
    assert (state(store).waiting.due, state(store).skipped) == (NOON, {})


def test_what_does_not_expire_is_not_said_to(store, pass_at):
    put(store, "CONTINUE", now=NOON)
    take(store, NOON)
    found = state(store).run
    [run] = take_many(store.at(found.start), [(QUEUE, 1e6)], [1], "tag", 1, repeated=True)
    store.at(NOON + 1).runs.end(run, decide_done(run, 5, override(Settings(), run.options), NOON + 1))
    assert pass_at(NOON + 6) == 1
    assert (state(store).expires_at, state(store).waits_until) == (NOON + 6 + WAIT, None)


# Workers as they are


class Coroutines(Quiet):
    async def work(self, jobid):
        self.worked.append(jobid)


@pytest.mark.parametrize("make", [Quiet, Coroutines])
@pytest.mark.parametrize("most", [1, 64])
def test_a_worker_runs_only_what_has_not_expired(client, prefix, make, most):
    bike = Redbike(make("A"), prefix=prefix, redis_config=client)
    now, ids = bike.store.timeline.read_clock(), [f"{number}:A" for number in range(20)]
    for number, jobid in enumerate(ids):
        expires = (100.0, 1e6, 0.0)[number % 3]
        options = format_options({"expires": expires} if expires else {})
        job = JobToSet(jobid, "NOW", "now", True, QUEUE, options=options, expires=expires)
        bike.store.at(now - 200).jobs.set([job])
    worker = Worker(bike.store, bike.worker, bike.settings)
    worker.pace.number = most
    while worker.work_one():
        pass
    worker.heartbeat.stop()
    assert sorted(bike.worker.worked) == sorted(jobid for jobid in ids if int(jobid[:-2]) % 3)
    assert {jobid for jobid in ids if bike.tell(jobid).get("skipped")} == {*ids[::3]}
    assert list(bike.fsck()) == []


@pytest.mark.parametrize("text", ["RRULE:FREQ=HOURLY;INTERVAL=3", "every:7200", "0 0  * * *", "AT:1970-04-11T00:00:00"])
@pytest.mark.parametrize(
    ("settings", "reason"), [(EXPIRING, "expired"), ({"grace": WAIT}, "late"), ({"catchup": "none"}, "missed")]
)
def test_what_an_older_version_or_a_person_has_written_is_skipped_too(store, pass_at, text, settings, reason):
    # Its text is not as ``set`` stores it.
    store.client.hset(store.keys.schedules, JOB, text)
    store.client.hset(store.keys.statuses, JOB, f"TML:{NOON:.0f}")
    store.client.zadd(store.keys.timeline, {JOB: NOON})
    store.client.zadd(store.keys.timeline, {"ghost:A": NOON})
    dispatcher = Dispatcher(store.at(NOON + 3.5 * HOUR), Settings(**settings))
    dispatcher.timekeeper.skip_missed(NOON - 1)
    pass_at(NOON + 3.5 * HOUR, **settings)
    found = state(store)
    is_run = reason == "missed" and text.startswith("AT")
    assert (found.waiting is not None, reason in found.skipped) == (is_run, not is_run)
    dispatcher.close()


def test_to_ask_again_for_what_waits_counts_from_that_order(store, pass_at):
    put(store)
    assert pass_at(NOON) == 1
    store.at(NOON + WAIT / 2).jobs.run([JOB])
    pass_at(NOON + WAIT + 1)
    assert (state(store).waiting.due, state(store).skipped) == (NOON, {})
    pass_at(NOON + WAIT * 1.5 + 1)
    assert (state(store).timeline, state(store).skipped) == (NOON + HOUR, {"expired": 1})
