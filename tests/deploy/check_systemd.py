"""The units of deploy/systemd on a real systemd, installed as docs/deployment.rst says."""

import re
import shlex
from collections.abc import Iterator

import pytest

from tests.commandline import ROOT
from tests.deploy.machine import CLEAN, Machine, copy_sources, run, try_bare
from tests.pages import find_section, list_blocks
from tests.waiting import wait_until

# The blocks of commands for root: to install Redbike, to start it, to run a command; and that of the page.
INSTALL, START, COMMAND, _ = (
    " && ".join(command for command, _ in block.commands())
    for block in list_blocks("deployment", find_section("deployment", "systemd"))
)
UNITS = ROOT / "deploy" / "systemd"
DISPATCHER, WORKER, COMMANDS = "redbike-dispatcher.service", "redbike-worker@1.service", "redbike-worker@2.service"
REDBIKE = ("/opt/redbike/bin/redbike", "--config=/etc/redbike/redbike.conf")
WATCHDOG = 10  # seconds in place of 30: a healthy process needs 6
INI = """[commands]
sleep: sleep 12345
nice: sh -c 'echo niceness $(nice -n 5 nice)'
"""
CONFIG = """[redbike]
worker: jobs:Worker('A:slow')
timefile: /var/lib/redbike/timefile
on-timeout: reschedule
"""
JOBS = """
import os, resource, time
from redbike import RoundRobin

class Worker(RoundRobin):
    def timeout(self, queue_name):
        return 1 if queue_name == "work-A" else 60

    def work(self, jobid):
        print("begins", jobid, flush=True)
        if jobid == "hang:A":
            time.sleep(3600)
        if jobid == "long:slow":
            time.sleep(3)
        if jobid == "look:A":
            self.look()
        print("ends", jobid, flush=True)

    def look(self):
        print("user", os.getuid() != 0, flush=True)
        print("core", resource.getrlimit(resource.RLIMIT_CORE), flush=True)
        print("notify", "NOTIFY_SOCKET" in os.environ, "WATCHDOG_USEC" in os.environ, flush=True)
        for path in ("/etc/redbike/x", "/opt/redbike/x", "/var/lib/x", "/root/x", "/tmp/x"):
            try:
                open(path, "w").close()
                print("writes", path, flush=True)
            except OSError:
                print("cannot write", path, flush=True)
"""
EXPOSURE = "15"  # of 100: what `systemd-analyze security` may find at most


def settle(machine: Machine) -> None:
    """Write the settings and the modules. The second worker runs commands. The watchdog has less patience."""
    machine.write("/etc/redbike/redbike.conf", CONFIG)
    machine.write("/etc/redbike/jobs.py", JOBS)
    machine.write("/etc/redbike/commands.ini", INI)
    machine.write("/etc/redbike/redbike.env", "REDBIKE_URL=redis://127.0.0.1:6379/0\n", 0o600)
    for unit in ("redbike-dispatcher.service", "redbike-worker@.service"):
        machine.write(f"/etc/systemd/system/{unit}.d/check.conf", f"[Service]\nWatchdogSec={WATCHDOG}\n")
    work = " ".join((*REDBIKE, "work", "\"redbike.commands:Commands('C', 'commands.ini')\""))
    machine.write(f"/etc/systemd/system/{COMMANDS}.d/commands.conf", f"[Service]\nExecStart=\nExecStart={work}\n")
    machine.run("systemctl", "daemon-reload")


def redbike(machine: Machine, *arguments: str) -> str:
    """Run a command as an administrator does."""
    line = COMMAND.replace("set hello:A EVERY:1m", shlex.join(arguments))
    assert shlex.join(arguments) in line
    return machine.run("sh", "-c", line)


def state(machine: Machine, unit: str) -> str:
    return machine.show(unit, "ActiveState")


@pytest.fixture(scope="module")
def machine(debian) -> Iterator[Machine]:
    folder = debian.with_name("machine")
    run("cp", "--archive", debian, folder)
    copy_sources(folder)
    run("chroot", folder, "sh", "-c", f"cd /src && {INSTALL}", env=CLEAN)
    try:
        machine = Machine(folder)
    except AssertionError:
        try_bare("a booted systemd", lambda: Machine(debian).close())
        raise
    try:
        settle(machine)
        machine.run("systemctl", "start", "valkey-server")
        machine.run("sh", "-c", START)
        yield machine
        machine.run("journalctl", "--no-pager", "--lines=200")
    finally:
        machine.close()


