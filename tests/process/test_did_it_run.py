"""Who asks on the command line hears how each run of real processes has ended, also of those that were killed."""

import csv
import json
import re
import time

import pytest

from tests.durations import LOST_SOON
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

WORKER = f"""
{LOST_SOON}
import os
import time

import redbike


class Worker(redbike.RoundRobin):
    def work(self, jobid):
        print("began", jobid, flush=True)
        if jobid == "fails:A":
            raise OSError("disk full")
        if jobid == "long:A" and redbike.current_run().attempt == 1:
            time.sleep(600)

    def ended(self, run, end):
        print("told", run.jobid, end.event, run.attempt, flush=True)
        if jobid_to_die_for(run):
            os.kill(os.getpid(), 9)


def jobid_to_die_for(run):
    return run.jobid == "fatal:A" and not os.path.exists("died") and not open("died", "w").close()
"""


def test_what_has_ended_is_told_though_workers_are_killed(jobs):
    """One in its run, which is lost then; the next one while it is told that a run has ended."""
    (jobs.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:Worker('A')\n")
    jobs.start("dispatch", log="dispatcher")
    first = jobs.start("work", log="first")
    assert jobs.bike.set("fails:A", "NOW")
    assert jobs.bike.set("long:A", "NOW", timeout=900)
    wait_until(lambda: "began long:A" in jobs.log("first"))
    client, untold = jobs.bike.client, jobs.bike.store.keys.untold
    # Otherwise others would be told of that, too.
    wait_until(lambda: "told fails:A failed 1" in jobs.log("first") and not client.exists(untold))
    [name] = [row[0] for row in jobs.list_rows("workers") if row[3] == str(first.pid)]
    first.kill()
    second = jobs.start("work", log="second")
    wait_until(lambda: "told long:A lost 1" in jobs.log("second"))
    wait_until(lambda: "told long:A ok 2" in jobs.log("second"))
    again, lost, failed = csv.DictReader(jobs.run("runs").stdout.splitlines())
    assert [run["outcome"] for run in (again, lost, failed)] == ["ok", "lost", "failed"]
    assert (failed["error"], failed["worker"], lost["worker"]) == ("OSError: disk full", name, name)
    assert 0 < float(lost["took"]) < 60
    assert jobs.list_rows("runs", "--failed") == [[*lost.values()], [*failed.values()]]
    assert "disk full" in json.loads(jobs.run("tell", "fails:A").stdout)["failure"]["traceback"]
    wait_until(lambda: not client.exists(untold))
    assert jobs.bike.set("fatal:A", "NOW")
    assert second.wait(timeout=60) == -9
    assert "told fatal:A ok 1" in jobs.log("second")
    # It has half a minute for that; then others may tell it.
    [(field, value)] = client.hgetall(untold).items()
    client.hset(untold, field, re.sub(rb"^\d+\.\d+", b"%.6f" % (time.time() - 1), value))
    third = jobs.start("work", log="third")
    wait_until(lambda: "told fatal:A ok 1" in jobs.log("third"))
    jobs.run("control", "HALT")
    assert third.wait(timeout=60) == 0
    assert jobs.log("third").count("told") == 1
    assert client.exists(untold) == 0
