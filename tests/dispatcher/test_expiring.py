"""What has not begun in time is skipped, wherever it waits. Time is an argument."""

from dataclasses import replace

import pytest

from redbike import Redbike
from redbike.config.options import format_options, read_changes
from redbike.config.settings import Settings, override
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.loop.policies import decide_done, decide_failed, decide_handed_back, decide_suspect, decide_unwanted
from redbike.loop.requests import Request
from redbike.loop.resuming import resume
from redbike.schedule.parser import parse
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.lease import LEASE
from redbike.store.records import RetryState
from redbike.worker.worker import Worker
from tests.states import JOB, QUEUE, inspect
from tests.store.inspection.mending import repaired
from tests.verbs import Quiet, run_job, set_one, take_many, take_one

HOUR, DAY = 3600.0, 86400.0
NOON = 100 * DAY + DAY / 2
HOURLY = "EVERY:1h@0"
WAIT = 600.0  # seconds in which an occurrence must begin
EXPIRING = {"expires": WAIT}


def put(store, schedule=HOURLY, due=NOON, now=NOON - HOUR / 2, jobid=JOB, settings=None, **options):
    """Set a job as users do; it is due first at `due`, unless its schedule says that."""
    own = Settings(**settings or {})
    request = Request(jobid, parse(schedule, anchor=now), QUEUE, now, now, False, read_changes(EXPIRING | options))
    request.known = inspect(store, jobid).options
    made = request.make_job(own)
    set_one(store.at(now), made if made.due == "now" or made.once else replace(made, due=due))


def take(store, now, jobid=JOB):
    run = take_one(store.at(now), [(QUEUE, 1e6)], "tag")
    assert run.jobid == jobid
    return run


def timers(store):
    return store.client.zrange(store.keys.timers, 0, -1, withscores=True)


def fate(store, jobid=JOB):
    found = inspect(store, jobid)
    assert list(fsck(store)) == []
    return found.timeline, (found.status or "")[:3], found.skipped


SKIPPED = (NOON + HOUR, "TML", {"expired": 1})


# In a queue that nobody works


def test_an_occurrence_expires_in_a_queue_without_workers(store, dispatcher, pass_at):
    put(store)
    assert pass_at(NOON) == 1
    assert pass_at(NOON + WAIT - 0.001) == 0
    assert inspect(store).waiting.due == NOON
    # A timer that comes too early is set anew, and the dispatcher sleeps until then.
    store.client.zadd(store.keys.timers, {f"expires:{JOB}": NOON + 1})
    dispatcher.dispatch_due(NOON + 2)
    assert dispatcher._surveyed.next_timer == NOON + WAIT
    assert pass_at(NOON + WAIT) == 0
    assert fate(store) == SKIPPED
    assert timers(store) == []
    # The next one is another occurrence.
    assert pass_at(NOON + HOUR) == 1
    assert (inspect(store).waiting.due, inspect(store).waits_until) == (NOON + HOUR, NOON + HOUR + WAIT)


def test_it_may_be_a_setting(store, pass_at):
    put(store, expires=None)
    put(store, jobid="own:A", expires="1h")
    put(store, jobid="none:A", expires="none")
    put(store, jobid="zero:A", expires=0)
    assert pass_at(NOON, expires=WAIT) == 4
    assert len(timers(store)) == 2
    assert pass_at(NOON + WAIT, expires=WAIT) == 0
    assert fate(store) == SKIPPED
    assert pass_at(NOON + 10 * HOUR, expires=WAIT) == 1
    assert inspect(store, "own:A").skipped == {"expired": 1, "missed": 10}
    assert [inspect(store, f"{name}:A").waiting.due for name in ("none", "zero")] == [NOON, NOON]


def test_by_the_setting_a_run_that_was_asked_for_expires_too(client, prefix):
    with Redbike(Quiet("A"), prefix, client, expires=WAIT) as bike:
        bike.set(JOB, HOURLY)
        bike.run(JOB)
        found = inspect(bike.store)
    assert found.waits_until == pytest.approx(found.waiting.due + WAIT, abs=0.001)


