"""Completed turns feed the watchdog of a service manager, and the file of a health check; what hangs does not."""

import contextlib
import faulthandler
import re
import signal
import socket
import stat
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from redbike.errors import BadConfig
from redbike.process import watchdog
from tests.cli.refused import check_refused
from tests.durations import set_lines
from tests.manager import Manager
from tests.proc import read_state
from tests.servers import Node, free_ports
from tests.waiting import SLOWNESS, wait_until

TURNS = {"heartbeat__INTERVAL": 0.2, "source__NAP": 0.2, "dispatcher__LONGEST_SLEEP": 0.2, "dispatcher__NAP": 0.2}
WORKER = f"""
{set_lines(watchdog__INTERVAL=0.1, **TURNS)}
import os, time
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        print("begun", jobid, sorted(name for name in os.environ if "WATCHDOG" in name or "NOTIFY" in name), flush=True)
        if jobid.startswith("long"):
            while not os.path.exists("go"):
                time.sleep(0.01)
        print("done", jobid, flush=True)

    def timeout(self, queue_name):
        return 0.5 if queue_name == "work-B" else 1000.0
"""
LONG = 60.0  # seconds: more than a test takes
SOON = 3.0 * SLOWNESS  # seconds: more than a process that goes on is silent


@pytest.fixture
def jobs(jobs):
    (jobs.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:Worker('A:B')\non-timeout: reschedule\n")
    return jobs


@pytest.fixture
def manage(jobs):
    managers = []

    def start(*arguments, limit=LONG):
        command = [sys.executable, "-m", "redbike", *arguments]
        managers.append(Manager(command, jobs.folder, jobs.environment, limit))
        return managers[-1]

    yield start
    for each in managers:
        each.kill()


@pytest.mark.acceptance
def test_a_suspended_dispatcher_is_restarted_and_nothing_is_lost(jobs, manage):
    manager = manage("dispatch", limit=SOON)
    jobs.start("work")
    jobs.bike.set("often:A", "EVERY:0.2s")
    wait_until(lambda: "done often:A" in jobs.log())
    wait_until(lambda: manager.count("WATCHDOG=1") >= 2)
    assert manager.heard[0] == "READY=1"
    manager.process.send_signal(signal.SIGSTOP)
    jobs.bike.set("meanwhile:A", f"AT:{time.time() + 1:.3f}")
    wait_until(lambda: "done meanwhile:A" in jobs.log())
    assert len(manager.processes) == 2
    ran = jobs.log().count("done often:A")
    wait_until(lambda: jobs.log().count("done often:A") > ran)
    assert jobs.run("fsck").returncode == 0
    assert manager.stop() == 0
    # The end of a process may complete a turn, too.
    assert manager.count("STOPPING=1") == 1


@pytest.mark.acceptance
def test_a_worker_whose_job_goes_on_after_its_deadline_is_restarted(jobs, manage):
    manager = manage("work", limit=3.0)  # before it replaces itself, which it does five seconds after the deadline
    jobs.bike.set("long:B", "NOW")
    jobs.bike.set("short:A", "NOW")
    jobs.bike.dispatch_due()
    wait_until(lambda: "begun long:B" in jobs.log())
    wait_until(lambda: len(manager.processes) == 2, 30)
    # Its log shows where it was.
    wait_until(lambda: 'jobs.py", line' in jobs.log() and "in work" in jobs.log())
    wait_until(lambda: "done short:A" in jobs.log())
    assert jobs.run("fsck").returncode == 0


@pytest.mark.acceptance
@pytest.mark.parametrize("concurrency", ["1", "3"])
def test_a_job_may_take_longer_than_the_watchdog(jobs, manage, concurrency):
    manager = manage("work", f"--concurrency={concurrency}")
    jobs.bike.set("long:A", "NOW")
    jobs.bike.dispatch_due()
    wait_until(lambda: "begun long:A []" in jobs.log())
    fed = manager.count("WATCHDOG=1")
    wait_until(lambda: manager.count("WATCHDOG=1") >= fed + 3, 30)
    (jobs.folder / "go").touch()
    wait_until(lambda: "done long:A" in jobs.log())
    assert len(manager.processes) == 1


@pytest.mark.acceptance
@pytest.mark.parametrize("command", ["dispatch", "work"])
def test_attempts_to_reach_a_server_that_is_away_count(jobs, manage, command):
    server = Node(jobs.folder / "server", *free_ports(1), "--appendonly", "yes")
    manager = manage(f"--url=redis://127.0.0.1:{server.port}", command)
    wait_until(lambda: "READY=1" in manager.heard)
    server.kill()
    wait_until(lambda: "waiting for it" in jobs.log())
    fed = manager.count("WATCHDOG=1")
    wait_until(lambda: manager.count("WATCHDOG=1") >= fed + 2, 30)
    server.start()
    wait_until(lambda: "Redis is back" in jobs.log(), 30)
    assert len(manager.processes) == 1
    assert manager.stop() == 0
    server.kill()
    server.client.close()


@pytest.mark.acceptance
def test_a_file_has_the_time_of_the_last_turn(jobs):
    file = jobs.folder / "alive"
    jobs.environment["REDBIKE_WATCHDOG_FILE"] = str(file)
    process = jobs.start("work")
    wait_until(file.exists)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first = file.stat().st_mtime
    wait_until(lambda: file.stat().st_mtime > first)
    # Removed by mistake: it is there again after the next turn.
    file.unlink()
    wait_until(file.exists)
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: read_state(process.pid) == "T")
    last = file.stat().st_mtime
    with pytest.raises(AssertionError):
        wait_until(lambda: file.stat().st_mtime > last, 0.5)
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: file.stat().st_mtime > last)


