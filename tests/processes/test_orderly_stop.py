"""The dispatcher of `up` goes on until its last worker has ended."""

import signal
import time

from redbike.processes import signals
from tests.waiting import wait_until

WORKER = """
import os, time
from redbike import RoundRobin

class Worker(RoundRobin):
    def timeout(self, queue_name):
        return 1000.0

    def work(self, jobid):
        print("begun", jobid, flush=True)
        while not os.path.exists("go"):
            time.sleep(0.01)
"""


def test_what_comes_due_while_the_last_worker_ends_is_dispatched(jobs):
    jobs.bike.set("long:A", "NOW")
    up = jobs.start("up", "jobs:Worker('A')")
    wait_until(lambda: "begun long:A" in jobs.log())
    up.terminate()
    wait_until(lambda: "stopping after the current job" in jobs.log())
    jobs.bike.set("soon:A", f"AT:{time.time() + 1}")
    wait_until(lambda: jobs.bike.tell("soon:A")["status"].startswith("ENQ"))
    (jobs.folder / "go").touch()
    assert up.wait(30) == 0
    lines = [line for line in jobs.log().splitlines() if "stopping" in line or "stopped" in line]
    assert lines[0].startswith("work-1"), lines
    assert [line for line in lines if line.startswith("dispatch")]
    assert jobs.bike.workers() == []


def test_a_word_of_the_supervisor_that_comes_at_the_end_of_a_process_does_not_kill_it():
    """It still has to sign off, when nothing handles signals any more."""
    assert not signals.tell(signal.SIGTERM)
