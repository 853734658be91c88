"""Each run has a fresh copy of the context of its worker."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from redbike import AsyncRedbike, Jobs, Redbike, RoundRobin, current_run
from redbike.store.run import Poll
from tests.loops import beside
from tests.waiting import wait_until

outside, inside = ContextVar("outside", default=""), ContextVar("inside", default="")


class Worker(RoundRobin):
    timeouts = 10.0

    def __init__(self):
        super().__init__("A")
        self.seen = []

    def timeout(self, queue_name):
        return self.timeouts

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


class OneByOne(Worker):
    timeouts = 0.9


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("kind", [Worker, Coroutines, OneByOne])
def test_each_run_has_the_context_of_its_worker(client, prefix, kind, concurrency):
    worker, jobids = kind(), [f"{number}:A" for number in range(20)]

    def work():
        outside.set("of the worker")
        bike.work(concurrency)

    with Redbike(worker, prefix=prefix, redis_config=client) as bike, beside(bike.store, work):
        list(bike.set_many((jobid, "NOW") for jobid in jobids))
        wait_until(lambda: len(worker.seen) == len(jobids))
    assert sorted(worker.seen) == sorted((jobid, "of the worker", "", jobid) for jobid in jobids)


@pytest.mark.parametrize("kind", [Worker, Coroutines])
def test_what_a_job_sets_in_its_context_is_not_seen_by_the_next(client, server_url, prefix, kind):
    outside.set("of the worker")
    worker = kind()
    with Redbike(worker, prefix=prefix, redis_config=server_url) as bike:
        for jobid in ("a:A", "b:A"):
            bike.set(jobid, "NOW")
        assert bike.work_one()
        assert bike.work_one()
        statuses = [bike.tell(jobid)["status"][:3] for jobid in ("a:A", "b:A")]
    assert worker.seen == [(jobid, "of the worker", "", jobid) for jobid in ("a:A", "b:A")]
    assert statuses == ["STP", "STP"]
    assert inside.get() == ""
    with pytest.raises(LookupError):
        current_run()


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_run_has_the_redbike_that_works_it(client, prefix, concurrency):
    found, jobs = {}, Jobs()

    @jobs.job("sync")
    def sync():
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


def test_an_async_program_finds_itself_in_its_jobs(client, prefix):
    found, jobs = [], Jobs()

    @jobs.job("job", schedule="NOW")
    async def job():
        found.append(current_run().bike)
        await found[0].set("job:other", "STOP")

    async def work():
        async with AsyncRedbike(jobs, prefix=prefix, redis_config=client) as bike:
            await bike.set("job", "NOW")
            assert await bike.work_one() == "job"
            assert (await bike.tell("job:other"))["status"]
            return bike

    assert asyncio.run(work()) is found[0]


def test_where_nobody_works_it_a_run_has_none(client, prefix):
    with Redbike(RoundRobin("A"), prefix=prefix, redis_config=client) as bike:
        bike.set("job:A", "NOW")
        [run] = bike.store.runs.take(Poll([("work-A", 60.0)], [1]), "tag", 1)
        with pytest.raises(LookupError):
            run.bike  # noqa: B018
