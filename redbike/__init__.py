"""A simple, flexible scheduler for pools of distributed workers."""

from importlib import import_module
from typing import TYPE_CHECKING

from redbike.errors import (
    Again,
    BadConfig,
    BadJobId,
    BadQueueName,
    BadSchedule,
    NoSuchJob,
    RedbikeError,
    StopWork,
    Unreachable,
    UnsetJob,
)

if TYPE_CHECKING:
    from redbike.limits import Limit
    from redbike.redbike import Redbike, log
    from redbike.state.depths import Queue
    from redbike.state.gates import Gate, Pause
    from redbike.state.history import PastRun
    from redbike.state.log import LogEntry
    from redbike.state.overview import Job
    from redbike.state.workers import Process
    from redbike.steering.patterns import Steered
    from redbike.syncing.changes import Change, Changes
    from redbike.watching.agenda import Agenda
    from redbike.watching.health import Health
    from redbike.words import Difference
    from redbike.working.runner import current_run
    from redbike.working.telling import End
    from redbike.working.worker_class import Priority, RoundRobin

__version__ = "1.0.0"

__all__ = [
    "Again",
    "Agenda",
    "BadConfig",
    "BadJobId",
    "BadQueueName",
    "BadSchedule",
    "Change",
    "Changes",
    "Difference",
    "End",
    "Gate",
    "Health",
    "Job",
    "Limit",
    "LogEntry",
    "NoSuchJob",
    "PastRun",
    "Pause",
    "Priority",
    "Process",
    "Queue",
    "Redbike",
    "RedbikeError",
    "RoundRobin",
    "Steered",
    "StopWork",
    "Unreachable",
    "UnsetJob",
    "current_run",
    "log",
]

# The facade loads redis-py, which takes longer than all else. So these are imported when they are first asked for.
_PLACES = {
    "Agenda": "redbike.watching.agenda",
    "End": "redbike.working.telling",
    "Change": "redbike.syncing.changes",
    "Changes": "redbike.syncing.changes",
    "Difference": "redbike.words",
    "Gate": "redbike.state.gates",
    "Health": "redbike.watching.health",
    "Job": "redbike.state.overview",
    "Limit": "redbike.limits",
    "LogEntry": "redbike.state.log",
    "PastRun": "redbike.state.history",
    "Pause": "redbike.state.gates",
    "Priority": "redbike.working.worker_class",
    "Process": "redbike.state.workers",
    "Queue": "redbike.state.depths",
    "Redbike": "redbike.redbike",
    "RoundRobin": "redbike.working.worker_class",
    "Steered": "redbike.steering.patterns",
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
