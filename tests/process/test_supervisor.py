"""Children of ``up``: when they are started again, when not, and what is said of it."""

import os
import resource
import shutil
import signal
import subprocess
import time

import pytest

from redbike.connection.embedded import EmbeddedServer
from tests.cli.refused import check_refused
from tests.durations import AGAIN, set_lines
from tests.proc import children_of, is_gone, worker_of
from tests.states import unchanged
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

WORKER = f"""
{set_lines(signals__AGAIN=AGAIN, supervisor__FIRST_PAUSE=0.1)}
import logging, os, subprocess, sys, threading, time
from redbike import RoundRobin

LINES = 3000  # fewer than `up` drops

class Worker(RoundRobin):
    def work(self, jobid):
        name = jobid.partition(":")[0]
        if name == "print":
            return self.print_beside_a_log()
        print("begun", jobid, flush=True)
        if name.startswith("exit"):
            os._exit(int(name[4:]))
        if name == "background":
            subprocess.Popen(["sh", "-c", "sleep 1000 & echo $! > background"]).wait()
            os._exit(3)
        while name == "long" and not os.path.exists("go"):
            time.sleep(0.01)
        print("done", jobid, flush=True)

    def print_beside_a_log(self):
        thread = threading.Thread(target=self.log)
        thread.start()
        for _ in range(LINES):
            print("a line of the job")
        thread.join()
        # Without a newline or a flush, as bytes.
        sys.stdout.buffer.write(b"bytes of the job\\n")
        while not os.path.exists("go"):
            time.sleep(0.01)

    def log(self):
        for _ in range(LINES):
            logging.getLogger("x").error("a line of the log")

    def timeout(self, queue_name):
        return 1000.0
"""

LATE = """
class Late(Worker):
    def timeout(self, queue_name):
        return -1

"""


@pytest.fixture
def gone(jobs):
    """Starts `up` in a folder of its own that is to go, with the words of a shell before it."""
    gone = jobs.folder / "gone"
    gone.mkdir()
    (gone / "jobs.py").write_text(WORKER)
    started = []

    def start(words="", environment=jobs.environment):
        command = " ".join(jobs.command(("up", "\"jobs:Worker('A')\"")))
        with open(jobs.folder / "log", "w") as file:
            script = ["sh", "-c", f"{words} exec {command}"]
            started.append(subprocess.Popen(script, cwd=gone, env=environment, stdout=file, stderr=file))
        return started[-1]

    yield gone, start
    for each in started:
        each.kill()


@pytest.mark.parametrize("is_gone_before", [True, False])
def test_in_a_deleted_folder_up_ends_with_one_line(jobs, gone, is_gone_before):
    folder, start = gone
    up = start("rm jobs.py; rmdir ../gone;" if is_gone_before else "")
    if not is_gone_before:
        worker = worker_of(up.pid)
        wait_until(lambda: len(jobs.bike.workers()) == 2)
        shutil.rmtree(folder)
        os.kill(worker, signal.SIGKILL)
    assert up.wait(30) == 1
    assert len([line for line in jobs.log().splitlines() if "folder" in line]) == 1, jobs.log()
    assert "started again in" not in jobs.log()


def test_a_server_whose_folder_was_deleted_ends_with_up(jobs, gone):
    folder, start = gone
    up = start(environment={name: text for name, text in jobs.environment.items() if name != "REDBIKE_URL"})
    wait_until(lambda: "works work-A" in jobs.log())
    server = EmbeddedServer(folder / ".redbike").status()["pid"]
    # A process may be about to write a file there.
    wait_until(lambda: shutil.rmtree(folder, ignore_errors=True) or not folder.exists())
    up.terminate()
    assert up.wait(60) == 0, jobs.log()
    assert is_gone(server)
    assert jobs.log().count("was deleted, and with it all") == 1


@pytest.mark.parametrize("has_successor", [False, True])
def test_a_server_whose_folder_was_moved_ends_in_order_with_up(jobs, gone, has_successor):
    folder, start = gone
    up = start(environment={name: text for name, text in jobs.environment.items() if name != "REDBIKE_URL"})
    wait_until(lambda: "works work-A" in jobs.log())
    server = EmbeddedServer(folder / ".redbike").status()["pid"]
    moved, successor = folder.rename(folder.with_name("moved")) / ".redbike", EmbeddedServer(folder / ".redbike")
    try:
        if has_successor:
            successor.start()
        up.terminate()
        assert up.wait(60) == 0, jobs.log()
        assert successor.status()["running"] == has_successor
    finally:
        successor.stop()
    assert is_gone(server)
    assert f"was moved to {moved}" in jobs.log()
    assert "deleted" not in jobs.log()
    assert "bye bye" in (moved / "server.log").read_text()


