"""What a failed run starts: ``on-failure``, with a real server and real processes."""

import logging
import os
import tempfile
import threading

import pytest

import redbike.commands.on_failure
from redbike.commands.worker import Commands
from redbike.config.settings import Settings
from redbike.facade.redbike import Redbike
from redbike.loop.pings import Pings
from redbike.loop.worker_class import RoundRobin
from redbike.store.keys import NOTIFIES
from redbike.worker.runner import Runner
from tests.commands.conftest import HOURLY, read_when_there
from tests.loops import make_worker
from tests.verbs import set_job, take_many
from tests.waiting import wait_until

SAY = '{ echo "$REDBIKE_JOBID|$REDBIKE_OUTCOME|$REDBIKE_ERROR"; cat; } > said.new; mv said.new said'


def list_threads():
    return Runner(RoundRobin("A"), Settings(), Pings()).list_left_threads()


@pytest.fixture
def fails(works, tmp_path, monkeypatch):
    """Works x:A once, by a command `line` with `options`; returns the file that ``on-failure`` is to write."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def failing(line, options="", on_failure=SAY):
        works(line, options, more=f"[*]\nshell = /bin/sh\ncwd = .\non-failure = {on_failure}")
        return tmp_path / "said"

    return failing


def test_it_gets_the_output_and_the_error_of_the_run(fails):
    said = fails("echo one; echo two >&2; exit 3")
    assert read_when_there(said) == "x:A|failed|exit status 3: two\none\ntwo\n"


def test_it_runs_in_the_root_folder_if_that_of_the_command_is_missing(fails, tmp_path, caplog):
    said = tmp_path / "said"
    fails(
        "echo one", f"cwd = {tmp_path}/unmounted", f"{{ pwd; echo $REDBIKE_ERROR; }} > {said}.new; mv {said}.new {said}"
    )
    why = f"No such file or directory: '{tmp_path}/unmounted'"
    assert read_when_there(said) == f"/\ncannot run 'x': {why}\n"
    assert f"x:A: on-failure runs in '/': {why}" in caplog.messages


def test_a_program_that_is_missing_is_named(fails, caplog):
    fails("/none/shell/1", "shell = /none/shell")
    wait_until(lambda: "x:A: on-failure cannot be run: No such file or directory: '/none/shell'" in caplog.messages)


def test_it_does_not_run_after_a_success_or_before_the_last_try(fails, monkeypatch):
    started = []
    monkeypatch.setattr(redbike.commands.on_failure, "start", lambda *given: started.append(given))
    fails("true")
    fails("false", "retries = 3")
    fails("test $REDBIKE_ATTEMPT -gt 1 || sleep 300", "timeout = 0.5\non-timeout = requeue")
    assert started == []
    fails("false")
    wait_until(lambda: len(started) == 1)


def test_a_run_that_ends_well_needs_no_further_step_without_it(tmp_path):
    (tmp_path / "commands.ini").write_text("[commands]\nx = true\n")
    assert Commands("A", str(tmp_path / "commands.ini")).ended is None


@pytest.mark.parametrize(
    ("on_failure", "message"),
    [
        ("exit 4", "x:A: on-failure failed: exit status 4"),
        ("echo hello; exit 4", "x:A: hello"),
        ("sleep 300", "x:A: on-failure failed: not done after 0.5 s"),
    ],
)
def test_what_becomes_of_it_is_logged(fails, caplog, monkeypatch, on_failure, message):
    monkeypatch.setattr(redbike.commands.on_failure, "TIMEOUT", 0.5 if "sleep" in on_failure else 30.0)
    caplog.set_level(logging.INFO, "redbike.commands")
    fails("false", on_failure=on_failure)
    wait_until(lambda: message in [record.getMessage() for record in caplog.records])


@pytest.mark.parametrize("jobid", ["x:lost:A", "gone:A"])
def test_it_tells_of_a_lost_run_also_if_its_command_is_gone(fails, client, prefix, jobid):
    said = fails("true")
    bike = Redbike(Commands("A", str(said.parent / "commands.ini")), prefix, client, on_lost="reschedule")
    set_job(bike.store, jobid, HOURLY, "now")
    tag = f"OwnerOf1tag{NOTIFIES}"
    assert take_many(bike.store, [("work-A", 100.0)], [1], tag, 1)
    client.zadd(bike.store.keys.leases, {tag: 1.0})
    bike.dispatch_due()
    make_worker(bike.store, bike.worker, bike.settings).notifier.notify_others()
    assert read_when_there(said) == f"{jobid}|lost|its worker died or was cut off\n"


@pytest.mark.parametrize(("policy", "runs_again", "told"), [("requeue", 0, 0), ("requeue", 1, 0), ("stop", 0, 1)])
def test_it_tells_of_a_lost_run_only_if_it_is_not_tried_again(
    fails, client, prefix, monkeypatch, policy, runs_again, told
):
    started = []
    monkeypatch.setattr(redbike.commands.on_failure, "start", lambda *given: started.append(given))
    commands = Commands("A", str(fails("true").parent / "commands.ini"))
    bike = Redbike(commands, prefix, client, on_lost=policy)
    set_job(bike.store, "x:A", HOURLY, "now")
    tag = f"OwnerOf1tag{NOTIFIES}"
    assert take_many(bike.store, [("work-A", 100.0)], [1], tag, 1)
    client.zadd(bike.store.keys.leases, {tag: 1.0})
    bike.dispatch_due()
    worker = make_worker(bike.store, bike.worker, bike.settings)
    assert [worker.work_one() for _ in range(runs_again)] == ["x:A"] * runs_again
    worker.notifier.notify_others()
    assert len(started) == told


def test_it_does_not_delay_the_end_of_the_run(fails, tmp_path):
    os.mkfifo(tmp_path / "limits")
    # It waits for the test, which comes to the next line only if the end of the run did not wait for it.
    said = fails("false", on_failure="read line < limits; echo $line > said.new; mv said.new said")
    (tmp_path / "limits").write_text("go\n")
    assert read_when_there(said) == "go\n"


def test_a_process_that_ends_waits_for_it_and_names_it(fails, tmp_path):
    wait_until(lambda: not list_threads())
    os.mkfifo(tmp_path / "limits")
    # As the thread that calls ``ended``.
    given = {"args": ("false",), "kwargs": {"on_failure": "read line < limits"}}
    thread = threading.Thread(target=fails, **given, daemon=True)
    thread.start()
    thread.join()
    [(left, jobid)] = list_threads()
    assert (jobid, left.daemon) == ("x:A", False)
    (tmp_path / "limits").write_text("go\n")
    wait_until(lambda: not list_threads())


def test_not_too_many_run_at_once(fails, caplog, monkeypatch):
    # One of an earlier test would give back what it has not taken.
    wait_until(lambda: not list_threads())
    monkeypatch.setattr(redbike.commands.on_failure, "_free", threading.BoundedSemaphore(1))
    redbike.commands.on_failure._free.acquire()
    fails("false")
    wait_until(lambda: "x:A: on-failure did not run, because 20 such commands run already" in caplog.messages)