@pytest.fixture
def notified(tmp_path):
    """The socket that processes are to tell."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(60)
        yield notified


@pytest.mark.acceptance
def test_up_is_ready_when_its_processes_are_started_and_tells_that_it_stops(jobs, notified):
    jobs.environment["NOTIFY_SOCKET"] = notified.getsockname()
    up = jobs.start("up")
    assert notified.recv(100) == b"READY=1"
    jobs.bike.set("job:A", "NOW")
    wait_until(lambda: "begun job:A []" in jobs.log())
    up.terminate()
    assert notified.recv(100) == b"STOPPING=1"
    assert up.wait(60) == 0


# In this process


@pytest.fixture
def enable(monkeypatch):
    """Do what these variables ask for, each time that a loop goes round."""
    monkeypatch.setattr(watchdog, "_watchdog", watchdog.Watchdog())
    monkeypatch.setattr(watchdog, "INTERVAL", 0.0)
    monkeypatch.setattr(faulthandler, "enable", lambda: None)
    return lambda feeds=True, **variables: watchdog.enable(variables, feeds)


@pytest.mark.parametrize(
    ("feeds", "given", "said"),
    [
        (False, {"WATCHDOG_USEC": "30000000"}, "WatchdogSec is for one process: use 'dispatch' and 'work'"),
        (False, {"REDBIKE_WATCHDOG_FILE": "alive"}, "REDBIKE_WATCHDOG_FILE is for one process: use 'dispatch'"),
        (True, {"REDBIKE_WATCHDOG_FILE": "none/alive"}, "bad REDBIKE_WATCHDOG_FILE 'none/alive': No such file"),
        (True, {"REDBIKE_WATCHDOG_FILE": "."}, "bad REDBIKE_WATCHDOG_FILE '.': Is a directory"),
        (True, {"NOTIFY_SOCKET": "vsock:2:1"}, "bad NOTIFY_SOCKET 'vsock:2:1': the path of a socket is needed"),
    ],
)
def test_what_cannot_be_fed_is_refused(enable, feeds, given, said):
    with pytest.raises(BadConfig, match=re.escape(said)):
        enable(feeds, **given)


def test_up_says_in_one_line_that_it_has_no_watchdog(shell):
    shell.environment["REDBIKE_WATCHDOG_FILE"] = "alive"
    check_refused(shell.run("up", "redbike:RoundRobin('A')"), 2, "REDBIKE_WATCHDOG_FILE is for one process")


def test_a_manager_that_is_gone_is_mentioned_once_though_the_file_is_there(enable, tmp_path, caplog):
    file = tmp_path / "alive"
    enable(NOTIFY_SOCKET=str(tmp_path / "nobody"), WATCHDOG_USEC="30000000", REDBIKE_WATCHDOG_FILE=str(file))
    watchdog.begin()
    for _ in range(3):
        file.unlink()
        watchdog.feed()
        assert file.exists()
    assert caplog.messages == ["cannot notify the watchdog: NOTIFY_SOCKET: No such file or directory"]


def test_a_manager_that_is_busy_at_the_start_hears_later_that_it_is_ready(enable, notified, caplog):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                other.sendto(b"full", notified.getsockname())
    enable(NOTIFY_SOCKET=notified.getsockname())
    watchdog.feed()  # nothing is told before it has begun
    watchdog.begin()
    assert "cannot notify the watchdog" in caplog.text
    assert notified.recv(100) == b"full"
    watchdog.feed()
    while (heard := notified.recv(100)) == b"full":
        pass
    assert heard == b"READY=1"


def test_the_process_of_another_watchdog_is_not_fed_for_it(enable, notified):
    enable(NOTIFY_SOCKET=notified.getsockname(), WATCHDOG_USEC="30000000", WATCHDOG_PID="1")
    watchdog.begin()
    watchdog.feed()
    watchdog.end()
    assert [notified.recv(100), notified.recv(100)] == [b"READY=1", b"STOPPING=1"]


def test_each_of_several_loops_has_to_feed_it(enable, tmp_path):
    file = tmp_path / "alive"
    enable(REDBIKE_WATCHDOG_FILE=str(file))
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second, ThreadPoolExecutor(1) as other:

        def feeds(*loops):
            file.unlink(missing_ok=True)
            for each in loops:
                each.submit(watchdog.feed).result()
            return file.exists()

        first.submit(watchdog.begin).result()
        assert feeds(other), "so do the heartbeats of a worker"
        second.submit(watchdog.begin).result()
        feeds(first, second)
        assert not feeds(second, second, other)
        assert feeds(first)
        assert feeds(first, second)
        second.submit(watchdog.end).result()
        assert feeds(first)
        assert feeds(first)
