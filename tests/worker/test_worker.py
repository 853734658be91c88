"""Workers: their order of queues, how runs end, heartbeats, and several at once."""

import asyncio
import threading
import time

import pytest

from redbike.config.settings import Settings
from redbike.errors import BadConfig, BadJobId, Overrun, StopWork, UnsetJob
from redbike.loop.queues import Queues
from redbike.loop.worker_class import RoundRobin
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.run import LEASE
from redbike.worker.current import current_run
from redbike.worker.heartbeat import INTERVAL
from redbike.worker.worker import Worker
from tests.loops import Acting, beside, blocked, raising
from tests.verbs import dispatch, set_job, survey
from tests.waiting import wait_until


@pytest.fixture
def state(store):
    return lambda jobid="job:A": store.questions.inspect([jobid])[0]


@pytest.fixture
def work(store):
    """Sets job:A, and works it once, by what `act` does; returns the worker."""

    def work(act, schedule="CONTINUE", timeout=None, due="now", **settings):
        set_job(store, "job:A", schedule, due, once=schedule == "NOW")
        worker = Worker(store, Acting(act, timeout=timeout), Settings(**settings))
        assert worker.work_one() == "job:A"
        return worker

    return work


def dispatch_next(store, state):
    """Dispatch job:A when it is due."""
    moment = state().timeline
    dispatch(store.at(moment), [(jobid, due, "work-A") for jobid, due in survey(store.at(moment)).due])


def test_round_robin_names_queues_by_what_follows_the_last_colon():
    assert RoundRobin("A:A:B").queue_names() == ["work-A", "work-A", "work-B"]
    assert RoundRobin("A").queue_for("backup:db1:A") == "work-A"
    assert RoundRobin("A").queue_for("backup") == "work-backup"
    assert RoundRobin("A").timeout("work-A") is None
    for jobid in ("a:", ":"):
        with pytest.raises(BadJobId, match=jobid):
            RoundRobin("A").queue_for(jobid)


@pytest.mark.parametrize("initstring", ["", ":", "A:", "A::B", None, "A\n", "A" * 2000])
def test_bad_queues_are_refused(initstring):
    with pytest.raises(ValueError, match="bad queue"):
        RoundRobin(initstring)


def test_the_order_of_queues_may_change_from_round_to_round():
    handler, rounds, served = Acting(), iter([["x", "y"], ["z"]]), []
    handler.queue_names = lambda: next(rounds)
    rotation = Queues(handler, 10.0)
    for _ in range(3):
        served.append(next(rotation.polls()).queues[0][0])
        rotation.advance(served[-1])
    assert served == ["x", "y", "z"]


@pytest.mark.parametrize("seconds", [0, -1, True, float("nan"), 10**12, "10"])
def test_a_bad_timeout_is_refused_before_any_job_is_taken(store, seconds, state):
    set_job(store, "job:A", "NOW", "now", once=True)
    with pytest.raises(BadConfig, match="bad timeout"):
        Worker(store, Acting(timeout=seconds), Settings()).work_one()
    assert state().queued


@pytest.mark.parametrize(("seconds", "expected"), [(2.5, 2.5), (None, 33.0)])
def test_a_timeout_of_the_worker_class_counts_before_the_default(work, seconds, expected):
    seen = []
    work(lambda _: seen.append(current_run().deadline - current_run().start), "NOW", seconds, default_timeout=33.0)
    assert seen == pytest.approx([expected], abs=1e-3)


def test_a_job_goes_where_its_schedule_says(work, state):
    work(lambda _: None, "EVERY:1000@0.0", due=1000.0)
    after = state()
    assert (after.status[:4], after.timeline % 1000, after.skipped["missed"]) == ("TML:", 0, 10_000)


def test_continue_goes_round_and_backs_off(store, work, state):
    worker = work(lambda _: None)
    assert [worker.work_one() for _ in range(2)] == ["job:A"] * 2
    worker.runner.worker.act = lambda _: 60
    worker.work_one()
    assert state().timeline == pytest.approx(store.timeline.read_dispatched()[0] + 60, abs=5)


NO_PAUSE = "neither None nor a number of seconds"


def restart(store):
    set_job(store, "job:A", "CONTINUE", "now")
    raise ValueError("after that")


