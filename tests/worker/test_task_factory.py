"""Jobs, and programs, that set what makes the tasks of the event loop in which coroutines run."""

import asyncio
from contextvars import ContextVar

import pytest

from redbike import AsyncRedbike, Jobs, Redbike, current_run
from tests.loops import beside
from tests.waiting import wait_until

outside = ContextVar("outside", default="")


def make_two(loop, coroutine):
    """As older libraries do; that of Python may get a context too."""
    return asyncio.Task(coroutine, loop=loop)


def fail(loop, coroutine, **more):
    raise ValueError("no task")


@pytest.fixture
def jobs():
    jobs = Jobs(concurrency=3)

    @jobs.job("sets", timeout="100s")
    async def sets(name: str) -> None:
        asyncio.get_running_loop().set_task_factory({"two": make_two, "fail": fail, "none": None}[name])

    @jobs.job("other", timeout="100s", keep_result=True)
    async def other() -> list[str]:
        seen = [current_run().jobid, outside.get()]
        outside.set("changed")
        await asyncio.sleep(0)
        return [*seen, outside.get()]

    return jobs


def test_one_that_a_job_has_set_may_know_no_context(client, prefix, jobs):
    outside.set("program")
    with Redbike(jobs, prefix, client) as bike, beside(bike.store, bike.work):
        bike.set("sets", "NOW", data={"name": "two"})
        assert bike.wait("sets", 30).outcome == "ok"
        for number in range(3):
            bike.set(f"other:{number}", "NOW")
            run = bike.wait(f"other:{number}", 30)
            assert run.result[0] == f"other:{number}"
            assert run.result[2] == "changed"
            assert run.result[1] != "changed"


def test_one_that_raises_ends_each_run_with_its_error_and_holds_no_slot(client, prefix, jobs):
    with Redbike(jobs, prefix, client) as bike, beside(bike.store, bike.work):
        bike.set("sets", "NOW", data={"name": "fail"})
        assert bike.wait("sets", 30).outcome == "ok"
        names = [f"other:{number}" for number in range(5)]
        for name in names:
            bike.set(name, "NOW")
        wait_until(lambda: len(list(bike.failures())) == 5)
        assert {failure["error"] for failure in bike.failures()} == {"ValueError: no task"}


def test_one_that_the_program_has_set_may_know_no_context(client, prefix, jobs):
    async def program():
        asyncio.get_running_loop().set_task_factory(make_two)
        async with AsyncRedbike(jobs, prefix, client) as bike:
            work = asyncio.ensure_future(bike.work())
            await bike.set("other", "NOW")
            run = await bike.wait("other", 30)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return run.outcome

    assert asyncio.run(program()) == "ok"
