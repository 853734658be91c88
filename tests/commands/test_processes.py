"""No command outlives its worker unseen: workers that end in every way, and the runs after those that were killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from redbike.commands import job_lock
from redbike.commands.job_lock import hold_lock, make_name
from redbike.commands.process_group import ProcessGroup
from redbike.config.settings import Settings
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.errors import Overrun
from redbike.store.enums import Event
from redbike.store.lease import LEASE
from tests.commandline import ROOT
from tests.commands.conftest import LONG
from tests.durations import SOON_AGAIN
from tests.proc import signal_until_gone
from tests.verbs import set_job
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

# It and its child hold the lifeline open; neither ends by a signal but SIGKILL in the second one.
OBEDIENT = "sh -c '(echo up; exec sleep 300) > lifeline & wait'"
STUBBORN = """sh -c 'trap "" TERM HUP INT; (echo up; echo > started; sleep 300) > lifeline & wait; sleep 300'"""


def assert_alone(seconds, condition):
    """`condition` holds all the time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert condition()
        time.sleep(0.02)


# Every way in which Python ends

SCRIPT = """
import os, signal, sys, threading
from redbike import Redbike
from redbike.commands.worker import Commands

bike = Redbike(Commands("A", "commands.ini"), redis_config={url!r}, prefix={prefix!r})
{body}
"""


@pytest.fixture
def script(store, prefix, server_url, tmp_path):
    """Starts a program whose worker runs x:A, a command `line`; `body` says how it works."""

    def started(body, line):
        (tmp_path / "commands.ini").write_text(f"[commands]\nx = {line}\n[x]\ncwd = .\n")
        set_job(store, "x:A", "NOW", "now", once=True)
        (tmp_path / "program.py").write_text(SCRIPT.format(url=server_url, prefix=prefix, body=body))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
        return subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, env=environment, text=True)

    return started


@pytest.mark.parametrize(("ending", "line"), [("sys.exit(3)", OBEDIENT), ("raise ValueError('mine')", STUBBORN)])
def test_the_end_of_the_interpreter_ends_all_commands_and_tells_nobody_how(script, store, lifeline, ending, line):
    go = lifeline.path.with_name("go")
    os.mkfifo(go)
    program = script(f"threading.Thread(target=bike.work_one, daemon=True).start()\nopen('go').read()\n{ending}", line)
    assert lifeline.wait()
    go.write_text("go")
    program.wait(timeout=LONG)
    lifeline.assert_cut()
    # So it is recovered like the run of any other worker that is gone.
    [state] = store.questions.inspect(["x:A"])
    assert (bool(state.running), state.failure) == (True, None)


def test_a_fork_of_the_worker_leaves_its_commands_alone(tmp_path):
    with ProcessGroup([b"sleep", b"300"], os.environb, None) as group:
        child = os.fork()
        if child == 0:
            from redbike.commands import process_group

            process_group.end_all()
            os._exit(process_group._is_ending is False)
        os.waitpid(child, 0)
        assert group.is_alive()
        group.end(0.0, time.sleep)


def test_an_ignored_sigchld_does_not_make_a_failure_a_success(script, store):
    """In a thread, which cannot undo that; see tests/process/test_signals.py for a worker."""
    body = "thread = threading.Thread(target=bike.work_one); thread.start(); thread.join()"
    program = script(f"signal.signal(signal.SIGCHLD, signal.SIG_IGN); {body}", "sh -c 'exit 3'")
    assert program.wait(timeout=LONG) == 0
    assert "SIGCHLD" in store.questions.inspect(["x:A"])[0].failure["error"]


# Signals: test_worker.py has what the first one does


