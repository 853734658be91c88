"""What a worker does with a run that somebody cancels: the run is told, and however it ends, it has not failed."""

import asyncio
import logging
import threading
import time

import pytest

from redbike import Redbike, RoundRobin, StopWork, current_run
from redbike.config.settings import Settings
from redbike.loop.pings import Pings
from redbike.store.inspection.fsck import fsck
from redbike.worker.coroutines import Coroutines
from redbike.worker.heartbeat import INTERVAL, Heartbeat
from redbike.worker.runner import Runner
from redbike.worker.worker import Worker
from tests.loops import beside, join, start
from tests.states import JOB, START, take
from tests.verbs import set_job
from tests.waiting import wait_until


class Handler(RoundRobin):
    """Its work is `act`; `began` is set when it begins."""

    seconds = 1000.0

    def __init__(self):
        super().__init__("A")
        self.began = threading.Event()
        self.ended = []

    def work(self, jobid):
        self.began.set()
        return self.act()

    def act(self):
        while not current_run().cancelled:
            time.sleep(0.002)
        self.ended.append(current_run().jobid)

    def timeout(self, queue_name):
        return self.seconds


class Raising(Handler):
    error = ValueError("the connection is gone")

    def act(self):
        super().act()
        raise self.error


class Stopping(Raising):
    error = StopWork("enough")


class Unspeakable(Handler):
    """What it returns is no pause."""

    def act(self):
        super().act()
        return "done"


class Sleeping(Handler):
    def act(self):
        return self.sleep()

    async def sleep(self):
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
        worker = Worker(bike.store, handler, bike.settings, concurrency)
        with beside(bike.store, worker.work):
            assert handler.began.wait(60)
            assert bike.cancel(JOB) == [(JOB, "cancelled")]
            wait_until(lambda: not bike.is_working(JOB))
        assert list(fsck(bike.store)) == []
        return bike.tell(JOB)

    return work


def test_a_worker_hears_of_it_within_five_seconds():
    assert INTERVAL <= 4.0


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("handler", [Handler, Raising, Sleeping, Unspeakable, Told])
def test_a_run_that_is_cancelled_ends_early_and_has_not_failed(work, handler, concurrency, caplog):
    caplog.set_level(logging.INFO)
    handler = handler()
    told = work(handler, concurrency=concurrency)
    assert told["status"].startswith("TML:")
    assert told["skipped"] == {"cancelled": 1}
    assert told.keys() & {"failure", "failures"} == set()
    assert [record.message for record in caplog.records].count(f"{JOB}: its run was cancelled") == 1
    errors = [record.message for record in caplog.records if record.levelno > logging.INFO]
    if isinstance(handler, Told):
        assert handler.told == [(JOB, "redbike-cancel")], "once, in a thread of its own"
        assert errors == [f"{JOB}: cancel() of its worker class fails: RuntimeError: it cannot be ended"]
    else:
        assert handler.ended == [JOB]
        assert errors == []


@pytest.mark.parametrize(("handler", "schedule"), [(Stopping, "EVERY:10000d@0"), (Raising, "NOW")])
def test_a_run_that_stops_its_job_or_was_its_only_one_is_over_when_it_is_cancelled(work, handler, schedule):
    told = work(handler(), schedule)
    assert (told["status"][:4], told["schedule"]) == ("STP:", "STOP")


class Deaf(Handler):
    """It does not look whether it is cancelled; its time is over soon."""

    seconds = 0.5

    def act(self):
        wait_until(lambda: not self.bike.is_working(JOB))


def test_a_cancelled_run_that_outlives_its_deadline_has_not_failed(client, prefix, monkeypatch, caplog):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.05)
    caplog.set_level(logging.INFO)
    handler = Deaf()
    bike = handler.bike = Redbike(handler, prefix, client, on_timeout="stop")
    set_job(bike.store, JOB, "EVERY:10000d@0", "now")
    thread = start(bike.work_one)
    assert handler.began.wait(60)
    bike.cancel(JOB)
    join(thread)
    told = bike.tell(JOB)
    assert (told["status"][:4], told["skipped"]) == ("TML:", {"cancelled": 1})
    assert "failure" not in told
    assert [record.levelname for record in caplog.records if "overran" in record.message] == ["INFO"]


def test_a_run_is_told_once(client, prefix, monkeypatch):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.02)
    bike, told = Redbike(RoundRobin("A"), prefix, client), []
    set_job(bike.store, JOB, "EVERY:10000d@0", "now")
    run = take(bike.store, now=None)
    bike.cancel(JOB)

    def cancel(run):
        run.cancelled = True
        told.append(run.jobid)

    heartbeat = Heartbeat(bike.store, lambda run: None, cancel)
    heartbeat.add(run)
    for _ in range(3):
        lease = bike.store.questions.inspect([JOB])[0].lease
        wait_until(lambda lease=lease: bike.store.questions.inspect([JOB])[0].lease > lease)
    heartbeat.stop()
    assert told == [JOB]


def test_a_run_that_is_cancelled_before_it_begins_is_not_worked(store):
    set_job(store.at(START), JOB, "EVERY:100@0", START)
    run, handler = take(store), Handler()
    run.cancelled = True
    next_state = Runner(handler, Settings(), Pings()).run(run)
    assert (next_state.place, next_state.due, next_state.left) == ("next", START + 100, "cancelled+-")
    assert not handler.began.is_set()


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
    assert bike.tell(JOB)["status"].startswith("TML:")
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
    # What is over cannot be cancelled any more.
    coroutines.cancel("key")
    assert coroutines.run(answer(), "last", 10.0) == 42
