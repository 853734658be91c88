"""The code of docs/jobs.rst and docs/testing.rst runs, and the tests that are shown pass."""

import re
import subprocess
import sys
import textwrap

import pytest

from redbike import Jobs
from redbike.working.functions import _OF_WORKERS
from tests.commandline import ROOT, Shell
from tests.waiting import wait_until

JOBS = (ROOT / "docs" / "jobs.rst").read_text()
TESTING = (ROOT / "docs" / "testing.rst").read_text()


def programs(page):
    """The blocks of Python on a page."""
    found = re.findall(r"^\.\. code-block:: python\n\n((?: {3}.*\n|\n)+)", page, re.MULTILINE)
    return [textwrap.dedent(block).strip() + "\n" for block in found]


@pytest.fixture
def shell(tmp_path):
    app, *_ = programs(JOBS)
    (tmp_path / "app.py").write_text(app)
    shell = Shell(tmp_path, None)
    yield shell
    shell.close()
    shell.run("server", "stop")


def run_python(shell, *arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_types(shell, *files):
    environment = {"MYPYPATH": f"{ROOT}:{shell.folder}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(shell.folder / "cache"), *files],
        cwd=shell.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_program_of_functions_runs_with_one_command(shell):
    _, reminders, deployment = programs(JOBS)
    (shell.folder / "reminders.py").write_text(reminders)
    (shell.folder / "deployment.py").write_text(deployment)
    check_types(shell, "app.py", "reminders.py", "deployment.py")
    [command] = re.findall(r"^ {3}\$ redbike (up .*)", JOBS, re.MULTILINE)
    up = shell.start(*command.split())
    wait_until(lambda: "redbike: app:jobs: 2 added" in shell.log(), 30)
    wait_until(lambda: "works work-backup, work-report, work-remind" in shell.log(), 30)
    for command in re.findall(r"^ {3}\$ redbike ((?:run|jobs).*)", JOBS, re.MULTILINE):
        assert shell.run(*command.split()).returncode == 0
    wait_until(lambda: "backs up" in shell.log())
    before = shell.run("schedules").stdout
    assert run_python(shell, "deployment.py") == "2 unchanged\n"
    assert shell.run("schedules").stdout == before
    run_python(shell, "reminders.py")
    assert "remind:anna,AT:2027-01-01T08:00:00Z" in shell.run("schedules").stdout.splitlines()
    up.terminate()
    assert up.wait(timeout=30) == 0


def test_the_options_of_functions_without_a_schedule_are_those_on_the_page():
    named = re.search(r"function without a schedule may only have (.*?): set", JOBS, re.DOTALL)
    assert re.findall(r"``(\w+)``", named[1]) == [name.replace("-", "_") for name in _OF_WORKERS]


def test_each_schedule_of_the_table_is_one():
    arguments = re.findall(r"^``(\w+=\".*?\")``", JOBS, re.MULTILINE)
    assert len(arguments) == 5
    for number, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        Jobs().job(f"job{number}", **{name: value.strip('"')})


def test_the_tests_that_are_shown_pass(shell):
    for number, program in enumerate(programs(TESTING)):
        (shell.folder / f"test_shown_{number}.py").write_text(program)
    check_types(shell, "test_shown_0.py", "test_shown_1.py")
    assert "4 passed" in run_python(shell, "-m", "pytest", "-p", "redbike.testing", "-p", "no:cacheprovider")
