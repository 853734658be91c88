"""Short jobs that are taken together: order, what a slow one among them changes, and what is left of them by a kill."""

import threading
import time
from collections import deque
from contextlib import contextmanager

import pytest

from redbike.config.settings import Settings
from redbike.control.jobs import cancel_jobs
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.loop.worker_class import RoundRobin
from redbike.store.enums import Skip
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.lease import LEASE
from redbike.store.next_state import NextState
from redbike.store.records import RetryState
from redbike.store.store import Store
from redbike.worker.batch import MOST, SPLIT_AFTER, TARGET, UNREPORTED, Batch, Pace, Watch
from redbike.worker.leaving import Left, hand_back
from redbike.worker.source import STALE
from redbike.worker.worker import Worker
from tests.commandline import make_module
from tests.counting import count_calls
from tests.loops import Acting, beside
from tests.verbs import run_job, set_job, take_many
from tests.waiting import wait_until

NOW = 1000.0
CALLS = 85  # for each of many jobs that do nothing


@pytest.fixture
def store(store):
    """A store that is in order when the test is over."""
    yield store
    assert list(fsck(store)) == []


def fill(store, number, queue="A", schedule="NOW", due=NOW):
    jobids = [f"{n:03}:{queue}" for n in range(number)]
    store.at(NOW).jobs.set([JobToSet(jobid, schedule, due, True, f"work-{queue}") for jobid in jobids])
    return jobids


def take(store, most, tag="tag", now=NOW, **more):
    return take_many(store.at(now), [("work-A", 100.0)], [1], tag, most, **more)


class Idle(RoundRobin):
    """Works nothing."""

    def work(self, jobid):
        pass


class Slow:
    """Works all but one job at once, and that one until `leave` is set."""

    def __init__(self, jobid, seconds=0.0):
        self.jobid, self.seconds = jobid, seconds
        self.begun, self.leave = threading.Event(), threading.Event()

    def __call__(self, jobid):
        if jobid == self.jobid:
            self.begun.set()
            self.leave.wait(60)
        time.sleep(self.seconds)


def make_worker(store, act=lambda jobid: None, queues="A"):
    """A worker that is used to short jobs."""
    worker = Worker(store, Acting(act, queues), Settings())
    worker.pace.number = MOST
    return worker


@contextmanager
def working(store, act):
    """Such a worker, in a thread."""
    worker = make_worker(store, act)
    with beside(store, worker.work):
        yield worker


def run_unwatched(store, act):
    """Take a batch, run it while no other thread splits it, and end its runs."""
    worker = make_worker(store, act)
    batch = Batch(worker.source.take(MOST))
    worker.batches.watch.begin = lambda batch: None
    worker.source.end(worker.batches.run(batch))
    return worker


def events(store, jobids):
    return [state.status[:3] for state in store.questions.inspect(jobids)]


def test_weights_are_exact_also_when_jobs_are_given_back(store):
    """Every third of B is slow: what was taken with it goes back, and takes no turn."""
    order, slow = [], threading.Event()

    def act(jobid):
        order.append(jobid[-1])
        if jobid[-1] == "B" and order.count("B") % 3 == 0:
            slow.wait(3 * SPLIT_AFTER)
        if order.count("A") == 60:
            worker.loop.stopping.set()

    for queue in "AB":
        fill(store, 100, queue)
    worker = make_worker(store, act, "A:A:B")
    worker.work()
    assert "".join(order) == ("AAB" * 30)[: len(order)]


def test_it_takes_more_the_shorter_the_jobs_are_and_one_when_they_are_long():
    pace = Pace()
    numbers = []
    for _ in range(9):
        numbers.append(pace.number)
        pace.note(pace.number, pace.number * 5e-6)
    assert numbers == [1, 2, 4, 8, 16, 32, 64, MOST, MOST]
    pace.note(64, 64 * TARGET / 10)
    assert pace.number == 10
    pace.note(10, 3.0)
    assert pace.number == 1


