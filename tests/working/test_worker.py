"""Workers: their order of queues, how runs end, heartbeats, and several at once."""

import asyncio
import threading
import time

import pytest

from redbike.config import Settings
from redbike.errors import BadConfig, BadJobId, Overrun, StopWork, Unreachable, UnsetJob
from redbike.keeping.fsck import fsck
from redbike.running.loop import Loop
from redbike.state.jobs import JobToSet
from redbike.state.run import LEASE
from redbike.working.heartbeat import INTERVAL
from redbike.working.queues import Queues
from redbike.working.runner import current_run
from redbike.working.worker import Worker
from redbike.working.worker_class import RoundRobin
from tests.running.loops import Acting, beside, blocked, raising
from tests.verbs import dispatch, set_job, survey
from tests.waiting import wait_until


@pytest.fixture
def state(store):
    return lambda jobid="job:A": store.questions.inspect([jobid])[0]


def test_round_robin_names_queues_by_what_follows_the_last_colon():
    assert RoundRobin("A:A:B").queue_names() == ["work-A", "work-A", "work-B"]
    assert RoundRobin("A").queue_for("backup:db1:A") == "work-A"
    assert RoundRobin("A").queue_for("backup") == "work-backup"
    assert RoundRobin("A").timeout("work-A") is None


@pytest.mark.parametrize("jobid", ["a:", ":"])
def test_an_id_that_names_no_queue_is_refused(jobid):
    with pytest.raises(BadJobId, match=jobid):
        RoundRobin("A").queue_for(jobid)


@pytest.mark.parametrize("initstring", ["", ":", "A:", "A::B", None, "A\n", "A" * 2000])
def test_bad_queues_are_refused(initstring):
    with pytest.raises(ValueError, match="bad queue"):
        RoundRobin(initstring)


def test_the_order_of_queues_may_change_from_round_to_round():
    class Moody(Acting):
        rounds = iter([["x", "y"], ["z"]])

        def queue_names(self):
            return next(self.rounds)

    rotation = Queues(Moody(), 10.0)
    served = []
    for _ in range(3):
        name = next(rotation.looks()).queues[0][0]
        served.append(name)
        rotation.advance(name)
    assert served == ["x", "y", "z"]


@pytest.mark.parametrize("seconds", [0, -1, True, float("nan"), 10**12, "10"])
def test_a_bad_timeout_is_refused_before_any_job_is_taken(store, seconds, state):
    set_job(store, "job:A", "NOW", "now", once=True)
    with pytest.raises(BadConfig, match="bad timeout"):
        Worker(store, Acting(timeout=seconds), Settings()).work_one()
    assert state().queued


def test_a_timeout_of_the_worker_class_counts_before_the_default(store):
    seen = []
    for seconds, expected in ((2.5, 2.5), (None, 33.0)):
        set_job(store, "job:A", "NOW", "now", once=True)
        handler = Acting(lambda _: seen.append(current_run().deadline - current_run().start), timeout=seconds)
        Worker(store, handler, Settings(default_timeout=33.0)).work_one()
        assert seen.pop() == pytest.approx(expected, abs=1e-3)


def test_a_job_goes_where_its_schedule_says(store, state):
    set_job(store, "job:A", "EVERY:1000@0.0", 1000.0)
    assert Worker(store, Acting(), Settings()).work_one() == "job:A"
    after = state()
    assert after.status.startswith("TML:")
    assert after.timeline % 1000 == 0
    assert after.skipped["missed"] == 10_000


def test_continue_goes_round_and_backs_off(store, state):
    set_job(store, "job:A", "CONTINUE", "now")
    worker = Worker(store, Acting(), Settings())
    assert [worker.work_one() for _ in range(3)] == ["job:A"] * 3
    worker.runner.worker.act = lambda _: 60
    worker.work_one()
    assert state().timeline == pytest.approx(store.timeline.read_dispatched()[0] + 60, abs=5)


def test_stop_work_makes_the_schedule_stop(store, state):
    set_job(store, "job:A", "CONTINUE", "now")
    Worker(store, Acting(raising(StopWork("enough"))), Settings()).work_one()
    assert state().schedule == "STOP"
    assert state().status.startswith("STP:")