@pytest.mark.parametrize(
    ("act", "given", "schedule", "event", "error"),
    [
        (raising(StopWork("enough")), {}, "STOP", "STP", None),
        (raising(UnsetJob("gone")), {}, None, None, None),
        (lambda store: set_job(store, "job:A", "STOP", None), {}, "STOP", "STP", None),
        (restart, {"schedule": "NOW"}, "CONTINUE", "ENQ", "ValueError: after that"),
        (lambda _: "soon", {}, "CONTINUE", "DIE", f"TypeError: work() returned 'soon', {NO_PAUSE}"),
        # A worker may say itself that the time is over.
        (raising(Overrun()), {"on_timeout": "requeue"}, "CONTINUE", "ENQ", None),
        (raising(Overrun()), {}, "CONTINUE", "DIE", "Overrun"),
    ],
)
def test_a_run_ends_by_what_its_work_did(store, work, state, act, given, schedule, event, error):
    work(lambda _: act(store), **given)
    found = state()
    assert (found.schedule, found.status and found.status[:3]) == (schedule, event)
    assert (found.failure and found.failure["error"]) == error


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
def test_anything_else_that_is_raised_is_a_failure(work, state, error, caplog):
    worker = work(raising(error))
    assert state().status.startswith("DIE:")
    assert state().failure["error"].startswith(type(error).__name__)
    assert "Traceback" in state().failure["traceback"]
    assert "Traceback" in caplog.text
    assert worker.work_one() is None


@pytest.mark.parametrize("succeeds", [False, True])
def test_a_job_is_retried_with_pauses_until_it_succeeds_or_dies(store, work, state, succeeds):
    set_job(store, "job:A", "CONTINUE", "now")
    due = float(state().queued.split(" ")[0])
    worker = work(raising(ValueError("no")), on_error="retry", retries=2, backoff=0.05)
    assert (state().retry_state, state().status[:3]) == (f"1 0 1 {due:.6f} -", "TML")
    dispatch_next(store, state)
    assert worker.work_one() == "job:A"
    assert (state().retry_state, state().status[:3]) == (f"2 0 2 {due:.6f} -", "TML")
    dispatch_next(store, state)
    if succeeds:
        worker.runner.worker.act = lambda _: None
    assert worker.work_one() == "job:A"
    if succeeds:
        assert (state().retry_state, state().status[:3]) == ("", "ENQ")
    else:
        assert (state().status[:3], state().failure["attempt"], state().failure["due"]) == ("DIE", 3, due)


@pytest.mark.parametrize(("policy", "status"), [("stop", "DIE"), ("reschedule", "TML"), ("requeue", "ENQ")])
def test_a_run_that_outlives_its_deadline_ends_by_policy_while_it_still_runs(store, work, state, policy, status):
    during = []

    def act(_):
        wait_until(lambda: not state().running)
        during.append(state().status[:3])
        return "whatever it returns later changes nothing"

    work(act, "EVERY:1000@0.0", timeout=0.2, on_timeout=policy)
    assert during == [status]
    assert state().status.startswith(status)
    assert list(fsck(store)) == []


def test_a_worker_that_gives_up_when_its_time_is_over_forgets_no_failure(store, work, state):
    """The run is to happen again: it was no success."""
    worker = work(raising(ValueError("broken")), "EVERY:1000@0.0", on_error="reschedule", on_timeout="requeue")
    assert state().failure
    dispatch_next(store, state)
    worker.runner.worker.act = raising(Overrun())
    Worker(store.at(state().waiting.due), worker.runner.worker, worker.settings).work_one()
    assert state().queued
    assert "broken" in state().failure["error"]


def test_heartbeats_keep_a_long_run_from_counting_as_lost(work, state, monkeypatch):
    assert INTERVAL <= LEASE / 3, "two may get lost"
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.1)

    def act(_):
        lease = state().lease
        wait_until(lambda: state().lease > lease)

    work(act, "NOW", timeout=1000)
    assert state().lease is None


class Coroutines(Acting):
    """What it calls are coroutine functions."""

    async def work(self, jobid):
        await self.act(jobid)
        self.worked.append(jobid)


