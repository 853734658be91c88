"""Processes that jobs fork have the signals of new ones, and none becomes a second worker; orphans of process 1."""

import os
import signal
import subprocess

import pytest

from tests.proc import children_of, handles

WORKER = """
import multiprocessing, os, sys, time
from redbike import RoundRobin

fork = multiprocessing.get_context("fork")

def square(number):
    return number * number

def note(*words):
    with open("noted", "a") as file:
        print(*words, file=file)

class Worker(RoundRobin):
    def work(self, jobid):
        getattr(self, jobid.partition(":")[0])()

    def plain(self):
        note("plain")

    def pool(self):
        with fork.Pool(4) as pool:
            note("pool", sum(pool.map(square, range(10))))

    def terminate(self):
        child = fork.Process(target=time.sleep, args=(1000,))
        child.start()
        child.terminate()
        child.join()
        note("terminated", child.exitcode)

    def returns(self):
        self.fork(lambda: None)

    def raises(self):
        self.fork(lambda: 1 / 0)

    def exits(self):
        self.fork(lambda: sys.exit(7))

    def fork(self, then):
        note("forking")
        child = os.fork()
        if child == 0:
            print("in the child")
            then()
            return
        note("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    def timeout(self, queue_name):
        return 100.0

class Asynchronous(Worker):
    async def work(self, jobid):
        getattr(self, jobid.partition(":")[0])()
"""


def noted(jobs):
    path = jobs.folder / "noted"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("concurrency", [1, 2])
def test_the_children_of_a_job_hear_signals_as_new_processes_do(jobs, concurrency):
    worker = jobs.start("work", "jobs:Worker('A')", f"--concurrency={concurrency}")
    jobs.run_to_its_end("pool:A")
    jobs.run_to_its_end("terminate:A")
    assert noted(jobs) == ["pool 285", f"terminated {-signal.SIGTERM:d}"]
    worker.terminate()
    assert worker.wait(timeout=60) == 0


@pytest.mark.parametrize(("worker", "concurrency"), [("Worker", 1), ("Worker", 2), ("Asynchronous", 2)])
def test_a_forked_process_that_comes_back_is_no_second_worker(jobs, concurrency, worker):
    process = jobs.start("work", f"jobs:{worker}('A')", f"--concurrency={concurrency}")
    for number, (job, status) in enumerate([("returns", 0), ("exits", 7), ("raises", 1)], 1):
        assert "which it has forked: ZeroDivisionError" not in jobs.log()
        jobs.run_to_its_end(f"{job}:A")
        assert noted(jobs)[-2:] == ["forking", f"child {status}"]
        assert jobs.log().count("in the child") == number
        jobs.run_to_its_end(f"plain:{number}:A")
        assert noted(jobs)[-1:] == ["plain"]
        assert len(noted(jobs)) == 3 * number
        assert children_of(process.pid) == []
    assert "which it has forked: ZeroDivisionError" in jobs.log()
    assert list(jobs.bike.fsck()) == []
    process.terminate()
    assert process.wait(timeout=60) == 0


def test_a_forked_process_has_the_handlers_from_before(jobs):
    (jobs.folder / "jobs.py").write_text(
        WORKER + "    async def work(self, jobid):\n"
        "        child = fork.Process(target=lambda: note(open('/proc/self/status').read()))\n"
        "        child.start()\n        child.join()\n"
    )
    jobs.start("work", "jobs:Asynchronous('A')")
    jobs.run_to_its_end("job:A")
    (caught,) = [int(line.split()[1], 16) for line in noted(jobs) if line.startswith("SigCgt:")]
    assert handles(os.getpid(), signal.SIGINT)
    assert caught & 1 << (signal.SIGINT - 1)
    assert not caught & (1 << (signal.SIGTERM - 1) | 1 << (signal.SIGHUP - 1))


ALONE = ("unshare", "--map-root-user", "--fork", "--pid", "--mount-proc")  # in a namespace of its own
SAID = "redbike: as process 1, it reaps no orphans, which commands may leave: start it with an init, such as tini\n"


@pytest.mark.parametrize(("command", "said"), [("work", SAID), ("up", SAID), ("dispatch", "")])
def test_process_1_warns_if_it_may_run_commands_whose_orphans_it_would_get(shell, command, said):
    """As in a container without an init program."""
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no namespace")
    (shell.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:None('A')\nlog-level: ERROR\n")
    words = [*ALONE, *shell.command((command, "--url=redis://nowhere!"))]
    done = subprocess.run(words, cwd=shell.folder, env=shell.environment, capture_output=True, text=True, check=False)
    assert done.returncode
    assert done.stderr.startswith(said + "redbike: ")
    assert done.stderr.count("\n") == 1 + bool(said)
