"""arq: one worker with 100 coroutines that polls every 10 ms, results are not kept."""

import asyncio
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from arq import create_pool, func
from arq.connections import ArqRedis, RedisSettings
from arq.worker import Worker
from bench.record import ran

PACKAGES = ("arq", "redis")
COROUTINES, POLL = 100, 0.01
SETTINGS = f"max_jobs={COROUTINES}, poll_delay={POLL}, keep_result=0"
JOBS = 5_000

settings = RedisSettings(unix_socket_path=os.environ.get("BENCH_URL", "").removeprefix("unix://"))
_pool: ArqRedis | None = None


async def job(context: dict[Any, Any], number: int) -> None:
    ran(number)


async def wait(context: dict[Any, Any], number: int) -> None:
    ran(number)
    await asyncio.sleep(3600)


async def pool() -> ArqRedis:
    global _pool
    if _pool is None:
        _pool = await create_pool(settings)
    return _pool


async def enqueue(number: int) -> None:
    await (await pool()).enqueue_job("job", number)


async def enqueue_waiting_many(numbers: Iterable[int]) -> None:
    for number in numbers:
        await (await pool()).enqueue_job("wait", number)


async def schedule(number: int, moment: float) -> None:
    await (await pool()).enqueue_job("job", number, _defer_until=datetime.fromtimestamp(moment, UTC))


def work() -> None:
    work_waiting(str(COROUTINES))


def work_waiting(at_once: str) -> None:
    worker = Worker(
        [func(job, keep_result=0), func(wait, keep_result=0)],
        redis_settings=settings,
        max_jobs=int(at_once),
        poll_delay=POLL,
        queue_read_limit=5 * int(at_once),
    )
    worker.run()
