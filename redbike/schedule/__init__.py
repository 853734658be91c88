"""Schedules: from a text to the instants at which its job runs. Nothing here knows Redis, and nothing reads a clock."""

from redbike.schedule.kinds import Schedule, parse

__all__ = ["Schedule", "parse"]