def test_many_expire_in_one_pass_and_leave_no_entries_behind(store, pass_at):
    for number in range(250):
        put(store, "NOW", now=NOON + number / 1000, jobid=f"{number}:A")
    assert store.client.llen(store.keys.queue(QUEUE)) == 250
    # Also while the queue is paused.
    store.at(NOON).queue_limits.pause(QUEUE)
    pass_at(NOON + WAIT + 1)
    assert {inspect(store, f"{number}:A").status[:3] for number in range(250)} == {"STP"}
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
    assert (inspect(store).waiting.due, inspect(store).skipped) == (NOON + HOUR, {"expired": 1})
    # After an outage of the dispatcher as well.
    assert pass_at(NOON + 6 * HOUR) == 1
    assert (inspect(store).waiting.due, inspect(store).skipped) == (NOON + 4 * HOUR, {"expired": 4})


def test_a_job_whose_schedule_cannot_be_read_is_left_to_a_worker(store, pass_at):
    put(store)
    pass_at(NOON)
    store.client.hset(store.keys.schedules, JOB, "never")
    assert pass_at(NOON + DAY) == 0
    assert (inspect(store).waiting.due, timers(store)) == (NOON, [])


# A late dispatcher


@pytest.mark.parametrize(
    ("options", "late", "due", "skipped"),
    [
        ({}, 1, None, {"expired": 5}),
        ({}, WAIT + 1, NOON + 6 * HOUR, {"expired": 6}),
        ({"grace": HOUR}, WAIT + 1, NOON + 6 * HOUR, {"expired": 6}),
        ({"grace": WAIT}, WAIT + 1, NOON + 6 * HOUR, {"late": 6}),
        ({"grace": 60}, WAIT + 1, NOON + 6 * HOUR, {"late": 6}),
    ],
)
def test_what_would_be_enqueued_after_the_shorter_of_grace_and_expires_is_skipped(
    store, pass_at, options, late, due, skipped
):
    put(store, **options)
    assert pass_at(NOON + 5 * HOUR + late) == (due is None)
    assert fate(store) == (due, "ENQ" if due is None else "TML", skipped)
    assert inspect(store).waits_until == (None if due else NOON + 5 * HOUR + WAIT)


# One-offs


@pytest.mark.parametrize("where", ["queue", "worker", "dispatcher"])
def test_whoever_wants_it_all_the_same_runs_it_for_its_due_time(store, pass_at, where):
    put(store, f"AT:{NOON:.0f}", now=NOON - HOUR)
    if where != "dispatcher":
        assert pass_at(NOON) == 1
    if where == "worker":
        begin(store, NOON + WAIT)
    else:
        pass_at(NOON + WAIT + 1)
    found = inspect(store)
    assert (fate(store), found.dropped) == ((None, "STP", {"expired": 1}), NOON)
    assert (found.schedule, found.spent) == ("STOP", None)  # the store of tests keeps it
    asked = NOON + 2 * HOUR
    run_job(store.at(asked), JOB)
    # From the instant of the order.
    assert inspect(store).waits_until == asked + WAIT
    assert pass_at(asked + WAIT - 1) == 0
    run = take(store, asked + WAIT - 1)
    assert (run.due, decide_unwanted(run, override(Settings(), run.options), asked + WAIT - 1)) == (NOON, None)
    store.at(asked + WAIT - 1).runs.release([run])
    pass_at(asked + 3 * WAIT)
    assert (fate(store), inspect(store).dropped) == ((None, "STP", {"expired": 2}), NOON)


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


def test_a_run_that_was_asked_for_goes_on_where_the_schedule_was(store, pass_at):
    put(store, now=NOON - HOUR / 2)
    run_job(store.at(NOON - HOUR / 4), JOB)
    assert not begin(store, NOON - HOUR / 4 + WAIT)
    assert fate(store) == (NOON, "TML", {"expired": 1})


