"""Signals to a worker of commands: the first lets them end by themselves, the second ends them with it."""

import signal

import pytest

from redbike.store.enums import Event
from tests.durations import SOON_AGAIN
from tests.proc import is_gone, worker_of
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

SPEC = "jobs:Commands('A', 'commands.ini')"
MODULE = f"{SOON_AGAIN}\nfrom redbike.commands import Commands\n"
STUBBORN = """sh -c 'trap "" TERM HUP INT; (echo up; echo > started; sleep 300) > lifeline & wait; sleep 300'"""
GATED = "sh -c 'echo > started; read line < limits; echo > ended'"


@pytest.fixture
def jobs(jobs):
    (jobs.folder / ".redbike.conf").write_text(f"[redbike]\nworker: {SPEC}\n")
    (jobs.folder / "jobs.py").write_text(MODULE)
    (jobs.folder / "commands.ini").write_text(
        f"[commands]\nstubborn = {STUBBORN}\ngated = {GATED}\n[stubborn]\ncwd = .\n"
    )
    return jobs


def start(jobs, jobid, *arguments):
    """Start a process, and wait until the command of `jobid` runs."""
    process = jobs.start(*arguments)
    jobs.run("set", jobid, "NOW")
    wait_until((jobs.folder / "started").exists)
    return process


def signal_until_gone(process, number):
    """Signal a process over and over: what comes within a second of the first one counts as the same."""

    def gone():
        process.send_signal(number)
        return process.poll() is not None

    wait_until(gone)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [(["work"], signal.SIGTERM), (["work", "--concurrency=1"], signal.SIGINT), (["up"], signal.SIGHUP)],
)
def test_a_second_signal_ends_the_commands_too(jobs, lifeline, arguments, number):
    process = start(jobs, "stubborn:A", *arguments)
    signal_until_gone(process, number)
    lifeline.assert_cut()
    # Its run is handed back.
    [state] = jobs.bike.store.questions.inspect(["stubborn:A"])
    assert (bool(state.running), state.has_event(Event.ENQ), state.failure) == (False, True, None)


@pytest.mark.parametrize(
    ("arguments", "number"), [(["work", "--concurrency=1"], signal.SIGHUP), (["up"], signal.SIGTERM)]
)
def test_the_first_signal_lets_the_commands_end_by_themselves(jobs, gate, arguments, number):
    process = start(jobs, "gated:A", *arguments)
    process.send_signal(number)
    wait_until(lambda: "stopping after" in jobs.log())
    gate()
    assert process.wait(timeout=60) == 0
    assert (jobs.folder / "ended").exists()
    assert "STP" in jobs.run("statuses").stdout


def test_the_command_of_a_worker_whose_up_is_killed_ends_by_itself(jobs, gate):
    up = start(jobs, "gated:A", "up")
    worker = worker_of(up.pid)
    up.kill()
    gate()
    wait_until(lambda: is_gone(worker))
    assert (jobs.folder / "ended").exists()
    assert "STP" in jobs.run("statuses").stdout


def test_a_worker_that_fails_still_listens_while_its_commands_end(jobs, client, lifeline):
    worker = start(jobs, "stubborn:A", "work")
    # Nobody can take from a queue that is no list.
    client.set("redbike-work-A", "damaged")
    wait_until(lambda: not [each for each in client.client_list() if each["cmd"] == "blpop"])
    signal_until_gone(worker, signal.SIGTERM)
    lifeline.assert_cut()