def test_a_slow_job_holds_up_no_other_and_is_kept_alive(store, monkeypatch, caplog):
    """It comes third: what is done is ended at once, and what has not begun is left to another worker."""
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.05)
    monkeypatch.setattr(Acting, "timeout", lambda self, name: 100.0)
    # The server refuses the ends that it is sent until somebody reads that: it does not know their script.
    store.client.script_flush()
    jobids, act = fill(store, 40), Slow("002:A", 2 * UNREPORTED)
    with working(store, act) as slow:
        assert act.begun.wait(60)
        wait_until(lambda: store.client.llen(store.keys.queue("work-A")) == 37)
        # The second is done, but another thread ends it.
        wait_until(lambda: events(store, jobids[:4]) == ["STP", "STP", "WRK", "ENQ"])
        first = store.questions.inspect(["002:A"])[0]
        wait_until(lambda: store.questions.inspect(["002:A"])[0].lease > first.lease + 0.1)
        # What was given back has another tag when it is taken again.
        runs = take(store, 4, "other", now=None)
        assert [state.tag for state in store.questions.inspect(jobids[2:7])] == [first.tag, *["other"] * 4]
        assert store.runs.release(runs) == ["queue"] * 4
        with working(store, lambda jobid: None) as quick:
            wait_until(lambda: len(quick.runner.worker.worked) == 37)
            assert quick.runner.worker.worked == jobids[3:]
            assert slow.runner.worker.worked == jobids[:3]
            act.leave.set()
            wait_until(lambda: events(store, ["002:A"]) == ["STP"])
    assert store.client.exists(store.keys.batches, store.keys.leases) == 0
    assert "no longer" not in caplog.text, "what has ended needs no sign of life"


def test_what_is_done_while_a_batch_is_split_does_not_wait_for_the_slow_job(store):
    jobids = fill(store, 4)
    worker = make_worker(store)
    batch = Batch(worker.source.take(MOST))

    class Meanwhile(deque):
        """As soon as it is empty, the thread that works is done with the next job, and begins the slow one."""

        def popleft(self):
            try:
                return super().popleft()
            except IndexError:
                if batch.todo:
                    self.append((batch.todo.popleft(), NextState("next", None)))
                    batch.todo.popleft()
                raise

    batch.done = Meanwhile([(batch.todo.popleft(), NextState("next", None))])
    worker.batches.split(batch)
    worker.heartbeat.stop()
    assert not batch.done, "all that is done is ended"
    assert events(store, jobids) == ["STP", "ENQ", "ENQ", "ENQ"]


def test_halting_in_the_middle_leaves_the_rest_in_its_queue(store):
    jobids = fill(store, 20)

    def act(jobid):
        if jobid == "004:A":
            worker.loop.stopping.set()

    worker = make_worker(store, act)
    worker.work()
    assert worker.runner.worker.worked == jobids[:5]
    assert list(map(bytes.decode, reversed(store.client.lrange(store.keys.queue("work-A"), 0, -1)))) == jobids[5:]
    assert events(store, jobids) == ["STP"] * 5 + ["ENQ"] * 15


def run_none(worker, batch):
    worker.loop.stopping.set()
    assert worker.batches.run(batch) == []


