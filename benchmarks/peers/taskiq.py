"""taskiq: a list broker, its own command with one process and 100 tasks at once, no results."""

import asyncio
import os
import sys
from collections.abc import Iterable

from bench.record import ran
from taskiq_redis import ListQueueBroker

PACKAGES = ("taskiq", "taskiq-redis", "redis")
TASKS = 100
SETTINGS = f"ListQueueBroker, 1 process, {TASKS} tasks at once and as many ahead"
JOBS = 10_000

broker = ListQueueBroker(os.environ.get("BENCH_URL", "redis://"))


@broker.task
async def job(number: int) -> None:
    ran(number)


@broker.task
async def wait(number: int) -> None:
    ran(number)
    await asyncio.sleep(3600)


async def enqueue(number: int) -> None:
    await job.kiq(number)


async def enqueue_waiting_many(numbers: Iterable[int]) -> None:
    for number in numbers:
        await wait.kiq(number)


def work() -> None:
    work_waiting(str(TASKS))


def work_waiting(at_once: str) -> None:
    limits = [f"--max-async-tasks={at_once}", f"--max-prefetch={TASKS}", "--log-level=WARNING"]
    command = ["taskiq", "worker", "--workers=1", *limits]
    os.execv(sys.executable, [sys.executable, "-m", *command, "peers.taskiq:broker"])