@pytest.fixture
def farm(machine) -> Machine:
    """All units run, for the first time as it were, and there are no jobs."""
    machine.run("systemctl", "stop", "redbike.target")
    # That does not wait for the units of the target. A dispatcher that still runs would notice that all is lost.
    ended = ("inactive", "failed")
    wait_until(lambda: all(state(machine, unit) in ended for unit in (DISPATCHER, WORKER, COMMANDS)), timeout=90)
    # With a timefile, a dispatcher would tell that the server has lost all.
    machine.run("rm", "-f", "/var/lib/redbike/timefile")
    machine.run("valkey-cli", "FLUSHALL")
    machine.run("systemctl", "reset-failed")
    machine.run("journalctl", "--rotate", "--vacuum-time=1s")
    # READY=1 ends this command.
    machine.run("systemctl", "start", "redbike.target")
    wait_until(lambda: all(state(machine, unit) == "active" for unit in (DISPATCHER, WORKER, COMMANDS)), timeout=60)
    return machine


def test_the_units_are_right_and_protected(machine):
    units = [
        file.name.replace("@", "@1") for kind in ("service", "timer", "target") for file in UNITS.glob(f"*.{kind}")
    ]
    assert len(units) == 8
    assert machine.run("systemd-analyze", "verify", *units) == ""
    for unit in units:
        if unit.endswith(".service"):
            machine.run("systemd-analyze", "security", "--no-pager", f"--threshold={EXPOSURE}", unit)


def test_a_job_runs_and_can_write_only_to_its_own_tmp(farm):
    redbike(farm, "set", "look:A", "NOW")
    wait_until(lambda: "ends look:A" in farm.journal(WORKER), timeout=30)
    lines = farm.journal(WORKER).splitlines()
    assert "user True" in lines
    assert "core (0, 0)" in lines
    assert "notify False False" in lines
    assert {line for line in lines if line.startswith("writes")} == {"writes /tmp/x"}
    assert not (farm.folder / "tmp" / "x").exists()
    assert farm.run("stat", "--format=%U %a", "/var/lib/redbike").split() == ["redbike", "700"]
    wait_until((farm.folder / "var/lib/redbike/timefile").exists, timeout=30)


def test_a_worker_whose_job_hangs_is_ended_and_started_again(farm):
    first = farm.show(WORKER, "MainPID")
    redbike(farm, "set", "hang:A", "NOW")
    wait_until(lambda: farm.show(WORKER, "NRestarts") == "1", timeout=60)
    wait_until(lambda: state(farm, WORKER) == "active", timeout=30)
    assert farm.show(WORKER, "MainPID") != first
    assert "watchdog" in farm.run("journalctl", "--unit", WORKER, "--no-pager").lower()
    # Its log shows where it hung.
    assert '/etc/redbike/jobs.py"' in farm.journal(WORKER)
    redbike(farm, "set", "next:A", "NOW")
    wait_until(lambda: "ends next:A" in farm.journal(WORKER), timeout=30)
    assert farm.show(DISPATCHER, "NRestarts") == "0"


def test_a_worker_that_is_stopped_ends_its_job_first(farm):
    redbike(farm, "set", "long:slow", "NOW")
    wait_until(lambda: "begins long:slow" in farm.journal(WORKER), timeout=30)
    farm.run("systemctl", "stop", WORKER)
    assert "ends long:slow" in farm.journal(WORKER)
    assert farm.show(WORKER, "Result") == "success"
    assert '"STP:' in redbike(farm, "tell", "long:slow")


def test_the_commands_of_a_killed_worker_are_killed_too(farm):
    redbike(farm, "set", "sleep:C", "NOW")
    wait_until(lambda: farm.run("pgrep", "--full", "sleep 12345", check=False), timeout=30)
    [command] = farm.run("pgrep", "--full", "sleep 12345").split()
    farm.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", COMMANDS)
    wait_until(lambda: farm.show(COMMANDS, "NRestarts") == "1", timeout=30)
    wait_until(lambda: not (farm.folder / "proc" / command).exists(), timeout=30)
    assert command not in farm.run("pgrep", "--full", "sleep 12345", check=False).split()


