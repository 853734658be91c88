"""`AsyncRedbike` does what `Redbike` does, and never blocks the event loop."""

import asyncio
import contextlib
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from redis.connection import AbstractConnection

from redbike import AsyncRedbike, BadConfig, NoSuchJob, RoundRobin, ServerError, Unreachable
from redbike.config.settings import Settings
from redbike.connection.embedded import EmbeddedServer
from redbike.facade.asynchronous import THREADS
from redbike.facade.results import PAGE, AsyncResults, Reader
from tests.loops import Held
from tests.waiting import wait_until


@pytest.fixture
def bike(client, prefix):
    return AsyncRedbike(Held(), prefix, client)


def in_loop(test):
    """Run an asynchronous test."""

    @functools.wraps(test)
    def run(**fixtures):
        asyncio.run(test(**fixtures))

    return run


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def read(results):
    return [each async for each in results]


def names():
    return {thread.name for thread in threading.enumerate()}


@in_loop
async def test_calls_are_awaited_and_results_are_read(bike):
    async with bike:
        assert await bike.set("job:A", "EVERY:1h", timeout="5m") is True
        assert (await bike.tell("job:A"))["options"] == {"timeout": 300}
        many = await read(bike.set_many([("a:A", "NOW"), ("b:A", "nonsense"), ("c:A", "EVERY:1h")]))
        assert [(jobid, result is True) for jobid, result in many] == [("a:A", True), ("b:A", False), ("c:A", True)]
        assert sorted(jobid for jobid, _ in await read(bike.get_schedules())) == ["a:A", "c:A", "job:A"]
        bike._bike.worker.opened.set()
        assert await bike.work_one() == "a:A"
        assert [job.jobid async for job in bike.jobs("c*")] == ["c:A"]
        with pytest.raises(NoSuchJob):
            await bike.why("nobody:A")
        assert await bike.cancel("nobody*") == []
        assert [job.jobid async for job in bike.jobs("nobody:A", "job:A")] == ["job:A"]
        assert await bike.group("g", ((f"{number}:A", "AT:4000000000") for number in range(3)), then="report:A") == 3
        await bike.unset("0:A")
        assert "2 of 3 jobs left, 1 given up" in await bike.why("report:A")


class Numbers:
    """Numbers that count how many were taken, and in which thread they are closed."""

    def __init__(self, number):
        self.left, self.taken, self.closed_in = number, 0, None
        self.going_on = threading.Event()
        self.going_on.set()

    def generate(self):
        try:
            while self.left:
                assert self.going_on.wait(60)
                self.left, self.taken = self.left - 1, self.taken + 1
                yield self.taken
        finally:
            self.closed_in = threading.current_thread().name


@pytest.mark.parametrize("closes", [True, False])
@in_loop
async def test_results_are_read_a_page_at_a_time_and_dropped_in_a_thread(bike, closes):
    numbers = Numbers(10 * PAGE)
    async with bike:
        results = AsyncResults(bike._call, bike._discard, Reader(lambda _: numbers.generate()))
        assert numbers.taken == 0
        for number in range(1, PAGE + 1):
            assert await anext(results) == number
            assert numbers.taken == PAGE
        assert await anext(results) == PAGE + 1
        if closes:
            await results.aclose()
            assert await read(results) == []
        del results
        await until(lambda: numbers.closed_in)
    assert numbers.closed_in.startswith("redbike-call")
    assert numbers.taken == 2 * PAGE


@in_loop
async def test_a_task_that_is_cancelled_while_it_waits_loses_no_result(bike):
    numbers = Numbers(PAGE)
    numbers.going_on.clear()

    def generate():
        yield from numbers.generate()
        raise NoSuchJob("nobody")

    async with bike:
        results = AsyncResults(bike._call, bike._discard, Reader(lambda _: generate()))
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(results)
        tasks = [asyncio.ensure_future(anext(results)) for _ in range(3)]
        await asyncio.sleep(0)
        numbers.going_on.set()
        assert sorted(await asyncio.gather(*tasks)) == [1, 2, 3]
        assert [await anext(results) for _ in range(PAGE - 3)] == list(range(4, PAGE + 1))
        # An error comes behind the results before it.
        with pytest.raises(NoSuchJob):
            await anext(results)
        assert await read(results) == []
        with pytest.raises(StopAsyncIteration):
            await anext(results)


@pytest.mark.parametrize(
    ("number", "said"), [(0, "was never read: nothing was done"), (1, "was dropped after 1 result: later")]
)
def test_jobs_that_nobody_sets_are_a_warning(bike, number, said):
    async def main():
        async with bike:
            await begin()
            gc.collect()

    async def begin():
        results = bike.set_many((f"job{each}:A", "EVERY:1h") for each in range(5 * PAGE))
        for _ in range(number):
            await anext(results)

    with pytest.warns(RuntimeWarning, match=rf"set_many\(\) {said}"):
        asyncio.run(main())


