"""Signals to real processes: the first stops them in order, a later one at once."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from redbike import RoundRobin
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.loop.loop import Loop
from redbike.loop.registration import Presence
from redbike.process import signals
from redbike.process.signals import SignalHandlers, StopFlag
from redbike.store.store import Store
from redbike.worker.worker import Worker
from tests.durations import AGAIN, SOON_AGAIN, set_lines
from tests.proc import children_of, is_gone, signal_until_gone, worker_of
from tests.waiting import wait_until

KILLED_SOON = set_lines(supervisor__FIRST_PAUSE=0.1, supervisor__KILL_TIMEOUT=1.0)
WORKER = f"""
{SOON_AGAIN}
{KILLED_SOON}
import os, signal, time
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        print("begun", jobid, flush=True)
        if jobid.startswith("deaf"):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        while not os.path.exists("go"):
            time.sleep(0.01)
        print("done", jobid, flush=True)

    def timeout(self, queue_name):
        return 1000.0

class Aborting(Worker):
    aborted = False

    def work(self, jobid):
        print("begun", jobid, flush=True)
        while not self.aborted:
            time.sleep(0.01)
        raise ValueError("aborted")

    def abort(self):
        self.aborted = True
        print("aborting", flush=True)
        time.sleep(0.2)
"""


def start(jobs, command, *more, worker="Worker"):
    return jobs.start(command, f"jobs:{worker}('A')", *more)


def start_with_a_job(jobs, *command, jobid="job:A", worker="Worker"):
    process = start(jobs, *command, worker=worker)
    assert jobs.bike.set(jobid, "NOW")
    wait_until(lambda: f"begun {jobid}" in jobs.log())
    return process


def signal_until(process, number, condition):
    """Send a signal over and over, at first too early to count."""

    def send():
        if condition():
            return True
        process.send_signal(number)
        return False

    wait_until(send)


HANGUP, TERMINATION, INTERRUPT = signal.SIGHUP, signal.SIGTERM, signal.SIGINT


@pytest.mark.parametrize(
    ("command", "number"),
    [
        (["work"], HANGUP),
        (["up"], TERMINATION),
        pytest.param(["work", "--processes=2"], INTERRUPT, marks=pytest.mark.acceptance),
    ],
)
def test_a_signal_lets_the_current_job_finish(jobs, command, number):
    process = start_with_a_job(jobs, *command)
    process.send_signal(number)
    wait_until(lambda: "stopping after the current job" in jobs.log())
    (jobs.folder / "go").touch()
    assert process.wait(timeout=60) == 0
    assert "done job:A" in jobs.log()
    assert jobs.status_of("job:A") == "STP"


@pytest.mark.parametrize(("command", "number"), [("dispatch", HANGUP), ("work", INTERRUPT)])
def test_a_signal_ends_an_idle_process_soon(jobs, client, command, number):
    # By itself it would look after a long time.
    patient = {"dispatcher__LONGEST_SLEEP": 600.0, "dispatcher__NAP": 600.0, "source__NAP": 600.0, "wakeup__BLOCK": 600}
    (jobs.folder / "jobs.py").write_text(set_lines(**patient, wakeup__SILENCE=700) + WORKER)
    process = start(jobs, command)
    wait_until(lambda: [each["cmd"] for each in client.client_list()].count("blpop") == 1)
    process.send_signal(number)
    assert process.wait(30) == 0
    assert "Traceback" not in jobs.log()


@pytest.mark.acceptance
def test_a_hangup_that_is_ignored_from_the_start_stays_ignored(jobs):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start_with_a_job(jobs, "up")
    finally:
        signal.signal(signal.SIGHUP, before)
    for pid in (process.pid, *children_of(process.pid)):
        os.kill(pid, signal.SIGHUP)
    (jobs.folder / "go").touch()
    wait_until(lambda: "done job:A" in jobs.log())
    assert jobs.bike.set("other:A", "NOW")
    wait_until(lambda: "done other:A" in jobs.log())
    assert process.poll() is None


@pytest.mark.acceptance
def test_signals_within_a_second_count_as_one(jobs, client):
    """As a service manager sends them: to a supervisor, which passes its own on, and to its children."""
    # On a busy machine the supervisor's own signal may come late.
    (jobs.folder / "jobs.py").write_text(WORKER.replace(SOON_AGAIN, set_lines(signals__AGAIN=20.0)))
    process = start_with_a_job(jobs, "up")
    wait_until(lambda: any(each["cmd"] == "blpop" for each in client.client_list()))
    for pid in (process.pid, *children_of(process.pid)):
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: jobs.log().count("stopping after the current job") == 2)
    time.sleep(1.2 * signals.AGAIN)  # a worker that had been told twice would be gone
    assert process.poll() is None
    (jobs.folder / "go").touch()
    assert process.wait(timeout=60) == 0
    assert jobs.status_of("job:A") == "STP"


@pytest.mark.parametrize(("number", "concurrency"), [(HANGUP, 1), (TERMINATION, 2)])
def test_a_second_signal_aborts_runs_and_nobody_hears_how_they_end(jobs, number, concurrency):
    worker = start_with_a_job(jobs, "work", f"--concurrency={concurrency}", worker="Aborting")
    worker.send_signal(number)
    wait_until(lambda: "stopping after the current job" in jobs.log())
    assert "aborting" not in jobs.log()
    signal_until(worker, number, lambda: "aborting" in jobs.log())
    assert worker.wait(timeout=60) == -number
    assert jobs.log().count("aborting") == 1
    assert jobs.status_of("job:A") == "ENQ"


def test_an_abort_that_hangs_or_fails_holds_nothing_up(jobs):
    (jobs.folder / "jobs.py").write_text(
        WORKER + "class Failing(Aborting):\n    def abort(self):\n        raise ValueError('no abort')\n"
    )
    worker = start_with_a_job(jobs, "work", worker="Failing")
    signal_until_gone(worker)
    assert worker.wait() == -signal.SIGTERM
    assert "Traceback" not in jobs.log()


@pytest.mark.acceptance
def test_a_second_signal_to_up_aborts_the_runs_of_its_children(jobs):
    # The worker ignores what would be the second one, as if it had heard late of the first one.
    late = "import sys\nif 'work' in sys.argv:\n    tests.durations.set_all({'signals__AGAIN': 1.0})\n"
    # On a busy machine it may abort slowly.
    (jobs.folder / "jobs.py").write_text(WORKER.replace(KILLED_SOON, late))
    up = start_with_a_job(jobs, "up", worker="Aborting")
    worker = worker_of(up.pid)
    signal_until(up, signal.SIGTERM, lambda: "aborting" in jobs.log())
    assert up.wait(timeout=60) == 128 + signal.SIGTERM
    assert is_gone(worker)
    assert jobs.log().count("aborting") == 1
    assert jobs.status_of("job:A") == "ENQ"


@pytest.mark.acceptance
def test_a_second_signal_to_up_kills_what_does_not_hear(jobs, client):
    up = start_with_a_job(jobs, "up", jobid="deaf:A")
    worker = worker_of(up.pid)
    wait_until(lambda: any(each["cmd"] == "blpop" for each in client.client_list()))
    up.terminate()
    wait_until(lambda: "stopping after the current job" in jobs.log())
    time.sleep(AGAIN)
    up.terminate()
    assert up.wait(timeout=60) == 128 + signal.SIGTERM
    assert is_gone(worker)


def test_a_status_of_a_child_is_seen_where_sigchld_was_ignored(jobs):
    (jobs.folder / "commands.ini").write_text("[commands]\nfail: sh -c 'exit 3'\n")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        up = start(jobs, "up")
        jobs.start("work", "redbike.commands:Commands('B', 'commands.ini')", log="commands")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert jobs.bike.set("fail:B", "NOW")
    wait_until(lambda: "exit status 3" in jobs.log("commands"))
    wait_until(lambda: len(children_of(up.pid)) == 2)
    os.kill(worker_of(up.pid), signal.SIGKILL)
    wait_until(lambda: "work-1 was killed by SIGKILL; it is started again" in jobs.log())


@pytest.fixture
def acted(monkeypatch):
    """The signals on which handlers have acted, and whether each may have been a second one."""
    act, acted = SignalHandlers._act, []

    def note(handlers, number, now, may_be_second):
        act(handlers, number, now, may_be_second)
        acted.append((number, may_be_second))

    monkeypatch.setattr(SignalHandlers, "_act", note)
    return acted


def test_the_handlers_from_before_come_back(monkeypatch, acted):
    monkeypatch.setattr(signals, "AGAIN", 60.0)
    heard = []
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    with SignalHandlers(heard.append, lambda number: heard.append(-number)):
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: heard)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: (signal.SIGTERM, True) in acted)
        assert heard == [signal.SIGHUP], "the second one came too early to count"
        monkeypatch.setattr(signals, "AGAIN", 0.0)
        wait_until(lambda: os.kill(os.getpid(), signal.SIGINT) or len(heard) == 2)
        os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [signal.SIGHUP, -signal.SIGINT]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before


def test_a_signal_that_the_thread_hears_late_is_no_second_one(monkeypatch, acted):
    monkeypatch.setattr(signals, "AGAIN", 0.0)
    heard = []
    with SignalHandlers(heard.append, lambda number: heard.append(-number)):
        # As if the main thread had heard it long before.
        signals.tell(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: len(acted) == 3)  # also the main thread and the one that watches
        assert heard == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: (signal.SIGTERM, True) in acted)
    assert heard == [signal.SIGTERM, -signal.SIGTERM]


def test_in_another_thread_nothing_is_heard_and_when_nothing_handles_signals_none_is_sent():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def look():
        with SignalHandlers(print):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]
    # A process that ends still has to sign off: a word of its supervisor does not kill it.
    assert not signals.tell(signal.SIGTERM)


def test_a_handler_that_was_not_installed_by_python_becomes_the_default():
    code = (
        "import os, signal\n"
        "from redbike.process.signals import SignalHandlers\n"
        "with SignalHandlers(lambda number: print('heard', number, flush=True)):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print('still there')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, f"heard {signal.SIGTERM:d}\n")


def test_a_signal_that_comes_in_a_finalizer_stops_a_waiting_process(client, prefix, monkeypatch):
    store = Store(client, prefix, RoundRobin("A").queue_for)

    class Finalized:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            wait_until(loop.stopping.is_set)

    def script():
        Finalized()
        return store.at(None).timeline.pack_survey(passed_over=0)

    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)
    loop = Loop(store)
    with loop.handle_signals():
        loop.run(lambda: loop.wait_and_run([store.keys.wakeup], 1.0, script))
    assert not dropped


@pytest.mark.parametrize("kind", [Dispatcher, Worker])
def test_a_process_handles_signals_for_as_long_as_it_is_registered(bike, monkeypatch, kind):
    """Who sees it may stop it: a deployment, or another test."""
    loop = (
        Dispatcher(bike.store, bike.settings) if kind is Dispatcher else Worker(bike.store, bike.worker, bike.settings)
    )
    handlers, before = [], signal.getsignal(signal.SIGTERM)

    def noting(change):
        def note(*args):
            handlers.append(signal.getsignal(signal.SIGTERM))
            return change(*args)

        return note

    for name in ("__enter__", "__exit__"):
        monkeypatch.setattr(Presence, name, noting(getattr(Presence, name)))
    loop.loop.stopping.set()
    (loop.dispatch if kind is Dispatcher else loop.work)()
    assert len(handlers) == 2
    assert before not in handlers
    assert signal.getsignal(signal.SIGTERM) == before
    bike.close()


def test_a_flag_wakes_whoever_waits_and_is_closed_in_the_end():
    flag = StopFlag()
    assert not flag.wait(0.0)
    thread = threading.Timer(0.01, flag.set)
    thread.start()
    assert flag.wait(10.0)
    assert flag.is_set()
    thread.join()
    flag.set()
    assert flag.wait(10.0), "it stays set"
    descriptor = flag.fileno()
    del flag, thread
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
