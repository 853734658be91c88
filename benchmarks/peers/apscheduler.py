"""APScheduler: it schedules and works in one process, with its jobs in Redis and a pool of ten threads."""

import json
import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import BaseJobStore
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from bench.record import ran

PACKAGES = ("apscheduler", "redis")
THREADS = 10
SETTINGS = f"BackgroundScheduler, RedisJobStore, {THREADS} threads"


def run_schedule(path: str) -> None:
    run(RedisJobStore(unix_socket_path=os.environ["BENCH_URL"].removeprefix("unix://")), path)


def run(store: BaseJobStore, path: str) -> None:
    jobs = json.loads(Path(path).read_text())
    scheduler = BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": ThreadPoolExecutor(THREADS)},
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )
    for number, moment in jobs:
        scheduler.add_job(ran, "date", run_date=datetime.fromtimestamp(moment, UTC), args=(number,))
    # It is then that they go to the store.
    scheduler.start()
    if time.time() > min(moment for _, moment in jobs):
        raise SystemExit("the jobs could not be set before they were due")
    signal.pause()
