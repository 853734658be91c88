"""dramatiq: its own command with one process of 32 threads, which fetches more messages ahead than by default;
delayed messages wait in the worker's memory."""

import os
import sys
import time

import dramatiq
from bench.record import ran
from dramatiq.brokers.redis import RedisBroker

PACKAGES = ("dramatiq", "redis")
THREADS, AHEAD = 32, 1000
SETTINGS = f"1 process, {THREADS} threads, dramatiq_queue_prefetch={AHEAD}"
JOBS = 20_000

broker = RedisBroker(url=os.environ.get("BENCH_URL"))
dramatiq.set_broker(broker)


@dramatiq.actor
def job(number: int) -> None:
    ran(number)


def enqueue(number: int) -> None:
    job.send(number)


def schedule(number: int, moment: float) -> None:
    job.send_with_options(args=(number,), delay=round(1000 * (moment - time.time())))


def work() -> None:
    command = ["dramatiq", "--processes=1", f"--threads={THREADS}", "peers.dramatiq"]
    environment = os.environ | {"dramatiq_queue_prefetch": str(AHEAD)}
    os.execve(sys.executable, [sys.executable, "-m", *command], environment)
