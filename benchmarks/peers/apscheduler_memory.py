"""APScheduler as it comes, with its jobs in memory: they are gone when the process ends, and no Redis is used."""

from apscheduler.jobstores.memory import MemoryJobStore

from peers import apscheduler

PACKAGES = ("apscheduler",)
SETTINGS = f"BackgroundScheduler, MemoryJobStore, {apscheduler.THREADS} threads"


def run_schedule(path: str) -> None:
    apscheduler.run(MemoryJobStore(), path)
