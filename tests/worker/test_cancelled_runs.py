"""What a worker does with a run that somebody cancels: the run is told, and however it ends, it has not failed."""

import asyncio
import json
import logging
import threading
from functools import partial

import pytest

from redbike import Redbike, RoundRobin, StopWork, current_run
from redbike.store.inspection.fsck import fsck
from redbike.worker.coroutines import Coroutines
from redbike.worker.worker import Worker
from tests.loops import Acting, beside, join, raising, start
from tests.states import JOB
from tests.verbs import set_job
from tests.waiting import wait_until


class Handler(RoundRobin):
    """Its work ends when it is cancelled, as `finish` does; `began` is set when it begins."""

    def __init__(self, finish=lambda: None):
        super().__init__("A")
        self.began, self.ended, self.finish = threading.Event(), [], finish

    def work(self, jobid):
        self.began.set()
        return self.act()

    def act(self):
        wait_until(lambda: current_run().cancelled)
        self.ended.append(current_run().jobid)
        return self.finish()

    def timeout(self, queue_name):
        return 1000.0


class Sleeping(Handler):
    async def act(self):
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            self.ended.append(current_run().jobid)
            raise


class Told(Handler):
    """It is told by its method `cancel`, which takes its time."""

    def __init__(self):
        super().__init__()
        self.over = threading.Event()
        self.told = []

    def act(self):
        assert self.over.wait(60)

    def cancel(self, run):
        self.told.append((run.jobid, threading.current_thread().name))
        self.over.set()
        raise RuntimeError("it cannot be ended")


@pytest.fixture
def work(client, prefix, monkeypatch):
    """Work JOB by a handler until its run is cancelled and over; what is kept of the job then."""
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.05)

    def work(handler, schedule="EVERY:10000d@0", concurrency=1):
        bike = Redbike(handler, prefix, client, on_error="stop")
        set_job(bike.store, JOB, schedule, "now")
        client.hset(bike.store.keys.retry_states, JOB, "0 0 failed=1")
        client.hset(bike.store.keys.failures, JOB, json.dumps({"jobid": JOB, "error": "an earlier one"}))
        client.zadd(bike.store.keys.failure_times, {JOB: 1.0})
        worker = Worker(bike.store, handler, bike.settings, concurrency)
        with beside(bike.store, worker.work):
            assert handler.began.wait(60)
            assert bike.cancel(JOB) == [(JOB, "cancelled")]
            wait_until(lambda: not bike.is_working(JOB))
        assert list(fsck(bike.store)) == []
        return bike.tell(JOB) | {"retry_state": client.hget(bike.store.keys.retry_states, JOB)}

    return work


@pytest.mark.parametrize(
    ("handler", "concurrency"),
    [
        *((Handler, 1), (Sleeping, 1), (Sleeping, 3), (Told, 1), (Told, 3)),
        (partial(Handler, raising(ValueError("the connection is gone"))), 3),
        (partial(Handler, lambda: "done"), 1),  # which is no pause
    ],
)
def test_a_run_that_is_cancelled_ends_early_and_has_not_failed(work, handler, concurrency, caplog):
    caplog.set_level(logging.INFO)
    handler = handler()
    told = work(handler, concurrency=concurrency)
    wait_until(lambda: "redbike-cancel" not in [thread.name for thread in threading.enumerate()])
    assert told["status"].startswith("TML:")
    assert told["skipped"] == {"cancelled": 1}
    assert told["retry_state"] == b"0 0 failed=1", "it was no success: for stop-after it does not count"
    assert (told["failure"]["error"], "failures" in told) == ("an earlier one", False), "only a success forgets it"
    assert [run["outcome"] for run in told["runs"]] == ["cancelled"]
    assert [record.message for record in caplog.records].count(f"{JOB}: its run was cancelled") == 1
    errors = [record.message for record in caplog.records if record.levelno > logging.INFO]
    if isinstance(handler, Told):
        assert handler.told == [(JOB, "redbike-cancel")], "once, in a thread of its own"
        assert errors == [f"{JOB}: cancel() of its worker class fails: RuntimeError: it cannot be ended"]
    else:
        assert handler.ended == [JOB]
        assert errors == []


