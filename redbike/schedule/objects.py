"""Make the text of a schedule from a Python object: datetime, timedelta, a rule of dateutil, or a croniter.

The packages dateutil and croniter are not imported here. A program that has an object of theirs has imported them.

Croniter parses some expressions in another way than cron, and has further options: hashed values, seconds in front,
steps that count from its start. So the text is checked: Redbike must find the same values in each field as croniter.
If it does not with the fields as they were written, they are written as lists of values.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from redbike.errors import BadSchedule, quoted
from redbike.schedule.bits import make_mask, make_span
from redbike.schedule.cron_fields import FIELDS, CronFields, DayFields, parse_expression
from redbike.schedule.moments import check_aware, find_zone_name
from redbike.schedule.zones import load_zone_info

_ANY = ["*"]
_DOM, _MONTH, _DOW, _SECOND, _YEAR = 2, 3, 4, 5, 6  # places of fields


def format_cron(cron: Any) -> str:
    """Return the text of a `croniter`, with its zone if its start time has one.

    Raise `BadSchedule` if no expression of Redbike has the same days and times, or the zone has no IANA name.
    """
    written = " ".join(cron.expressions)
    if any("*" in values and values != _ANY for values in cron.expanded):
        raise BadSchedule(f"bad schedule {quoted(written)} of a croniter: '*' must stand alone in its field")
    for text in (written, " ".join(_list_fields(cron))):
        try:
            fields = parse_expression(text, "")
        except BadSchedule:
            continue
        if _has_same_times(fields, cron) and _has_same_days(fields.days, cron):
            return f"{_format_zone(cron)}{fields.text}"
    raise BadSchedule(f"bad schedule {quoted(written)} of a croniter: no cron expression has the same days")


def _format_zone(cron: Any) -> str:
    if cron.tzinfo is None:
        return ""
    zone = find_zone_name(cron.tzinfo)
    if zone is None:
        raise BadSchedule(f"bad start time of a croniter: {cron.tzinfo!r:.80} has no IANA name, as 'Europe/Berlin'")
    return f"CRON_TZ={zone} "


def _list_fields(cron: Any) -> Iterator[str]:
    """Yield each field as a list of values."""
    for place, values in enumerate(cron.expanded):
        if place == _DOM and cron.nearest_weekday:
            yield ",".join(f"{day}w" for day in sorted(cron.nearest_weekday))
        elif place == _DOW and cron.nth_weekday_of_month:
            yield ",".join(f"{day}#{number}" if number else f"l{day}" for day, number in sorted(_list_nth(cron)))
        else:
            yield ",".join(map(str, values))


def _list_nth(cron: Any) -> set[tuple[int, int]]:
    """Return the pairs (day of the week, number in the month) of `DayFields.nth`. The number 0 is the last one."""
    nth: dict[int, Iterable[Any]] = cron.nth_weekday_of_month
    return {(day, 0 if number == "l" else number) for day, numbers in nth.items() for number in numbers}


def _has_same_times(fields: CronFields, cron: Any) -> bool:
    """Tell whether all fields except those of days are the same."""
    expanded: list[list[Any]] = cron.expanded
    seconds = _mask(expanded, _SECOND) if len(expanded) > _SECOND else 1
    years = _mask(expanded, _YEAR) if len(expanded) > _YEAR and expanded[_YEAR] != _ANY else None
    found = (fields.minutes, fields.hours, fields.days.months, fields.seconds, fields.years)
    return found == (_mask(expanded, 0), _mask(expanded, 1), _mask(expanded, _MONTH), seconds, years)


def _has_same_days(days: DayFields, cron: Any) -> bool:
    """Tell whether the same days match."""
    expanded, nearest, nth = cron.expanded, cron.nearest_weekday, cron.nth_weekday_of_month
    is_either = expanded[_DOM] != _ANY and expanded[_DOW] != _ANY
    if is_either:
        if nearest or nth:
            # Croniter then combines both fields neither by "and" nor by "or".
            return False
        has_star = any(cron.expressions[place].startswith("*") for place in (_DOM, _DOW))
        is_either = cron._day_or and not (cron._implement_cron_bug and has_star)
    dom = 0 if nearest else _mask(expanded, _DOM)
    dow = 0 if nth else _mask(expanded, _DOW)
    wanted = (dom, "l" in expanded[_DOM], nearest, dow, _list_nth(cron), is_either)
    return wanted == (days.dom, days.last, set(days.nearest), days.dow, set(days.nth), days.either)


def _mask(expanded: list[list[Any]], place: int) -> int:
    """Return the mask of the values of a field."""
    if expanded[place] == _ANY:
        return make_span(FIELDS[place].low, FIELDS[place].top + 1)
    return make_mask(value for value in expanded[place] if value != "l")


def format_rule(rule: Any) -> str:
    """Return the text of a ``dateutil.rrule.rrule``. Raise `BadSchedule` if iCal cannot express it."""
    return "\n".join([_format_start(rule._dtstart), f"RRULE:{_format_parts(rule)}"])


def format_set(rules: Any) -> str:
    """Return the text of a ``dateutil.rrule.rruleset``. Raise `BadSchedule` if iCal cannot express it."""
    for rule in (*rules._rrule, *rules._exrule):
        if not hasattr(rule, "_dtstart"):
            raise BadSchedule(f"bad rule of type {type(rule).__name__} in an rruleset: only an rrule can be stored")
    starts = [rule._dtstart for rule in (*rules._rrule, *rules._exrule)]
    for start in starts:
        if _get_wall(start) != _get_wall(starts[0]):
            raise BadSchedule(f"bad rruleset: its rules need the same dtstart, not {starts[0]} and {start}")
    begin = starts[0] if starts else min(rules._rdate, default=None)
    if begin is None:
        raise BadSchedule("bad rruleset: it has neither rules nor dates")
    return "\n".join([_format_start(begin), *_list_lines(rules, begin)])


def _list_lines(rules: Any, begin: datetime) -> Iterator[str]:
    """Yield the lines of a set after its DTSTART."""
    yield from (f"RRULE:{_format_parts(rule)}" for rule in rules._rrule)
    yield from (f"EXRULE:{_format_parts(rule)}" for rule in rules._exrule)
    for name, dates in (("RDATE", rules._rdate), ("EXDATE", rules._exdate)):
        if dates:
            yield f"{name}:{','.join(_format_date(date, begin) for date in dates)}"


def _get_wall(start: datetime) -> tuple[datetime, str | None]:
    """Return the local time, and the name of its zone."""
    return start.replace(tzinfo=None), None if start.tzinfo is None else find_zone_name(start.tzinfo)


def _format_start(start: datetime) -> str:
    """Return the line DTSTART; for an aware datetime, with its zone."""
    if start.tzinfo is None:
        return f"DTSTART:{_format_wall(start)}"
    zone = find_zone_name(start.tzinfo)
    if zone is None:
        raise BadSchedule(f"bad dtstart {start!r:.120}: its zone has no IANA name, such as 'Europe/Berlin'")
    return f"DTSTART:{_format_wall(start)}Z" if zone == "UTC" else f"DTSTART;TZID={zone}:{_format_wall(start)}"


def _format_parts(rule: Any) -> str:
    """Return the value of a line RRULE."""
    for name, values in rule._original_rule.items():
        # `str` of the rule leaves out an empty part, but without the part the rule would have other instants.
        if values is not None and not values:
            raise BadSchedule(f"bad rule {str(rule)!r:.120}: its {name} is empty")
    parts = [part for part in str(rule).rpartition("RRULE:")[2].split(";") if not part.startswith("UNTIL=")]
    if any(part.startswith("BYEASTER=") for part in parts):
        raise BadSchedule(f"bad rule {str(rule)!r:.120}: iCal has no BYEASTER; give the dates of an rruleset")
    if rule._until is not None:
        is_aware = rule._until.tzinfo is not None
        until = _format_wall(rule._until.astimezone(UTC) if is_aware else rule._until)
        parts.append(f"UNTIL={until}{'Z' * is_aware}")
    return ";".join(parts)


def _format_date(date: Any, begin: datetime) -> str:
    """Return the text of a date of a set: in UTC if it is aware, else in the zone of the set."""
    if not isinstance(date, datetime) or date.microsecond:
        raise BadSchedule(f"bad date {date!r:.120} in an rruleset: a datetime in whole seconds is needed")
    if (date.tzinfo is None) != (begin.tzinfo is None):
        raise BadSchedule(f"bad date {date!r:.120} in an rruleset: all of its times need a zone, or none")
    return _format_wall(date) if date.tzinfo is None else f"{_format_wall(date.astimezone(UTC))}Z"


def _format_wall(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")[:19].replace("-", "").replace(":", "")


class RuleLike(Protocol):
    """A ``dateutil.rrule.rrule`` or ``rruleset``, for type checkers without types of dateutil."""

    @property
    def between(self) -> Callable[..., Any]:
        """Return the occurrences between two datetimes."""
        ...

    @property
    def xafter(self) -> Callable[..., Any]:
        """Return the occurrences after a datetime."""
        ...


class CronLike(Protocol):
    """A ``croniter.croniter``, for type checkers without types of croniter."""

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
    """Raise `TypeError` if `schedule` is neither a schedule nor None, or is a naive datetime without a `tz`."""
    if schedule is None or isinstance(schedule, str):
        return
    if isinstance(schedule, datetime):
        if tz is None:
            check_aware(schedule)
    elif not isinstance(schedule, timedelta) and _find_formatter(schedule) is None:
        kind = type(schedule).__name__
        wanted = "a text, a datetime, a timedelta, an rrule, an rruleset or a croniter"
        raise TypeError(f"a schedule is {wanted}, or None to unset the job, not {schedule!r:.80}, which is a {kind}")


def format_schedule(schedule: Any, timezone: str) -> str:
    """Return the text of a schedule that `check_schedule` has accepted. A naive datetime is in `timezone`.

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
    """Return the function that makes the text of an object of dateutil or croniter; None for another object."""
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