# Loops


@in_loop
async def test_a_loop_that_is_cancelled_ends_after_its_current_job(client, prefix):
    worker = Held()
    bike = AsyncRedbike(worker, prefix, client)
    async with bike:
        working = asyncio.create_task(bike.work(3))
        dispatching = asyncio.create_task(bike.dispatch())
        await bike.set("job:A", "AT:1")
        await until(worker.begun.is_set)
        working.cancel()
        done, _ = await asyncio.wait([working], timeout=0.1)
        assert not done
        assert not dispatching.done()
        worker.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert worker.worked == ["job:A"]
        assert (await bike.tell("job:A"))["status"].startswith("STP:")
        dispatching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dispatching
        await until(lambda: "redbike-loop" not in names())
        with pytest.raises(BadConfig, match="cannot read"):
            await bike.dispatch(csvfilename="nowhere.csv")
        with pytest.raises(BadConfig, match="bad concurrency 0: 1 to 1000 are allowed"):
            await bike.work(0)


CANCELLED_TWICE = """
import asyncio, time
from redbike import AsyncRedbike, Jobs

jobs = Jobs(concurrency={concurrency})

@jobs.job("job")
{job}

async def main():
    bike = AsyncRedbike(jobs, {prefix!r}, {{"unix_socket_path": {path!r}}})
    working = asyncio.create_task(bike.work())
    await bike.set("job", "NOW")
    while not (await bike.tell("job"))["working"]:
        await asyncio.sleep(0.01)
    for _ in range(2):
        working.cancel()
        await asyncio.sleep(0.01)

{run}
"""
RUN = "asyncio.run(main())"
LEAVE = "loop = asyncio.new_event_loop(); loop.run_until_complete(main()); loop.close()"
THREAD, COROUTINE = "def job(): time.sleep(0.3)", "async def job(): await asyncio.sleep(60)"


@pytest.mark.parametrize(
    ("concurrency", "job", "run", "workers"),
    [(1, THREAD, RUN, 0), (3, THREAD, LEAVE, 0), (3, COROUTINE, RUN, 0), (3, COROUTINE, LEAVE, 1)],
)
def test_a_program_that_cancels_a_worker_twice_ends_after_it(client, prefix, concurrency, job, run, workers):
    """But not after a coroutine that cannot go on: its worker counts as lost."""
    path = client.connection_pool.connection_kwargs["path"]
    text = CANCELLED_TWICE.format(concurrency=concurrency, job=job, run=run, prefix=prefix, path=path)
    subprocess.run([sys.executable, "-c", text], stderr=subprocess.DEVNULL, timeout=30, check=False)
    assert client.hlen(f"{prefix}-workers") == workers


@in_loop
async def test_stop_ends_all_loops_without_an_error(bike, client, prefix):
    async with bike:
        loops = [asyncio.create_task(bike.dispatch()), asyncio.create_task(bike.work())]
        while len(await bike.workers()) < 2:
            await asyncio.sleep(0.01)
        bike.stop()
        assert await asyncio.gather(*loops) == [None, None]
        await bike.work()
    other = AsyncRedbike(Held(), prefix, client)
    other.stop()  # it counts before it has connected, too
    await asyncio.gather(other.dispatch(), other.work())
    await other.close()


# Opening and closing


def test_the_constructor_connects_to_nothing(tmp_path, prefix):
    folder = tmp_path / "server"
    bike = AsyncRedbike(RoundRobin("A"), prefix, f"embedded:{folder}")
    assert not folder.exists()

    async def main():
        async with bike:
            assert EmbeddedServer(folder).status()["running"]
            await bike.set("job:A", "NOW")

    try:
        asyncio.run(main())
    finally:
        EmbeddedServer(folder).stop()


def test_a_closed_one_is_closed(bike, client, prefix):
    others = set(threading.enumerate())  # of tests before

    async def main():
        await bike.set("job:A", "EVERY:1h")
        await bike.close()
        await bike.close()
        other = AsyncRedbike.from_settings(Held(), Settings(prefix=prefix), client)
        assert [jobid async for jobid, _ in other.get_schedules()] == ["job:A"]
        await other.close()
        AsyncRedbike(Held(), prefix, client)

    asyncio.run(main())
    wait_until(lambda: not any(each.name.startswith("redbike-call") for each in {*threading.enumerate()} - others))


# Events


def listeners(client, prefix):
    return client.pubsub_shardnumsub(f"{prefix}-log")[0][1]


