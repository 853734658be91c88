"""A machine with the units of deploy/systemd: its settings, its jobs, and commands for it."""

import shlex

from tests.commandline import ROOT
from tests.deploy.machine import Machine
from tests.pages import find_section, list_blocks

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


def redis(machine: Machine, *command: str) -> str:
    return machine.run("valkey-cli", *command)


def redbike(machine: Machine, *arguments: str) -> str:
    """Run a command as an administrator does."""
    line = COMMAND.replace("set hello:A EVERY:1m", shlex.join(arguments))
    assert shlex.join(arguments) in line
    return machine.run("sh", "-c", line)


def state(machine: Machine, unit: str) -> str:
    return machine.show(unit, "ActiveState")