def test_up_leaves_nothing_open_of_which_python_warns(jobs, gone):
    _, start = gone
    own = {name: text for name, text in jobs.environment.items() if name != "REDBIKE_URL"}
    up = start(environment=own | {"PYTHONDEVMODE": "1"})
    wait_until(lambda: "works work-A" in jobs.log())
    up.terminate()
    assert up.wait(60) == 0, jobs.log()
    assert "Warning" not in jobs.log()


def start(jobs):
    up = jobs.start("up", "jobs:Worker('A')")
    assert jobs.bike.set("first:A", "NOW")
    wait_until(lambda: "done first:A" in jobs.log())
    # A HALT is for those that have reached the server, the dispatcher too.
    wait_until(lambda: jobs.bike.store.timeline.read_dispatched()[1] is not None)
    return up


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("exit0", "ended with status 0, though nobody stopped it"),
        ("exit2", "ended with status 2"),
        ("signal", "ended with status 0, though nobody stopped it"),
        # It leaves a process in the background that holds its output open.
        ("background", "ended with status 3"),
    ],
)
def test_a_worker_that_a_job_or_a_signal_ends_is_started_again_and_it_is_said(jobs, name, how):
    up = start(jobs)
    if name == "signal":
        os.kill(worker_of(up.pid), signal.SIGTERM)
    else:
        jobs.bike.set(f"{name}:A", "NOW")
    wait_until(lambda: f"work-1 {how}; it is started again" in jobs.log())
    jobs.bike.unset(f"{name}:A")
    jobs.bike.set("good:A", "NOW")
    wait_until(lambda: "done good:A" in jobs.log())
    assert up.poll() is None
    pids = [int(jobs.log(name))] if name == "background" else []
    assert not any(map(is_gone, pids))
    jobs.bike.control("HALT")
    wait_until(lambda: up.poll() == 0, timeout=5.0)
    assert jobs.log().count("started again") == 1
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("unbuffered", "command"), [("", "up"), ("1", "work")])
def test_no_line_of_the_log_comes_into_a_line_that_a_job_prints(jobs, command, unbuffered):
    jobs.environment["PYTHONUNBUFFERED"] = unbuffered
    jobs.start(command, "jobs:Worker('A')", "--processes=2")
    if command == "work":
        jobs.start("dispatch")
    jobs.bike.set("print:A", "NOW")
    wait_until(lambda: "bytes of the job" in jobs.log(), timeout=60)
    (jobs.folder / "go").touch()
    lines = jobs.log().splitlines()
    torn = [
        line for line in lines if "line of" in line and not line.endswith(("ERROR a line of the log", "of the job"))
    ]
    torn += [line for line in lines if line.count(" line of ") > 1 or line in ("work-1   | ", "work-2   | ")]
    assert torn == []
    assert sum(line.endswith("| a line of the job") for line in lines) == 3000


@pytest.mark.parametrize("command", ["up", "work"])
def test_a_halt_while_a_worker_waits_for_its_restart_does_not_bring_it_back(jobs, command):
    """Also where nobody else is left who would hear of it."""
    parent = jobs.start(command, "jobs:Worker('A')", "--processes=2")
    wait_until(lambda: len(children_of(parent.pid)) == (3 if command == "up" else 2))
    jobs.bike.set("first:A", "NOW")
    wait_until(lambda: "done first:A" in jobs.log())
    for child in children_of(parent.pid):
        os.kill(child, signal.SIGKILL)
    wait_until(lambda: jobs.log().count("started again") >= 2)
    jobs.bike.control("HALT")
    assert parent.wait(timeout=60) == 0
    assert children_of(parent.pid) == []