def test_failed_occurrences_in_a_row_stay_counted(store, pass_at):
    put(store, on_error="reschedule", stop_after=3)
    pass_at(NOON)
    run = take(store, NOON)
    own = override(Settings(), run.options)
    store.at(NOON + 1).runs.end(run, decide_failed(run, ValueError(), own, NOON + 1))
    pass_at(NOON + HOUR)
    pass_at(NOON + HOUR + WAIT)
    assert inspect(store).retry_state == "0 0 failed=1"
    pass_at(NOON + 2 * HOUR)
    assert not begin(store, NOON + 2 * HOUR + WAIT)
    assert inspect(store).retry_state == "0 0 failed=1"


@pytest.mark.parametrize("asked", [NOON + HOUR / 2, NOON + WAIT / 2])
@pytest.mark.parametrize("waits", [False, True])
def test_an_overdue_run_counts_from_the_instant_at_which_somebody_asks_for_it(store, pass_at, asked, waits):
    put(store)
    if waits:
        assert pass_at(NOON) == 1
    run_job(store.at(asked), JOB)
    assert (inspect(store).waiting.due, inspect(store).waits_until) == (NOON, asked + WAIT)
    assert pass_at(asked + WAIT - 1) == 0
    run = take(store, asked + WAIT - 1)
    assert decide_unwanted(run, override(Settings(), run.options), run.start) is None
    store.at(run.start).runs.release([run])
    # Nobody knows by the run when that was.
    assert inspect(store).waits_until == run.start + WAIT
    pass_at(run.start + WAIT)
    assert fate(store) == (NOON + HOUR * (1 if run.start + WAIT < NOON + HOUR else 2), "TML", {"expired": 1})


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
    assert inspect(store).waiting.due == NOON
    assert inspect(store).waits_until is None
    assert list(fsck(store)) == []
    pass_at(NOON + DAY)
    assert inspect(store).waiting.due == NOON
    assert begin(store, NOON + DAY)


# Overlaps


def test_of_those_that_came_due_during_a_run_the_first_that_has_not_expired_runs(store, pass_at):
    put(store, overlap="queue", expires=1.5 * HOUR)
    pass_at(NOON)
    run, ended = take(store, NOON), NOON + 3.2 * HOUR
    decided = decide_done(run, None, override(Settings(), run.options), ended)
    assert store.at(ended).runs.end(run, decided).detail == "queue"
    found = inspect(store)
    assert (found.waiting.due, found.waits_until) == (NOON + 2 * HOUR, NOON + 3.5 * HOUR)
    assert found.skipped == {"expired": 1, "running": 1}
    pass_at(NOON + 3.5 * HOUR)
    assert fate(store) == (NOON + 4 * HOUR, "TML", {"expired": 2, "running": 1})


# Pauses of the job


def pause(store, now):
    store.at(now).pauses.pause([JOB], None, "", "")


TEN_HOURS = 10 * HOUR + WAIT / 2


@pytest.mark.parametrize(
    ("schedule", "options", "paused", "word", "due", "skipped"),
    [
        (HOURLY, {}, 2, "queue", NOON, {}),
        (HOURLY, {}, HOUR / 2, "timeline", NOON + HOUR, {"expired": 1}),
        ("NOW", {}, HOUR, "stopped", None, {"expired": 1}),
        (HOURLY, {}, TEN_HOURS, "queue", NOON + 10 * HOUR, {"expired": 10}),
        (HOURLY, {"expires": 3.5 * HOUR}, TEN_HOURS, "queue", NOON + 7 * HOUR, {"expired": 7, "paused": 3}),
        (
            *(HOURLY, {"expires": 3.5 * HOUR, "catchup": "none"}, TEN_HOURS),
            *("timeline", NOON + 11 * HOUR, {"expired": 7, "paused": 4}),
        ),
        (HOURLY, {"expires": 3.5 * HOUR, "catchup": "all"}, TEN_HOURS, "queue", NOON + 7 * HOUR, {"expired": 7}),
    ],
)
def test_of_what_came_due_during_a_pause_catchup_runs_only_what_has_not_expired(
    store, pass_at, schedule, options, paused, word, due, skipped
):
    put(store, schedule, now=NOON, **options)
    pass_at(NOON)
    store.client.hset(store.keys.retry_states, JOB, "0 0 failed=2")
    pause(store, NOON + 1)
    assert resume(store.at(NOON + paused), Settings(), [JOB]) == [word]
    found = inspect(store)
    assert RetryState.parse(found.retry_state).failed == 2
    assert (found.waiting.due if found.waiting else found.timeline, found.skipped) == (due, skipped)
    assert found.dropped == (NOON if word == "stopped" else None)
    assert list(fsck(store)) == []


