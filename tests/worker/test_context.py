"""Each run has a fresh copy of the context of its worker, whatever makes the tasks of the event loop."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from redbike import AsyncRedbike, Jobs, Redbike, RoundRobin, current_run
from tests.loops import beside
from tests.waiting import wait_until

outside, inside = ContextVar("outside", default=""), ContextVar("inside", default="")


class Worker(RoundRobin):
    def __init__(self):
        super().__init__("A")
        self.seen = []

    def work(self, jobid):
        self.see(jobid)

    def see(self, jobid):
        self.seen.append((jobid, outside.get(), inside.get(), current_run().jobid))
        inside.set(jobid)


class Coroutines(Worker):
    async def work(self, jobid):
        self.see(jobid)
        await asyncio.sleep(0)
        assert inside.get() == jobid


def make_task(loop, coroutine):
    """As older libraries do; that of Python may get a context too."""
    return asyncio.Task(coroutine, loop=loop)


class Factory(Coroutines):
    """Each of its jobs sets what makes the tasks of those after it."""

    async def work(self, jobid):
        asyncio.get_running_loop().set_task_factory(make_task)
        await super().work(jobid)


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("kind", [Worker, Coroutines, Factory])
def test_each_run_has_the_context_of_its_worker(client, prefix, kind, concurrency):
    worker, jobids = kind(), [f"{number}:A" for number in range(20)]

    def work():
        outside.set("of the worker")
        bike.work(concurrency)

    with Redbike(worker, prefix=prefix, redis_config=client) as bike, beside(bike.store, work):
        list(bike.set_many((jobid, "NOW") for jobid in jobids))
        wait_until(lambda: len(worker.seen) == len(jobids))
    assert sorted(worker.seen) == sorted((jobid, "of the worker", "", jobid) for jobid in jobids)
    with pytest.raises(LookupError):
        current_run()


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_run_has_the_redbike_that_works_it(client, prefix, concurrency):
    found, jobs = {}, Jobs()

    @jobs.job("sync")
    def sync():
        with pytest.raises(LookupError, match="only in a middleware"):
            current_run().will_retry(OSError("full"))
        found["sync"] = current_run().bike
        found["sync"].set("sync:other", "STOP")

    @jobs.job("async")
    async def asynchronous():
        found["async"] = current_run().bike
        await found["async"].set("sync:another", "STOP")

    with Redbike(jobs, prefix=prefix, redis_config=client) as bike, beside(bike.store, lambda: bike.work(concurrency)):
        list(bike.set_many([("sync", "NOW"), ("async", "NOW")]))
        wait_until(lambda: bike.tell("sync:other")["status"] and bike.tell("sync:another")["status"])
        wait_until(lambda: [run.outcome for run in bike.runs()] == ["ok", "ok"])
    assert found["sync"] is bike
    assert isinstance(found["async"], AsyncRedbike)
    wait_until(lambda: not any(thread.name.startswith("redbike-call") for thread in threading.enumerate()))


def test_a_task_factory_that_raises_ends_each_run_with_its_error_and_holds_no_slot(client, prefix):
    jobs = Jobs(concurrency=3)

    def fail(loop, coroutine, **more):
        raise ValueError("no task")

    @jobs.job("sets")
    async def sets() -> None:
        asyncio.get_running_loop().set_task_factory(fail)

    @jobs.job("other")
    async def other() -> None:
        pass

    with Redbike(jobs, prefix, client) as bike, beside(bike.store, bike.work):
        bike.set("sets", "NOW")
        assert bike.wait("sets", 30).outcome == "ok"
        for number in range(5):
            bike.set(f"other:{number}", "NOW")
        wait_until(lambda: len(list(bike.failures())) == 5)
        assert {failure["error"] for failure in bike.failures()} == {"ValueError: no task"}
