"""Redbike with coroutines, as a contender."""

import asyncio
from collections.abc import Iterable

from bench.ours import run_command, set_with_argument
from bench.record import ran
from redbike import Jobs

PACKAGES = ("redbike", "redis")
COROUTINES = 100
SETTINGS = f"redbike work, Jobs, {COROUTINES} at once"
JOBS = 100_000

jobs = Jobs(concurrency=COROUTINES)
waiting = Jobs()


@jobs.job("job")
async def job(number: int) -> None:
    ran(number)


@waiting.job("job")
async def wait(number: int) -> None:
    ran(number)
    await asyncio.sleep(3600)


def enqueue(number: int) -> None:
    set_with_argument(jobs, [number])


def enqueue_many(numbers: Iterable[int]) -> None:
    set_with_argument(jobs, numbers)


def enqueue_waiting_many(numbers: Iterable[int]) -> None:
    set_with_argument(waiting, numbers)


def work() -> None:
    run_command("work", "bench.coroutines:jobs")


def work_waiting(at_once: str) -> None:
    run_command("work", "bench.coroutines:waiting", f"--concurrency={at_once}")