def test_unset_job_unsets_it(store, state):
    set_job(store, "job:A", "CONTINUE", "now")
    Worker(store, Acting(raising(UnsetJob("gone"))), Settings()).work_one()
    assert state().schedule is state().status is None


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
def test_anything_else_that_is_raised_is_a_failure(store, state, error, caplog):
    set_job(store, "job:A", "CONTINUE", "now")
    worker = Worker(store, Acting(raising(error)), Settings())
    assert worker.work_one() == "job:A"
    assert state().status.startswith("DIE:")
    assert state().failure["error"].startswith(type(error).__name__)
    assert "Traceback" in state().failure["traceback"]
    assert "Traceback" in caplog.text
    assert worker.work_one() is None


def test_a_bad_backoff_is_a_failure_that_says_so(store, state):
    set_job(store, "job:A", "CONTINUE", "now")
    Worker(store, Acting(lambda _: "soon"), Settings()).work_one()
    assert "work() returned 'soon'" in state().failure["error"]


def test_a_job_is_retried_with_pauses_and_then_dies(store, state):
    set_job(store, "job:A", "CONTINUE", "now")
    due = float(state().queued.split(" ")[0])
    worker = Worker(store, Acting(raising(ValueError("no"))), Settings(on_error="retry", retries=2, backoff=0.05))
    for n in (1, 2):
        assert worker.work_one() == "job:A"
        assert (state().streak, state().status[:3]) == (f"{n} 0 {n} {due:.6f} -", "TML")
        jobs = [(jobid, due, "work-A") for jobid, due in survey(store.at(state().timeline)).due]
        dispatch(store.at(state().timeline), jobs)
    assert worker.work_one() == "job:A"
    assert state().status.startswith("DIE:")
    assert (state().failure["attempt"], state().failure["due"]) == (3, due)


def test_a_success_ends_the_row_of_failures(store, state):
    set_job(store, "job:A", "CONTINUE", "now")
    worker = Worker(store, Acting(raising(ValueError("no"))), Settings(on_error="retry", backoff=0.001))
    worker.work_one()
    worker.runner.worker.act = lambda _: None
    moment = state().timeline
    dispatch(store.at(moment), [(jobid, due, "work-A") for jobid, due in survey(store.at(moment)).due])
    worker.work_one()
    assert state().streak == ""


def test_a_job_that_was_stopped_while_it_ran_stays_stopped(store, state):
    set_job(store, "job:A", "CONTINUE", "now")
    Worker(store, Acting(lambda _: set_job(store, "job:A", "STOP", None)), Settings()).work_one()
    assert state().status.startswith("STP:")


def test_a_job_that_was_set_to_continue_while_it_ran_continues_even_if_it_failed(store, state):
    set_job(store, "job:A", "NOW", "now", once=True)

    def act(_):
        set_job(store, "job:A", "CONTINUE", "now")
        raise ValueError("after that")

    Worker(store, Acting(act), Settings()).work_one()
    assert state().queued
    assert state().failure["error"] == "ValueError: after that"


@pytest.mark.parametrize(("policy", "status"), [("stop", "DIE"), ("reschedule", "TML"), ("requeue", "ENQ")])
def test_a_run_that_outlives_its_deadline_ends_by_policy_while_it_still_runs(store, state, policy, status):
    set_job(store, "job:A", "EVERY:1000@0.0", "now")
    during = []

    def act(_):
        wait_until(lambda: not state().running)
        during.append(state().status[:3])
        return "whatever it returns later changes nothing"

    Worker(store, Acting(act, timeout=0.2), Settings(on_timeout=policy)).work_one()
    assert during == [status]
    assert state().status.startswith(status)
    assert list(fsck(store)) == []


def test_a_worker_may_say_itself_that_the_time_is_over(store, state):
    set_job(store, "job:A", "CONTINUE", "now")
    Worker(store, Acting(raising(Overrun())), Settings(on_timeout="requeue")).work_one()
    assert state().queued
    Worker(store, Acting(raising(Overrun())), Settings()).work_one()
    assert state().status.startswith("DIE:")


def test_a_worker_that_gives_up_when_its_time_is_over_forgets_no_failure(store, state):
    """The run is to happen again: it was no success."""
    set_job(store, "job:A", "EVERY:1000@0.0", "now")
    worker = Worker(store, Acting(raising(ValueError("broken"))), Settings(on_error="reschedule", on_timeout="requeue"))
    worker.work_one()
    assert state().failure
    dispatch(store.at(state().timeline), [("job:A", repr(state().timeline), "work-A")])
    worker.runner.worker.act = raising(Overrun())
    Worker(store.at(state().waiting.due), worker.runner.worker, worker.settings).work_one()
    assert state().queued
    assert "broken" in state().failure["error"]


