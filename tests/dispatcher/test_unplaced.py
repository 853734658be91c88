"""Due jobs for which the dispatcher can name no queue: they are tried again, and whoever looks is told of them."""

import logging
import re

import pytest

from redbike import BadQueueName
from redbike.config.settings import Settings
from redbike.dispatcher import unplaced
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.store.store import Store
from tests.loops import beside
from tests.waiting import wait_until

WHY = "BadQueueName: only app:Worker can name it"


class Places:
    """Names no queue for the jobs that are `lost`."""

    def __init__(self):
        self.lost = {"lost:A"}

    def __call__(self, jobid):
        if jobid in self.lost:
            raise BadQueueName("only app:Worker can name it")
        return "work-A"


@pytest.fixture
def places():
    return Places()


@pytest.fixture
def store(client, prefix, places):
    return Store(client, prefix, places)


def test_health_and_why_tell_of_a_job_that_no_dispatcher_can_place(bike, store, places, monkeypatch):
    bike.set("fine:A", "EVERY:1s")
    bike.set("lost:A", "EVERY:1s")
    monkeypatch.setattr("redbike.loop.registration.INTERVAL", 0.6)
    with beside(store, Dispatcher(store, Settings()).dispatch):
        problem = f"lost:A is due, but a dispatcher cannot name its queue: {WHY}"
        wait_until(lambda: problem in bike.health().problems)
        assert f"but a dispatcher cannot name its queue: {WHY}; it tries again at" in bike.why("lost:A")
        assert "lost:A" not in bike.why("fine:A")
        bike.pause("lost:A")
        assert problem not in bike.health().problems
        bike.resume("lost:A")
        places.lost.clear()
        wait_until(lambda: (bike.tell("lost:A")["status"] or "").startswith("ENQ"))
        assert problem not in bike.health().problems


def test_a_job_that_no_dispatcher_can_place_counts_as_overdue(bike, store, places, monkeypatch):
    monkeypatch.setattr("redbike.loop.registration.INTERVAL", 0.6)
    bike.set("fine:A", "EVERY:1h")
    bike.set("lost:A", "EVERY:1s")
    with beside(store, Dispatcher(store, Settings()).dispatch):
        wait_until(lambda: bike.store.workers.list_all() and bike.store.workers.list_all()[0].unplaced)
        for _ in range(20):
            [job] = bike.jobs(overdue=True)
            assert (job.jobid, job.next_run < store.timeline.read_clock()) == ("lost:A", True)
        wait_until(lambda: bike.health(max_lag=0.5).metrics["overdue"] == 1)
        wait_until(lambda: bike.health(max_lag=0.5).metrics["lag"] > 0.5)
        lag = re.compile(r"^redbike_dispatch_lag_seconds{.*} (.*)$", re.MULTILINE)
        wait_until(lambda: float(lag.search(bike.metrics())[1]) > 0.5)
        bike.pause("lost:A")
        assert list(bike.jobs(overdue=True)) == []


def test_it_is_logged_once_and_again_after_a_while(store, caplog, monkeypatch):
    placing, jobs = unplaced.Placing(store), [("lost:A", "1.0"), ("fine:A", "1.0")]
    with caplog.at_level(logging.ERROR):
        placed = [("lost:A", "1.0", ""), ("fine:A", "1.0", "work-A")]
        assert [placing.find_queues(jobs) for _ in range(3)] == [placed] * 3
        assert [record.message for record in caplog.records] == [
            f"lost:A: no queue, so the dispatcher tries again: {WHY}"
        ]
        monkeypatch.setattr(unplaced, "TOLD_AGAIN", 0.0)
        placing.find_queues(jobs)
    assert len(caplog.records) == 2


def test_what_is_placed_or_gone_is_not_told_of(store, places, monkeypatch):
    placing = unplaced.Placing(store)
    places.lost.add("gone:A")
    placing.find_queues([("gone:A", "1.0"), ("lost:A", "1.0")])
    assert placing.tell() == {"unplaced": (("gone:A", WHY), ("lost:A", WHY))}
    places.lost.clear()
    placing.find_queues([("lost:A", "1.0")])
    assert placing.tell() == {"unplaced": (("gone:A", WHY),)}
    monkeypatch.setattr(unplaced, "FORGOTTEN", 0.0)
    assert placing.tell() == {"unplaced": ()}
