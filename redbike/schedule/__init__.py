"""Parse a text to a schedule, and compute when its job runs. No module here uses Redis or reads a clock."""

from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse

__all__ = ["Schedule", "parse"]
