"""What a command has used is kept with its run: seconds of CPU, and the peak of its memory."""

import json
import os
import shlex
import sys

import pytest

from redbike import Redbike, RoundRobin
from redbike.commands.child import Child
from redbike.store.history import PastRun
from tests.commands.conftest import LONG
from tests.waiting import wait_until

MIB = 2**20
PYTHON = shlex.quote(sys.executable)
BUSY = f'{PYTHON} -c "import time; x = bytearray({{}} * 2**20); any(iter(lambda: time.process_time() > {{}}, True))"'


@pytest.mark.parametrize(
    ("line", "cpu", "memory"),
    [
        (BUSY.format(300, 0.2), 0.2, 300 * MIB),
        # of children for which it waits
        (f"sh -c {shlex.quote(BUSY.format(300, 0.2) + '; exit 3')}", 0.2, 300 * MIB),
        ("true", 0.0, None),
    ],
)
def test_a_run_has_the_cpu_seconds_and_the_peak_of_its_command(works, client, prefix, line, cpu, memory):
    works(line)
    [run] = Redbike(RoundRobin("A"), prefix, client).runs("x:A")
    assert cpu <= run.cpu < cpu + 5
    assert (run.memory is None) == (memory is None)
    assert memory is None or memory < run.memory < memory + 100 * MIB
    [told] = Redbike(RoundRobin("A"), prefix, client).tell("x:A")["runs"]
    assert (told["cpu"], told.get("memory")) == (run.cpu, run.memory)


def test_one_that_is_ended_has_it_too(works, client, prefix):
    works(BUSY.format(300, 1000), "timeout = 2")
    [run] = Redbike(RoundRobin("A"), prefix, client).runs("x:A")
    assert (run.outcome, run.memory > 300 * MIB, run.cpu > 0) == ("overrun", True, True)


def test_another_run_has_none():
    run = PastRun("x:A", 1.0, 1.0, 1.0, "ok", 1, "", "")
    assert (run.cpu, run.memory, "cpu" in run.to_dict()) == (None, None, False)


def test_runs_and_show_print_it(works, shell, prefix):
    works(BUSY.format(300, 0.1))
    shell.environment["REDBIKE_PREFIX"] = prefix
    header, row = shell.run("runs").stdout.splitlines()
    assert header.endswith(",worker,cpu,memory")
    cpu, memory = row.split(",")[-2:]
    [found] = json.loads(shell.run("runs", "--format=json").stdout)
    assert (str(found["cpu"]), str(found["memory"])) == (cpu, memory)
    assert "MiB" in shell.run("show", "x:A").stdout


def test_another_thread_that_waits_for_any_child_holds_nobody_up():
    child = Child(["true"])
    os.waitpid(child.pid, 0)
    assert (child.wait(LONG), child.usage) == (0, None), "as with any process of subprocess"
    child = Child(["sh", "-c", "exit 3"])
    wait_until(lambda: child.poll() is not None)
    assert (child.returncode, child.usage is not None) == (3, True)
