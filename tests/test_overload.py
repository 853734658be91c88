"""More than there is room or time for: a server without memory, and a flood of due jobs."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from tests.commandline import Shell
from tests.waiting import SLOWNESS, wait_until

WORKER = """
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        print(f"worked {jobid}", flush=True)
"""
FLOOD = 20_000  # due jobs


class Site:
    """The command line on a server of its own."""

    def __init__(self, folder: Path) -> None:
        (folder / "jobs.py").write_text(WORKER)
        self.server = EmbeddedServer(folder / ".redbike")
        self.server.start()
        self.shell = Shell(folder, self.server.url)
        self.bike = Redbike(RoundRobin("A"), redis_config=self.server.url)
        self.client = self.bike.client

    def close(self) -> None:
        self.shell.close()
        self.server.stop()

    def status(self, jobid: str) -> str:
        return str(self.bike.tell(jobid)["status"])[:3]

    def worked(self, jobid: str) -> int:
        return self.shell.log("work").splitlines().count(f"worked {jobid}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def megabytes(process: "subprocess.Popen[str]") -> float:
    """The most memory that it has had."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def refused(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("redbike: Redis is out of memory")


def test_without_memory_no_job_is_entered_and_those_that_are_there_go_on(site):
    shell = site.shell
    for jobid, schedule in {"every:A": "EVERY:0.3", "later:A": "EVERY:1h", "spare:A": "NOW", "once:A": "NOW"}.items():
        assert shell.run("set", jobid, schedule).returncode == 0
    (shell.folder / "jobs.csv").write_text("new:A,NOW\n")
    before = dict(site.bike.get_schedules())
    site.client.config_set("maxmemory", 1)

    for command in (("set", "new:A", "NOW"), ("set", "new:A", "EVERY:1h")):
        refused(shell.run(*command))
    for command in (("set", "later:A", "NOW"), ("run", "later:A"), ("load", "jobs.csv")):
        refused(shell.run(*command))
    assert dict(site.bike.get_schedules()) == before
    assert site.bike.tell("new:A")["status"] is None

    loops = [shell.start("dispatch", log="dispatch"), shell.start("work", "jobs:Worker('A')", log="work")]
    assert shell.run("unset", "spare:A").returncode == 0
    steering = "pause --queue=A, resume --queue=A, limit A --at-once=2, pause --all, resume --all"
    for command in steering.split(", "):
        done = shell.run(*command.split())
        assert (done.returncode, done.stderr) == (0, ""), command
    wait_until(lambda: site.worked("every:A") >= 3)
    wait_until(lambda: site.status("once:A") == "STP")
    assert shell.run("unset", "later:A").returncode == 0
    assert len(shell.run("statuses").stdout.splitlines()) == 2
    assert shell.run("fsck").returncode == 0

    # They neither complain nor wait for anything: what they do is allowed.
    [line] = shell.log("dispatch").splitlines()
    assert "INFO dispatches the prefix 'redbike', on " in line
    assert shell.run("control", "HALT").returncode == 0
    assert [loop.wait(timeout=60) for loop in loops] == [0, 0]
    assert "WARNING" not in shell.log("dispatch") + shell.log("work")
    site.client.config_set("maxmemory", 0)
    assert shell.run("set", "new:A", "NOW").returncode == 0
    assert list(fsck(site.bike.store)) == []


def test_a_flood_of_due_jobs_passes_in_small_steps(site):
    """No step holds the server for long, and the dispatcher needs no more memory than for a few jobs."""
    for first in range(0, FLOOD, 500):
        entries = [JobToSet(f"{n}:A", "AT:1000", 1000.0 + n / FLOOD, True, "work-A") for n in range(first, first + 500)]
        site.bike.store.at(999.0).jobs.set(entries)
    site.client.config_set("slowlog-log-slower-than", 0)
    site.client.config_set("slowlog-max-len", 100_000)
    dispatcher = site.shell.start("dispatch")
    wait_until(lambda: site.client.zcard(site.bike.store.keys.timeline) == 0, timeout=60)
    scripts = [entry for entry in site.client.slowlog_get(100_000) if entry["command"].startswith(b"EVALSHA")]
    assert site.client.llen(site.bike.store.keys.queue("work-A")) == FLOOD
    assert len(scripts) > FLOOD / 100
    # Many may have lost the processor to another process in the middle: so what the quickest quarter has taken.
    durations = sorted(entry["duration"] for entry in scripts)
    assert durations[len(durations) // 4] < 10_000 * SLOWNESS, durations
    assert megabytes(dispatcher) < 100
    assert site.client.lindex(site.bike.store.keys.queue("work-A"), -1) == b"0:A"
