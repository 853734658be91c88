"""The command health, as a monitoring system calls it: one line, an exit status, and an answer in two seconds."""

import os
import signal

import pytest

from redbike.cli.watch import _parse_lag
from redbike.errors import BadConfig
from tests.commandline import Within, make_module
from tests.waiting import wait_until

WORKER = make_module('if jobid.startswith("bad"):', '    raise ValueError("it broke")')


@pytest.fixture
def working(shell):
    """A dispatcher and a worker that have begun."""
    (shell.folder / "jobs.py").write_text(WORKER)
    shell.start("dispatch", "jobs:Worker('A')", log="dispatch")
    shell.start("work", "jobs:Worker('A')", log="work")
    wait_until(lambda: shell.run("health").stdout.startswith("OK: 1 dispatcher, 1 worker, "))
    return shell


def test_all_is_well_and_then_a_job_fails(working):
    well = "OK: 1 dispatcher, 1 worker, 0 waiting, 0 running | lag=0.000s;60 overdue=0 "
    assert working.read("health").startswith(well)
    for jobid in ("good:A", "bad:A"):
        working.run("set", jobid, "NOW")
    wait_until(lambda: working.list_rows("jobs", "--status=DIE"))
    problem = "bad:A has failed for good: ValueError: it broke | lag=0.000s;300 "
    assert read_problem(working, "--max-lag=5m", "*:A").startswith(problem)
    assert working.run("health", "good:A").returncode == 0
    assert read_problem(working, "nobody:A").startswith("no such job: 'nobody:A' | ")
    [dispatcher, _] = working.started
    dispatcher.terminate()
    assert dispatcher.wait(60) == 0
    assert "no dispatcher is running" in read_problem(working)


def read_problem(shell, *words):
    """What it finds wrong."""
    done = shell.run("health", *words)
    assert (done.returncode, done.stderr, done.stdout[:9]) == (1, "", "PROBLEM: ")
    return done.stdout[9:]


def test_no_server(shell, tmp_path):
    assert "127.0.0.1:1" in read_problem(shell, "--url=redis://127.0.0.1:1")
    assert read_problem(Within(tmp_path, None)).startswith(f"no server runs in '{tmp_path}/.redbike'")


def test_a_server_that_hangs(own):
    own.server.start()
    own.answer_timeout = None
    os.kill(own.server.status()["pid"], signal.SIGSTOP)
    assert read_problem(own) == "there was no answer within 1.5 s\n"


@pytest.mark.parametrize("lag", ["0", "-1", "soon", "", "1e3", "nan", "20000000000"])
def test_a_bad_lag_is_refused(lag):
    with pytest.raises(BadConfig, match=f"bad --max-lag {lag!r}: a time such as 90, 5m or 1h is needed"):
        _parse_lag(lag)
