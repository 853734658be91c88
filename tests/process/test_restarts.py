"""Restarts in order: of a dispatcher, of workers, and of both. Whatever `catchup` says, no occurrence is missed."""

import itertools
import time
from collections import defaultdict

import pytest

from tests.waiting import SLOWNESS, wait_until

pytestmark = pytest.mark.acceptance

PERIOD, JOBS = round(25 * SLOWNESS), 50  # seconds, twice what a restart takes beside other programs; and how many jobs
WORKER = """
import os, time
from redbike import RoundRobin, current_run

class Worker(RoundRobin):
    def work(self, jobid):
        with open("runs", "a") as notes:
            notes.write(f"{jobid} {current_run().due}\\n")
        if jobid.startswith("long"):
            time.sleep(2)
"""
UP = ("up", "jobs:Worker('A')", "--concurrency=8")
DISPATCH, WORK = ("dispatch", "jobs:Worker('A')"), ("work", "jobs:Worker('A')", "--concurrency=8")


def read_runs(folder):
    """The due times of each job's runs, in order."""
    found = defaultdict(list)
    for line in (folder / "runs").read_text().splitlines():
        jobid, due = line.split()
        found[jobid].append(float(due))
    return found


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
        wait_until(lambda now=now: max(map(max, read_runs(jobs.folder).values()), default=0) > now, 2 * PERIOD)
        for process in started:
            process.terminate()
        assert [process.wait(30) for process in started] == [0] * len(started)
        started = [jobs.start(*command) for command in restarts]
    now = time.time()
    wait_until(lambda: len(runs := read_runs(jobs.folder)) == JOBS and min(map(max, runs.values())) > now, 2 * PERIOD)
    for jobid, dues in read_runs(jobs.folder).items():
        gaps = {round(later - due, 3) for due, later in itertools.pairwise(dues)}
        assert gaps <= {PERIOD}, (jobid, dues, jobs.bike.tell(jobid).get("skipped"))
        assert "skipped" not in jobs.bike.tell(jobid)
