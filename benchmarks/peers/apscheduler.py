"""APScheduler: it schedules and works in one process, with its store in memory and a pool of ten threads."""

import json
import signal
from datetime import UTC, datetime
from pathlib import Path

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from bench.record import ran

PACKAGES = ("apscheduler",)
THREADS = 10
SETTINGS = f"BackgroundScheduler, jobs in memory, {THREADS} threads"


def run_schedule(path: str) -> None:
    scheduler = BackgroundScheduler(
        executors={"default": ThreadPoolExecutor(THREADS)}, job_defaults={"misfire_grace_time": None}, timezone=UTC
    )
    # Jobs that are added before the start are put into order at once.
    for number, moment in json.loads(Path(path).read_text()):
        scheduler.add_job(ran, "date", run_date=datetime.fromtimestamp(moment, UTC), args=(number,))
    scheduler.start()
    signal.pause()
