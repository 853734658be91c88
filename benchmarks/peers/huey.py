"""huey: a list, threads in one consumer process, no results kept; the consumer's scheduler looks once a second."""

import os
from datetime import UTC, datetime

from bench.record import ran
from huey import RedisHuey

PACKAGES = ("huey", "redis")
WORKERS = 1
SETTINGS = f"{WORKERS} thread, results=False"
JOBS = 20_000

app = RedisHuey("bench", url=os.environ.get("BENCH_URL"), results=False, utc=True)


@app.task()
def job(number: int) -> None:
    ran(number)


def enqueue(number: int) -> None:
    job(number)


def schedule(number: int, moment: float) -> None:
    job.schedule((number,), eta=datetime.fromtimestamp(moment, UTC))


def work() -> None:
    app.create_consumer(workers=WORKERS, worker_type="thread", periodic=False, scheduler_interval=1).run()
