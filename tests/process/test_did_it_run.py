"""Did it run, how long, what went wrong, and where? Asked on the command line, of real processes."""

import csv
import json
import re
import signal
import socket
import time

import pytest

from tests.durations import LOST_SOON
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

WORKER = f"""
{LOST_SOON}
import time
from pathlib import Path

import redbike


class Worker(redbike.RoundRobin):
    def work(self, jobid):
        print("began", jobid, flush=True)
        if jobid == "fails:A":
            raise OSError("disk full")
        if jobid == "works:A":
            time.sleep(0.2)
        while jobid.startswith("long") and not Path("over").exists():
            if redbike.current_run().cancelled:
                raise RuntimeError("told to stop")
            time.sleep(0.01)
"""


@pytest.fixture
def ask(jobs):
    """Starts a dispatcher and a worker, and asks what ran."""

    def ask(*words):
        done = jobs.run("runs", *words)
        assert (done.returncode, done.stderr) == (0, "")
        return list(csv.DictReader(done.stdout.splitlines()))

    def wait_for(jobid):
        """The only run of a job, which must name its worker."""
        wait_until(lambda: ask(jobid))
        [run] = ask(jobid)
        assert abs(float(run["started"]) - time.time()) < 60
        assert run["worker"] == ask.name
        return run

    (jobs.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:Worker('A')\n")
    jobs.start("dispatch", log="dispatcher")
    ask.worker = jobs.start("work", "jobs:Worker('A')", log="worker")
    wait_until(lambda: any(row[1] == "worker" for row in jobs.list_rows("workers")))
    [ask.name] = [row[0] for row in jobs.list_rows("workers") if row[3] == str(ask.worker.pid)]
    ask.shell, ask.wait_for = jobs, wait_for
    ask.began = lambda jobid: wait_until(lambda: f"began {jobid}" in jobs.log("worker"))
    ask.tell = lambda jobid: json.loads(jobs.run("tell", jobid).stdout)
    yield ask
    (jobs.folder / "over").touch()
    jobs.run("control", "HALT")


def test_each_run_is_told_with_how_it_ended(ask):
    bike = ask.shell.bike
    assert ask.name.startswith(f"{socket.gethostname()[:40]}:{ask.worker.pid}:")
    assert bike.set("works:A", "NOW")
    run = ask.wait_for("works:A")
    assert (run["jobid"], run["outcome"], run["attempt"], run["error"]) == ("works:A", "ok", "1", "")
    assert float(run["due"]) <= float(run["started"])
    assert 0.2 <= float(run["took"]) < 10
    assert bike.set("fails:A", "NOW")
    failed = ask.wait_for("fails:A")
    assert (failed["outcome"], failed["error"]) == ("failed", "OSError: disk full")
    assert ask("--failed") == [failed]
    assert ask("works:A", "--failed") == []
    assert "disk full" in ask.tell("fails:A")["failure"]["traceback"]
    assert bike.set("long:2:A", "NOW", timeout=600)
    ask.began("long:2:A")
    assert ask.shell.run("cancel", "long:2:A").returncode == 0
    run = ask.wait_for("long:2:A")
    assert (run["outcome"], run["error"]) == ("cancelled", "")
    assert ask.tell("long:2:A")["skipped"] == {"cancelled": 1}
    assert ask("long:2:A", "--failed") == []
    assert bike.set("long:1:A", "NOW", timeout=0.3)
    run = ask.wait_for("long:1:A")
    assert (run["outcome"], run["error"]) == ("overrun", "overran its timeout of 0.3 s")
    # Its time counts from when it was taken, which is a little before it begins.
    assert 0.2 <= float(run["took"]) < 10


def test_what_never_ran_has_no_run(ask):
    assert ask.shell.bike.set("later:A", "EVERY:1h")
    assert ask.shell.bike.set("elsewhere:B", "NOW")
    wait_until(lambda: "queued_for" in ask.tell("elsewhere:B"))
    assert ask("later:A") == ask("elsewhere:B") == ask() == []
    told = ask.tell("later:A")
    assert "runs" not in told
    assert told["next_run"] > time.time()


def test_one_that_was_lost_with_its_host(ask):
    assert ask.shell.bike.set("long:A", "NOW", timeout=600, on_lost="stop")
    ask.began("long:A")
    ask.worker.send_signal(signal.SIGKILL)
    run = ask.wait_for("long:A")
    assert run["outcome"] == "lost"
    assert 0 < float(run["took"]) < 60
    told = ask.tell("long:A")
    assert told["status"].startswith("DIE:")
    assert "its worker died or was cut off" in told["failure"]["error"]


def test_one_that_was_skipped_while_its_last_run_went_on(ask):
    assert ask.shell.bike.set("long:A", "EVERY:0.2s", timeout=600)
    ask.began("long:A")
    started = ask.tell("long:A")["working_since"]
    wait_until(lambda: time.time() > started + 0.5)
    assert ask("long:A") == []
    told = ask.tell("long:A")
    assert (told["working"], told["worker"]) == (True, ask.name)
    (ask.shell.folder / "over").touch()
    wait_until(lambda: ask("long:A"))
    first = ask("long:A")[-1]
    # Its worker measures when the work begins, which is shortly after it has taken the job.
    assert (first["outcome"], float(first["started"]) - started < 10) == ("ok", True)
    assert float(first["took"]) > 0.4
    assert ask.tell("long:A")["skipped"]["running"] >= 2


def test_more_rows_than_usual(jobs):
    for number in range(150):
        assert jobs.bike.set(f"{number}:A", "NOW")
    while jobs.bike.work_one():
        pass
    assert len(jobs.list_rows("runs")) == 100
    rows = jobs.list_rows("runs", "--limit=1000000")
    assert len(rows) == 150
    assert jobs.list_rows("runs", "--limit=2") == rows[:2]


TELLING = f"""
{LOST_SOON}
import os
import time

import redbike


class Worker(redbike.RoundRobin):
    def work(self, jobid):
        print("began", jobid, flush=True)
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
    (jobs.folder / "jobs.py").write_text(TELLING)
    (jobs.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:Worker('A')\n")
    jobs.start("dispatch", log="dispatcher")
    first = jobs.start("work", "jobs:Worker('A')", log="first")
    assert jobs.bike.set("long:A", "NOW", timeout=900)
    wait_until(lambda: "began long:A" in jobs.log("first"))
    first.kill()
    second = jobs.start("work", "jobs:Worker('A')", log="second")
    wait_until(lambda: "told long:A lost 1" in jobs.log("second"))
    wait_until(lambda: "told long:A ok 2" in jobs.log("second"))
    assert jobs.bike.set("fatal:A", "NOW")
    assert second.wait(timeout=10) == -9
    assert "told fatal:A ok 1" in jobs.log("second")
    # It has half a minute for that; then others may tell it.
    client, untold = jobs.bike.client, jobs.bike.store.keys.untold
    [(field, value)] = client.hgetall(untold).items()
    client.hset(untold, field, re.sub(rb"^\d+\.\d+", b"%.6f" % (time.time() - 1), value))
    third = jobs.start("work", "jobs:Worker('A')", log="third")
    wait_until(lambda: "told fatal:A ok 1" in jobs.log("third"))
    jobs.run("control", "HALT")
    assert third.wait(timeout=10) == 0
    assert jobs.log("third").count("told") == 1
    assert client.exists(untold) == 0
