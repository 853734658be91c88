"""``current_run().scheduled_by``: who set a job, or ordered its run, as the log of changes knows it."""

import asyncio
import json

import pytest

from redbike import AsyncRedbike, Jobs, Redbike, RoundRobin, current_run
from redbike.store.backfill import make_jobid
from tests.loops import Doing, raising
from tests.states import JOB

YEARS = "EVERY:10000d@0"
BIKE = {"worker": Doing, "retries": 1, "backoff": 0.0}


@pytest.fixture
def people(client, prefix):
    """Who changes jobs: two people, and a program that nobody is named for."""
    names = ("ann@here", "bob@there", None)
    return [Redbike(RoundRobin("A"), prefix, client, noted_as=name) for name in names]


def make_ask(bike, jobid=JOB):
    """Return what runs a job once, and returns who is said to have ordered that."""
    found = []
    bike.worker.acts[jobid] = lambda: found.append(current_run().scheduled_by)

    def ask():
        found.clear()
        assert bike.work_one() == jobid
        [order] = found
        return order and (order.who, order.action, order.jobid)

    return ask


@pytest.fixture
def asked(bike):
    return make_ask(bike)


def test_it_is_whoever_set_the_job_last_or_ordered_this_run(asked, people):
    ann, bob, program = people
    ann.set(JOB, "@daily")
    bob.set(JOB, "NOW")
    bob.set("other:A", "STOP")
    assert asked() == ("bob@there", "set", JOB)
    ann.set(JOB, YEARS)
    bob.run(JOB)
    bob.pause("another:*")
    assert asked() == ("bob@there", "run", JOB)
    # An order counts for its own run alone.
    program.set(JOB, "NOW")
    assert asked() == ("ann@here", "set", JOB), "the log does not know of programs"
    # Of several that are run at once, each was ordered.
    bob.run("other:A", JOB)
    bob.cancel("other:A")
    assert asked() == ("bob@there", "run", JOB)
    bob.unset(JOB)
    program.set(JOB, "NOW")
    assert asked() is None
    ann.client.delete(ann.store.keys.log)
    program.set(JOB, "NOW")
    assert asked() is None


def test_each_try_was_ordered_by_the_same_person_and_by_nobody_after_its_start(bike, asked, people):
    ann, bob, _ = people
    told = bike.worker.acts[JOB]
    ann.set(JOB, YEARS)
    bob.run(JOB)
    bike.worker.acts[JOB] = lambda: (bob.set(JOB, YEARS), told(), raising(OSError("no luck"))())
    assert asked() == ("bob@there", "run", JOB)
    bike.dispatch_due()
    bike.worker.acts[JOB] = told
    assert asked() == ("bob@there", "run", JOB)
    ann.set(JOB, "NOW")
    bike.worker.acts[JOB] = lambda: (bob.set(JOB, YEARS), bob.run(JOB), told())[-1]
    assert asked() == ("ann@here", "set", JOB)


def test_of_a_backfill_it_is_whoever_has_begun_it(bike, people):
    ann, bob, _ = people
    found = []
    bike.worker.acts[JOB] = lambda: found.append(current_run().scheduled_by)
    # It comes due in no test.
    now = bike.store.timeline.read_clock() // (10_000 * 86400) * (10_000 * 86400)
    bob.set(JOB, YEARS)
    bob.backfill(JOB, now, now)
    ann.set(JOB, YEARS, retries=2)
    bike.dispatch_due()
    assert bike.work_one() == make_jobid(JOB, now)
    assert [(order.who, order.action) for order in found] == [("bob@there", "backfill")]


@pytest.mark.parametrize("shards", [1, 4])
def test_on_a_host_it_is_whoever_set_the_base_or_ordered_the_run_there(client, prefix, shards):
    ann, bob, program, worker = (
        Redbike(Doing("A"), prefix, client, noted_as=name, shards=shards, host="web1")
        for name in ("ann@here", "bob@there", None, None)
    )
    base, jobid = "clean:A@all", "clean:A@web1"
    ask = make_ask(worker, jobid)
    record = '{"kind": "worker", "host": "web1", "pid": 1, "queues": ["work-A"], "version": "1", "for_host": true}'
    worker.store.workers.register("web1xxxx", record)
    bob.set("clean:A@web11", "STOP")
    ann.set(base, "NOW")
    assert ask() == ("ann@here", "set", base)
    ann.unset(base)
    program.set(base, "NOW")
    assert ask() is None
    ann.set(base, YEARS)
    for ordered in (base, jobid):
        bob.run(ordered)
        assert ask() == ("bob@there", "run", jobid)


def test_damaged_entries_and_names_within_others_are_passed_over(asked, people, client):
    ann, bob, _ = people
    ann.set(JOB, "NOW")
    bob.set(f"x{JOB}", "STOP")
    for kept in ("no JSON", f'["{JOB}"]', json.dumps([JOB] * 9), json.dumps(["1.0", "eve", "set", json.dumps(JOB)])):
        client.lpush(ann.store.keys.log, kept)
    assert asked() == ("ann@here", "set", JOB)
    # Only the newest megabyte is looked at.
    ann.set(JOB, "NOW")
    entry = json.dumps(["1.000000", "ann@here", "set", "x" * 400, *[f"{number}" * 9 for number in range(100)]])
    client.lpush(ann.store.keys.log, *[entry] * 900)
    assert asked() is None


def test_it_takes_one_request_and_a_coroutine_awaits_it(client, prefix):
    found, jobs = [], Jobs()

    @jobs.job("job")
    async def job():
        found.append(await current_run().scheduled_by)

    async def work():
        async with AsyncRedbike(jobs, prefix=prefix, redis_config=client, noted_as="ann@here") as bike:
            await bike.set("job", "NOW")
            assert await bike.work_one() == "job"

    asyncio.run(work())
    [order] = found
    assert (order.who, order.action, order.jobid) == ("ann@here", "set", "job")
