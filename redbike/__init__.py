"""A simple, flexible scheduler for pools of distributed workers."""

from redbike.errors import BadConfig, BadJobId, BadSchedule, NoSuchJob, RedbikeError, StopWork, Unreachable, UnsetJob
from redbike.performer import current_run
from redbike.redbike import Redbike, log
from redbike.rotation import RoundRobin

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