@pytest.mark.parametrize(
    "end",
    [
        lambda worker, batch: worker.batches.split(batch),
        run_none,
        lambda worker, batch: hand_back(worker.store, Left(waiting=batch.runs), lambda run: Settings(), id),
    ],
    ids=["slow", "stop", "second-signal"],
)
@pytest.mark.parametrize(
    ("change", "event", "skipped"),
    [
        (lambda store, jobid: run_job(store, jobid), "ENQ", {}),
        (lambda store, jobid: set_job(store, jobid, "EVERY:1h@0.0", time.time() + 3600), "TML", {Skip.WITHDRAWN: 1}),
        (lambda store, jobid: cancel_jobs(store, [jobid], Settings()), "TML", {Skip.CANCELLED: 1}),
    ],
    ids=["run", "set", "cancel"],
)
def test_what_is_changed_before_it_begins_waits_for_no_slow_job_and_is_not_lost(store, end, change, event, skipped):
    jobids = [f"{n}:A" for n in range(3)]
    for jobid in jobids:
        set_job(store, jobid, "EVERY:2h@0.0", "now")
    worker = make_worker(store)
    batch = Batch(worker.source.take(MOST))
    change(store, jobids[1])
    # However long that takes: what has not begun does not overrun.
    store.client.delete(store.keys.inflight(batch.runs[0].tag))
    end(worker, batch)
    worker.close()
    assert events(store, jobids) == ["ENQ", event, "ENQ"]
    state = store.questions.inspect(jobids[1:2])[0]
    assert (state.skipped, state.tag) == (skipped, "")
    assert [run.attempt for run in take(store, 3, "other", now=None)] == [1] * (3 if event == "ENQ" else 2)
    assert not worker.heartbeat.list_runs()


@pytest.mark.parametrize(("timeout", "settings"), [(0.5, Settings()), (None, Settings(on_lost="stop"))])
def test_short_deadlines_and_jobs_that_must_not_be_repeated_are_taken_one_by_one(store, timeout, settings):
    worker = Worker(store, Acting(timeout=timeout), settings)
    worker.pace.number = MOST
    next(worker.queues.polls())
    assert worker.most() == 1


def test_the_watch_sleeps_while_there_is_nothing_to_look_at():
    split = []
    watch = Watch(split.append)
    slow, quick = Batch([]), Batch([])
    quick.closed = True
    watch.begin(quick)
    wait_until(lambda: watch._asleep)
    watch.begin(slow)
    wait_until(lambda: split == [slow])
    wait_until(lambda: watch._asleep)
    watch.stop()


def test_the_end_of_a_job_is_told_before_the_next_one_is_done(store):
    seen = []

    def act(jobid):
        if jobid != "000:A":
            wait_until(lambda: events(store, ["000:A"]) == ["STP"])
            seen.append(jobid)
        time.sleep(2 * UNREPORTED)

    fill(store, 1)
    run_unwatched(store, lambda jobid: None)  # from now on the server knows the script
    fill(store, 3)
    run_unwatched(store, act)
    assert seen == ["001:A", "002:A"]
    assert events(store, seen) == ["STP", "STP"]


def test_what_the_worker_itself_does_for_a_run_is_no_work_that_could_be_repeated(store, monkeypatch):
    monkeypatch.setattr("redbike.worker.batch.UNREPORTED", 0.5)
    monkeypatch.setattr("redbike.worker.runner.leaving.cover", lambda until: time.sleep(0.3))
    fill(store, 2)
    worker = Worker(store, Acting(), Settings())
    worker.batches.watch.begin = lambda batch: None
    not_told = worker.batches.run(Batch(worker.source.take(MOST)))
    assert len(not_told) == 2
    worker.source.end(not_told)


def test_a_plain_job_costs_few_calls_of_functions(store, monkeypatch):
    # Each further call costs about one job in a hundred.
    monkeypatch.setattr("redbike.worker.batch.UNREPORTED", 60.0)
    worker = Worker(store, Idle("A"), Settings())
    worker.batches.watch.begin = lambda batch: None
    for _ in range(2):  # the first time, caches are filled
        fill(store, MOST)
        calls = count_calls(lambda: worker.source.end(worker.batches.run(Batch(worker.source.take(MOST)))))
    assert calls / MOST < CALLS


