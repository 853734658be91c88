"""Redbike as a contender: the same interface as the adapters in ``peers/``, see there."""

import os
import sys
import threading
from collections.abc import Iterable, Iterator

from redbike import Jobs, Redbike, RoundRobin

PACKAGES = ("redbike", "redis")
SETTINGS = "redbike work, redbike dispatch"
JOBS = 200_000

STOCK = RoundRobin("A")
_bikes: dict[object, Redbike] = {}


def bike(worker: RoundRobin | Jobs = STOCK) -> Redbike:
    """One for the server of this measurement, and for a worker."""
    if worker not in _bikes:
        _bikes[worker] = Redbike(worker, redis_config=os.environ["BENCH_URL"])
    return _bikes[worker]


def set_with_argument(jobs: Jobs, numbers: Iterable[int]) -> None:
    """Set jobs of the function ``job``, with their numbers as its argument."""
    check(bike(jobs).set_many((f"job:{number}", "NOW", {"data": {"number": number}}) for number in numbers))


def enqueue(number: int) -> None:
    bike().set(f"{number}:A", "NOW")


def enqueue_many(numbers: Iterable[int]) -> None:
    check(bike().set_many((f"{number}:A", "NOW") for number in numbers))


def cron(number: int) -> None:
    bike().set(f"{number}:A", cron_line(number))


def cron_many(numbers: Iterable[int]) -> None:
    check(bike().set_many((f"{number}:A", cron_line(number)) for number in numbers))


def schedule_many(jobs: Iterable[tuple[int, float]]) -> None:
    check(bike().set_many((f"{number}:A", f"AT:{moment:.6f}") for number, moment in jobs))


def cron_line(number: int) -> str:
    """One of 40,320 lines, once a week."""
    return f"{number % 60} {number // 60 % 24} * * {number // 1440 % 7} {number // 10080 % 4}"


def check(results: Iterator[tuple[str, bool | ValueError]]) -> None:
    for jobid, result in results:
        if result is not True:
            raise ValueError(f"{jobid}: {result}")


def work(queues: str = "A") -> None:
    run_command("work", f"bench.jobs:Job({queues!r})")


def dispatch() -> None:
    run_command("dispatch")


def run_command(*words: str) -> None:
    url = os.environ["BENCH_URL"]
    os.execv(sys.executable, [sys.executable, "-m", "redbike", f"--url={url}", *words])


def idle_workers(number: str) -> None:
    """That many workers of a queue without jobs, as threads: what matters of them is their connections."""
    threads = [
        threading.Thread(target=Redbike(RoundRobin("idle"), redis_config=os.environ["BENCH_URL"]).work, daemon=True)
        for _ in range(int(number))
    ]
    for thread in threads:
        thread.start()
    threads[0].join()