def test_the_comment_of_the_unit_relaxes_the_protection(farm):
    comment = (UNITS / "redbike-worker@.service").read_text().partition("[Unit]")[0]
    rows = re.findall(r"^#   .{30}(.*=.*)$", comment, re.MULTILINE)
    settings = [setting for row in rows for setting in re.split(r",\s*", row.partition(" (")[0]) if setting]
    # An empty filter allows all calls: the other one must be enough for nice.
    settings.remove("SystemCallFilter=")
    assert len(settings) == 12
    farm.run("mkdir", "-p", "/srv/reports")
    redbike(farm, "set", "nice:C", "NOW")
    wait_until(lambda: "niceness 0" in farm.journal(COMMANDS), timeout=30)
    folder = f"/etc/systemd/system/{COMMANDS}.d"
    farm.write(f"{folder}/relaxed.conf", "\n".join(["[Service]", *settings, ""]))
    try:
        assert farm.run("systemd-analyze", "verify", COMMANDS) == ""
        farm.run("systemctl", "daemon-reload")
        farm.run("systemctl", "restart", COMMANDS)
        redbike(farm, "set", "nice:C", "NOW")
        wait_until(lambda: "niceness 5" in farm.journal(COMMANDS), timeout=30)
        assert farm.show(COMMANDS, "NoNewPrivileges") == "no"
        assert "cap_setuid" in farm.show(COMMANDS, "CapabilityBoundingSet")
    finally:
        farm.run("rm", f"{folder}/relaxed.conf")
        farm.run("systemctl", "daemon-reload")


def test_a_server_that_is_away_at_the_start_is_waited_for(farm):
    farm.run("systemctl", "stop", "redbike.target", "valkey-server")
    farm.run("systemctl", "start", "--no-block", "redbike.target")
    wait_until(lambda: "waiting for it" in farm.run("journalctl", "--unit", DISPATCHER), timeout=60)
    assert farm.show(DISPATCHER, "NRestarts") == "0"
    farm.run("systemctl", "start", "valkey-server")
    wait_until(lambda: state(farm, DISPATCHER) == state(farm, WORKER) == "active", timeout=60)


def test_a_bad_config_file_is_not_tried_again(farm):
    farm.write("/etc/redbike/redbike.conf", "[redbike]\nprefixx: redbike\n")
    try:
        farm.run("systemctl", "restart", DISPATCHER, check=False)
        wait_until(lambda: state(farm, DISPATCHER) == "failed", timeout=30)
    finally:
        farm.write("/etc/redbike/redbike.conf", CONFIG)
    assert farm.show(DISPATCHER, "ExecMainStatus") == "2"
    assert farm.show(DISPATCHER, "NRestarts") == "0"


def test_a_halt_stops_all_and_nothing_starts_again(farm):
    redbike(farm, "control", "HALT")
    units = (DISPATCHER, WORKER, COMMANDS)
    wait_until(lambda: all(state(farm, unit) == "inactive" for unit in units), timeout=30)
    assert [farm.show(unit, "Result") for unit in units] == ["success"] * 3


def test_health_fails_as_a_unit_when_something_is_wrong(farm):
    assert state(farm, "redbike-health.timer") == "active"

    def check() -> str:
        farm.run("systemctl", "start", "redbike-health.service", check=False)
        return farm.show("redbike-health.service", "ExecMainStatus")

    # All has just been flushed: the processes are known again a few seconds later.
    wait_until(lambda: check() == "0", timeout=60)
    assert "OK: 1 dispatcher, 2 workers" in farm.journal("redbike-health.service")
    farm.run("systemctl", "stop", DISPATCHER)
    assert check() == "1"
    assert state(farm, "redbike-health.service") == "failed"
    assert "PROBLEM: no dispatcher is running" in farm.journal("redbike-health.service")


def test_the_figures_are_served_and_so_is_health(farm):
    ask = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=9).read().decode())"

    def get(path: str) -> str:
        return farm.run("/opt/redbike/bin/python", "-c", ask, f"http://127.0.0.1:9199/{path}", check=False)

    wait_until(lambda: '\nredbike_up{prefix="redbike"} 1.0\n' in get("metrics"), timeout=60)
    wait_until(lambda: get("health").startswith("OK: 1 dispatcher, 2 workers"), timeout=60)
    pid = farm.show("redbike-metrics.service", "MainPID")
    farm.run("kill", "-KILL", pid)
    wait_until(lambda: farm.show("redbike-metrics.service", "MainPID") not in (pid, "0"), timeout=60)
    wait_until(lambda: '\nredbike_up{prefix="redbike"} 1.0\n' in get("metrics"), timeout=60)
    farm.run("systemctl", "stop", "redbike-metrics.service")
    assert farm.show("redbike-metrics.service", "Result") == "success"


def test_fsck_fails_as_a_unit_when_there_is_a_problem(farm):
    assert state(farm, "redbike-fsck.timer") == "active"
    redbike(farm, "set", "job:A", "@yearly")
    farm.run("systemctl", "start", "redbike-fsck.service")
    farm.run("valkey-cli", "ZREM", "redbike-timeline", "job:A")
    farm.run("systemctl", "start", "redbike-fsck.service", check=False)
    assert farm.show("redbike-fsck.service", "ExecMainStatus") == "1"
    assert state(farm, "redbike-fsck.service") == "failed"
    assert "job:A" in farm.journal("redbike-fsck.service")
