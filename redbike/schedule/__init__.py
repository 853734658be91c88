"""Parse a text to a schedule, and compute the instants at which its job runs; no module uses Redis or reads a clock."""

from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse

__all__ = ["Schedule", "parse"]