@pytest.fixture
def start(jobs):
    """Starts a process, and waits until its command runs."""
    (jobs.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:Commands('A', 'commands.ini')\n")
    (jobs.folder / "jobs.py").write_text(f"{SOON_AGAIN}\nfrom redbike.commands import Commands\n")
    (jobs.folder / "commands.ini").write_text(f"[commands]\nx = {STUBBORN}\n[x]\ncwd = .\n")

    def start(*arguments):
        process = jobs.start(*arguments)
        jobs.run("set", "x:A", "NOW")
        wait_until((jobs.folder / "started").exists)
        return process

    return start


@pytest.mark.parametrize(
    ("arguments", "number"),
    [(["work"], signal.SIGTERM), (["work", "--concurrency=1"], signal.SIGINT), (["up"], signal.SIGHUP)],
)
def test_a_second_signal_ends_the_commands_too_and_hands_their_runs_back(jobs, start, lifeline, arguments, number):
    signal_until_gone(start(*arguments), number)
    lifeline.assert_cut()
    [state] = jobs.bike.store.questions.inspect(["x:A"])
    assert (bool(state.running), state.has_event(Event.ENQ), state.failure) == (False, True, None)
    assert "x:A: handed back" in jobs.log()
    assert "ERROR" not in jobs.log()


def test_a_worker_that_fails_still_listens_while_its_commands_end(start, client, lifeline):
    worker = start("work")
    # Nobody can take from a queue that is no list.
    client.set("redbike-work-A", "damaged")
    wait_until(lambda: not [each for each in client.client_list() if each["cmd"] == "blpop"])
    signal_until_gone(worker, signal.SIGTERM)
    lifeline.assert_cut()


# The next run of a job whose worker was killed


def kill(worker, store):
    """Do at once, too, what a dispatcher does when nothing is heard of a worker for a while."""
    worker.kill()
    worker.wait()
    Dispatcher(store, Settings()).dispatch_due(now=store.timeline.read_dispatched()[0] + 2 * LEASE)
    assert store.questions.inspect(["x:A"])[0].queued


def lines(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_the_next_run_waits_until_the_command_of_a_killed_worker_is_gone(jobs, gate):
    (jobs.folder / "commands.ini").write_text(
        "[commands]\nx = sh -c 'echo >> started; (read line < limits; echo >> ended) & wait'\n"
    )
    started, ended = jobs.folder / "started", jobs.folder / "ended"
    first = jobs.start("work", log="first")
    jobs.run("set", "x:A", "NOW")
    wait_until(lambda: lines(started) == 1)
    kill(first, jobs.bike.store)
    second = jobs.start("work", log="second")
    wait_until(lambda: "waits until the command of its last run" in jobs.log("second"))
    assert_alone(0.7, lambda: lines(started) == 1)
    # A worker that is to stop does not wait for the command of another one.
    second.terminate()
    assert second.wait(timeout=LONG) == 0
    assert "still runs: this worker leaves the job to another one" in jobs.log("second")
    second = jobs.start("work", log="third")
    wait_until(lambda: "waits until the command of its last run" in jobs.log("third"))
    gate()
    wait_until(lambda: lines(started) == 2)
    assert lines(ended) == 1
    assert jobs.log("third").count("waits until") == 1
    gate()
    wait_until(lambda: lines(ended) == 2)


def test_the_wait_counts_as_time_of_the_run(jobs, gate):
    file, text = jobs.folder / "commands.ini", "[commands]\nx = sh -c 'echo >> started; read line < limits'\n[x]\n"
    file.write_text(f"{text}timeout = 60\n")
    first = jobs.start("work", log="first")
    jobs.run("set", "x:A", "NOW")
    wait_until(lambda: lines(jobs.folder / "started") == 1)
    kill(first, jobs.bike.store)
    file.write_text(f"{text}timeout = 1\n")
    jobs.start("work", log="second")
    wait_until(lambda: "has not ended" in jobs.log("second"))
    assert lines(jobs.folder / "started") == 1


@pytest.fixture
def locks(tmp_path, monkeypatch):
    """The names of the files in the folder for locks, which is one of the test's own."""
    folder = tmp_path / "locks"
    folder.mkdir(0o700)
    monkeypatch.setattr(job_lock, "_make_folder", lambda: str(folder))
    return lambda: sorted(os.listdir(folder))


def leave(name, line):
    """Run a shell with `line` under the lock `name`, as a worker that is then killed."""
    with hold_lock(name, time.monotonic() + LONG, "x:A") as lock:
        group = ProcessGroup([b"sh", b"-c", line.encode()], os.environb, None, lock.descriptors)
        lock.record_group(group.pgid)
        # The descriptor is closed, as the kernel does for a process that is killed.
        lock.keep()
    return group


def test_a_lock_is_held_until_the_last_process_of_the_group_is_gone(locks):
    group = leave("one", "(trap '' TERM; sleep 300) & echo up; exec sleep 300")
    assert group.process.stdout.read(3) == b"up\n"
    with pytest.raises(Overrun), hold_lock("one", time.monotonic() + 0.1, "x:A"):
        pass
    with hold_lock("two", time.monotonic(), "x:A"):
        assert locks() == ["one", "two"]
    # The first process ends, its child goes on.
    os.kill(group.pgid, signal.SIGKILL)
    group.process.wait()
    with pytest.raises(Overrun), hold_lock("one", time.monotonic() + 0.1, "x:A"):
        pass
    threading.Timer(0.3, os.killpg, (group.pgid, signal.SIGKILL)).start()
    with hold_lock("one", time.monotonic() + LONG, "x:A"):
        pass
    assert locks() == []


def test_a_daemon_that_the_command_has_started_holds_nobody_up(locks):
    group = leave("one", "setsid sleep 300 & echo $!")
    daemon = int(group.process.stdout.readline())
    group.process.wait()
    wait_until(lambda: not group.is_alive())
    try:
        with hold_lock("one", time.monotonic() + 1.0, "x:A"):
            pass
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_what_a_run_in_time_leaves_behind_holds_nobody_up(locks):
    with hold_lock("one", time.monotonic(), "x:A") as lock:
        group = ProcessGroup([b"sh", b"-c", b"sleep 300 &"], os.environb, None, lock.descriptors)
        lock.record_group(group.pgid)
        group.process.wait()
    assert locks() == []
    with hold_lock("one", time.monotonic(), "x:A"):
        assert group.is_alive()
    group.end(0.0, time.sleep)


def test_one_of_many_holds_a_lock(locks):
    inside = []

    def work(number):
        with hold_lock("one", time.monotonic() + LONG, "x:A"):
            inside.append(number)
            is_alone = inside == [number]
            inside.remove(number)
            return is_alone

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [True] * 8
    assert locks() == []


def test_a_script_may_use_small_descriptors_itself(locks):
    with hold_lock("one", time.monotonic(), "x:A") as lock:
        assert min(lock.descriptors) >= 64


def test_the_name_of_a_lock_is_that_of_the_job_under_its_prefix():
    names = {make_name("/a.ini", "p", "x:A"), make_name("/a.ini", "q", "x:A"), make_name("/a.ini", "p", "y:A")}
    names |= {make_name("/b.ini", "p", "x:A"), make_name("/a.ini", "p", "x:\udc80A")}
    assert len(names) == 5
    assert all(name.isalnum() for name in names)


def own(folder):
    folder.mkdir(0o755)


def link(folder):
    folder.with_name("elsewhere").mkdir(0o700)
    folder.symlink_to(folder.with_name("elsewhere"))


@pytest.mark.parametrize("prepare", [Path.touch, own, link])
def test_without_a_private_folder_it_goes_on_and_says_so_once(tmp_path, monkeypatch, caplog, prepare):
    monkeypatch.setattr(job_lock.tempfile, "gettempdir", lambda: str(tmp_path))
    prepare(tmp_path / f"redbike-commands-{os.geteuid()}")
    job_lock._warn_once.cache_clear()
    for _ in range(2):
        with hold_lock("one", time.monotonic(), "x:A") as lock:
            lock.record_group(1)
            assert lock.descriptors == []
    (record,) = caplog.records
    assert "may run beside" in record.getMessage()
