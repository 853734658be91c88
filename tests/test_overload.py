"""More than there is room or time for: a server without memory, and a flood of due jobs."""

from pathlib import Path

import pytest

from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from tests.cli.refused import check_refused
from tests.commandline import Shell, make_module
from tests.waiting import SLOWNESS, wait_until

FLOOD = 20_000  # due jobs


@pytest.fixture
def shell(tmp_path, own_server):
    """The command line on a server of its own."""
    (tmp_path / "jobs.py").write_text(make_module("print(f'worked {jobid}', flush=True)"))
    shell = Shell(tmp_path, own_server.url)
    yield shell
    shell.close()


def measure_memory(process):
    """Return the most memory that it has had, in megabytes."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def test_without_memory_no_job_is_entered_and_those_that_are_there_go_on(shell):
    bike = shell.bike
    for jobid, schedule in {"every:A": "EVERY:0.3", "later:A": "EVERY:1h", "spare:A": "NOW", "once:A": "NOW"}.items():
        assert bike.set(jobid, schedule)
    (shell.folder / "jobs.csv").write_text("new:A,NOW\n")
    before = dict(bike.get_schedules())
    bike.client.config_set("maxmemory", 1)

    for command in ("set new:A NOW", "set new:A EVERY:1h", "set later:A NOW", "run later:A", "load jobs.csv"):
        check_refused(shell.run(*command.split()), 1, "Redis is out of memory")
    assert dict(bike.get_schedules()) == before
    assert bike.tell("new:A")["status"] is None

    loops = [shell.start("dispatch", log="dispatch"), shell.start("work", "jobs:Worker('A')", log="work")]
    steering = "unset spare:A, pause --queue=A, resume --queue=A, limit A --at-once=2, pause --all, resume --all"
    for command in steering.split(", "):
        shell.read(*command.split())
    wait_until(lambda: shell.log("work").count("worked every:A\n") >= 3)
    wait_until(lambda: bike.tell("once:A")["status"].startswith("STP"))
    shell.read("unset", "later:A")
    assert len(shell.read("statuses").splitlines()) == 2
    shell.read("fsck")

    # They neither complain nor wait for anything: what they do is allowed.
    [line] = shell.log("dispatch").splitlines()
    assert "INFO dispatches the prefix 'redbike', on " in line
    assert shell.run("control", "HALT").returncode == 0
    assert [loop.wait(timeout=60) for loop in loops] == [0, 0]
    assert "WARNING" not in shell.log("dispatch") + shell.log("work")
    bike.client.config_set("maxmemory", 0)
    assert bike.set("new:A", "NOW")
    assert list(fsck(bike.store)) == []


def test_a_flood_of_due_jobs_passes_in_small_steps(shell):
    """No step holds the server for long, and the dispatcher needs no more memory than for a few jobs."""
    client, store = shell.bike.client, shell.bike.store
    for first in range(0, FLOOD, 500):
        entries = [JobToSet(f"{n}:A", "AT:1000", 1000.0 + n / FLOOD, True, "work-A") for n in range(first, first + 500)]
        store.at(999.0).jobs.set(entries)
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 100_000)
    dispatcher = shell.start("dispatch")
    wait_until(lambda: client.zcard(store.keys.timeline) == 0, timeout=60)
    scripts = [entry for entry in client.slowlog_get(100_000) if entry["command"].startswith(b"EVALSHA")]
    assert client.llen(store.keys.queue("work-A")) == FLOOD
    assert len(scripts) > FLOOD / 100
    # Many may have lost the processor to another process in the middle: so what the quickest quarter has taken.
    durations = sorted(entry["duration"] for entry in scripts)
    assert durations[len(durations) // 4] < 10_000 * SLOWNESS, durations
    assert measure_memory(dispatcher) < 100
    assert client.lindex(store.keys.queue("work-A"), -1) == b"0:A"
