"""Make the text of a schedule from what Python has for one: datetime, timedelta, rules of dateutil, croniter.

The packages dateutil and croniter are not imported here. Whoever has an object of theirs has imported them.
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from redbike.errors import BadSchedule
from redbike.schedule.objects.crons import format_cron
from redbike.schedule.objects.instants import check_aware
from redbike.schedule.objects.rules import format_rule, format_set
from redbike.schedule.zones import load_zone_info


class RuleLike(Protocol):
    """A ``dateutil.rrule.rrule`` or ``rruleset``, for type checkers that know nothing of dateutil."""

    @property
    def between(self) -> Callable[..., Any]:
        """Return the occurrences between two datetimes."""
        ...

    @property
    def xafter(self) -> Callable[..., Any]:
        """Return the occurrences after a datetime."""
        ...


class CronLike(Protocol):
    """A ``croniter.croniter``, for type checkers that know nothing of croniter."""

    @property
    def get_next(self) -> Callable[..., Any]:
        """Return the next occurrence."""
        ...

    @property
    def get_prev(self) -> Callable[..., Any]:
        """Return the previous occurrence."""
        ...


ScheduleLike = str | datetime | timedelta | RuleLike | CronLike
"""A schedule: a text, or what Python has for it."""

_MICROSECOND = timedelta(microseconds=1)


def check_schedule(schedule: object, tz: str | None) -> None:
    """Raise `TypeError` for what is neither a schedule nor None, and for a naive datetime if there is no `tz`."""
    if schedule is None or isinstance(schedule, str | timedelta):
        return
    if isinstance(schedule, datetime):
        if tz is None:
            check_aware(schedule)
    elif _find_formatter(schedule) is None:
        kind = type(schedule).__name__
        wanted = "a text, a datetime, a timedelta, an rrule, an rruleset or a croniter"
        raise TypeError(f"a schedule is {wanted}, or None to unset the job, not {schedule!r:.80}, which is a {kind}")


def format_schedule(schedule: Any, timezone: str) -> str:
    """Return the text of a schedule that `check_schedule` has checked. A naive datetime is in `timezone`.

    Raise `BadSchedule` if no text means the same.
    """
    if isinstance(schedule, str):
        return str.__str__(schedule)
    if isinstance(schedule, datetime):
        return _format_instant(schedule, timezone)
    if isinstance(schedule, timedelta):
        return _format_period(schedule)
    formatter = _find_formatter(schedule)
    assert formatter is not None
    return formatter(schedule)


def _format_instant(moment: datetime, timezone: str) -> str:
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=load_zone_info(timezone))
    try:
        return f"AT:{moment.astimezone(UTC).isoformat()}"
    except OverflowError:
        raise BadSchedule(f"bad schedule {moment!r:.120}: it is before 1970 or after 9999") from None


def _format_period(period: timedelta) -> str:
    sign = "-" if period < timedelta(0) else ""
    seconds, fraction = divmod(abs(period) // _MICROSECOND, 1_000_000)
    return f"EVERY:{sign}{seconds}{f'.{fraction:06}'.rstrip('0') if fraction else ''}"


def _find_formatter(schedule: object) -> Callable[[Any], str] | None:
    """Return what makes the text of an object of dateutil or croniter; None for another object."""
    for module, name, formatter in _FORMATTERS:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and isinstance(schedule, kind):
            return formatter
    return None


_FORMATTERS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("dateutil.rrule", "rrule", format_rule),
    ("dateutil.rrule", "rruleset", format_set),
    ("croniter.croniter", "croniter", format_cron),
)
