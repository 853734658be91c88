"""Each run has a fresh copy of the context of its worker."""

import asyncio
from contextvars import ContextVar

import pytest

from redbike import Redbike, RoundRobin, current_run
from tests.loops import join, start
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
    with Redbike(worker, prefix=prefix, redis_config=client) as bike:
        list(bike.set_many((jobid, "NOW") for jobid in jobids))

        def work():
            outside.set("of the worker")
            bike.work(concurrency)

        thread = start(work)
        wait_until(lambda: len(worker.seen) == len(jobids))
        bike.stop()
        join(thread)
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
