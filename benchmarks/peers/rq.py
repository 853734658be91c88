"""rq: a SimpleWorker, which runs jobs in its own process and so forks for none; results are not kept."""

import os
from datetime import UTC, datetime

from bench.record import ran
from redis import Redis
from rq import Queue, SimpleWorker

PACKAGES = ("rq", "redis")
SETTINGS = "SimpleWorker, result_ttl=0"
JOBS = 3_000

url = os.environ.get("BENCH_URL")
connection = Redis.from_url(url) if url else Redis()
queue = Queue(connection=connection)


def enqueue(number: int) -> None:
    queue.enqueue(ran, number, result_ttl=0)


def schedule(number: int, moment: float) -> None:
    queue.enqueue_at(datetime.fromtimestamp(moment, UTC), ran, number, result_ttl=0)


def work() -> None:
    SimpleWorker([queue], connection=connection, log_job_description=False).work(
        logging_level="WARNING", with_scheduler=True
    )
