"""The stop drill: whatever jobs do, one SIGTERM ends their worker in time, and a line names what held it up."""

import signal
import sys
import time

import pytest

from tests.durations import set_lines
from tests.proc import is_gone, worker_of
from tests.processes import mischief
from tests.waiting import SLOWNESS, wait_until

pytestmark = pytest.mark.acceptance

TIMEOUT = 1.0  # seconds of each job
IN_TIME = 15.0 * SLOWNESS  # seconds; the processes share the machine
SHORT = set_lines(
    leaving__LAST=0.5, leaving__CLOSING=1.5, leaving__MARGIN=3.0, run__LEASE=3.0, heartbeat__INTERVAL=0.3
) + set_lines(dispatcher__LONGEST_SLEEP=0.5)
WORKER = f"""
from redbike import Jobs, RoundRobin
from redbike.commands import Commands
from tests.processes.mischief import KINDS
{SHORT}
class Worker(RoundRobin):
    concurrency = 2
    def work(self, jobid):
        return KINDS[jobid.partition(":")[0]]()

class Single(Worker):
    concurrency = 1

for kind, function in KINDS.items():
    jobs = globals()[f"jobs_{{kind}}"] = Jobs(concurrency=1)
    jobs.job(kind)(function)
"""
ENDS_BY_ITSELF = {"zombies", "exit_in_thread", "handler"}


def start_all(jobs, name, spec, jobid):
    """Start a worker for each kind of mischief; return them by kind."""
    for kind in mischief.KINDS:
        jobs.bike.set(jobid.format(kind), "NOW")
    return {kind: jobs.start("work", spec.format(kind), log=f"{name}-{kind}") for kind in mischief.KINDS}


@pytest.fixture
def drill(jobs):
    (jobs.folder / ".redbike.conf").write_text(
        f"[redbike]\ndefault-timeout: {TIMEOUT}\nworker: jobs:Single('A')\nlog-level: info\n"
    )
    jobs.start("dispatch", log="dispatcher")
    return jobs


def check(jobs, kind, process, log, jobid):
    text = jobs.log(log)
    assert process.poll() == (1 if kind == "gil" else 0), (kind, process.poll(), text)
    told = jobs.log("dispatcher") if kind == "gil" else text
    assert kind in ENDS_BY_ITSELF or names_it(told, jobid), (kind, told)


def names_it(log, jobid):
    """Whether a line says that the job holds its process up."""
    lines = [line for line in log.splitlines() if f" {jobid}: " in line]
    return any("this process ends without it" in line or "was lost" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "spec", "jobid"),
    [
        ("single", "jobs:Single('{}')", "{0}:{0}"),
        ("pool", "jobs:Worker('{}')", "{0}:{0}"),
        ("jobs", "jobs:jobs_{}", "{0}"),
    ],
)
def test_one_sigterm_ends_every_worker(drill, name, spec, jobid):
    workers = start_all(drill, name, spec, jobid)
    for kind, process in workers.items():
        wait_until(lambda kind=kind: f"begun {kind}" in drill.log(f"{name}-{kind}"))
        process.terminate()
    began = time.monotonic()
    wait_until(lambda: all(process.poll() is not None for process in workers.values()), IN_TIME)
    wait_until(lambda: jobid.format("gil") + ": " in drill.log("dispatcher"))
    for kind, process in workers.items():
        check(drill, kind, process, f"{name}-{kind}", jobid.format(kind))
    assert time.monotonic() - began < IN_TIME


def test_one_sigterm_ends_up_with_all_its_workers(drill):
    kinds = ["thread", "swallowed", "ignored", "in_c", "gil", "fork", "closed", "at_exit"]
    for kind in kinds:
        drill.bike.set(f"{kind}:A", "NOW")
    up = drill.start("up", f"--processes={len(kinds)}")
    wait_until(lambda: all(f"begun {kind}" in drill.log() for kind in kinds), 60)
    up.terminate()
    assert up.wait(IN_TIME) == 0, drill.log()
    assert [kind for kind in kinds if not names_it(drill.log(), f"{kind}:A")] == ["gil"]


def test_a_job_that_ignores_signals_does_not_outlive_up(drill):
    drill.bike.set("ignored:A", "NOW")
    up = drill.start("up")
    wait_until(lambda: "begun ignored" in drill.log())
    worker = worker_of(up.pid)
    up.kill()
    wait_until(lambda: is_gone(worker), IN_TIME)


def test_what_runs_longer_than_stop_within_is_handed_back(drill):
    config = drill.folder / ".redbike.conf"
    config.write_text("[redbike]\ndefault-timeout: 1h\nstop-within: 0.5\nworker: jobs:Single('A')\n")
    drill.bike.set("deaf:A", "NOW")
    worker = drill.start("work")
    wait_until(lambda: "begun deaf" in drill.log())
    worker.terminate()
    assert worker.wait(IN_TIME) == 0
    assert "deaf:A: handed back" in drill.log()
    assert drill.bike.store.questions.inspect(["deaf:A"])[0].run is None
    assert drill.bike.workers()[1:] == [], "only the dispatcher is there"


def test_one_sigterm_ends_the_commands_too(drill):
    lines = [f"{kind}: exec {{python}} -SE {mischief.__file__} {kind}\n" for kind in mischief.KINDS]
    sections = [f"[{kind}]\nshell: /bin/sh\ntimeout: 6\n" for kind in mischief.KINDS]
    text = "[commands]\n" + "".join(lines) + "".join(sections)
    (drill.folder / "commands.ini").write_text(text.replace("{python}", sys.executable))
    for kind in mischief.KINDS:
        drill.bike.set(f"{kind}:C", "NOW")
    worker = drill.start("work", "jobs:Commands('C', 'commands.ini')", f"--concurrency={len(mischief.KINDS)}")
    wait_until(lambda: all(f"begun {kind}" in drill.log() for kind in mischief.KINDS))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(IN_TIME) == 0
    assert {kind for kind in mischief.KINDS if f"{kind}:C: its time is over" not in drill.log()} <= ENDS_BY_ITSELF
