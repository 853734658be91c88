"""celery: one process with a pool of four threads, no results, no events."""

import os
from datetime import UTC, datetime

from bench.record import ran
from celery import Celery

PACKAGES = ("celery", "redis")
THREADS = 4
SETTINGS = f"threads pool of {THREADS}, no limit of prefetching, ignore_result"
JOBS = 5_000

app = Celery("peers.celery", broker=os.environ.get("BENCH_URL", "redis://").replace("unix://", "redis+socket://"))
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=0,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="job")
def job(number: int) -> None:
    ran(number)


def enqueue(number: int) -> None:
    job.delay(number)


def schedule(number: int, moment: float) -> None:
    job.apply_async((number,), eta=datetime.fromtimestamp(moment, UTC))


def work() -> None:
    options = ["--pool=threads", f"--concurrency={THREADS}", "--loglevel=ERROR"]
    app.worker_main(["worker", *options, "--without-gossip", "--without-mingle", "--without-heartbeat"])
