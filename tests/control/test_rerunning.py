"""Explicit runs of several jobs: those that ids and patterns name, and those that have failed for good."""

from datetime import UTC, datetime

import pytest

from redbike import BadJobId, Redbike, RoundRobin
from redbike.errors import BadQueueName
from redbike.store.inspection.fsck import fsck
from redbike.store.next_state import NextState
from redbike.store.processes import ProcessRecord
from tests.verbs import Quiet, set_job, take_many, take_one

START = 1_790_000_000.0
JOBS = ["nightly:A", "nightly:B", "hourly:A"]


class Handler(RoundRobin):
    def queue_for(self, jobid):
        if jobid.startswith("homeless"):
            raise RuntimeError("no home")
        return super().queue_for(jobid)


@pytest.fixture
def bike(client, prefix):
    bike = Redbike(Handler("A:B"), prefix, client)
    for jobid in JOBS:
        set_job(bike.store, jobid, "EVERY:1h@0", 1e10)
    return bike


def fail(bike, jobid):
    """Let a run of `jobid` fail for good."""
    bike.run(jobid)
    run = take_one(bike.store, [(bike.store.queue_for(jobid), 100.0)], f"tag-{jobid}")
    ended = bike.store.runs.end(run, NextState("die", failure={"jobid": jobid, "due": run.due, "attempt": 1}))
    assert ended[:2] == ("ok", "stopped")


def waiting(bike):
    return sorted(jobid for jobid, event, _ in bike.get_statuses() if event == "ENQ")


@pytest.mark.parametrize(
    ("schedule", "is_overdue", "queue"),
    [
        *((schedule, False, None) for schedule in ("STOP", "AT:1000", "EVERY:7m", "RRULE:FREQ=MINUTELY;COUNT=1")),
        ("EVERY:7m", True, "work-A"),
    ],
)
def test_a_run_that_waits_for_the_end_of_a_pause_is_not_missed(redbike, schedule, is_overdue, queue):
    bike = redbike(Quiet("A"), now=START)
    bike.set("job:A", schedule, catchup="none")
    bike.run_due(START)
    _ = bike.pause_queue(queue) if queue else bike.pause_all()
    bike._clock.move(START + (500 if is_overdue else 100))
    assert bike.run("job:A") == [("job:A", "queued")]
    bike._clock.move(START + 600)
    _ = bike.resume_queue(queue) if queue else bike.resume_all()
    assert [run.jobid for run in bike.run_due(START + 601)] == ["job:A"]


def test_nothing_is_run_if_one_of_the_jobs_has_no_queue(bike):
    bike.store.client.hset(bike.store.keys.schedules, "homeless:A", "EVERY:1h@0")
    with pytest.raises(BadQueueName, match="homeless:A"):
        bike.run("*")
    assert waiting(bike) == []


def test_all_that_failed_for_good_is_run(bike):
    for jobid in JOBS:
        fail(bike, jobid)
    # What was dropped from the failures, because there were too many, has failed all the same.
    bike.store.client.delete(bike.store.keys.failures, bike.store.keys.failure_times)
    set_job(bike.store, "nightly:B", "EVERY:1h@0", 1e10)
    assert bike.run_failed("nightly:*") == [("nightly:A", "queued")]
    assert waiting(bike) == ["nightly:A"]
    assert bike.run_failed() == [("hourly:A", "queued")]
    assert bike.run_failed() == []
    with pytest.raises(BadJobId):
        bike.run_failed("[")


def test_a_job_that_is_unset_meanwhile_is_said_to_be_missing(bike):
    fail(bike, "hourly:A")
    # Its status is found, but it is no job any more.
    bike.store.client.hdel(bike.store.keys.schedules, "hourly:A")
    assert bike.run_failed() == [("hourly:A", "missing")]


def test_the_command_line_prints_what_a_pattern_matches(shell):
    shell.run("load", "-", input="".join(f'{jobid},"EVERY:1000d@0"\n' for jobid in JOBS))
    assert shell.run("run", "nightly:A").stdout == ""
    assert sorted(shell.run("run", "hourly:A", "nightly:?").stdout.split()) == sorted(JOBS)
    assert shell.run("statuses").stdout.count(",ENQ,") == 3
    none = shell.run("run", "--failed", "z*", "--dry-run")
    assert (none.returncode, none.stderr) == (0, "redbike: no job that has failed for good matches 'z*'\n")


@pytest.mark.acceptance
def test_the_command_line_says_whether_it_is_a_new_try_or_a_new_run(shell, client):
    bike = Redbike(RoundRobin("A:B"), redis_config=client)
    for jobid in JOBS:
        set_job(bike.store, jobid, "EVERY:1h@0", 1e10)
        fail(bike, jobid)
    client.zrem(bike.store.keys.failure_times, "hourly:A")
    client.hdel(bike.store.keys.failures, "hourly:A")
    [due] = [each["due"] for each in bike.failures() if each["jobid"] == "nightly:A"]
    when = datetime.fromtimestamp(due, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    done = shell.run("run", "nightly:A", "hourly:A")
    assert done.stderr.splitlines() == [
        f"redbike: nightly:A: a new try of the occurrence of {when}",
        "redbike: hourly:A: a new run, because Redbike no longer keeps the failure",
    ]
    run = take_one(bike.store, [("work-A", 100.0)], "tag")
    assert (run.jobid, run.due, run.attempt) == ("nightly:A", due, 2)
    assert shell.run("run", "nightly:A").stderr == "", "nothing has failed"
    take_one(bike.store, [("work-A", 100.0)], "other")
    done = shell.run("run", "--failed")
    assert (done.stdout, done.stderr) == (
        "nightly:B\n",
        "redbike: 1 job: a new try of the occurrence that failed\n",
    )


class Renamed(RoundRobin):
    def queue_for(self, jobid):
        return "work-new"


@pytest.mark.parametrize(
    ("worked", "home"),
    [(["work-new"], "work-new"), (["work-new", "work-A"], "work-A"), (["work-B"], "work-A"), ([], "work-A")],
)
def test_what_waits_in_a_queue_that_nobody_works_any_more_moves_to_its_own(bike, client, prefix, worked, home):
    bike.run(*JOBS)
    for number, queue in enumerate(worked):
        record = ProcessRecord(0.0, "worker", "web1", number, (queue,), "2.0")
        bike.store.workers.register(f"Owner-{number:02}", record.format_entry())
    renamed = Redbike(Renamed("new"), prefix, client)
    before = bike.tell("hourly:A")["queued_for"]
    for _ in range(2):  # the second time it is there
        assert renamed.run("hourly:A") == [("hourly:A", "queued")]
    assert {each.queue: each.waiting for each in bike.queues() if each.queue != "work-B"} == (
        {"work-A": 2} if home == "work-A" else {"work-A": 1, "work-new": 1}
    )
    assert bike.tell("hourly:A")["queued_for"] == before
    queues = [("work-A", 100.0), ("work-new", 100.0)]
    taken = {run.jobid: run.queue for run in take_many(bike.store, queues, [1, 2], "tag", 9)}
    assert taken == {"nightly:A": "work-A", "hourly:A": home}
    assert not list(fsck(bike.store))