def test_a_coroutine_function_is_awaited(store, state):
    seen = []

    async def act(jobid):
        await asyncio.sleep(0)
        seen.append((jobid, current_run().jobid))
        raise StopWork

    set_job(store, "job:A", "CONTINUE", "now")
    Worker(store, Coroutines(act), Settings()).work_one()
    assert seen == [("job:A", "job:A")]
    assert state().schedule == "STOP"


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_coroutine_is_cancelled_at_its_deadline(store, state, concurrency):
    cancelled = []

    async def act(jobid):
        if jobid == "slow:A":
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.append(jobid)
                raise

    handler = Coroutines(act, timeout=0.3)
    worker = Worker(store, handler, Settings(on_timeout="reschedule"), concurrency)
    set_job(store, "slow:A", "EVERY:1000@0.0", 1.0)
    with beside(store, worker.work):
        wait_until(lambda: cancelled)
        set_job(store, "next:A", "NOW", "now", once=True)
        wait_until(lambda: handler.worked == ["next:A"])
    found = state("slow:A")
    assert found.status.startswith("TML:")
    assert "timeout" in found.failure["error"] or "deadline" in found.failure["error"]


@pytest.mark.parametrize("kind", [Acting, Coroutines])
def test_concurrency_runs_that_many_jobs_at_once(store, kind):
    """Its jobs end when four are inside."""
    inside, barrier = [], threading.Barrier(4)

    async def meet(jobid):
        inside.append(jobid)
        while len(inside) < 4:
            await asyncio.sleep(0.001)

    for n in range(4):
        set_job(store, f"{n}:A", "NOW", "now", once=True)
    handler = kind(meet if kind is Coroutines else lambda _: barrier.wait(timeout=60) and None)
    with beside(store, Worker(store, handler, Settings(), concurrency=4).work):
        wait_until(lambda: len(handler.worked) == 4)
    assert list(fsck(store)) == []


@pytest.fixture
def patient(monkeypatch):
    """A worker that is not woken notices nothing for as long as the test lasts."""
    monkeypatch.setattr("redbike.loop.loop.BLOCK", 600)
    monkeypatch.setattr("redbike.loop.loop.SILENCE", 700)


@pytest.mark.parametrize(("number", "concurrency"), [(1, 1), (1, 3), (4, 1)])
def test_all_idle_workers_are_halted_at_once(store, patient, number, concurrency):
    with beside(store, *(Worker(store, Acting(), Settings(), concurrency).work for _ in range(number))):
        wait_until(lambda: len(blocked(store.client)) == number)


def test_a_busy_worker_is_halted_after_its_current_job(store):
    handler = Acting()
    set_job(store, "job:A", "CONTINUE", "now")
    with beside(store, Worker(store, handler, Settings()).work):
        wait_until(lambda: len(handler.worked) > 10)
    assert list(fsck(store)) == []


def test_one_token_wakes_several_idle_workers_in_a_chain(store):
    meeting = threading.Barrier(5)
    workers = [Worker(store, Acting(lambda _: meeting.wait(timeout=60) and None), Settings()) for _ in range(4)]
    with beside(store, *(worker.work for worker in workers)):
        store.jobs.set([JobToSet(f"{n}:A", "NOW", "now", True, "work-A") for n in range(4)])
        meeting.wait(timeout=60)
    assert sorted(jobid for worker in workers for jobid in worker.runner.worker.worked) == ["0:A", "1:A", "2:A", "3:A"]


def test_a_halt_is_not_for_workers_that_come_after_it(store):
    store.halt()
    handler = Acting()
    with beside(store, Worker(store, handler, Settings()).work):
        wait_until(lambda: store.client.llen(store.keys.halt) == 0)
        set_job(store, "job:A", "NOW", "now", once=True)
        wait_until(lambda: handler.worked)


@pytest.mark.parametrize(("work", "event"), [(0.0, "TML"), (0.3, "DIE")])
def test_a_run_that_was_over_in_time_is_no_overrun_if_redis_hears_of_it_late(store, state, work, event):
    """Its worker waits for a server that is away for longer than the timeout."""
    worker = Worker(store, Acting(lambda jobid: time.sleep(work), timeout=0.2), Settings())
    set_job(store, "job:A", "EVERY:1h@0", "now")
    next(worker.queues.polls())
    runs = worker.source.take(1)
    worker.heartbeat.add = lambda run: None  # nobody else tells
    ended = worker.run_all(runs)
    wait_until(lambda: state().inflight_ms < 0)
    worker.source.end(ended)
    assert state().status.startswith(event)
    assert list(fsck(store)) == []
