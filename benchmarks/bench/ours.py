"""Redbike as a contender: the same interface as the adapters in ``peers/``, see there."""

import os
import sys
import threading
from collections.abc import Iterable, Iterator

from redbike import Redbike, RoundRobin

PACKAGES = ("redbike", "redis")
SETTINGS = "redbike work, redbike dispatch"
JOBS = 200_000

_bike: Redbike | None = None


def bike() -> Redbike:
    """One for the server of this measurement."""
    global _bike
    if _bike is None:
        _bike = Redbike(RoundRobin("A"), redis_config=os.environ["BENCH_URL"])
    return _bike


def enqueue(number: int) -> None:
    bike().set(f"{number}:A", "NOW")


def enqueue_many(numbers: Iterable[int]) -> None:
    _check(bike().set_many((f"{number}:A", "NOW") for number in numbers))


def cron(number: int) -> None:
    bike().set(f"{number}:A", cron_line(number))


def cron_many(numbers: Iterable[int]) -> None:
    _check(bike().set_many((f"{number}:A", cron_line(number)) for number in numbers))


def schedule_many(jobs: Iterable[tuple[int, float]]) -> None:
    _check(bike().set_many((f"{number}:A", f"AT:{moment:.6f}") for number, moment in jobs))


def cron_line(number: int) -> str:
    """One of 40,320 lines, once a week."""
    return f"{number % 60} {number // 60 % 24} * * {number // 1440 % 7} {number // 10080 % 4}"


def _check(results: Iterator[tuple[str, bool | ValueError]]) -> None:
    for jobid, result in results:
        if result is not True:
            raise ValueError(f"{jobid}: {result}")


def work(queues: str = "A") -> None:
    _command("work", f"bench.jobs:Job({queues!r})")


def dispatch() -> None:
    _command("dispatch")


def _command(*words: str) -> None:
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
