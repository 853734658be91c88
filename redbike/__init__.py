"""A simple, flexible scheduler for pools of distributed workers."""

from importlib import import_module
from typing import TYPE_CHECKING

from redbike.errors import (
    Again,
    BadConfig,
    BadJobId,
    BadQueueName,
    BadSchedule,
    CommandFailed,
    NoSuchJob,
    Overrun,
    RedbikeError,
    ServerError,
    StopWork,
    TooManyRuns,
    Unreachable,
    UnsetJob,
)

if TYPE_CHECKING:
    from redbike.async_results import AsyncResults
    from redbike.asynchronous import AsyncRedbike
    from redbike.checking.findings import Finding
    from redbike.config import Settings
    from redbike.consuming import Results
    from redbike.conversion.instants import InstantLike, ZoneLike
    from redbike.conversion.schedules import CronLike, RuleLike, ScheduleLike
    from redbike.limits import Limit
    from redbike.moving.rows import Source
    from redbike.options import JobOptions
    from redbike.redbike import Redbike, log
    from redbike.state.depths import Queue
    from redbike.state.gates import Gate, Pause
    from redbike.state.history import PastRun
    from redbike.state.log import LogEntry
    from redbike.state.overview import Job
    from redbike.state.run import Run
    from redbike.state.workers import Process
    from redbike.steering.gates import Limits
    from redbike.steering.patterns import Steered
    from redbike.syncing.changes import Change, Changes
    from redbike.syncing.facade import Pair
    from redbike.watching.agenda import Agenda, Minute, Plan, Quarter, Relief, Share
    from redbike.watching.health import Health
    from redbike.words import Difference, Event, Outcome
    from redbike.working.functions import Jobs
    from redbike.working.runner import current_run
    from redbike.working.telling import End
    from redbike.working.worker_class import Priority, RoundRobin, WorkerClass

__version__ = "2.0.0.dev0"

__all__ = [
    "Again",
    "Agenda",
    "AsyncRedbike",
    "AsyncResults",
    "BadConfig",
    "BadJobId",
    "BadQueueName",
    "BadSchedule",
    "Change",
    "Changes",
    "CommandFailed",
    "CronLike",
    "Difference",
    "End",
    "Event",
    "Finding",
    "Gate",
    "Health",
    "InstantLike",
    "Job",
    "JobOptions",
    "Jobs",
    "Limit",
    "Limits",
    "LogEntry",
    "Minute",
    "NoSuchJob",
    "Outcome",
    "Overrun",
    "Pair",
    "PastRun",
    "Pause",
    "Plan",
    "Priority",
    "Process",
    "Quarter",
    "Queue",
    "Redbike",
    "RedbikeError",
    "Relief",
    "Results",
    "RoundRobin",
    "RuleLike",
    "Run",
    "ScheduleLike",
    "ServerError",
    "Settings",
    "Share",
    "Source",
    "Steered",
    "StopWork",
    "TooManyRuns",
    "Unreachable",
    "UnsetJob",
    "WorkerClass",
    "ZoneLike",
    "current_run",
    "log",
]

# The facade loads redis-py, which takes longer than all else. So these are imported when they are first asked for.
_PLACES = {
    "Agenda": "redbike.watching.agenda",
    "AsyncRedbike": "redbike.asynchronous",
    "AsyncResults": "redbike.async_results",
    "Change": "redbike.syncing.changes",
    "Changes": "redbike.syncing.changes",
    "CronLike": "redbike.conversion.schedules",
    "Difference": "redbike.words",
    "End": "redbike.working.telling",
    "Event": "redbike.words",
    "Finding": "redbike.checking.findings",
    "Gate": "redbike.state.gates",
    "Health": "redbike.watching.health",
    "InstantLike": "redbike.conversion.instants",
    "Job": "redbike.state.overview",
    "JobOptions": "redbike.options",
    "Jobs": "redbike.working.functions",
    "Limit": "redbike.limits",
    "Limits": "redbike.steering.gates",
    "LogEntry": "redbike.state.log",
    "Minute": "redbike.watching.agenda",
    "Outcome": "redbike.words",
    "Pair": "redbike.syncing.facade",
    "PastRun": "redbike.state.history",
    "Pause": "redbike.state.gates",
    "Plan": "redbike.watching.agenda",
    "Priority": "redbike.working.worker_class",
    "Process": "redbike.state.workers",
    "Quarter": "redbike.watching.agenda",
    "Queue": "redbike.state.depths",
    "Redbike": "redbike.redbike",
    "Relief": "redbike.watching.agenda",
    "Results": "redbike.consuming",
    "RoundRobin": "redbike.working.worker_class",
    "RuleLike": "redbike.conversion.schedules",
    "Run": "redbike.state.run",
    "ScheduleLike": "redbike.conversion.schedules",
    "Settings": "redbike.config",
    "Share": "redbike.watching.agenda",
    "Source": "redbike.moving.rows",
    "Steered": "redbike.steering.patterns",
    "WorkerClass": "redbike.working.worker_class",
    "ZoneLike": "redbike.conversion.instants",
    "current_run": "redbike.working.runner",
    "log": "redbike.redbike",
}

if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_PLACES[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
