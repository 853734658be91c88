"""The programs of examples/programs are short, and work as they say; tests/test_types.py has their types."""

import shutil

import pytest

from tests.commandline import ROOT
from tests.pages import run_line
from tests.waiting import wait_until

PROGRAMS = ROOT / "examples" / "programs"
SET = "import sensors, redbike; sensors.set_sensors(redbike.Redbike(sensors.jobs, redis_config=URL))"


def test_they_are_short():
    lengths = {path.name: len(path.read_text().splitlines()) for path in PROGRAMS.glob("*.py")}
    assert len(lengths) == 5
    assert {name: length for name, length in lengths.items() if length >= 60} == {}


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_their_tests_pass_and_one_runs_as_its_first_lines_say(shell, client):
    shutil.copytree(PROGRAMS, shell.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    done = run_line(
        shell,
        "env -u REDBIKE_URL PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -p redbike.testing -p no:cacheprovider .",
    )
    assert "4 passed" in done.stdout, done
    done = run_line(shell, f"python -c '{SET.replace('URL', chr(34) + shell.environment['REDBIKE_URL'] + chr(34))}'")
    assert done.returncode == 0, done
    up = shell.start("up", "sensors:jobs", "--processes=2")
    wait_until(lambda: client.hlen("redbike-history") + client.llen("redbike-journal") > 0, 90)
    up.terminate()
    assert up.wait(60) == 0
