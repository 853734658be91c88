"""Processes killed for real, with jobs flowing: afterwards every job ran, and every invariant holds."""

import os
import random
import signal
import time

import pytest

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer
from redbike.store.inspection.fsck import fsck
from tests.commandline import Shell
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

KILLS = 10
WORKER = """
import os, time
from redbike import RoundRobin, current_run

class Worker(RoundRobin):
    def work(self, jobid):
        if jobid.startswith("slow"):
            time.sleep(0.05)
        with open("ran.log", "a") as file:
            file.write(f"{jobid} {os.getpid()}\\n")

class Mid(Worker):
    # Says when it is in the middle of a job, and stays there.
    def work(self, jobid):
        super().work(jobid)
        if jobid.startswith("trap"):
            time.sleep(60)

    def timeout(self, queue_name):
        return 100
"""


class Farm(Shell):
    """Real processes on a server of their own."""

    def __init__(self, folder):
        (folder / "jobs.py").write_text(WORKER)
        self.server = EmbeddedServer(folder / ".redbike")
        self.server.start()
        self.bike = Redbike(RoundRobin("A"), redis_config=self.server.url)
        super().__init__(folder, self.server.url)

    def lines(self):
        path = self.folder / "ran.log"
        return path.read_text().splitlines() if path.exists() else []

    def ran(self):
        return {line.split()[0] for line in self.lines()}

    def wait_for_blocked(self, processes):
        """A process that finds no server when it starts gives up: wait until all are past that."""
        clients = self.bike.client.client_list
        wait_until(lambda: sum(each["cmd"] == "blpop" for each in clients()) == len(processes))


@pytest.fixture
def farm(tmp_path):
    farm = Farm(tmp_path)
    yield farm
    farm.close()
    farm.server.stop()


def all_at_rest(farm):
    return all(event == "STP" for _, event, _ in farm.bike.get_statuses())


def test_workers_killed_in_mid_job(farm):
    """Each time a worker is killed in the middle of a job, which another one runs again."""
    for n in range(KILLS):
        farm.bike.set(f"trap{n}:A", "NOW")
    victims = [farm.start("work", "jobs:Mid('A')") for _ in range(KILLS)]
    wait_until(lambda: len(farm.ran()) == KILLS, timeout=60)
    for n in range(200):
        farm.bike.set(f"slow{n}:A", "NOW")
    for victim in victims:
        victim.kill()
        victim.wait()
    assert list(fsck(farm.bike.store)) == []
    farm.start("dispatch")
    farm.start("work", "jobs:Worker('A')")
    wait_until(lambda: all_at_rest(farm), timeout=30)
    assert farm.ran() == {f"trap{n}:A" for n in range(KILLS)} | {f"slow{n}:A" for n in range(200)}
    assert len(farm.lines()) == 2 * KILLS + 200, "each lost run is repeated once, and nothing else"
    assert list(fsck(farm.bike.store)) == []


def test_dispatchers_killed_in_mid_batch(farm):
    """Each time a dispatcher is killed while jobs come due by the hundred; the next one goes on."""
    jobs = {f"{n}:{batch}:A" for batch in range(KILLS) for n in range(300)}
    generator = random.Random(7)
    farm.start("work", "jobs:Worker('A')")
    for batch in range(KILLS):
        dispatcher = farm.start("dispatch")
        due = farm.bike.store.timeline.read_dispatched()[0] + 0.4
        assert all(ok is True for _, ok in farm.bike.set_many((f"{n}:{batch}:A", f"AT:{due}") for n in range(300)))
        # From the first job that has moved on, a batch is under way.
        wait_until(lambda first=f"0:{batch}:A": not farm.bike.tell(first)["status"].startswith("TML"))
        time.sleep(generator.uniform(0, 0.004))
        dispatcher.kill()
        dispatcher.wait()
    assert list(fsck(farm.bike.store)) == []
    farm.start("dispatch")
    wait_until(lambda: all_at_rest(farm), timeout=60)
    assert farm.ran() == jobs
    assert len(farm.lines()) == len(jobs), "each ran exactly once"
    assert list(fsck(farm.bike.store)) == []


