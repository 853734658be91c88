"""A simple, flexible scheduler for pools of distributed workers."""

from redbike.errors import BadConfig, BadJobId, BadSchedule, NoSuchJob, RedbikeError, StopWork, Unreachable, UnsetJob
from redbike.redbike import Redbike, log
from redbike.working.queues import RoundRobin
from redbike.working.runner import current_run

__version__ = "1.0.0"

__all__ = [
    "BadConfig",
    "BadJobId",
    "BadSchedule",
    "NoSuchJob",
    "Redbike",
    "RedbikeError",
    "RoundRobin",
    "StopWork",
    "Unreachable",
    "UnsetJob",
    "current_run",
    "log",
]
