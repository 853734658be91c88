"""saq: one worker with 100 coroutines, results are not kept; scheduled jobs are looked for once a second."""

import asyncio
import math
import os
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


async def enqueue(number: int) -> None:
    # A ttl of -1 keeps no result.
    await queue.enqueue(Job("job", kwargs={"number": number}, ttl=-1))


async def schedule(number: int, moment: float) -> None:
    # It takes whole seconds: the next one, for otherwise it would be early.
    await queue.enqueue(Job("job", kwargs={"number": number}, ttl=-1, scheduled=math.ceil(moment)))


def work() -> None:
    worker = Worker(queue, [job], concurrency=COROUTINES)
    asyncio.run(worker.start())