def test_heartbeats_keep_a_long_run_from_counting_as_lost(store, state, monkeypatch):
    assert INTERVAL <= LEASE / 3, "two may get lost"
    monkeypatch.setattr("redbike.working.heartbeat.INTERVAL", 0.1)
    set_job(store, "job:A", "NOW", "now", once=True)
    leases = []

    def act(_):
        leases.append(state().lease)
        wait_until(lambda: state().lease > leases[0])
        leases.append(state().lease)

    Worker(store, Acting(act, timeout=1000), Settings()).work_one()
    assert leases[1] > leases[0]
    assert state().lease is None


def test_a_coroutine_function_is_awaited(store, state):
    class Asynchronous(Acting):
        async def work(self, jobid):
            await asyncio.sleep(0)
            self.worked.append((jobid, current_run().jobid))
            raise StopWork

    set_job(store, "job:A", "CONTINUE", "now")
    handler = Asynchronous()
    Worker(store, handler, Settings()).work_one()
    assert handler.worked == [("job:A", "job:A")]
    assert state().schedule == "STOP"


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_coroutine_is_cancelled_at_its_deadline(store, concurrency):
    class Sleeper(Acting):
        cancelled = False

        def timeout(self, queue_name):
            return 0.3

        async def work(self, jobid):
            self.worked.append(jobid)
            if jobid == "slow:A":
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    self.cancelled = True
                    raise

    handler = Sleeper()
    worker = Worker(store, handler, Settings(on_timeout="reschedule"), concurrency)
    set_job(store, "slow:A", "EVERY:1000@0.0", 1.0)
    with beside(store, worker.work):
        wait_until(lambda: handler.cancelled)
        set_job(store, "next:A", "NOW", "now", once=True)
        wait_until(lambda: "next:A" in handler.worked)
    state = store.questions.inspect(["slow:A"])[0]
    assert state.status.startswith("TML:")
    assert "timeout" in state.failure["error"] or "deadline" in state.failure["error"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_concurrency_runs_that_many_jobs_at_once(store, asynchronous):
    barrier = threading.Barrier(4)

    class Meeting(Acting):
        def work(self, jobid):
            # It is only passed when four are inside.
            barrier.wait(timeout=60)
            self.worked.append(jobid)

    class AsynchronousMeeting(Acting):
        inside = 0

        async def work(self, jobid):
            self.inside += 1
            while self.inside < 4:
                await asyncio.sleep(0.001)
            self.worked.append(jobid)

    for n in range(4):
        set_job(store, f"{n}:A", "NOW", "now", once=True)
    handler = (AsynchronousMeeting if asynchronous else Meeting)()
    with beside(store, Worker(store, handler, Settings(), concurrency=4).work):
        wait_until(lambda: len(handler.worked) == 4)
    assert list(fsck(store)) == []


@pytest.fixture
def patient(monkeypatch):
    """A worker that is not woken notices nothing for as long as the test lasts."""
    monkeypatch.setattr("redbike.running.wakeup.BLOCK", 600)
    monkeypatch.setattr("redbike.running.wakeup.SILENCE", 700)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_an_idle_worker_is_halted_at_once(store, patient, concurrency):
    with beside(store, Worker(store, Acting(), Settings(), concurrency=concurrency).work):
        wait_until(lambda: blocked(store.client))


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


def test_a_halt_is_passed_on_to_all_idle_workers(store, patient):
    with beside(store, *(Worker(store, Acting(), Settings()).work for _ in range(4))):
        wait_until(lambda: len(blocked(store.client)) == 4)


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
    next(worker.queues.looks())
    runs = worker.source.take(1)
    worker.heartbeat.add = lambda run: None  # nobody else tells
    ended = worker.run_all(runs)
    wait_until(lambda: state().inflight_ms < 0)
    worker.source.end(ended)
    assert state().status.startswith(event)
    assert list(fsck(store)) == []


def test_what_is_tried_again_knows_that_it_is(store):
    """Or else a take whose reply was lost might take more under the same tag."""
    tries = []

    def act(repeated):
        tries.append(repeated)
        if len(tries) < 3:
            raise Unreachable("away")
        return "done"

    assert Loop(store).retry_until_up(act) == "done"
    assert tries == [False, True, True]
