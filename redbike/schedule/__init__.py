"""Schedules: from a text to the instants at which its job runs. Nothing here knows Redis, and nothing reads a clock."""

from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse

__all__ = ["Schedule", "parse"]
