"""The units of deploy/systemd on a real systemd, installed as docs/deployment.rst says."""

import itertools
import json
import re
from collections.abc import Iterator

import pytest

from tests.deploy.machine import CLEAN, Machine, copy_sources, run, try_bare
from tests.deploy.units import (
    COMMANDS,
    CONFIG,
    DISPATCHER,
    INSTALL,
    START,
    UNITS,
    WATCHDOG,
    WORKER,
    redbike,
    redis,
    settle,
    state,
)
from tests.waiting import wait_until

EXPOSURE = "15"  # of 100: what `systemd-analyze security` may find at most
PERIOD, RESTARTS = 20, 5  # seconds, more than a restart takes


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
    redis(machine, "FLUSHALL")
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


def test_the_url_of_the_example_is_refused_until_it_is_replaced(farm):
    example = (UNITS / "redbike.env.example").read_text()
    farm.write("/etc/redbike/redbike.env", example, 0o600)
    try:
        farm.run("systemctl", "restart", DISPATCHER, check=False)
        wait_until(lambda: state(farm, DISPATCHER) == "failed", timeout=30)
    finally:
        farm.write("/etc/redbike/redbike.env", "REDBIKE_URL=redis://127.0.0.1:6379/0\n", 0o600)
    assert farm.show(DISPATCHER, "ExecMainStatus") == "2"
    assert "bad url 'REPLACE-THIS" in farm.journal(DISPATCHER)


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


def test_a_suspended_dispatcher_is_ended_and_started_again_and_no_run_is_lost(farm):
    redbike(farm, "set", "often:A", "EVERY:1s")
    wait_until(lambda: "ends often:A" in farm.journal(WORKER), timeout=30)
    farm.run("kill", "-STOP", farm.show(DISPATCHER, "MainPID"))
    redbike(farm, "set", "meanwhile:A", f"AT:{int(farm.run('date', '+%s')) + 2}")
    wait_until(lambda: farm.show(DISPATCHER, "NRestarts") == "1", timeout=WATCHDOG + 20)
    wait_until(lambda: "ends meanwhile:A" in farm.journal(WORKER), timeout=30)
    ran = farm.journal(WORKER).count("ends often:A")
    wait_until(lambda: farm.journal(WORKER).count("ends often:A") > ran, timeout=30)
    assert redbike(farm, "fsck") == ""


def test_healthy_processes_are_left_alone_while_the_server_is_away(farm):
    before = [farm.show(unit, "MainPID") for unit in (DISPATCHER, WORKER, COMMANDS)]
    farm.run("systemctl", "stop", "valkey-server")
    try:
        since = farm.run("date", "+%s")
        wait_until(lambda: int(farm.run("date", "+%s")) - int(since) > 1.5 * WATCHDOG, timeout=60)
    finally:
        farm.run("systemctl", "start", "valkey-server")
    redbike(farm, "set", "after:A", "NOW")
    wait_until(lambda: "ends after:A" in farm.journal(WORKER), timeout=30)
    assert [farm.show(unit, "MainPID") for unit in (DISPATCHER, WORKER, COMMANDS)] == before


def test_a_worker_that_is_stopped_ends_its_job_first(farm):
    redbike(farm, "set", "long:slow", "NOW")
    wait_until(lambda: "begins long:slow" in farm.journal(WORKER), timeout=30)
    farm.run("systemctl", "stop", WORKER)
    assert "ends long:slow" in farm.journal(WORKER)
    assert farm.show(WORKER, "Result") == "success"
    assert '"STP:' in redbike(farm, "tell", "long:slow")


def test_restarts_of_all_units_miss_nothing_and_run_nothing_twice(farm):
    began = int(farm.run("date", "+%s"))
    jobs = {**{f"tick{n}:A": n / 2 for n in range(30)}, "long:slow": 3.0}
    rows = [f"{jobid},EVERY:{PERIOD}s@{began + offset},none,200" for jobid, offset in jobs.items()]
    farm.write("/etc/redbike/ticks.csv", "\n".join(["jobid,schedule,catchup,history", *rows, ""]))
    redbike(farm, "load", "/etc/redbike/ticks.csv")

    def list_runs() -> dict[str, list[float]]:
        found = dict[str, list[float]]()
        for run_of in json.loads(redbike(farm, "runs", "--format=json", "--limit=10000")):
            found.setdefault(run_of["jobid"], []).insert(0, run_of["due"])
        return found

    for _ in range(RESTARTS):
        ran = farm.journal(WORKER).count("begins ")
        wait_until(lambda ran=ran: farm.journal(WORKER).count("begins ") > ran, timeout=60)
        farm.run("systemctl", "restart", "redbike.target")
        wait_until(lambda: state(farm, DISPATCHER) == state(farm, WORKER) == "active", timeout=60)
    now = int(farm.run("date", "+%s"))
    wait_until(lambda: len(runs := list_runs()) == len(jobs) and min(map(max, runs.values())) > now, timeout=90)
    farm.run("systemctl", "stop", "redbike.target")
    found = list_runs()
    for jobid, dues in found.items():
        assert {round(later - due) for due, later in itertools.pairwise(dues)} <= {PERIOD}, (jobid, dues)
        assert "skipped" not in json.loads(redbike(farm, "tell", jobid)), jobid
    assert sum(map(len, found.values())) == farm.journal(WORKER).count("begins ")


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
    redis(farm, "ZREM", "redbike-timeline", "job:A")
    farm.run("systemctl", "start", "redbike-fsck.service", check=False)
    assert farm.show("redbike-fsck.service", "ExecMainStatus") == "1"
    assert state(farm, "redbike-fsck.service") == "failed"
    assert "job:A" in farm.journal("redbike-fsck.service")
