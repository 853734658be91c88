"""``redbike cancel`` ends the command that runs, and its children, in real processes."""

import time

import pytest

from redbike.commands import job_lock
from redbike.commands.job_lock import hold_lock
from redbike.errors import CommandFailed
from tests.commands.conftest import Lifeline
from tests.durations import set_lines
from tests.waiting import wait_until

MODULE = f"""
{set_lines(heartbeat__INTERVAL=0.2)}
from redbike.commands import Commands

class Quick(Commands):
    grace = 0.5
"""
# It notes each SIGTERM, for which it has the time that its section gives, and goes on until there is a file `enough`.
NOTE = "echo >> terms; test ! -e enough || exit"
CHILD = f'(trap "{NOTE}" TERM; echo up; echo > started; while true; do sleep 300 & wait; done)'
COMMANDS = f"""
[commands]
stubborn = sh -c 'trap "" TERM; (echo up; echo > started; sleep 300) > lifeline & wait; sleep 300'
polite = sh -c 'trap "exit 3" TERM; {CHILD} > lifeline & wait'
[polite]
grace = 5
"""


@pytest.fixture
def jobs(shell):
    (shell.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:Quick('A', 'commands.ini')\n")
    (shell.folder / "jobs.py").write_text(MODULE)
    (shell.folder / "commands.ini").write_text(COMMANDS)
    shell.environment["TMPDIR"] = str(shell.folder)
    return shell


@pytest.mark.parametrize(("name", "concurrency"), [("stubborn", 1), ("polite", 2)])
def test_a_command_that_is_cancelled_ends_with_its_children(jobs, name, concurrency):
    lifeline, jobid, bike = Lifeline(jobs.folder / "lifeline"), f"{name}:A", jobs.bike
    worker = jobs.start("work", f"--concurrency={concurrency}")
    assert bike.set(jobid, "EVERY:1000d")
    bike.run(jobid)
    wait_until((jobs.folder / "started").exists)
    done = jobs.run("cancel", jobid)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    wait_until(lambda: not bike.tell(jobid)["working"])
    lifeline.assert_cut()

    told = bike.tell(jobid)
    assert (told["status"][:3], told["skipped"], list(bike.failures())) == ("TML", {"cancelled": 1}, [])
    assert "ERROR" not in jobs.log()
    assert "WARNING" not in jobs.log()
    if name == "polite":
        assert (jobs.folder / "terms").read_text() == "\n", "it gets SIGTERM once"
        (jobs.folder / "enough").touch()
    # The worker goes on, and the job does not wait for what it has left behind.
    (jobs.folder / "started").unlink()
    bike.run(jobid)
    wait_until((jobs.folder / "started").exists)
    assert "waits until the command" not in jobs.log()
    bike.cancel(jobid)
    wait_until(lambda: not bike.tell(jobid)["working"])
    worker.terminate()
    assert worker.wait(timeout=60) == 0


def test_a_run_that_waits_for_the_lock_of_its_job_stops_to_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(job_lock, "_make_folder", lambda: str(tmp_path))
    asked = iter([False, False, True])
    with (
        hold_lock("one", time.monotonic(), "x:A"),
        pytest.raises(CommandFailed, match="cancelled"),
        hold_lock("one", time.monotonic() + 20, "x:A", lambda: next(asked)),
    ):
        pass
    assert next(asked, None) is None
