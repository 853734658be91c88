"""Write the rules of dateutil as iCal text. This imports nothing of dateutil: whoever has such an object has it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from redbike.errors import BadSchedule
from redbike.schedule.objects.instants import find_zone_name


def format_rule(rule: Any) -> str:
    """Return the text of a ``dateutil.rrule.rrule``. Raise `BadSchedule` if iCal has no words for it."""
    return "\n".join([_format_start(rule._dtstart), f"RRULE:{_format_parts(rule)}"])


def format_set(rules: Any) -> str:
    """Return the text of a ``dateutil.rrule.rruleset``. Raise `BadSchedule` if iCal has no words for it."""
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
    """Yield the lines of a set behind its DTSTART."""
    yield from (f"RRULE:{_format_parts(rule)}" for rule in rules._rrule)
    yield from (f"EXRULE:{_format_parts(rule)}" for rule in rules._exrule)
    for name, dates in (("RDATE", rules._rdate), ("EXDATE", rules._exdate)):
        if dates:
            yield f"{name}:{','.join(_format_date(date, begin) for date in dates)}"


def _get_wall(start: datetime) -> tuple[datetime, str | None]:
    """Return the local time, and the name of its zone."""
    return start.replace(tzinfo=None), None if start.tzinfo is None else find_zone_name(start.tzinfo)


def _format_start(start: datetime) -> str:
    """Return the line DTSTART, with the zone of an aware one."""
    if start.tzinfo is None:
        return f"DTSTART:{_format_wall(start)}"
    zone = find_zone_name(start.tzinfo)
    if zone is None:
        raise BadSchedule(f"bad dtstart {start!r:.120}: its zone has no IANA name, such as 'Europe/Berlin'")
    return f"DTSTART:{_format_wall(start)}Z" if zone == "UTC" else f"DTSTART;TZID={zone}:{_format_wall(start)}"


def _format_parts(rule: Any) -> str:
    """Return the value of a line RRULE."""
    for name, values in rule._original_rule.items():
        # Dateutil does not write these, but without them the rule would have other instants.
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
    """Return a date of a set: in UTC if it is aware, else in the zone of the set."""
    if not isinstance(date, datetime) or date.microsecond:
        raise BadSchedule(f"bad date {date!r:.120} in an rruleset: a datetime in whole seconds is needed")
    if (date.tzinfo is None) != (begin.tzinfo is None):
        raise BadSchedule(f"bad date {date!r:.120} in an rruleset: all of its times need a zone, or none")
    return _format_wall(date) if date.tzinfo is None else f"{_format_wall(date.astimezone(UTC))}Z"


def _format_wall(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")[:19].replace("-", "").replace(":", "")