def test_what_has_no_due_times_of_its_own_does_not_expire_also_when_somebody_asks_for_it(store, pass_at):
    put(store, "CONTINUE", now=NOON)
    assert pass_at(NOON + DAY) == 0
    run = take(store, NOON + DAY)
    assert decide_unwanted(run, override(Settings(), run.options), NOON + DAY) is None
    assert timers(store) == []
    store.at(NOON + DAY).runs.release([run])
    pause(store, NOON + DAY)
    run_job(store.at(NOON + DAY + 1), JOB)
    pass_at(NOON + 2 * DAY)
    assert (inspect(store).waiting.due, inspect(store).skipped) == (NOON, {})


# What is damaged


@pytest.mark.parametrize(("settings", "option"), [({}, WAIT), ({"expires": WAIT}, None)])
def test_repair_removes_a_timer_of_no_job_and_sets_that_of_what_it_enqueues_again(
    client, store, prefix, pass_at, settings, option
):
    bike = Redbike(Quiet("A"), prefix=prefix, redis_config=client, **settings)
    store.client.zadd(store.keys.timers, {f"expires:{JOB}": NOON})
    assert list(bike.fsck()) == [f"{JOB!r}: it has no schedule, but is to be forgotten, or to expire"]
    [line] = repaired(bike)
    assert line.endswith(" -- repaired: no timer to expire")
    assert timers(store) == []
    put(store, settings=settings, expires=option)
    pass_at(NOON, **settings)
    store.client.delete(store.keys.timers, store.keys.queued, store.keys.queue(QUEUE))
    repaired(bike)
    assert inspect(store).waits_until == NOON + WAIT


def test_what_does_not_expire_is_not_said_to(store, pass_at):
    put(store, "CONTINUE", now=NOON)
    take(store, NOON)
    found = inspect(store).run
    [run] = take_many(store.at(found.start), [(QUEUE, 1e6)], [1], "tag", 1, repeated=True)
    store.at(NOON + 1).runs.end(run, decide_done(run, 5, override(Settings(), run.options), NOON + 1))
    assert pass_at(NOON + 6) == 1
    assert (inspect(store).expires_at, inspect(store).waits_until) == (NOON + 6 + WAIT, None)


# Workers as they are


class Coroutines(Quiet):
    async def work(self, jobid):
        self.worked.append(jobid)


@pytest.mark.parametrize(("make", "most"), [(Quiet, 64), (Coroutines, 1)])
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


@pytest.mark.parametrize(
    ("text", "settings", "reason"),
    [
        ("RRULE:FREQ=HOURLY;INTERVAL=3", EXPIRING, "expired"),
        ("every:7200", {"grace": WAIT}, "late"),
        ("0 0  * * *", {"catchup": "none"}, "missed"),
        ("AT:1970-04-11T00:00:00", EXPIRING, "expired"),
        ("AT:1970-04-11T00:00:00", {"catchup": "none"}, "missed"),
    ],
)
def test_what_an_older_version_or_a_person_has_written_is_skipped_too(store, pass_at, text, settings, reason):
    # Its text is not as ``set`` stores it.
    store.client.hset(store.keys.schedules, JOB, text)
    store.client.hset(store.keys.statuses, JOB, f"TML:{NOON:.0f}")
    store.client.zadd(store.keys.timeline, {JOB: NOON})
    store.client.zadd(store.keys.timeline, {"ghost:A": NOON})
    Dispatcher(store.at(NOON + 3.5 * HOUR), Settings(**settings)).timekeeper.skip_missed(NOON - 1)
    pass_at(NOON + 3.5 * HOUR, **settings)
    found = inspect(store)
    is_run = reason == "missed" and text.startswith("AT")
    assert (found.waiting is not None, reason in found.skipped) == (is_run, not is_run)
