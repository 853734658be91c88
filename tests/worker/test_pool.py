"""Several jobs at once: threads, coroutines, and batches of very short jobs."""

import asyncio
import contextvars
import threading
from collections import Counter

import pytest

from redbike import AsyncRedbike, Jobs, Redbike, current_run
from redbike.worker import pool
from redbike.worker.slots import Slots
from tests import loops
from tests.loops import Acting, beside
from tests.waiting import wait_until

PROGRAM = contextvars.ContextVar("program", default="")


def set_jobs(bike, name, number):
    assert all(result is True for _, result in bike.set_many((f"{name}:{each}", "NOW") for each in range(number)))


def is_idle(bike):
    """Whether all runs have ended, as the server counts them, and each with a success."""
    return bike.client.hlen(bike.store.keys.running) == 0 and not bike.client.llen(bike.store.keys.queue("work-job"))


def count_ok(bike):
    """How many jobs have had their only run, and it has not failed."""
    return sum(each[1].startswith("STP") for each in bike.get_statuses())


@pytest.fixture
def make(client, prefix):
    return lambda jobs: Redbike(jobs, prefix, client)


@pytest.fixture
def run_all(make):
    """Works so many jobs of ``job`` to their ends; returns their Redbike."""

    def run_all(jobs, number, is_over=lambda: True):
        bike = make(jobs)
        set_jobs(bike, "job", number)
        with beside(bike.store, bike.work):
            wait_until(lambda: is_idle(bike) and is_over())
        return bike

    return run_all


@pytest.mark.parametrize("is_async", [False, True])
def test_each_job_runs_once_and_its_end_is_told_and_no_more_run_than_there_are_slots(run_all, is_async):
    jobs, calls, running, seen = Jobs(concurrency=4), Counter(), set(), []

    def sync() -> None:
        calls[current_run().jobid] += 1

    async def coroutine() -> None:
        sync()
        running.add(current_run().jobid)
        seen.append(len(running))
        await asyncio.sleep(0.001)
        running.remove(current_run().jobid)

    jobs.job("job")(coroutine if is_async else sync)
    bike = run_all(jobs, 500, lambda: len(calls) == 500 and not running)
    assert set(calls.values()) == {1}
    assert max(seen, default=4) == 4
    assert (count_ok(bike), list(bike.failures())) == (500, [])


def test_many_coroutines_at_once_need_no_threads(run_all):
    jobs, running, most, before = Jobs(concurrency=300), set(), [0], threading.active_count()

    @jobs.job("job")
    async def wait_for_all() -> None:
        running.add(current_run().jobid)
        while len(running) < 300:
            await asyncio.sleep(0.01)
        most[0] = max(most[0], threading.active_count())

    run_all(jobs, 300, lambda: len(running) == 300)
    assert most[0] - before <= 10


def test_very_short_jobs_are_run_in_batches_and_a_slow_one_holds_up_one_slot(make, monkeypatch):
    jobs, threads, gate, begun = Jobs(concurrency=3), Counter(), threading.Event(), threading.Event()
    monkeypatch.setattr(pool, "VERY_SHORT", 2)

    @jobs.job("job", timeout=100)
    def job() -> None:
        threads[threading.current_thread().name] += 1
        if current_run().jobid == "job:500":
            begun.set()
            assert gate.wait(60)

    bike = make(jobs)
    set_jobs(bike, "job", 1000)
    with beside(bike.store, bike.work):
        assert begun.wait(60)
        # All others are run meanwhile, also those of its batch.
        wait_until(lambda: sum(threads.values()) >= 1000 and bike.client.hlen(bike.store.keys.running) == 1)
        assert count_ok(bike) == 999
        gate.set()
        wait_until(lambda: is_idle(bike))
    assert (count_ok(bike), sum(threads.values())) == (1000, 1000)


def test_coroutines_fail_overrun_and_are_cancelled_each_for_itself(make):
    jobs, begun = Jobs(concurrency=10), threading.Event()

    @jobs.job("fails", queue="job")
    async def fails() -> None:
        raise ValueError("no")

    @jobs.job("exits", queue="job")
    async def exits() -> None:
        raise SystemExit(3)

    @jobs.job("overruns", queue="job", timeout=0.2)
    @jobs.job("cancelled", queue="job")
    async def waits() -> None:
        if current_run().jobid == "cancelled":
            begun.set()
        await asyncio.sleep(60)

    @jobs.job("job")
    async def job() -> None:
        await asyncio.sleep(0.1)

    bike = make(jobs)
    names = ["fails", "exits", "overruns", "cancelled", "job"]
    for name in names:
        bike.set(name, "NOW")
    with beside(bike.store, bike.work):
        assert begun.wait(60)
        bike.cancel("cancelled")
        wait_until(lambda: is_idle(bike) and all(bike.runs(name) for name in names))
    runs = {name: bike.runs(name)[0] for name in names}
    assert [runs[name].outcome for name in names] == ["failed", "failed", "overrun", "cancelled", "ok"]
    assert [runs[name].error for name in ("fails", "exits", "job")] == ["ValueError: no", "SystemExit: 3", ""]


