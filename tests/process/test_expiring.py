"""A worker that was suspended begins nothing that has expired meanwhile."""

import signal

import pytest

from redbike.worker.source import STALE
from tests.commandline import make_module
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

EXPIRES = 0.7  # seconds in which an occurrence must begin
WORKER = make_module("open('ran', 'w').close()")


def test_a_worker_that_was_suspended_begins_nothing_that_has_expired(jobs):
    store, worker = jobs.bike.store, jobs.start("work", "jobs:Worker('A')")
    wait_until(lambda: store.workers.list_all())
    wait_until(lambda: store.client.info("clients")["blocked_clients"] > 0)
    worker.send_signal(signal.SIGSTOP)
    # The server gives it the job while it waits, and its reply waits in turn.
    assert jobs.bike.set("once:A", "NOW", expires=EXPIRES, timeout=60)
    began = store.timeline.read_clock()
    wait_until(lambda: store.timeline.read_clock() > began + STALE + 0.1)
    worker.send_signal(signal.SIGCONT)
    wait_until(lambda: jobs.bike.tell("once:A")["status"].startswith("STP"))
    assert jobs.bike.tell("once:A")["skipped"] == {"expired": 1}
    assert not (jobs.folder / "ran").exists()
    jobs.bike.control("HALT")
    assert worker.wait(30) == 0
