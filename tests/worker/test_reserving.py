"""A limit of jobs at once holds for functions that go on after their deadlines."""

import threading

import pytest

from redbike.worker import heartbeat
from tests.loops import Acting, join, start
from tests.verbs import take_one
from tests.waiting import wait_until

BIKE = {"worker": lambda queues: Acting(queues=queues, timeout=1.0)}


@pytest.fixture
def bike(bike, monkeypatch):
    monkeypatch.setattr(heartbeat, "INTERVAL", 0.1)
    bike.limit("A", at_once=1)
    return bike


def test_nothing_takes_the_place_of_a_function_that_goes_on(bike, client):
    worker, go = bike.worker, threading.Event()
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


def test_a_reservation_ends_by_itself(bike):
    store, now = bike.store, bike.store.timeline.read_clock()
    store.at(now).queue_limits.reserve("work-A", "tag", "hung:A", 10.0)
    bike.set("next:A", "NOW")
    assert take_one(store.at(now + 9), [("work-A", 10.0)], "one") == "empty"
    assert store.at(now + 5).queue_limits.reserve("work-A", "tag", "hung:A", 10.0)
    assert take_one(store.at(now + 11), [("work-A", 10.0)], "two") == "empty"
    assert take_one(store.at(now + 16), [("work-A", 10.0)], "three").jobid == "next:A"
