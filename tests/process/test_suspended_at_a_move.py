"""Processes that were suspended while the jobs moved to other shards, and nobody knew of them: they change nothing."""

import signal

from redbike.control.moving import Mover
from tests.commandline import make_module
from tests.waiting import wait_until

WORKER = make_module("print('worked', jobid, flush=True)")


def test_they_end_and_say_why(jobs, client):
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
