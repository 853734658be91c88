"""The thread that gives the signs of life, and places that functions hold; what they do is in test_statemachine.py."""

import threading
import time
from types import SimpleNamespace

import pytest

from redbike.config.settings import Settings
from redbike.control.jobs import cancel_jobs
from redbike.store.inspection.fsck import fsck
from redbike.store.lease import LEASE
from redbike.store.next_state import NextState
from redbike.store.run import Run
from redbike.worker.heartbeat import INTERVAL, Heartbeat
from tests.loops import Acting, join, raising, start
from tests.states import take
from tests.verbs import set_job, take_many, take_one
from tests.waiting import wait_until

BIKE = {"worker": lambda queues: Acting(queues=queues, timeout=1.0)}


def test_jobs_that_are_over_at_once_do_not_wake_it_one_by_one(store, monkeypatch):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 60.0)
    set_job(store, "job:A", "EVERY:1h", "now")
    run = take(store, now=None)
    heartbeat, polls = Heartbeat(store, lambda run: None, lambda run: None), []
    monkeypatch.setattr(
        heartbeat, "_find_next_poll", lambda runs, find=heartbeat._find_next_poll: polls.append(0) or find(runs)
    )

    def one_more():
        with heartbeat._changed:
            heartbeat.add(run)
            heartbeat.remove(run)

    one_more()
    wait_until(lambda: len(polls) == 1 and heartbeat._changed.acquire(blocking=False))
    heartbeat._changed.release()
    for _ in range(20):
        one_more()
    with heartbeat._changed:
        assert len(polls) == 1
        heartbeat._changed.notify()  # as if the interval was over
    # And when none comes any more, it rests.
    wait_until(lambda: heartbeat._wake_at == float("inf"))
    assert len(polls) == 2
    heartbeat.stop()


def test_two_may_get_lost_and_a_run_hears_within_five_seconds_that_it_is_cancelled():
    assert min(LEASE / 3, 4.0) >= INTERVAL


@pytest.fixture
def two_runs(store, monkeypatch):
    """Takes two runs together, of which the first has so many seconds."""
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.05)
    for name in "AB":
        set_job(store, f"job:{name}", "EVERY:1h@0", "now")
    return lambda seconds: take_many(store, [("work-A", seconds), ("work-B", 1000.0)], [1, 2], "tag", 2)


@pytest.fixture
def read_lease(store):
    return lambda: store.client.zscore(store.keys.leases, "tag")


def test_the_thread_reports_one_of_several_that_is_over_and_keeps_the_others_alive(store, two_runs, read_lease):
    quick, slow = runs = two_runs(0.2)
    over = []
    heartbeat = Heartbeat(store, lambda run: over.append(run.jobid), lambda run: None)
    for run in runs:
        heartbeat.add(run)
    wait_until(lambda: over)
    store.runs.end(quick, NextState("die", why="overrun"))
    lease = read_lease()
    wait_until(lambda: read_lease() > lease)
    assert over == [quick.jobid]
    heartbeat.remove(slow)
    store.runs.end(slow, NextState("stop"))
    heartbeat.stop()
    assert read_lease() is None
    assert list(fsck(store)) == []


def test_an_error_about_one_run_costs_no_other_its_heartbeats(store, two_runs, read_lease, caplog):
    fail = raising(RuntimeError("can't start new thread"))
    heartbeat = Heartbeat(store, fail, fail)
    for run in two_runs(0.2):
        heartbeat.add(run)
    wait_until(lambda: "can't start new thread" in caplog.text)
    lease = read_lease()
    wait_until(lambda: read_lease() > lease)
    heartbeat.stop()


def test_one_that_cannot_be_ended_hides_no_other_that_is_to_end(store, two_runs, caplog):
    first, second = runs = two_runs(1000.0)
    tried, ended = [], []

    def cancel(run):
        tried.append(run.jobid)
        if run is first and tried.count(run.jobid) < 3:
            raise RuntimeError("can't start new thread")
        ended.append(run.jobid)

    cancel_jobs(store, [run.jobid for run in runs], Settings())
    heartbeat = Heartbeat(store, lambda run: None, cancel)
    for run in runs:
        heartbeat.add(run)
    wait_until(lambda: {*ended} == {first.jobid, second.jobid})
    assert ended[0] == second.jobid
    assert "goes on, though it is to end: cancelled" in caplog.text
    heartbeat.stop()