def test_the_server_killed_while_jobs_flow(farm):
    """Each time the server is killed and started again; no process of ours is.

    It writes before it answers. With the embedded server's own setting, it loses what it has not written yet while the
    disk is busy: docs/durability.rst tells how much.
    """
    processes = [farm.start("dispatch"), farm.start("work", "jobs:Worker('A')"), farm.start("work", "jobs:Worker('A')")]
    farm.wait_for_blocked(processes)
    jobs = set()
    for batch in range(KILLS):
        farm.bike.client.config_set("appendfsync", "always")
        due = farm.bike.store.timeline.read_dispatched()[0] + 0.1
        batch_jobs = [(f"{n}:{batch}:A", f"AT:{due}" if n % 2 else "NOW") for n in range(200)]
        assert all(ok is True for _, ok in farm.bike.set_many(batch_jobs))
        jobs |= {jobid for jobid, _ in batch_jobs}
        wait_until(lambda last=f"0:{batch}:A": last in farm.ran())
        os.kill(farm.server.status()["pid"], signal.SIGKILL)
        wait_until(lambda: not farm.server.status()["running"])
        farm.server.start()
    wait_until(lambda: all_at_rest(farm), timeout=60)
    assert farm.ran() == jobs
    assert [process.poll() for process in processes] == [None] * 3
    assert list(fsck(farm.bike.store)) == []


def test_a_server_that_is_a_replica_for_a_while(farm):
    """As at a failover: blocked processes are thrown out, and what they write is refused, until it is over."""
    processes = [farm.start("dispatch"), farm.start("work", "jobs:Worker('A')")]
    client = farm.bike.client
    for number in range(3):
        farm.wait_for_blocked(processes)
        client.replicaof("127.0.0.1", 1)
        wait_until(lambda: not any(each["cmd"] == "blpop" for each in client.client_list()))
        client.replicaof("NO", "ONE")
        farm.bike.set(f"slow{number}:A", "NOW")
        wait_until(lambda jobid=f"slow{number}:A": jobid in farm.ran())
    assert [process.poll() for process in processes] == [None, None]
    assert list(fsck(farm.bike.store)) == []


def test_a_server_that_forgets_scripts_all_the_time(farm):
    """Also between the moment that a script is loaded and the one at which it is asked for again."""
    processes = [farm.start("dispatch"), farm.start("work", "jobs:Worker('A')")]
    client = farm.bike.client
    farm.wait_for_blocked(processes)
    due = farm.bike.store.timeline.read_dispatched()[0] + 0.3
    jobs = [(f"fast{number}:A", f"AT:{due + number / 400}") for number in range(400)]
    assert all(ok is True for _, ok in farm.bike.set_many(jobs))
    while farm.bike.store.timeline.read_dispatched()[0] < due + 1:
        client.script_flush()
    wait_until(lambda: all_at_rest(farm), timeout=60)
    assert farm.ran() == {jobid for jobid, _ in jobs}
    assert [process.poll() for process in processes] == [None, None]


def test_a_second_signal_ends_a_worker_at_once_and_its_run_is_handed_back(farm):
    farm.bike.set("trap:A", "NOW")
    worker = farm.start("work", "jobs:Mid('A')")
    wait_until(lambda: "trap:A" in farm.ran())
    worker.terminate()
    wait_until(lambda: "stopping after the current job" in farm.log())
    assert worker.poll() is None
    # Another one counts from a second later on.
    wait_until(lambda: worker.terminate() or worker.poll() is not None)
    assert worker.wait(20) == -signal.SIGTERM
    assert farm.bike.tell("trap:A")["status"].startswith("ENQ")


def test_a_paused_worker_changes_nothing_when_it_wakes(farm):
    farm.bike.set("slow:A", "CONTINUE")
    worker = farm.start("work", "jobs:Worker('A')")
    wait_until(farm.ran)
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: farm.bike.is_working("slow:A") or farm.bike.tell("slow:A")["status"].startswith("ENQ"))
    state = farm.bike.store.questions.inspect(["slow:A"])[0]
    if state.running:
        # As if it had been away for longer than its lease.
        farm.bike.dispatch_due(state.lease)
    farm.bike.unset("slow:A")
    worker.send_signal(signal.SIGCONT)
    worker.terminate()
    assert worker.wait(20) == 0
    assert farm.bike.tell("slow:A")["status"] is None
    assert list(fsck(farm.bike.store)) == []
