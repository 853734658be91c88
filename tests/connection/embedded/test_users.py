"""Who stops the embedded server, who keeps it up, and where it is."""

import os
import signal
import subprocess
import sys

import pytest

from redbike import Redbike, RoundRobin
from redbike.connection.client import connect
from redbike.connection.embedded import EmbeddedServer
from redbike.connection.probe import is_alive
from redbike.errors import ServerError, Unreachable
from tests.commandline import ROOT, Shell, make_module
from tests.connection.embedded import kill, pids, redis_answers, suspend
from tests.waiting import wait_until

WORKER = make_module("with open('ran.log', 'a') as file: print(jobid, file=file)")


@pytest.fixture
def up(tmp_path):
    """Starts `up` for the folder of the test, with a queue; each ends with the test."""
    (tmp_path / "jobs.py").write_text(WORKER)
    shell = Shell(tmp_path, None)

    def start(queue, *more):
        return shell.start("up", f"jobs:Worker('{queue}')", *more, log=queue)

    yield start
    for process in shell.started:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
    shell.close()


# Stopping it


def test_one_that_is_suspended_does_not_stop_and_it_says_so(server, monkeypatch):
    monkeypatch.setattr("redbike.connection.embedded.STOP_TIMEOUT", 0.3)
    pid = suspend(server)
    with pytest.raises(ServerError, match=f"suspended.*kill -CONT {pid}"):
        server.stop()
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not is_alive(pid))
    assert server.status()["running"] is False


def test_it_stops_under_the_process_that_started_it(server, tmp_path):
    program = (
        "import sys; from redbike.connection.embedded import EmbeddedServer\n"
        "EmbeddedServer(sys.argv[1]).start(); sys.stdin.read()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program, str(server.folder)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    wait_until(lambda: server.status()["running"])
    # It stays a zombie until its parent waits for it, which ends it all the same.
    assert server.stop() is True
    starter.communicate(timeout=60)


def test_its_users_leave_it_stopped_until_it_is_started(server):
    bike = Redbike(RoundRobin("A"), redis_config=f"embedded:{server.folder}")
    bike.set("a:A", "@hourly")
    server.stop()
    with pytest.raises(Unreachable, match="was stopped: 'redbike server start' starts it"):
        bike.set("b:A", "@hourly")
    assert pids(server.folder) == []
    assert server.start() is True
    assert bike.set("b:A", "@hourly")
    assert len(list(bike.get_schedules())) == 2


def test_it_is_not_stopped_while_somebody_else_uses_it(server):
    server.start()
    client = connect(f"embedded:{server.folder}")
    client.ping()
    assert server.stop_if_unused() is False
    client.close()
    assert server.stop_if_unused() is True
    # That was no order: whoever comes next starts it.
    assert client.ping()


# Its users keep it up


def test_a_client_starts_it_again_and_nothing_is_lost(server, caplog):
    bike = Redbike(RoundRobin("A"), redis_config=f"embedded:{server.folder}")
    bike.set("a:A", "@hourly")
    kill(server)
    assert bike.set("b:A", "@hourly")
    assert "starts it again" in caplog.text
    assert sorted(jobid for jobid, _ in bike.get_schedules()) == ["a:A", "b:A"]


def test_many_threads_that_lose_it_start_one(server, threads):
    client = connect(f"embedded:{server.folder}")
    client.ping()
    client.close()
    kill(server)
    assert list(threads.map(lambda _: client.ping(), range(20))) == [True] * 20
    assert len(pids(server.folder)) == 1


def test_up_keeps_it_up(server, up, tmp_path):
    process = up("A")
    wait_until(lambda: redis_answers(server))
    bike = Redbike(RoundRobin("A"), redis_config=server.url)
    bike.set("a:A", "NOW")
    ran = tmp_path / "ran.log"
    wait_until(lambda: ran.exists() and "a:A" in ran.read_text())
    bike.client.close()
    before = kill(server)
    wait_until(lambda: pids(server.folder) not in ([], [before]))
    wait_until(lambda: redis_answers(server))
    bike.set("b:A", "NOW")
    wait_until(lambda: "b:A" in ran.read_text())
    bike.client.close()
    process.terminate()
    assert process.wait(60) == 0
    assert pids(server.folder) == []
    said = "started a server in '.redbike'; it ends with this command, unless others use it\n"
    printed = (tmp_path / "A").read_text()
    assert said in printed
    assert printed.endswith("redbike: the dispatcher and 1 worker have ended, and the embedded server too\n")


def test_an_up_that_is_refused_ends_it(server, up, tmp_path):
    with Redbike(RoundRobin("A"), redis_config=f"embedded:{server.folder}", shards=2) as bike:
        bike.set("a:A", "@hourly")
    server.stop()
    assert up("A").wait(60) == 2
    (tmp_path / ".redbike.conf").write_text("[redbike]\nshards: 2\n")
    assert up("A", "--schedules=none.csv").wait(60) == 2
    printed = (tmp_path / "A").read_text()
    assert ("bad shards 1" in printed, "cannot read 'none.csv'" in printed) == (True, True)
    assert (printed.count("started a server"), pids(server.folder)) == (2, [])


@pytest.mark.acceptance
def test_the_up_that_started_it_leaves_it_to_another(server, up, tmp_path):
    ran = tmp_path / "ran.log"

    def works(jobid):
        with connect(server.url) as client:
            Redbike(RoundRobin("A"), redis_config=client).set(jobid, "NOW")
        wait_until(lambda: ran.exists() and jobid in ran.read_text(), 30)

    first = up("A")
    wait_until(lambda: redis_answers(server))
    second = up("B")
    works("a:B")
    (pid,) = pids(server.folder)
    first.terminate()
    assert first.wait(60) == 0
    assert pids(server.folder) == [pid]
    works("b:B")
    second.terminate()
    assert second.wait(60) == 0
    for queue, why in (("A", "others use it"), ("B", "it ran before")):
        said = f"; the embedded server runs on, as {why}: redbike server stop ends it\n"
        assert (tmp_path / queue).read_text().endswith(said)


# Where it is


@pytest.mark.parametrize("name", ["a#b%41", "two words, why?"])
def test_its_folder_may_have_any_name(tmp_path, name):
    server = EmbeddedServer(tmp_path / name)
    try:
        connect(f"embedded:{server.folder}").set("k", "v")
        assert connect(server.url).get("k") == b"v"
        assert (server.folder / "redis.sock").is_socket()
    finally:
        server.stop()


def test_one_whose_folder_was_moved_leaves_the_files_of_the_next_one_there_alone(server, tmp_path):
    server.start()
    moved = EmbeddedServer(tmp_path / "moved")
    os.rename(server.folder, moved.folder)
    try:
        assert server.start() is True
        before = sorted(os.listdir(server.folder)), server.logfile.read_text()
        assert moved.status()["pid"] != server.status()["pid"]
        assert moved.stop() is True
    finally:
        moved.stop()
    assert (sorted(os.listdir(server.folder)), server.logfile.read_text()) == before
    assert server._read_pid_file() == server.status()["pid"]


def test_a_number_sign_in_the_path_of_a_socket_begins_no_fragment(tmp_path):
    server = EmbeddedServer(tmp_path / "a#b")
    try:
        server.start()
        assert connect(f"unix://{server.socket}").ping()
    finally:
        server.stop()


def test_there_is_none_in_a_deleted_folder(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(ServerError, match="the current folder does not exist any more"):
        EmbeddedServer()
    monkeypatch.chdir(tmp_path)
