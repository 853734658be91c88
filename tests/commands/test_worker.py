"""Commands as an administrator runs them: where the file is looked for, who needs it, and how many run at once."""

import json
import signal

import pytest

from redbike.commands.worker import Commands
from redbike.config.file import examine, load
from redbike.errors import BadConfig
from redbike.facade.redbike import Redbike
from redbike.loop.worker_class import RoundRobin, read_concurrency
from redbike.worker.loader import load_worker
from tests.cli.refused import check_refused
from tests.commands.conftest import SPEC
from tests.waiting import wait_until


def status(shell, jobid):
    return (json.loads(shell.run("tell", jobid).stdout)["status"] or "")[:3]


# Who needs the file


def test_only_who_runs_commands_needs_the_file(jobs):
    jobs.start("dispatch")
    for arguments in (("set", "c:A", "EVERY:1s"), ("run", "c:A"), ("fsck", "--repair"), ("tell", "c:A")):
        done = jobs.run(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments
    jobs.run("set", "late:A", "EVERY:1s")
    wait_until(lambda: status(jobs, "late:A") == "ENQ")


def test_a_worker_says_in_one_line_that_it_cannot_use_the_file(jobs):
    check_refused(jobs.run("work"), 2, "commands.ini': No such file")
    (jobs.folder / "commands.ini").write_text("[commands]\nx = 'open\n")
    check_refused(jobs.run("work"), 2, "commands.ini", "a quotation mark is not closed")
    # It is beside the config file that names it.
    (jobs.folder / "etc").mkdir()
    (jobs.folder / ".redbike.conf").rename(jobs.folder / "etc" / "redbike.conf")
    check_refused(jobs.run("--config=etc/redbike.conf", "work"), 2, "etc/commands.ini': No such file")


# Where it is looked for


def test_a_file_is_beside_the_config_file_that_names_it_or_else_in_the_current_folder(tmp_path, monkeypatch):
    etc = tmp_path / "etc"
    etc.mkdir()
    monkeypatch.chdir(tmp_path)
    (etc / "redbike.conf").write_text(f"[redbike]\nworker: {SPEC}\n")
    (tmp_path / "commands.ini").write_text("[commands]\nhere = true\n[here]\ntimeout = 1\n")
    (etc / "commands.ini").write_text("[commands]\nthere = true\n[there]\ntimeout = 2\n")
    variable = {"REDBIKE_WORKER": SPEC}
    for environ, given, seconds in (({}, None, 7.0), ({}, SPEC, 6.0), (variable, None, 6.0)):
        loaded = load("etc/redbike.conf", environ, worker=given)
        for config in (loaded, examine("etc/redbike.conf", environ, worker=given).config):
            assert load_worker(config.settings.worker, config.folder).timeout("work-A") == seconds
    # A class that takes no folder is given none.
    assert isinstance(load_worker("redbike:RoundRobin('A')", "/etc"), RoundRobin)


# How many at once


class Wrong(RoundRobin):
    """Says that so many jobs run at once."""

    def __init__(self, concurrency):
        super().__init__("A")
        self.concurrency = concurrency


def test_commands_run_ten_at_once_and_other_worker_classes_one():
    assert read_concurrency(Commands("A", "commands.ini")) == 10
    assert read_concurrency(RoundRobin("A")) == 1
    assert read_concurrency(Wrong(3)) == 3


@pytest.mark.parametrize("number", [0, 1.5, "4", True, 1001])
def test_a_bad_number_of_jobs_at_once_is_refused_whoever_gives_it(client, prefix, number):
    for handler, asked in ((Wrong(number), []), (Wrong(None), []), (Wrong(2), [number])):
        bike = Redbike(handler, prefix=prefix, redis_config=client)
        with pytest.raises(BadConfig, match=r"bad concurrency .*: 1 to 1000 are allowed"):
            bike.work(*asked)
        assert bike.workers() == []


def test_a_long_command_does_not_delay_a_short_one_behind_it(jobs, gate):
    (jobs.folder / "commands.ini").write_text(
        "[commands]\nbackup = sh -c 'echo > started; read line < limits'\nhealth = true\n"
    )
    worker = jobs.start("work")
    jobs.run("set", "backup:A", "NOW")
    wait_until((jobs.folder / "started").exists)
    jobs.run("set", "health:A", "NOW")
    wait_until(lambda: status(jobs, "health:A") == "STP")
    assert status(jobs, "backup:A") == "WRK"
    assert ", up to 10 jobs at once, on " in jobs.log()
    # It is told to stop, and lets the backup end by itself.
    worker.send_signal(signal.SIGTERM)
    gate()
    assert worker.wait(timeout=60) == 0
    assert status(jobs, "backup:A") == "STP"
