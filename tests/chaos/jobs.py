"""The worker class of the chaos run: what a job does is the first part of its id, as in ``slow.still.17:B``.

Each run is two lines in ``runs.log``, one when it starts and one when it ends, each by one write, so that the file is
whole whoever is killed when:

    S monotonic-time pid tag due taken jobid
    E monotonic-time pid tag outcome jobid
"""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from redbike import RoundRobin, current_run

DEATHS = 0.03  # of the runs of jobs that may kill their worker
FAILURES = 0.3  # of the runs of jobs that may raise; each is tried again
TIMEOUTS = {"work-C": 4.0}  # seconds; below the lease, so that runs also outlive their deadline

if "FAKETIME" in os.environ:
    # libfaketime 0.9.10 breaks time.sleep of Python 3.11 when it leaves the monotonic clock alone (its issue 426).
    time.sleep = lambda seconds: threading.Event().wait(seconds)


class Trouble(Exception):
    """What a job raises."""


class Foreign(Exception):
    """What another occurrence has saved."""


class Worker(RoundRobin):
    """Runs jobs by their kind, and notes each run."""

    def __init__(self, initstring: str) -> None:
        super().__init__(initstring)
        self._log = os.open("runs.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def timeout(self, queue_name: str) -> float | None:
        """Seconds, for the one queue whose jobs have less than usual."""
        return TIMEOUTS.get(queue_name)

    def work(self, jobid: str) -> Any:
        """Do what the job's kind does."""
        run = current_run()
        jobid = run.jobid  # its own, also if it is an occurrence of a backfill
        self._note(f"S {time.monotonic():.6f} {os.getpid()} {run.tag} {run.due:.6f} {run.start:.6f} {jobid}")
        kind = jobid.partition(".")[0]
        if kind == "async":
            return self._slowly(run.tag, jobid)
        if kind == "exit":
            return self._exit(run.tag, jobid)
        outcome, pid = "raised", os.getpid()
        try:
            result = KINDS[kind](run.losses)
            outcome = "done"
        except Foreign:
            outcome = "foreign"
            raise
        finally:
            if os.getpid() == pid:
                self._end(run.tag, outcome, jobid)
        return result

    async def _slowly(self, tag: str, jobid: str) -> None:
        self._end(tag, "done", jobid)

    async def _exit(self, tag: str, jobid: str) -> None:
        fails = random.random() < FAILURES and not os.path.exists("calm")
        self._end(tag, "raised" if fails else "done", jobid)
        if fails:
            sys.exit("as it is meant to")

    def _end(self, tag: str, outcome: str, jobid: str) -> None:
        self._note(f"E {time.monotonic():.6f} {os.getpid()} {tag} {outcome} {jobid}")

    def _note(self, line: str) -> None:
        os.write(self._log, f"{line}\n".encode())


def fast(_: int) -> None:
    """Nothing."""


def slow(_: int) -> None:
    """Take 0.05 to 1 s."""
    time.sleep(random.uniform(0.05, 1.0))


def patient(_: int) -> None:
    """Take 1 to 4 s, but not after it was cancelled."""
    run, deadline = current_run(), time.monotonic() + random.uniform(1.0, 4.0)
    while not run.cancelled and time.monotonic() < deadline:
        time.sleep(0.05)


def fail(_: int) -> None:
    """Raise now and then, but not when all is to settle down."""
    if random.random() < FAILURES and not os.path.exists("calm"):
        raise Trouble("as it is meant to")


def die(losses: int) -> None:
    """Kill the worker now and then, but not the next one too with the same run, nor when all is to settle down."""
    if losses == 0 and random.random() < DEATHS and not os.path.exists("calm"):
        os.kill(os.getpid(), signal.SIGKILL)


def fork(_: int) -> None:
    """Fork a process that comes back as well; it must not become a second worker."""
    if "FAKETIME" in os.environ:
        # A lock of libfaketime may be held by another thread: then the child waits for it for ever.
        return
    child = os.fork()
    if child:
        os.waitpid(child, 0)


def save(losses: int) -> None:
    """Keep something for the next try, which must not find what another occurrence has kept; fail now and then."""
    run = current_run()
    own, found = f"{run.due:.6f}", run.saved
    if found not in (None, own):
        raise Foreign(f"{found} is not of {own}")
    run.save(own)
    run.progress(0.5)
    fail(losses)


def again(_: int) -> float:
    """Ask for a pause: these jobs have the schedule CONTINUE."""
    return random.uniform(0.2, 2.0)


KINDS: dict[str, Callable[[int], Any]] = {
    "fast": fast,
    "slow": slow,
    "patient": patient,
    "fail": fail,
    "save": save,
    "die": die,
    "again": again,
    "fork": fork,
}
