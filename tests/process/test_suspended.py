"""Processes that were suspended: what others did meanwhile counts."""

import signal
import time

import pytest

from redbike.control.moving import Mover
from redbike.dispatcher.dispatcher import OVERDUE
from redbike.worker.source import STALE
from tests.durations import set_lines
from tests.verbs import take_one
from tests.waiting import wait_until

LIMIT = 1.0  # seconds: how long a run may take, and how much longer a call that holds Python's lock may last
WORKER = f"""
{set_lines(leaving__MARGIN=LIMIT)}
import faulthandler, itertools
from redbike import RoundRobin
from redbike.worker import source

cancel = faulthandler.cancel_dump_traceback_later
def cancel_and_say():
    cancel()
    print("not covered", flush=True)
faulthandler.cancel_dump_traceback_later = cancel_and_say

class Worker(RoundRobin):
    def work(self, jobid):
        print("worked", jobid, flush=True)
        if jobid == "hang:A":
            sum(itertools.repeat(1, 10**15))
"""


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
    wait_until(lambda: jobs.status_of("once:A") == "STP")
    assert jobs.bike.tell("once:A")["skipped"] == {"expired": 1}
    assert "worked" not in jobs.log()
    jobs.bike.control("HALT")
    assert worker.wait(30) == 0


@pytest.mark.parametrize("slots", [1, 2])
def test_a_worker_may_be_suspended_between_runs_and_ends_if_one_holds_the_lock(jobs, slots):
    """The timer that ends a process which hangs goes on while that is suspended: so it does not run between runs."""
    (jobs.folder / "jobs.py").write_text(WORKER + "source.NAP = 600.0\n")
    worker = jobs.start("work", "jobs:Worker('A')", f"--concurrency={slots}")
    jobs.start("dispatch", log="dispatch")
    jobs.bike.set("job:A", "NOW", timeout=LIMIT)
    wait_until(lambda: "not covered" in jobs.log())
    worker.send_signal(signal.SIGSTOP)
    since = time.monotonic()
    wait_until(lambda: time.monotonic() > since + 2 * LIMIT + 0.5)
    worker.send_signal(signal.SIGCONT)
    jobs.bike.set("again:A", "NOW", timeout=LIMIT)
    wait_until(lambda: "worked again:A" in jobs.log())
    jobs.bike.set("hang:A", "NOW", timeout=LIMIT)
    assert worker.wait(60) == 1
    assert "Timeout" in jobs.log()