def test_one_that_cannot_be_ended_does_not_make_it_spin(store, monkeypatch):
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.1)
    set_job(store, "job:A", "EVERY:1h@0", "now")
    run = take(store, queues=[("work-A", 0.05)], now=None)
    tried, fail = [], raising(RuntimeError("can't start new thread"))
    heartbeat = Heartbeat(store, lambda run: tried.append(time.monotonic()) or fail(), lambda run: None)
    heartbeat.add(run)
    wait_until(lambda: len(tried) >= 4)
    heartbeat.stop()
    assert tried[3] - tried[0] >= 0.3


@pytest.mark.parametrize("moment", ["before", "after", "renewal"])
def test_a_function_that_ends_at_any_moment_after_its_deadline_is_over(moment):
    """Before or after it is dropped, or while the place that it takes is reserved once more."""
    run = Run("job:A", 1.0, "tag", 1.0, 1.0, 0, 0, "NOW", "work-A")
    held, dropping = set(), []

    class Runs(dict):
        def pop(self, key, default):
            is_first = not dropping
            dropping.append(key)
            if is_first and moment == "before":
                heartbeat.remove(run)
            found = super().pop(key, default)
            if is_first and moment == "after":
                heartbeat.remove(run)
            return found

    def reserve(queue, tag, jobid, seconds):
        (held.add if seconds else held.discard)(jobid)
        if seconds and heartbeat._going_on:
            heartbeat.remove(run)
        return True

    store = SimpleNamespace(live=None, queue_limits=SimpleNamespace(reserve=reserve))
    heartbeat = Heartbeat(store, lambda run: None, lambda run: None)
    heartbeat._runs = Runs({(run.tag, run.jobid): run})
    heartbeat._take_note(run, "overrun")
    assert [each.jobid for each in heartbeat.list_stuck(0.0)] == ([run.jobid] if moment == "renewal" else [])
    for _ in range(2):
        heartbeat._beat()
    assert (heartbeat.list_stuck(0.0), held) == ([], set())


@pytest.fixture
def limited(bike, monkeypatch):
    """A Redbike whose jobs have a second each, and run one at a time."""
    monkeypatch.setattr("redbike.worker.heartbeat.INTERVAL", 0.1)
    bike.limit("A", at_once=1)
    return bike


def test_nothing_takes_the_place_of_a_function_that_goes_on(limited, client):
    bike, worker, go = limited, limited.worker, threading.Event()
    worker.act = lambda jobid: jobid == "hung:A" and go.wait(60) and None
    bike.set("hung:A", "NOW")
    thread = start(lambda: bike.work(3))
    wait_until(lambda: bike.tell("hung:A")["status"].startswith("DIE"))
    bike.set("next:A", "NOW")
    before = client.hget(bike.store.keys.queue_limits, "work-A")
    wait_until(lambda: client.hget(bike.store.keys.queue_limits, "work-A") != before)
    assert worker.worked == ["hung:A"]
    assert list(bike.fsck()) == []
    go.set()
    wait_until(lambda: worker.worked == ["hung:A", "next:A"])
    wait_until(lambda: b"held" not in client.hget(bike.store.keys.queue_limits, "work-A"))
    bike.stop()
    join(thread)


def test_a_reservation_ends_by_itself(limited):
    store, now = limited.store, limited.store.timeline.read_clock()
    store.at(now).queue_limits.reserve("work-A", "tag", "hung:A", 10.0)
    limited.set("next:A", "NOW")
    assert take_one(store.at(now + 9), [("work-A", 10.0)], "one") == "empty"
    assert store.at(now + 5).queue_limits.reserve("work-A", "tag", "hung:A", 10.0)
    assert take_one(store.at(now + 11), [("work-A", 10.0)], "two") == "empty"
    assert take_one(store.at(now + 16), [("work-A", 10.0)], "three").jobid == "next:A"
