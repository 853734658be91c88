"""The worked example of a crontab in examples/crontab: what became of each line, and that it runs."""

import csv
import json
import os
import re
import shutil
import time

import pytest

from redbike.commands.file import read_commands
from tests.commandline import ROOT
from tests.waiting import wait_until

FOLDER = ROOT / "examples" / "crontab"
QUICK = ("disk", "mirror", "hours", "sessions", "week")


@pytest.fixture
def company(shell):
    shutil.copytree(FOLDER, shell.folder, dirs_exist_ok=True)
    return shell


def rows():
    with open(FOLDER / "schedules.csv", newline="") as file:
        return dict(csv.reader(file))


def test_each_line_of_the_crontab_has_its_job_with_the_same_schedule_and_a_command():
    lines = [line for line in (FOLDER / "crontab").read_text().splitlines() if re.match(r"[\d*@]", line)]
    lines = [line for line in lines if not line.startswith("@reboot")]
    schedules = [line.split()[0] if line[0] == "@" else " ".join(line.split()[:5]) for line in lines]
    assert list(rows().values()) == schedules
    assert len(lines) == 29
    commands = read_commands(str(FOLDER / "commands.ini"))
    assert [jobid.partition(":")[0] for jobid in rows()] == list(commands)
    programs = [line.split()[1 if line[0] == "@" else 5] for line in lines]
    for program, command in zip(programs, commands.values(), strict=True):
        assert any(program.encode() in word for word in command.argv) or command.name == "week"


def test_the_example_is_loaded_and_its_quick_commands_run(company):
    done = company.run("load", "schedules.csv")
    assert (done.returncode, done.stderr) == (0, "redbike: schedules.csv: 29 added\n")
    assert company.run("fsck").returncode == 0
    stored = dict(csv.reader(company.run("schedules").stdout.splitlines()))
    assert stored == {jobid: f"CRON_TZ=Europe/Berlin {text}" for jobid, text in rows().items()}

    (company.folder / "sessions").mkdir()
    (company.folder / "sessions" / "old").touch()
    os.utime(company.folder / "sessions" / "old", (1, 1))
    for name in QUICK:
        assert company.run("run", f"{name}:cron").returncode == 0
    company.start("up")

    def failures():
        found = map(json.loads, company.run("failures").stdout.splitlines())
        return {failure["jobid"]: failure for failure in found}

    def is_done():
        told = [json.loads(company.run("tell", f"{name}:cron").stdout) for name in QUICK]
        return all(each["status"].startswith("TML:") for each in told) and "mirror:cron" in failures()

    wait_until(is_done, timeout=30)
    # Tried three times, and the schedule goes on.
    assert failures()["mirror:cron"]["error"] == "exit status 1"
    assert company.log().count("WARNING mirror:cron: exit status 1; it is tried again in ") == 2
    assert company.log().count("ERROR mirror:cron: exit status 1") == 1
    assert "disk:cron: Filesystem" in company.log()
    assert "sessions:cron: sessions/old" in company.log()
    assert not (company.folder / "sessions" / "old").exists()
    # Once more by its schedule, if an hour has just begun.
    assert re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d\n){1,2}", (company.folder / "hours.log").read_text())
    assert (company.folder / "week.log").read_text() == "Please log your hours.\nThank you.\n"
    for name in QUICK:
        assert json.loads(company.run("tell", f"{name}:cron").stdout)["next_run"] > time.time() - 60
    assert company.run("fsck").returncode == 0
