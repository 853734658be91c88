"""A planned stop is no loss: a second signal ends what a worker runs, and its runs are handed back at once."""

import signal

import pytest

from redbike import Redbike
from redbike.worker.leaving import Left, hand_back
from tests.durations import SOON_AGAIN, set_lines
from tests.proc import signal_until_gone
from tests.verbs import Quiet, take_one
from tests.waiting import wait_until

WORKER = f"""
import asyncio, os, time
from redbike import RoundRobin, current_run
{SOON_AGAIN}

class Worker(RoundRobin):
    def timeout(self, queue_name):
        return 1000.0

    def work(self, jobid):
        print("begun", jobid, current_run().attempt, flush=True)
        while not os.path.exists("go"):
            time.sleep(0.01)

class InC(Worker):
    def work(self, jobid):
        print("begun", jobid, current_run().attempt, flush=True)
        if not os.path.exists("go"):
            from ctypes import CDLL
            usleep = CDLL(None).usleep
            for _ in range(5000):
                usleep(100_000)

class Async(Worker):
    async def work(self, jobid):
        print("begun", jobid, current_run().attempt, flush=True)
        try:
            while not os.path.exists("go"):
                await asyncio.sleep(0.01)
        finally:
            await asyncio.sleep(0.01)
            print("cleaned up", jobid, flush=True)
"""


def end_at_once(process):
    """Give the second signal."""
    signal_until_gone(process)
    assert process.poll() == -signal.SIGTERM


@pytest.mark.parametrize(
    ("kind", "concurrency", "times"),
    # Four losses would end a job.
    [("Worker", 1, 4), ("Async", 3, 1), ("InC", 1, 1), ("InC", 3, 1)],
)
def test_what_runs_is_handed_back_and_runs_again_however_often(jobs, kind, concurrency, times):
    command = ("work", f"jobs:{kind}('A')", f"--concurrency={concurrency}")
    jobs.bike.set("long:A", "NOW")
    jobs.start("dispatch", log="dispatcher")
    wait_until(jobs.bike.workers)
    for attempt in range(1, times + 1):
        worker = jobs.start(*command)
        wait_until(lambda attempt=attempt: f"begun long:A {attempt}\n" in jobs.log())
        end_at_once(worker)
        assert jobs.bike.store.questions.inspect(["long:A"])[0].run is None, "no lease has to end first"
        assert jobs.log().count("long:A: handed back, as its worker is ended\n") == attempt
        assert [each.kind for each in jobs.bike.workers()] == ["dispatcher"], "it is gone, and not lost"
        assert kind != "Async" or jobs.log().count("cleaned up long:A") == attempt
    (jobs.folder / "go").touch()
    worker = jobs.start(*command)
    wait_until(lambda: jobs.status_of("long:A") == "STP")
    worker.terminate()
    assert worker.wait(60) == 0
    runs = list(reversed(list(jobs.bike.runs())))
    assert [(run.outcome, run.attempt) for run in runs] == [
        *(("retry", number) for number in range(1, times + 1)),
        ("ok", times + 1),
    ]
    assert len({run.due for run in runs}) == 1
    assert runs[0].error == "its worker was stopped, and has handed it back"
    assert "ERROR" not in jobs.log(), "nothing has failed"


def test_short_jobs_that_were_taken_together_are_ended_begun_or_untouched(jobs):
    many = [f"{number}:A" for number in range(300)]
    list(jobs.bike.set_many((jobid, "NOW") for jobid in many))
    jobs.bike.set("long:A", "NOW")
    list(jobs.bike.set_many((f"later{number}:A", "NOW") for number in range(300)))
    (jobs.folder / "jobs.py").write_text(
        WORKER.replace('print("begun"', 'if jobid != "long:A": return\n        print("begun"')
    )
    worker = jobs.start("work", "jobs:Worker('A')")
    wait_until(lambda: "begun long:A 1" in jobs.log())
    end_at_once(worker)
    states = {state.jobid: state for state in jobs.bike.store.questions.inspect([*many, "long:A", "later7:A"])}
    assert not any(state.run for state in states.values())
    assert all(jobs.status_of(jobid) == "STP" for jobid in many)


def test_a_worker_that_stops_is_shown_as_stopping(jobs):
    jobs.bike.set("long:A", "NOW")
    worker = jobs.start("work", "jobs:Worker('A')")
    wait_until(lambda: "begun long:A 1" in jobs.log())
    wait_until(lambda: [each.state for each in jobs.bike.workers()] == ["alive"])
    worker.terminate()
    wait_until(lambda: [each.state for each in jobs.bike.workers()] == ["stopping"], 4)
    assert "stopping" in jobs.run("workers").stdout
    jobs.bike.set("next:A", "NOW")
    assert jobs.run("why", "next:A").stdout.endswith("no worker works this queue.\n")
    (jobs.folder / "go").touch()
    assert worker.wait(60) == 0


@pytest.mark.parametrize("shards", [1, 4])
def test_to_hand_a_run_back_cuts_no_history(client, prefix, shards):
    bike = Redbike(Quiet(), prefix, client, history=12, shards=shards)
    for _ in range(12):
        bike.set("a:A", "NOW")
        bike.dispatch_due()
        bike.work_one()
    bike.set("a:A", "NOW")
    run = take_one(bike.store.find_shard("a:A"), [(bike.store.queue_for("a:A"), 100.0)], "tag")
    hand_back(bike.store, Left(begun=[run]), lambda run: bike.settings, lambda store: None)
    assert [run["outcome"] for run in bike.tell("a:A")["runs"]] == ["retry", *["ok"] * 11]


def test_a_worker_of_shards_that_ends_without_a_function_is_gone_and_not_lost(jobs):
    (jobs.folder / ".redbike.conf").write_text("[redbike]\nshards: 4\n")
    short = f"{WORKER}\n{set_lines(leaving__LAST=0.5)}\nInC.timeout = lambda self, queue_name: 1.0\n"
    (jobs.folder / "jobs.py").write_text(short)
    assert jobs.run("set", "long:A", "NOW").returncode == 0
    worker = jobs.start("work", "jobs:InC('A')")
    wait_until(lambda: "overran its timeout" in jobs.log())
    assert len(jobs.list_rows("workers", "--format=csv")) == 1
    worker.terminate()
    worker.wait(60)
    assert "this process ends without it" in jobs.log()
    assert jobs.list_rows("workers", "--format=csv") == []