@in_loop
async def test_events_come_as_they_happen_hold_nothing_up_and_end_with_close(client, prefix):
    async with AsyncRedbike(Held(), prefix, client, noted_as="me") as bike:
        # More than there are threads for calls.
        streams = [bike.events() for _ in range(THREADS + 4)]
        first = [asyncio.ensure_future(anext(stream)) for stream in streams]
        await until(lambda: listeners(client, prefix) == THREADS + 4)
        await bike.set("job:A", "EVERY:1h")
        assert {event.jobid for event in await asyncio.gather(*first)} == {"job:A"}
        waiting = asyncio.ensure_future(anext(streams[0]))
        await until(lambda: "redbike-events" in names())
        waiting.cancel()
        del streams, first, waiting
        gc.collect()
        await until(lambda: "redbike-events" not in names())
        await until(lambda: not listeners(client, prefix))
        reading = asyncio.ensure_future(read(bike.events()))
        await until(lambda: listeners(client, prefix))
    async with asyncio.timeout(60):
        assert await reading == []
    await until(lambda: "redbike-events" not in names())


# The event loop goes on


@contextlib.asynccontextmanager
async def ticking():
    """Note when the event loop comes round."""
    ticks = []

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.01)

    task = asyncio.create_task(tick())
    yield ticks
    ticks.append(time.monotonic())
    task.cancel()


SILENCE = 1.0  # seconds after which a call gives up


@pytest.fixture
def frozen(own_server):
    """The settings that lead to a server, and what suspends it."""
    pid = own_server.status()["pid"]
    return {"unix_socket_path": str(own_server.socket)}, lambda: os.kill(pid, signal.SIGSTOP)


ENOUGH = 5


def watch_waits(ticks, monkeypatch):
    """Note of each wait for an answer from now on whether the loop comes round before it ends; let it end soon."""
    waits = []
    read_response = AbstractConnection.read_response

    def goes_on(number):
        with contextlib.suppress(AssertionError):
            wait_until(lambda: len(ticks) >= number)
        return len(ticks) >= number

    def read(connection, *args, **kwargs):
        number = len(ticks) + ENOUGH
        connection._sock.settimeout(SILENCE)
        try:
            return read_response(connection, *args, **kwargs)
        finally:
            # A call that blocks the loop does so until this returns, however long that takes.
            waits.append(goes_on(number))

    monkeypatch.setattr(AbstractConnection, "read_response", read)
    return waits


@in_loop
async def test_no_call_blocks_the_loop_while_the_server_does_not_answer(frozen, prefix, monkeypatch):
    settings, freeze = frozen
    bike = AsyncRedbike(Held(), prefix, settings)
    await bike.set("job:A", "EVERY:1h")
    working = asyncio.create_task(bike.work())
    while not await bike.workers():
        await asyncio.sleep(0.01)
    freeze()

    async def open_another():
        async with AsyncRedbike(Held(), prefix, settings):
            pass

    calls = [
        bike.set("job:A", "NOW"),
        bike.tell("job:A"),
        read(bike.get_schedules()),
        read(bike.set_many([("job:A", "NOW")])),
        anext(bike.events()),
        asyncio.gather(*(bike.is_halted() for _ in range(THREADS))),
        open_another(),
    ]
    async with ticking() as ticks:
        waits = watch_waits(ticks, monkeypatch)
        found = await asyncio.gather(*calls, return_exceptions=True)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        await bike.close()
    assert [isinstance(each, Unreachable) for each in found[:-1]] == [True] * (len(calls) - 1)
    assert isinstance(found[-1], ServerError)
    assert len(waits) >= len(calls)
    assert all(waits)


async def begin(worker, *given):
    """A program whose worker has begun to work a job, and its task."""
    bike = AsyncRedbike(worker, *given)
    working = asyncio.create_task(bike.work())
    await bike.set("job:A", "NOW")
    await until(worker.begun.is_set)
    return bike, working


@in_loop
async def test_closing_waits_without_blocking_the_loop_also_once_more_when_it_was_cancelled(client, prefix):
    worker = Held()
    bike, working = await begin(worker, prefix, client)
    async with ticking() as ticks:
        first = asyncio.create_task(bike.close())
        await until(lambda: len(ticks) >= ENOUGH and "redbike-close" in names())
        assert not first.done()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    async with ticking() as ticks:
        second = asyncio.create_task(bike.close())
        await until(lambda: len(ticks) >= ENOUGH)
        assert not second.done()
    worker.opened.set()
    await asyncio.gather(second, working)
    assert worker.worked == ["job:A"]


@in_loop
async def test_a_job_may_close_what_another_task_closes(client, prefix):
    class Closer(Held):
        async def work(self, jobid):
            self.begun.set()
            await until(self.opened.is_set)
            await bike.close()
            self.worked.append(jobid)

    worker = Closer()
    bike, working = await begin(worker, prefix, client)
    closing = asyncio.create_task(bike.close())
    await until(lambda: "redbike-close" in names())
    worker.opened.set()
    async with asyncio.timeout(60):
        await asyncio.gather(closing, working)
    assert worker.worked == ["job:A"]
