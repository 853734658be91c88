"""What a command hears of its run, and what it does not inherit."""

import json
import os
import tempfile
from dataclasses import replace

import pytest

from redbike import Redbike, RoundRobin
from redbike.config.file import OF_RUN
from redbike.config.options import MAX_DATA
from redbike.connection.embedded import EmbeddedServer
from redbike.errors import CommandFailed, ServerError
from tests.cli.refused import check_refused
from tests.commandline import Shell
from tests.commands.conftest import a_run
from tests.waiting import wait_until

FILE = '"$REDBIKE_DATA_FILE"'
SAVE = f"sh -c 'env -0 >got; test -z {FILE} || {{ cat {FILE} >data; stat -c %a {FILE} >mode; }}'"


@pytest.fixture
def hears(work, tmp_path):
    """What a command finds in its environment of its own run, without ``REDBIKE_``."""

    def hearing(run, options=""):
        work(SAVE, f"cwd = .\n{options}", run)
        pairs = [line.split("=", 1) for line in (tmp_path / "got").read_text(encoding="utf-8").split("\0")[:-1]]
        return {name.removeprefix("REDBIKE_"): value for name, value in pairs if name in OF_RUN}

    return hearing


USUAL = {"JOBID": "x:A", "QUEUE": "work-A", "DUE": "1000000000", "ATTEMPT": "1", "KEY": "x:A@1000000000"}


@pytest.mark.parametrize(
    ("changes", "options", "more"),
    [
        ({}, "", {}),
        ({"tries": 2}, "", {"ATTEMPT": "3"}),
        ({"stored_data": '{"é":"a\'$(b)"}'}, "", {"DATA": '{"é":"a\'$(b)"}'}),
        ({"stored_data": f'"{"x" * (32 * 1024 - 2)}"'}, "env = cron", {"DATA": f'"{"x" * (32 * 1024 - 2)}"'}),
    ],
)
def test_a_command_hears_of_its_run_and_of_no_other(hears, monkeypatch, changes, options, more):
    for name in OF_RUN:
        monkeypatch.setenv(name, "of another run")
    run = replace(a_run(seconds=1e9), **changes)
    assert hears(run, options) == USUAL | more


@pytest.mark.parametrize(("seconds", "options"), [(20.0, ""), (1e9, "timeout = 20")])
def test_the_deadline_is_when_it_is_ended(hears, seconds, options):
    run = a_run(seconds=seconds)
    assert run.now() + 15 < float(hears(run, options)["DEADLINE"]) < run.now() + 20.1


def test_much_data_is_in_a_private_file_that_goes_with_the_run(hears, tmp_path):
    data = json.dumps(["é" * 1000] * 32, ensure_ascii=False)[:MAX_DATA]
    found = hears(replace(a_run(), stored_data=data))
    assert "DATA" not in found
    assert (tmp_path / "data").read_text(encoding="utf-8") == data
    assert (tmp_path / "mode").read_text() == "600\n"
    assert not os.path.exists(found["DATA_FILE"])


def test_data_without_a_place_fail_in_one_line(work, tmp_path, monkeypatch):
    run = replace(a_run(), stored_data=json.dumps("x" * 40_000))
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: iter(["none/there"]))
    with pytest.raises(CommandFailed, match=r"^cannot write its data to a file: No such file or directory$"):
        work("true", "", run)


def test_on_failure_and_a_real_worker_have_the_data_too(jobs):
    folder = jobs.folder
    (folder / "say.sh").write_text(
        'cat ${REDBIKE_DATA_FILE:-/dev/null}; echo "$REDBIKE_DATA $REDBIKE_QUEUE $REDBIKE_ATTEMPT"\n'
    )
    (folder / "commands.ini").write_text(
        "[commands]\nx = sh -c '. ./say.sh >ran; exit 1'\n"
        "[x]\ncwd = .\non-failure = sh -c '. ./say.sh >said; mv said told'\n"
    )
    jobs.bike.set("x:A", "NOW", data="d" * 60_000)
    jobs.start("work")
    wait_until((folder / "told").exists)
    assert (folder / "told").read_text() == (folder / "ran").read_text()
    assert (folder / "told").read_text().split() == [json.dumps("d" * 60_000), "work-A", "1"]
    wait_until(lambda: not list(folder.glob("redbike-data-*")))


def test_a_command_that_calls_redbike_starts_no_server_of_its_own(tmp_path, monkeypatch):
    """It gets no ``REDBIKE_URL``, so what it sets would be where no worker is."""
    shell = Shell(tmp_path, None)
    shell.environment["REDBIKE_JOBID"] = "x:A"
    for line in (("set", "next:A", "NOW"), ("load", "jobs.csv"), ("now", "--", "true")):
        (tmp_path / "jobs.csv").write_text("next:A,NOW\n")
        said = "a command of a job gets no REDBIKE_URL; name its server in an env-file"
        check_refused(shell.run(*line), 1, said)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDBIKE_JOBID", "x:A")
    monkeypatch.delenv("REDBIKE_URL", raising=False)
    with pytest.raises(ServerError, match="gets no REDBIKE_URL"):
        Redbike(RoundRobin("A"))
    assert not (tmp_path / ".redbike").exists()
    # One that runs there is that of its worker.
    server = EmbeddedServer()
    server.start()
    try:
        assert shell.run("set", "next:A", "NOW").returncode == 0
    finally:
        server.stop()
