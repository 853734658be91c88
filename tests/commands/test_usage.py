"""What a command has used is kept with its run: seconds of CPU, and the peak of its memory."""

import json
import os
import resource
import shlex
import sys

import pytest

from redbike.commands.child import Child
from tests.commands.conftest import LONG, over_when_ready
from tests.waiting import wait_until

MIB = 2**20
PYTHON = shlex.quote(sys.executable)


def use(seconds, mib):
    code = (
        f"import time; x = bytearray({mib} * 2**20); print('ready', flush=True); "
        f"any(iter(lambda: time.process_time() > {seconds}, True))"
    )
    return f"{PYTHON} -c {shlex.quote(code)}"


@pytest.fixture
def much():
    """So many MiB that it is known."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 + 100


@pytest.mark.parametrize("of_child", [False, True])
def test_a_run_has_the_cpu_seconds_and_the_peak_of_its_command(works, bike, of_child, much):
    line = use(0.2, much)
    works(f"sh -c {shlex.quote(f'{line}; exit 3')}" if of_child else line)
    [run] = bike.runs("x:A")
    assert 0.2 <= run.cpu < 5.2
    assert much * MIB < run.memory < (much + 100) * MIB
    [told] = bike.tell("x:A")["runs"]
    assert (told["cpu"], told["memory"]) == (run.cpu, run.memory)


def test_a_peak_below_that_of_the_worker_is_not_known(works, bike):
    works("true")
    [told] = bike.tell("x:A")["runs"]
    assert (told["cpu"] < 5, "memory" in told) == (True, False)


def test_one_that_is_ended_has_it_too(works, bike, much):
    with over_when_ready():
        works(use(1000, much), "timeout = 60")
    [run] = bike.runs("x:A")
    assert (run.outcome, run.memory > much * MIB, run.cpu > 0) == ("overrun", True, True)


def test_runs_and_show_print_it(works, shell, prefix, much):
    works(use(0.1, much))
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
