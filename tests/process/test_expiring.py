"""With a paused queue and one that nobody works, each occurrence runs in time or is counted as expired."""

import signal

import pytest

from redbike.store.inspection.fsck import fsck
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

EXPIRES, JOBS = 0.7, 8  # seconds in which an occurrence must begin, one each second; and how many jobs each queue has
WORKER = """
from redbike import RoundRobin, current_run

class Worker(RoundRobin):
    def work(self, jobid):
        run = current_run()
        with open("runs", "a") as notes:
            notes.write(f"{jobid} {run.due} {run.start}\\n")
"""
DISPATCH, WORK = ("dispatch", "jobs:Worker('A:B:C')"), ("work", "jobs:Worker('A:B')")


def read_runs(folder):
    """What ran: job, due time and start."""
    lines = (folder / "runs").read_text().splitlines()
    return [(jobid, float(due), float(start)) for jobid, due, start in map(str.split, lines)]


def test_each_occurrence_has_run_in_time_or_has_expired(jobs):
    (jobs.folder / "runs").touch()
    store, began = jobs.bike.store, round(jobs.bike.store.timeline.read_clock()) + 3
    store.queue_limits.pause("work-B")
    recurring = [f"{number}:{queue}" for queue in "ABC" for number in range(JOBS)]
    for jobid in recurring:
        assert jobs.bike.set(jobid, f"EVERY:1s@{began}", expires=EXPIRES)
    one_offs = [f"once-{number}:{queue}" for queue in "BC" for number in range(JOBS)]
    for jobid in one_offs:
        assert jobs.bike.set(jobid, "NOW", expires=EXPIRES)
    dispatcher, worker = jobs.start(*DISPATCH), jobs.start(*WORK)

    def skipped(jobid, reason="expired"):
        return jobs.bike.tell(jobid).get("skipped", {}).get(reason, 0)

    wait_until(lambda: all(skipped(jobid) >= 2 for jobid in recurring if not jobid.endswith("A")))
    dispatcher.kill()
    dispatcher = jobs.start(*DISPATCH)
    wait_until(lambda: all(skipped(jobid) >= 5 for jobid in recurring if not jobid.endswith("A")))
    assert {jobid[-1] for jobid, _, _ in read_runs(jobs.folder)} == {"A"}
    assert store.client.llen(store.keys.queue("work-C")) <= 2 * JOBS
    store.queue_limits.open("work-B", resume=True)
    wait_until(lambda: {jobid for jobid, _, _ in read_runs(jobs.folder)} == {*recurring[: 2 * JOBS]})
    jobs.bike.control("HALT")
    assert [process.wait(30) for process in (dispatcher, worker)] == [0, 0]

    runs = read_runs(jobs.folder)
    assert [(jobid, start - due) for jobid, due, start in runs if start - due > EXPIRES] == []
    for jobid in recurring:
        told = jobs.bike.tell(jobid)
        due = {due for other, due, _ in runs if other == jobid}
        place = told.get("queued_for", told["next_run"])
        assert len(due) + sum(told.get("skipped", {}).values()) == round(place - began) - 1, (jobid, told)
        assert told.get("skipped", {}).keys() <= {"expired", "missed"}
    for jobid in one_offs:
        told = jobs.bike.tell(jobid)
        assert (told["status"][:3], told["schedule"], told["skipped"]) == ("STP", "STOP", {"expired": 1})
    assert list(fsck(store)) == []


def test_a_worker_that_was_suspended_begins_nothing_that_has_expired(jobs):
    (jobs.folder / "runs").touch()
    store, worker = jobs.bike.store, jobs.start(*WORK)
    wait_until(lambda: store.workers.list_all())
    wait_until(lambda: store.client.info("clients")["blocked_clients"] > 0)
    worker.send_signal(signal.SIGSTOP)
    # The server gives it the job while it waits, and its reply waits in turn.
    assert jobs.bike.set("once:A", "NOW", expires=EXPIRES, timeout=2)
    began = store.timeline.read_clock()
    wait_until(lambda: store.timeline.read_clock() > began + 1.5)
    worker.send_signal(signal.SIGCONT)
    wait_until(lambda: jobs.bike.tell("once:A")["status"].startswith("STP"))
    assert (read_runs(jobs.folder), jobs.bike.tell("once:A")["skipped"]) == ([], {"expired": 1})
    jobs.bike.control("HALT")
    assert worker.wait(30) == 0