def test_an_async_program_runs_coroutines_in_its_own_loop(client, prefix):
    jobs, seen = Jobs(), {}

    async def startup() -> None:
        seen["startup"] = asyncio.get_running_loop()

    jobs.startup = startup

    @jobs.job("job")
    async def job() -> None:
        seen["job"] = asyncio.get_running_loop(), PROGRAM.get(), threading.current_thread().name
        seen["bike"] = current_run().bike
        PROGRAM.set("of the job")

    @jobs.job("sync", queue="job")
    def sync() -> None:
        seen["sync"] = PROGRAM.get(), threading.current_thread().name.startswith("redbike")

    async def main() -> None:
        PROGRAM.set("of the program")
        async with AsyncRedbike(jobs, prefix, client) as bike:
            await bike.set("job", "NOW")
            await bike.set("sync", "NOW")
            working = asyncio.create_task(bike.work())
            while len(seen) < 4:
                await asyncio.sleep(0.01)
            loop = asyncio.get_running_loop()
            assert (seen["startup"], seen["bike"]) == (loop, bike)
            assert seen["job"] == (loop, "of the program", threading.current_thread().name)
            assert seen["sync"] == ("of the program", True)
            bike.stop()
            await working
            assert (await bike.tell("job"))["status"].startswith("STP")
            assert PROGRAM.get() == "of the program"

    asyncio.run(main())


def test_what_has_ended_but_was_not_told_is_known():
    slots = Slots(3)
    assert slots.wait(0.0) == ([], 3)
    slots.free(1)
    slots.note_end("run", "next")
    ended, free = slots.wait(0.0)
    assert (ended, free, slots.list_untold()) == ([("run", "next")], 2, ended), "nobody has said that it was told"
    slots.put_back(ended, free)
    assert slots.wait(0.0) == (ended, 2)
    slots.free(free, ended)
    assert slots.list_untold() == []


def test_a_coroutine_does_not_begin_after_its_deadline(make, caplog):
    jobs, begun, blocked, gate = Jobs(concurrency=10), [], threading.Event(), threading.Event()

    @jobs.job("blocks", timeout=30)
    async def blocks() -> None:
        blocked.set()
        gate.wait(60)  # it holds up the event loop

    @jobs.job("waits", timeout=2)
    async def waits() -> None:
        waiting.set()
        await asyncio.sleep(60)

    @jobs.job("job", timeout=1)
    async def job() -> None:
        begun.append(current_run().jobid)

    waiting, bike = threading.Event(), make(jobs)
    bike.set("waits", "NOW")
    with beside(bike.store, bike.work):
        assert waiting.wait(60)
        bike.set("blocks", "NOW")
        assert blocked.wait(60)
        set_jobs(bike, "job", 5)
        wait_until(lambda: len(list(bike.failures())) == 6)  # the server has heard that they are late
        gate.set()
        wait_until(lambda: is_idle(bike))
    assert begun == []
    assert all("overran" in str(failure) for failure in bike.failures()), "not that something was cancelled"
    assert "CancelledError" not in caplog.text


def test_tasks_that_are_cancelled_before_they_begin_give_their_slots_back(run_all):
    jobs, begun = Jobs(concurrency=10), []

    @jobs.job("job")
    async def job() -> None:
        begun.append(current_run().jobid)
        if len(begun) == 1:
            for task in asyncio.all_tasks():
                task.cancel()
        await asyncio.sleep(0)

    bike = run_all(jobs, 30)
    assert count_ok(bike) >= 20
    assert count_ok(bike) + len(list(bike.failures())) == 30


@pytest.fixture
def full(client, prefix):
    """Works four jobs at once, where the system has no room for one more thread; what that raises is in a list."""
    raised, held = [], threading.Event()
    worker = Acting(
        lambda jobid: threading.stack_size(2**47) and None if jobid == "fill:A" else held.wait(60) and None,
        timeout=100.0,
    )
    bike = Redbike(worker, prefix, client)

    def work():
        try:
            bike.work(4)
        except RuntimeError as error:
            raised.append(str(error))

    bike.set("fill:A", "NOW")
    thread = loops.start(work)
    wait_until(lambda: count_ok(bike) == 1)
    yield bike, thread, held, raised
    threading.stack_size(0)


def test_a_worker_that_can_start_no_thread_ends_and_gives_back_what_has_not_begun(client, full, caplog):
    bike, thread, held, raised = full
    names = [f"job{number}:A" for number in range(5)]
    bike.pause_queue("A")
    for name in names:
        bike.set(name, "NOW")
    bike.resume_queue("A")
    wait_until(lambda: "no job can begin, so this worker ends after those that run" in caplog.text)
    held.set()
    loops.join(thread)
    assert raised == ["can't start new thread"]
    assert client.hlen(bike.store.keys.running) == 0
    assert list(bike.fsck()) == []
    threading.stack_size(0)
    while bike.work_one():
        pass
    assert Counter(bike.worker.worked) == Counter(["fill:A", *names])


def test_a_run_that_cannot_begin_ends_its_worker_in_order(full, caplog):
    bike, thread, held, _ = full
    held.set()
    # It needs a thread.
    bike.set("job:A", "NOW", ping_url="http://127.0.0.1:9/")
    loops.join(thread)
    assert "job:A: its run could not be ended, so it will count as lost" in caplog.text
