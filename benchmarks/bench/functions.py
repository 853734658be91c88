"""Redbike with a function that runs in threads, as a contender."""

from collections.abc import Iterable

from bench.ours import run_command, set_with_argument
from bench.record import ran
from redbike import Jobs

PACKAGES = ("redbike", "redis")
SETTINGS = "redbike work, Jobs with its default, 10 at once"
JOBS = 100_000

jobs = Jobs()


@jobs.job("job")
def job(number: int) -> None:
    ran(number)


def enqueue(number: int) -> None:
    set_with_argument(jobs, [number])


def enqueue_many(numbers: Iterable[int]) -> None:
    set_with_argument(jobs, numbers)


def work() -> None:
    run_command("work", "bench.functions:jobs")