@pytest.mark.parametrize(
    ("finish", "schedule"),
    [
        (raising(StopWork("enough")), "EVERY:10000d@0"),
        (raising(ValueError("the connection is gone")), "NOW"),
    ],
)
def test_a_run_that_stops_its_job_or_was_its_only_one_is_over_when_it_is_cancelled(work, finish, schedule):
    told = work(Handler(finish), schedule)
    assert (told["status"][:4], told["schedule"]) == ("STP:", "STOP")


def test_a_cancelled_run_that_outlives_its_deadline_has_not_failed(client, prefix, monkeypatch, caplog):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.05)
    caplog.set_level(logging.INFO)
    # It does not look whether it is cancelled.
    handler = Acting(lambda jobid: bike.cancel(JOB) and wait_until(lambda: not bike.is_working(JOB)), timeout=3)
    bike = Redbike(handler, prefix, client, on_timeout="stop")
    set_job(bike.store, JOB, "EVERY:10000d@0", "now")
    bike.work_one()
    told = bike.tell(JOB)
    assert (told["status"][:4], told["skipped"]) == ("TML:", {"cancelled": 1})
    assert "failure" not in told
    assert caplog.messages.count(f"{JOB}: its run was cancelled") == 1
    assert [record.levelname for record in caplog.records if "overran" in record.message] == ["INFO"]


def test_a_worker_that_was_suspended_does_not_begin_what_was_cancelled_meanwhile(client, prefix, monkeypatch):
    monkeypatch.setattr("redbike.worker.source.STALE", -1.0)
    handler = Handler()
    bike = Redbike(handler, prefix, client)
    set_job(bike.store, JOB, "EVERY:10000d@0", "now")
    worker = Worker(bike.store, handler, bike.settings)
    runs = worker.source.take(1)
    bike.cancel(JOB)
    worker.source.end(worker.run_all(runs))
    assert not handler.began.is_set()
    told = bike.tell(JOB)
    assert (told["status"][:4], told["skipped"]) == ("TML:", {"cancelled": 1})
    worker.source.close()
    worker.heartbeat.stop()


def test_a_coroutine_that_is_cancelled_before_it_begins_ends_all_the_same():
    coroutines, held, errors = Coroutines(), threading.Event(), []

    async def answer():
        return 42

    assert coroutines.run(answer(), "first", 10.0) == 42
    # While the loop is held up, a coroutine is started and cancelled.
    loop = coroutines._loop
    loop._loop.call_soon_threadsafe(held.wait)

    def run():
        try:
            coroutines.run(asyncio.sleep(1000), JOB, 1000.0, "key")
        except asyncio.CancelledError as error:
            errors.append(error)

    thread = start(run)
    wait_until(lambda: "key" in coroutines._running)
    coroutines.cancel("key")
    held.set()
    join(thread)
    assert len(errors) == 1
    assert (loop._begun, loop._pending, coroutines._running) == (set(), set(), {})
    # What is over cannot be cancelled any more, and what waits for others can.
    coroutines.cancel("key")
    with coroutines.together():
        waiting = coroutines.begin(asyncio.sleep(1000), JOB, 1000.0, "waiting")
        coroutines.cancel("waiting")
    with pytest.raises(asyncio.CancelledError):
        coroutines.wait(waiting)
    assert coroutines.run(answer(), "last", 10.0) == 42


def test_all_deadlines_share_one_timer():
    """Also if each coroutine has an earlier one than those before it: a timer would stay until its time comes."""

    async def run():
        loop, coroutines = asyncio.get_running_loop(), Coroutines(asyncio.get_running_loop())
        others = len(loop._scheduled)
        for seconds in (3000, 2000, 1000):
            await asyncio.wrap_future(coroutines.begin(asyncio.sleep(0), JOB, seconds))
        return sum(not timer.cancelled() for timer in loop._scheduled) - others

    assert asyncio.run(run()) == 1
