"""Restarts in order: of a dispatcher, of workers, and of both. Whatever `catchup` says, no occurrence is missed."""

import itertools
import time
from collections import defaultdict

import pytest

from tests.commandline import make_module
from tests.waiting import SLOWNESS, wait_until

pytestmark = pytest.mark.acceptance

PERIOD, JOBS = round(10 * SLOWNESS), 50  # seconds, more than a restart mostly takes; and how many jobs
LATE = 1.0 * SLOWNESS  # seconds after a run in which the server hears that it has ended
WORKER = make_module(
    "time.sleep(2 if jobid.startswith('long') else 0)",
    "with open('runs', 'a') as notes: print(jobid, current_run().due, time.time(), file=notes)",
    head="import time\nfrom redbike import current_run",
)
UP = ("up", "jobs:Worker('A')", "--concurrency=8")
DISPATCH, WORK = ("dispatch", "jobs:Worker('A')"), ("work", "jobs:Worker('A')", "--concurrency=8")


def read_runs(folder):
    """The due times of each job's runs, and when they ended, in order."""
    found = defaultdict(list)
    for line in (folder / "runs").read_text().splitlines():
        jobid, *times = line.split()
        found[jobid].append(tuple(map(float, times)))
    return found


def list_missing(runs):
    """The due times without a run, and when the run before each ended."""
    for (due, ended), (later, _) in itertools.pairwise(runs):
        times = (later - due) / PERIOD
        assert times == pytest.approx(round(times), abs=0.001)
        assert round(times) >= 1
        yield from ((due + number * PERIOD, ended) for number in range(1, round(times)))


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("restarts", "processes"), [([UP], 2), ([DISPATCH, WORK, WORK], 3)], ids=["up", "all"])
def test_no_occurrence_is_missed_and_none_runs_twice(jobs, restarts, processes, times):
    began = jobs.bike.store.timeline.read_clock()
    for number in range(JOBS):
        jobid = f"{'long' if number % 5 == 0 else 'short'}-{number:02}:A"
        assert jobs.bike.set(jobid, f"EVERY:{PERIOD}s@{began + number * PERIOD / JOBS:.3f}", catchup="none", grace=0)
    (jobs.folder / "runs").touch()
    started = [jobs.start(*command) for command in restarts]
    for _ in range(times):
        wait_until(lambda: len(jobs.bike.workers()) == processes)
        now = time.time()
        wait_until(lambda now=now: max((runs[-1][0] for runs in read_runs(jobs.folder).values()), default=0) > now)
        for process in started:
            process.terminate()
        assert [process.wait(30) for process in started] == [0] * len(started)
        started = [jobs.start(*command) for command in restarts]
    now = time.time()
    wait_until(
        lambda: len(found := read_runs(jobs.folder)) == JOBS and min(runs[-1][0] for runs in found.values()) > now, 30
    )
    for jobid, runs in read_runs(jobs.folder).items():
        missing = list(list_missing(runs))
        # Only what came due while the occurrence before it still waited, or ran, as after a restart that took long.
        assert [due for due, ended in missing if ended < due - LATE] == [], (jobid, runs)
        assert sum(jobs.bike.tell(jobid).get("skipped", {}).values()) >= len(missing)