# What has each child say that it starts, which lasts until there is a file ``go``.
STARTING = """
if os.path.exists("killed") and "up" not in sys.argv:
    print("starts", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
"""


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "again"])
@pytest.mark.parametrize("command", ["up", "work"])
def test_a_halt_while_a_process_starts_is_not_missed(jobs, command, is_first):
    """It knows of none that is older than itself, and nobody else is left who would hear of it."""
    (jobs.folder / "jobs.py").write_text(WORKER + STARTING)
    if is_first:
        (jobs.folder / "killed").touch()
    parent = jobs.start(command, "jobs:Worker('A')", "--processes=2")
    number = 3 if command == "up" else 2
    if not is_first:
        wait_until(lambda: len(jobs.bike.workers()) == number)
        (jobs.folder / "killed").touch()
        for child in children_of(parent.pid):
            os.kill(child, signal.SIGKILL)
    wait_until(lambda: jobs.log().count("starts\n") == number)
    jobs.bike.control("HALT")
    (jobs.folder / "go").touch()
    assert parent.wait(timeout=60) == 0
    assert children_of(parent.pid) == []


def test_a_long_job_ends_before_a_halted_up_does(jobs):
    up = start(jobs)
    jobs.bike.set("long:A", "NOW")
    wait_until(lambda: "begun long:A" in jobs.log())
    jobs.bike.control("HALT")
    wait_until(lambda: len(children_of(up.pid)) == 1)
    # The first signal from outside: it must not count as the second one for a worker that `up` has told to stop.
    time.sleep(2 * AGAIN)
    up.terminate()
    time.sleep(2 * AGAIN)
    assert up.poll() is None
    (jobs.folder / "go").touch()
    assert up.wait(timeout=60) == 0
    assert "done long:A" in jobs.log()


@pytest.mark.parametrize(
    ("command", "spec", "reason"),
    [
        (("work", "--processes=2"), "nowhere:Worker('A')", "importing nowhere fails"),
        # Only its workers make a class that has its own.
        (("up",), "jobs:Late('A')", "bad timeout -1"),
    ],
)
def test_a_child_that_cannot_begin_stops_all_with_its_reason(jobs, command, spec, reason):
    (jobs.folder / "jobs.py").write_text(f"{WORKER}\n{LATE}    def __init__(self, _):\n        super().__init__('A')\n")
    done = jobs.run(command[0], spec, *command[1:])
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("redbike: ")
    assert "cannot start: " in line
    assert reason in line
    assert reason not in done.stdout


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("jobs:Late('A')", "bad timeout -1"),
        ("jobs:Nobody('A')", "jobs has no class 'Nobody'"),
        ("redbike.commands:Commands('A', 'none.ini')", "none.ini': No such file or directory"),
    ],
)
def test_up_refuses_what_its_workers_would_before_it_starts_a_process(jobs, spec, said):
    (jobs.folder / "jobs.py").write_text(f"{WORKER}\n{LATE}")
    with unchanged(jobs.bike.store):
        check_refused(jobs.run("up", spec), 2, said)


def test_what_comes_due_while_the_last_worker_ends_is_dispatched(jobs):
    up = start(jobs)
    jobs.bike.set("long:A", "NOW")
    wait_until(lambda: "begun long:A" in jobs.log())
    up.terminate()
    wait_until(lambda: "stopping after the current job" in jobs.log())
    jobs.bike.set("soon:A", f"AT:{time.time() + 1}")
    wait_until(lambda: jobs.status_of("soon:A") == "ENQ")
    (jobs.folder / "go").touch()
    assert up.wait(30) == 0
    lines = [line for line in jobs.log().splitlines() if "stopping" in line or "stopped" in line]
    assert lines[0].startswith("work-1"), lines
    assert [line for line in lines if line.startswith("dispatch")]
    assert jobs.bike.workers() == []


def test_a_child_that_cannot_be_started_is_tried_again(jobs):
    """The process may have too many files open, for a while."""
    up = start(jobs)
    soft, hard = resource.prlimit(up.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(up.pid, resource.RLIMIT_NOFILE, (5, hard))
    os.kill(worker_of(up.pid), signal.SIGKILL)
    wait_until(lambda: "work-1 cannot be started: Too many open files" in jobs.log())
    resource.prlimit(up.pid, resource.RLIMIT_NOFILE, (soft, hard))
    jobs.bike.set("good:A", "NOW")
    wait_until(lambda: "done good:A" in jobs.log())
    assert up.poll() is None
