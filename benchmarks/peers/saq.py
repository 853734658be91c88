"""saq: one worker with 100 coroutines, results are not kept; scheduled jobs are looked for once a second."""

import asyncio
import math
import os
from collections.abc import Iterable
from typing import Any

from bench.record import ran
from redis.asyncio import Redis
from saq import Job, Worker
from saq.queue.redis import RedisQueue

PACKAGES = ("saq", "redis")
COROUTINES = 100
SETTINGS = f"concurrency={COROUTINES}, ttl=-1"
JOBS = 10_000

queue = RedisQueue(Redis.from_url(os.environ.get("BENCH_URL", "redis://")))


async def job(context: dict[str, Any], *, number: int) -> None:
    ran(number)


async def wait(context: dict[str, Any], *, number: int) -> None:
    ran(number)
    await asyncio.sleep(3600)


async def enqueue(number: int) -> None:
    # A ttl of -1 keeps no result.
    await queue.enqueue(Job("job", kwargs={"number": number}, ttl=-1))


async def enqueue_waiting_many(numbers: Iterable[int]) -> None:
    for number in numbers:
        await queue.enqueue(Job("wait", kwargs={"number": number}, ttl=-1, timeout=0))


async def schedule(number: int, moment: float) -> None:
    # It takes whole seconds: the next one, for otherwise it would be early.
    await queue.enqueue(Job("job", kwargs={"number": number}, ttl=-1, scheduled=math.ceil(moment)))


def work() -> None:
    work_waiting(str(COROUTINES))


def work_waiting(at_once: str) -> None:
    worker = Worker(queue, [job, wait], concurrency=int(at_once))
    asyncio.run(worker.start())
