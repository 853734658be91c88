"""Processes killed for real, with jobs flowing: afterwards every job ran, and every invariant holds.

``make chaos-quick`` has dispatchers that are killed, suspended processes, forgotten scripts and promoted replicas.
"""

import os
import signal

import pytest

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer
from redbike.store.inspection.fsck import fsck
from tests.commandline import Shell
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

KILLS = 5
WORKER = """
import time
from redbike import RoundRobin, current_run

class Worker(RoundRobin):
    def timeout(self, queue_name):
        return 100

    def work(self, jobid):
        with open("ran.log", "a") as file:
            file.write(f"{jobid}\\n")
        if jobid.startswith("trap") and not current_run().losses:
            time.sleep(60)
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

    def is_at_rest(self):
        return all(event == "STP" for _, event, _ in self.bike.get_statuses())


@pytest.fixture
def farm(tmp_path):
    farm = Farm(tmp_path)
    yield farm
    farm.close()
    farm.server.stop()


def test_workers_killed_in_mid_job(farm):
    """Each time a worker is killed in the middle of a job, which another one runs again."""
    traps, others = ([f"{name}{n}:A" for n in range(number)] for name, number in (("trap", KILLS), ("job", 200)))
    list(farm.bike.set_many((jobid, "NOW") for jobid in traps))
    victims = [farm.start("work", "jobs:Worker('A')") for _ in range(KILLS)]
    wait_until(lambda: len(farm.lines()) == KILLS, timeout=60)
    list(farm.bike.set_many((jobid, "NOW") for jobid in others))
    for victim in victims:
        victim.kill()
        victim.wait()
    assert list(fsck(farm.bike.store)) == []
    farm.start("dispatch")
    farm.start("work", "jobs:Worker('A')")
    wait_until(farm.is_at_rest, timeout=60)
    assert sorted(farm.lines()) == sorted([*traps, *traps, *others]), "each lost run is repeated once, and nothing else"
    assert list(fsck(farm.bike.store)) == []


def test_the_server_killed_while_jobs_flow(farm):
    """Each time the server is killed and started again; no process of ours is.

    It writes before it answers. With the embedded server's own setting, it loses what it has not written yet while the
    disk is busy: docs/durability.rst tells how much.
    """
    processes = [farm.start("dispatch"), farm.start("work", "jobs:Worker('A')"), farm.start("work", "jobs:Worker('A')")]
    # A process that finds no server when it starts gives up: all must be past that.
    wait_until(lambda: sum(each["cmd"] == "blpop" for each in farm.bike.client.client_list()) == len(processes))
    jobs = set()
    for batch in range(KILLS):
        farm.bike.client.config_set("appendfsync", "always")
        due = farm.bike.store.timeline.read_dispatched()[0] + 0.1
        batch_jobs = [(f"{n}:{batch}:A", f"AT:{due}" if n % 2 else "NOW") for n in range(200)]
        assert all(ok is True for _, ok in farm.bike.set_many(batch_jobs))
        jobs |= {jobid for jobid, _ in batch_jobs}
        wait_until(lambda last=f"0:{batch}:A": last in farm.lines())
        os.kill(farm.server.status()["pid"], signal.SIGKILL)
        wait_until(lambda: not farm.server.status()["running"])
        farm.server.start()
    wait_until(farm.is_at_rest, timeout=60)
    assert {*farm.lines()} == jobs
    assert [process.poll() for process in processes] == [None] * 3
    assert list(fsck(farm.bike.store)) == []
