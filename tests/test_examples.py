"""The programs of examples/programs: they are short, their types are right, and their tests pass."""

import shutil
import subprocess
import sys

import pytest

from tests.commandline import ROOT, Shell
from tests.waiting import wait_until

PROGRAMS = ROOT / "examples" / "programs"
MOST_LINES = 60


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(PROGRAMS, tmp_path / "programs", ignore=shutil.ignore_patterns("__pycache__", ".*"))


@pytest.mark.parametrize("file", sorted(PROGRAMS.glob("*.py")), ids=lambda file: file.name)
def test_a_program_is_short(file):
    assert len(file.read_text().splitlines()) < MOST_LINES


def test_there_are_five():
    assert len(list(PROGRAMS.glob("*.py"))) == 5


def test_their_types_are_right(folder):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), "."],
        cwd=folder,
        env={"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_their_tests_pass(folder):
    shell = Shell(folder, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "redbike.testing", "-p", "no:cacheprovider", "."],
        cwd=folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_one_runs_as_its_first_lines_say(folder, server_url, client):
    shell = Shell(folder, server_url)
    try:
        assert subprocess.run([sys.executable, "-c", SENSORS], cwd=folder, env=shell.environment).returncode == 0
        up = shell.start("up", "sensors:jobs", "--processes=2")
        wait_until(lambda: client.hlen("redbike-history") + client.llen("redbike-journal") > 0, 90)
        up.terminate()
        assert up.wait(timeout=30) == 0
    finally:
        shell.close()


SENSORS = """
import os

import sensors
from redbike import Redbike

sensors.set_sensors(Redbike(sensors.jobs, redis_config=os.environ["REDBIKE_URL"]))
"""
