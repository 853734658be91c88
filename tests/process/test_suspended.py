"""Processes that were suspended: what others did meanwhile counts."""

import signal

import pytest

from redbike.control.moving import Mover
from redbike.dispatcher.dispatcher import OVERDUE
from redbike.worker.source import STALE
from tests.commandline import make_module
from tests.verbs import take_one
from tests.waiting import wait_until

WORKER = make_module("print('worked', jobid, flush=True)")


def test_the_dispatcher_lets_workers_send_their_heartbeats_first(shell, client):
    """A host was suspended with all of its processes: nobody could send a heartbeat, so nobody is lost for that."""
    bike, store = shell.bike, shell.bike.store
    dispatcher = shell.start("dispatch")
    wait_until(lambda: bike.workers())
    bike.set("job:A", "NOW")
    run = take_one(store, [("work-A", 1000.0)], "tag")
    due = store.timeline.read_clock() + 1.0
    bike.set("next:A", f"AT:{due}")
    wait_until(lambda: store.timeline.read_clock() > due - 0.5)
    dispatcher.send_signal(signal.SIGSTOP)
    client.zadd(store.keys.leases, {"tag": due}, xx=True)
    wait_until(lambda: store.timeline.read_clock() > due + OVERDUE + 0.5)
    back = store.timeline.read_clock()
    dispatcher.send_signal(signal.SIGCONT)
    wait_until(lambda: (store.timeline.read_dispatched()[1] or 0.0) > back)
    assert store.runs.heartbeat([run]) == ["ok"]
    # One that is lost is found all the same.
    client.zadd(store.keys.leases, {"tag": back}, xx=True)
    wait_until(lambda: store.questions.inspect(["job:A"])[0].queued)


def test_those_that_nobody_knew_of_when_the_jobs_moved_to_other_shards_end_and_say_why(jobs, client):
    for number in range(5):
        jobs.bike.set(f"job-{number}:A", "NOW")
    jobs.bike.pause_queue("A")
    processes = [jobs.start("work", "jobs:Worker('A')", log="work"), jobs.start("dispatch", log="dispatch")]
    wait_until(lambda: len(jobs.bike.workers()) == 2)
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    # They count as lost.
    client.delete(jobs.bike.store.keys.workers, jobs.bike.store.keys.seen)
    assert Mover(client, "redbike").move(4).jobs == 5
    state = {key: client.dump(key) for key in client.keys("*")}
    for process in processes:
        process.send_signal(signal.SIGCONT)
    assert [process.wait(60) for process in processes] == [2, 2]
    for log in ("work", "dispatch"):
        # A thread may still log after that.
        [said] = [line for line in jobs.log(log).splitlines() if line.startswith("redbike: ")]
        assert said.startswith("redbike: bad shards 1: the jobs of the prefix 'redbike' have moved to 4 shards: ")
    assert {key: client.dump(key) for key in client.keys("*")} == state


@pytest.mark.acceptance
def test_a_worker_that_was_suspended_begins_nothing_that_has_expired(jobs):
    store, worker = jobs.bike.store, jobs.start("work", "jobs:Worker('A')")
    wait_until(lambda: store.workers.list_all())
    wait_until(lambda: store.client.info("clients")["blocked_clients"] > 0)
    worker.send_signal(signal.SIGSTOP)
    # The server gives it the job while it waits, and its reply waits in turn.
    assert jobs.bike.set("once:A", "NOW", expires=0.7, timeout=60)
    began = store.timeline.read_clock()
    wait_until(lambda: store.timeline.read_clock() > began + STALE + 0.1)
    worker.send_signal(signal.SIGCONT)
    wait_until(lambda: jobs.bike.tell("once:A")["status"].startswith("STP"))
    assert jobs.bike.tell("once:A")["skipped"] == {"expired": 1}
    assert "worked" not in jobs.log()
    jobs.bike.control("HALT")
    assert worker.wait(30) == 0
