"""The worked example of a crontab in examples/crontab: it is what the importer makes of it, and it runs."""

import csv
import json
import os
import re
import shutil
import time

import pytest

from redbike.importers.crontab import COMMANDS, CONFIG, SCHEDULES, Host, convert
from redbike.importers.crontab_system import LocalTime
from tests.commandline import ROOT
from tests.waiting import wait_until

FOLDER = ROOT / "examples" / "crontab"
# Commands that are there on every machine, and take no time.
QUICK = ("df -k .", "test -e mirror/ready", "date ", "find sessions", "cat >>week.log")


def imported():
    return convert((FOLDER / "crontab").read_text(), Host(LocalTime("Europe/Berlin")))


JOBS = {job.jobid: job.entry for job in imported().jobs}
DISK, MIRROR, HOURS, SESSIONS, WEEK = (
    next(jobid for jobid, entry in JOBS.items() if entry.command.startswith(command)) for command in QUICK
)
RUN = (DISK, MIRROR, HOURS, SESSIONS, WEEK)


@pytest.fixture
def company(shell):
    shutil.copytree(FOLDER, shell.folder, dirs_exist_ok=True)
    # Its commands run in the home folder of the user, and there is only one user here.
    ini = shell.folder / COMMANDS
    ini.write_text(ini.read_text().replace("[*]\n", f"[*]\nenv.HOME = {shell.folder}\n"))
    return shell


def test_the_example_is_what_the_importer_makes_of_the_crontab():
    files = imported().files
    assert sorted(files) == [CONFIG, COMMANDS, SCHEDULES]
    for name, text in files.items():
        assert (FOLDER / name).read_text() == text
    assert len(JOBS) == 29
    assert [line.text.split()[0] for line in imported().refused] == ["@reboot"]


@pytest.mark.acceptance
def test_the_example_is_loaded_and_its_quick_commands_run(company):
    done = company.run("load", "schedules.csv")
    assert (done.returncode, done.stderr) == (0, "redbike: schedules.csv: 29 added\n")
    assert company.run("fsck").returncode == 0
    stored = dict(csv.reader(company.run("schedules").stdout.splitlines()))
    assert stored == {jobid: f"CRON_TZ=Europe/Berlin {entry.schedule}" for jobid, entry in JOBS.items()}

    (company.folder / "sessions").mkdir()
    (company.folder / "sessions" / "old").touch()
    os.utime(company.folder / "sessions" / "old", (1, 1))
    for jobid in RUN:
        assert company.run("run", jobid).returncode == 0
    company.start("up")

    def failures():
        found = map(json.loads, company.run("failures").stdout.splitlines())
        return {failure["jobid"]: failure for failure in found}

    def is_done():
        told = [json.loads(company.run("tell", jobid).stdout) for jobid in RUN]
        # Another thread passes on what commands print.
        printed = all(line in company.log() for line in (f"{DISK}: Filesystem", f"{SESSIONS}: sessions/old"))
        return all(each["status"].startswith("TML:") for each in told) and MIRROR in failures() and printed

    wait_until(is_done, timeout=30)
    # The schedule goes on all the same.
    assert failures()[MIRROR]["error"] == "exit status 1"
    assert not (company.folder / "sessions" / "old").exists()
    # Once more by its schedule, if an hour has just begun.
    assert re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d\n){1,2}", (company.folder / "hours.log").read_text())
    assert (company.folder / "week.log").read_text() == "Please log your hours.\nThank you.\n"
    for jobid in RUN:
        assert json.loads(company.run("tell", jobid).stdout)["next_run"] > time.time() - 60
    assert company.run("fsck").returncode == 0
