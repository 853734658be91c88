"""The thread that gives the signs of life; what they do is in test_worker.py and test_transitions.py."""

import pytest

from redbike.heartbeat import Heartbeat
from redbike.rotation import RoundRobin
from redbike.store import Store
from tests.states import take
from tests.waiting import wait_until


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, RoundRobin("A").queue_for)


def test_jobs_that_are_over_at_once_do_not_wake_it_one_by_one(store, monkeypatch):
    monkeypatch.setattr("redbike.heartbeat.INTERVAL", 0.5)
    store.set("job:A", "EVERY:1h", "now")
    run = take(store, now=None)
    heartbeat, looks = Heartbeat(store, lambda run: None), []
    monkeypatch.setattr(heartbeat, "_next_look", lambda runs, look=heartbeat._next_look: looks.append(0) or look(runs))

    def one_more():
        with heartbeat._changed:
            heartbeat.add(run)
            heartbeat.remove(run)

    one_more()
    wait_until(lambda: len(looks) == 1 and heartbeat._changed.acquire(blocking=False))
    heartbeat._changed.release()
    for _ in range(20):
        one_more()
    with heartbeat._changed:
        assert len(looks) == 1
    # And when none comes any more, it rests.
    wait_until(lambda: heartbeat._wake_at == float("inf"))
    assert len(looks) == 2
    heartbeat.stop()
