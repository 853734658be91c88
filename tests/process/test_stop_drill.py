"""The stop drill: whatever jobs do, one SIGTERM ends their worker in time, and a line names what held it up."""

import re
import sys
from collections import defaultdict

import pytest

from tests.durations import set_lines
from tests.proc import is_gone, worker_of
from tests.process import mischief
from tests.waiting import SLOWNESS, wait_until

pytestmark = pytest.mark.acceptance

KINDS = list(mischief.ACTIONS)
HARDEST = ["thread", "swallowed", "ignored", "in_c", "gil", "closed", "at_exit"]
ENDS_BY_ITSELF = {"zombies", "exit_in_thread", "handler"}
IN_TIME = 15.0 * SLOWNESS  # seconds; the processes share the machine
SHORT = set_lines(
    leaving__LAST=0.5,
    leaving__CLOSING=1.5,
    # All others than who holds Python's lock are to hear of the signal, however long the others take to begin: so none
    # of them ends or replaces itself before, as its function goes on after its deadline.
    leaving__MARGIN=120.0,
    heartbeat__STUCK_AFTER=120.0,
    lease__LEASE=3.0,
    heartbeat__INTERVAL=0.3,
    dispatcher__LONGEST_SLEEP=0.5,
)
WORKER = f"""
import time
from functools import partial
from redbike import Jobs, RoundRobin
from redbike.commands import Commands
from redbike.process import leaving
from tests.process import mischief
{SHORT}
def act(kind):
    if kind == "gil":
        leaving.MARGIN = 3.0
        leaving.uncover(lambda: False)
        leaving.cover(time.monotonic() + 1.0)
    return mischief.act(kind)

class Worker(RoundRobin):
    def work(self, jobid):
        return act(jobid.partition(":")[0])

for kind in mischief.ACTIONS:
    jobs = globals()[f"jobs_{{kind}}"] = Jobs(concurrency=2)
    jobs.job(kind)(partial(act, kind))
"""


@pytest.fixture
def drill(jobs):
    config = "[redbike]\ndefault-timeout: 1\nworker: jobs:Worker('A')\n"
    (jobs.folder / ".redbike.conf").write_text(config)
    jobs.start("dispatch", log="dispatcher")
    return jobs


def begin(jobs, jobid, *command, kinds=KINDS, log="log"):
    """Set a job for each kind of mischief, and wait until it has begun in what `command` starts; return that."""
    for kind in kinds:
        jobs.bike.set(jobid.format(kind), "NOW")
    process = jobs.start(*command, log=log)
    wait_until(lambda: all(f"begun {kind}\n" in jobs.log(log) for kind in kinds), 60)
    return process


def names(log, jobid):
    """Tell whether a line says that the job holds its process up."""
    # A process may have had several jobs: then a line names all that may hold it up.
    lines = [line for line in log.splitlines() if f" {jobid}: " in line or f" {jobid}, " in line]
    return any("this process ends without it" in line or "was lost" in line for line in lines)


@pytest.mark.parametrize(("spec", "jobid"), [("jobs:Worker('{0}')", "{0}:{0}"), ("jobs:jobs_{0}", "{0}")])
def test_one_sigterm_ends_every_worker(drill, spec, jobid):
    workers = {kind: begin(drill, jobid, "work", spec.format(kind), kinds=[kind], log=kind) for kind in KINDS}
    for process in workers.values():
        process.terminate()
    wait_until(lambda: all(process.poll() is not None for process in workers.values()), IN_TIME)
    wait_until(lambda: names(drill.log("dispatcher"), jobid.format("gil")))
    assert {kind for kind, process in workers.items() if process.poll()} <= {"gil"}
    unnamed = {kind for kind in KINDS if not names(drill.log(kind), jobid.format(kind))}
    assert unnamed <= ENDS_BY_ITSELF | {"gil"}


@pytest.mark.parametrize("kinds", [HARDEST, pytest.param(KINDS, marks=pytest.mark.nightly)], ids=["hardest", "all"])
def test_one_sigterm_ends_up_with_all_its_workers(drill, kinds):
    up = begin(drill, "{0}:A", "up", f"--processes={len(kinds)}", kinds=kinds)
    up.terminate()
    assert up.wait(IN_TIME) == 0, drill.log()
    had = defaultdict(set)  # by process: a job that has returned leaves its process to another one
    for process, kind in re.findall(r"^(work-\d+) +\| begun (\w+)$", drill.log(), re.MULTILINE):
        had[process].add(kind)
    assert set().union(*had.values()) == {*kinds}
    # Of several jobs of a process, those that hold it up in the clearest way are named. Nobody can act in a process
    # that holds Python's lock: a dispatcher may find it lost, if it is still there.
    held = [each for each in had.values() if each & {*HARDEST} and "gil" not in each]
    log = drill.log()
    assert [each for each in held if not any(names(log, f"{kind}:A") for kind in each)] == [], log


def test_one_sigterm_ends_the_commands_too(drill):
    lines = [f"{kind}: exec {sys.executable} -SE {mischief.__file__} {kind}\n" for kind in KINDS]
    # So that each has begun before it is ended.
    timeout = f"{6 * SLOWNESS:.1f}"
    sections = [f"[{kind}]\nshell: /bin/sh\ntimeout: {timeout}\n" for kind in KINDS]
    (drill.folder / "commands.ini").write_text("[commands]\n" + "".join(lines + sections))
    worker = begin(drill, "{0}:C", "work", "jobs:Commands('C', 'commands.ini')", f"--concurrency={len(KINDS)}")
    worker.terminate()
    assert worker.wait(IN_TIME) == 0
    assert {kind for kind in KINDS if f"{kind}:C: its timeout has passed" not in drill.log()} <= ENDS_BY_ITSELF


def test_a_job_that_ignores_signals_does_not_outlive_up(drill):
    up = begin(drill, "{0}:A", "up", kinds=["ignored"])
    worker = worker_of(up.pid)
    up.kill()
    wait_until(lambda: is_gone(worker), IN_TIME)


def test_what_runs_longer_than_stop_within_is_handed_back(drill):
    (drill.folder / ".redbike.conf").write_text("[redbike]\ndefault-timeout: 1h\nstop-within: 0.5\n")
    worker = begin(drill, "{0}:A", "work", "jobs:Worker('A')", kinds=["deaf"])
    worker.terminate()
    assert worker.wait(IN_TIME) == 0
    assert "deaf:A: handed back" in drill.log()
    assert drill.bike.store.questions.inspect(["deaf:A"])[0].run is None
    assert [each.kind for each in drill.bike.workers()] == ["dispatcher"]
