"""A simple, flexible scheduler for pools of distributed workers.

A job is an id and a schedule. A dispatcher moves jobs that are due into queues, and workers take them from there::

    from redbike import Jobs, Redbike

    jobs = Jobs()

    @jobs.job("greet", every="1h", timeout="30s")
    def greet(jobid, data):
        print("hello", data)

    with Redbike(jobs) as bike:
        bike.set("greet:ann", "NOW", data="Ann")
        bike.work_one()  # prints: hello Ann
        print(bike.tell("greet:ann")["runs"][0]["outcome"])  # prints: ok

``redbike up module:jobs`` runs a dispatcher and a worker for such a module, and sets the jobs that have a schedule.

**Calls.** `Redbike` sets and controls jobs, shows what they do, and runs dispatchers and workers. `AsyncRedbike` has
the same calls, to be awaited. `escape` returns a pattern that matches one job id and no other.

**Work.** `Jobs` is a worker made of functions. `RoundRobin` and `Priority` are bases of worker classes; `WorkerClass`
is the protocol of every worker class. During a run, `current_run` returns the `Run`. Work raises `Again` to be run
again, `StopWork` to stop the job, `UnsetJob` to remove it.

**Answers.** ``tell`` returns `JobDetails`. Calls that list something return a `Job`, `PastRun`, `Queue`, `Process` or
`LogEntry` for each entry. Times are epoch seconds, durations seconds.

**Arguments.** For annotations: `ScheduleLike`, `InstantLike` and `ZoneLike` are what calls accept as a schedule, an
instant and a zone. `JobOptions` are the options of a job, `Settings` the settings of a process.

**Errors.** All are a `RedbikeError`, except a ``TypeError`` for a mistake in a program, and errors of work itself.

The other names are the types of arguments and results. The page "Versions" of the documentation lists all names, and
says which of them stay in later versions.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from redbike.errors import (
    Again,
    BadConfig,
    BadJobId,
    BadQueueName,
    BadSchedule,
    CommandFailed,
    LostRun,
    NoResult,
    NoSuchJob,
    Overrun,
    RedbikeError,
    ServerError,
    StopWork,
    TooManyRuns,
    Unreachable,
    UnsetJob,
)
from redbike.text import __version__ as __version__

if TYPE_CHECKING:
    from redbike.config.definitions import Catchup, LogFormat, LogLevel, NoOrYes, OnError, OnLost, OnTimeout, Overlap
    from redbike.config.labels import TagLike
    from redbike.config.options import JobOptions
    from redbike.config.queue_limits import Limit, Limits
    from redbike.config.settings import KeywordSettings, Settings
    from redbike.control.backfilling import Backfill
    from redbike.control.pairs import Pair
    from redbike.control.sync.changes import Change, Changes
    from redbike.facade.asynchronous import AsyncRedbike
    from redbike.facade.redbike import Redbike, log
    from redbike.facade.results import AsyncResults, Results
    from redbike.importers.rows import Source
    from redbike.loop.worker_class import Middleware, Priority, RoundRobin, WorkerClass
    from redbike.queries.check.findings import Finding
    from redbike.queries.forecast import Forecast, Minute, Plan, Quarter, Relief, Share
    from redbike.queries.health import Health
    from redbike.schedule.moments import DurationLike, InstantLike, ZoneLike
    from redbike.schedule.objects import CronLike, RuleLike, ScheduleLike
    from redbike.store.backfill import BackfillDetails
    from redbike.store.blackouts import BlackoutDetails
    from redbike.store.details import JobDetails
    from redbike.store.enums import Difference, Event, EventName, Outcome
    from redbike.store.every_host import HostDetails
    from redbike.store.group_counts import GroupDetails
    from redbike.store.history import PastRun, RunDetails
    from redbike.store.job import Job
    from redbike.store.log import LogEntry
    from redbike.store.patterns import Steered, escape
    from redbike.store.processes import Process
    from redbike.store.queue_limits import Pause, QueueLimits
    from redbike.store.records import PauseDetails, ProgressDetails
    from redbike.store.run import Run
    from redbike.store.stopping import Stopping
    from redbike.store.totals import Queue
    from redbike.worker.calls import AnyRedbike, CallOptions, JobFunction, JobHandle, JobKey
    from redbike.worker.current import current_run
    from redbike.worker.functions import Jobs
    from redbike.worker.notify import End
    from redbike.worker.tracing import Tracing

__all__ = [
    "Again",
    "AnyRedbike",
    "AsyncRedbike",
    "AsyncResults",
    "Backfill",
    "BackfillDetails",
    "BadConfig",
    "BadJobId",
    "BadQueueName",
    "BadSchedule",
    "BlackoutDetails",
    "CallOptions",
    "Catchup",
    "Change",
    "Changes",
    "CommandFailed",
    "CronLike",
    "Difference",
    "DurationLike",
    "End",
    "Event",
    "EventName",
    "Finding",
    "Forecast",
    "GroupDetails",
    "Health",
    "HostDetails",
    "InstantLike",
    "Job",
    "JobDetails",
    "JobFunction",
    "JobHandle",
    "JobKey",
    "JobOptions",
    "Jobs",
    "KeywordSettings",
    "Limit",
    "Limits",
    "LogEntry",
    "LogFormat",
    "LogLevel",
    "LostRun",
    "Middleware",
    "Minute",
    "NoOrYes",
    "NoResult",
    "NoSuchJob",
    "OnError",
    "OnLost",
    "OnTimeout",
    "Outcome",
    "Overlap",
    "Overrun",
    "Pair",
    "PastRun",
    "Pause",
    "PauseDetails",
    "Plan",
    "Priority",
    "Process",
    "ProgressDetails",
    "Quarter",
    "Queue",
    "QueueLimits",
    "Redbike",
    "RedbikeError",
    "Relief",
    "Results",
    "RoundRobin",
    "RuleLike",
    "Run",
    "RunDetails",
    "ScheduleLike",
    "ServerError",
    "Settings",
    "Share",
    "Source",
    "Steered",
    "StopWork",
    "Stopping",
    "TagLike",
    "TooManyRuns",
    "Tracing",
    "Unreachable",
    "UnsetJob",
    "WorkerClass",
    "ZoneLike",
    "current_run",
    "escape",
    "log",
]

# The facade imports redis-py, which takes longer than all else. So each of these names is imported at its first use.
_PLACES = {
    name: f"redbike.{module}"
    for module, names in {
        "config.definitions": "Catchup LogFormat LogLevel NoOrYes OnError OnLost OnTimeout Overlap",
        "config.labels": "TagLike",
        "config.queue_limits": "Limit Limits",
        "config.options": "JobOptions",
        "config.settings": "KeywordSettings Settings",
        "control.backfilling": "Backfill",
        "control.pairs": "Pair",
        "control.sync.changes": "Change Changes",
        "facade.asynchronous": "AsyncRedbike",
        "facade.redbike": "Redbike log",
        "facade.results": "AsyncResults Results",
        "importers.rows": "Source",
        "loop.worker_class": "Middleware Priority RoundRobin WorkerClass",
        "queries.check.findings": "Finding",
        "queries.forecast": "Forecast Minute Plan Quarter Relief Share",
        "queries.health": "Health",
        "schedule.moments": "DurationLike InstantLike ZoneLike",
        "schedule.objects": "CronLike RuleLike ScheduleLike",
        "store.backfill": "BackfillDetails",
        "store.blackouts": "BlackoutDetails",
        "store.details": "JobDetails",
        "store.enums": "Difference Event EventName Outcome",
        "store.every_host": "HostDetails",
        "store.group_counts": "GroupDetails",
        "store.history": "PastRun RunDetails",
        "store.job": "Job",
        "store.log": "LogEntry",
        "store.patterns": "Steered escape",
        "store.processes": "Process",
        "store.queue_limits": "Pause QueueLimits",
        "store.records": "PauseDetails ProgressDetails",
        "store.run": "Run",
        "store.stopping": "Stopping",
        "store.totals": "Queue",
        "worker.calls": "AnyRedbike CallOptions JobFunction JobHandle JobKey",
        "worker.current": "current_run",
        "worker.functions": "Jobs",
        "worker.notify": "End",
        "worker.tracing": "Tracing",
    }.items()
    for name in names.split()
}

if not TYPE_CHECKING:  # with it, a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_PLACES[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