def test_what_another_thread_has_ended_just_before_is_not_told_again(store):
    jobids = fill(store, 3)
    worker = Worker(store, Acting(lambda jobid: time.sleep(2 * UNREPORTED)), Settings())
    batch = Batch(worker.source.take(MOST))
    worker.batches.watch.begin = lambda batch: None

    class Raided(deque):
        def append(self, ended):
            super().append(ended)
            worker.batches.split(batch)

    batch.done = Raided()
    worker.source.end(worker.batches.run(batch))
    assert worker.runner.worker.worked == jobids[:1]
    assert events(store, jobids) == ["STP", "ENQ", "ENQ"]


KILLER = make_module(
    "time.sleep(0.0001)",
    "with open('ran.log', 'a') as file: print(jobid, file=file)",
    "if jobid.startswith('killer'): os._exit(1)",
    head="import os, time",
)


def test_a_job_that_kills_its_workers_is_found_out_among_others(shell, client):
    (shell.folder / "jobs.py").write_text(KILLER)
    store = Store(client, "redbike", RoundRobin("A").queue_for)
    dispatcher = Dispatcher(store, Settings())
    jobids = [f"quick{n}:A" for n in range(100)] + ["killer:A"] + [f"late{n}:A" for n in range(100)]
    store.jobs.set([JobToSet(jobid, "NOW", "now", True, "work-A") for jobid in jobids])

    deaths = 0
    while not store.questions.inspect(["killer:A"])[0].status.startswith("DIE"):
        assert shell.start("work", "jobs:Worker('A')").wait(60) == 1
        deaths += 1
        assert deaths <= 4
        # As if the time of the lease had passed.
        dispatcher.dispatch_due(store.timeline.read_dispatched()[0] + LEASE + 1)
        losses = {state.jobid: RetryState.parse(state.retry_state).losses for state in store.questions.inspect(jobids)}
        assert {jobid for jobid in jobids if losses[jobid]} <= {"killer:A"}, "whatever was taken with it"
    # The third worker that it killed had run all the others.
    assert store.client.zcard(store.keys.leases) == store.client.llen(store.keys.queue("work-A")) == 0
    ran = (shell.folder / "ran.log").read_text().split()
    assert set(ran) == set(jobids)
    assert ran.count("killer:A") == deaths
    # The server drops what a client has sent if it finds, while it answers a request before, that the client is gone.
    again = len(ran) - len(set(ran)) - (deaths - 1)
    assert again <= deaths, "but the last one that ended before a death, what was done is not run again"


@pytest.mark.parametrize("number", [1, 5])
def test_what_was_taken_long_before_it_came_is_begun_only_if_it_is_still_its_own(store, number):
    """A worker that is suspended while it waits for an answer gets it late."""
    fill(store, number)
    worker = make_worker(store)
    runs = worker.source.take(number)
    assert len(runs) == number
    later = store.timeline.read_dispatched()[0]
    Dispatcher(store, Settings()).dispatch_due(later + LEASE + 1)
    (other,) = take(store, 1, "other", now=later)
    worker.source._asked -= STALE
    assert worker.run_all(runs) == []
    assert worker.runner.worker.worked == []
    state = store.questions.inspect([other.jobid])[0]
    assert (state.tag, state.inflight_ms > 0) == ("other", True)
    worker.batches.watch.stop()


def test_what_came_long_after_it_was_taken_has_only_the_rest_of_its_time(store):
    fill(store, 1)
    source = make_worker(store).source
    [run] = source.take(1)
    run.received += 60  # when its worker went on
    source._asked -= STALE
    clock = store.timeline.read_clock()
    assert source.keep_own([run]) == [run]
    assert run.now() >= clock


def test_later_batches_are_split_after_an_error_in_one(caplog):
    split = []

    def fail(batch):
        split.append(batch)
        raise RuntimeError("can't start new thread")

    watch = Watch(fail)
    for number in (1, 2):
        watch.begin(Batch([]))
        wait_until(lambda number=number: len(split) == number)
    watch.stop()
    assert caplog.text.count("RuntimeError: can't start new thread") == 2
