"""Write a ``croniter`` as a cron expression. This imports nothing of croniter: whoever has such an object has it.

Croniter reads some expressions in another way than cron, and has options for more: hashed values, seconds in front,
steps that count from its start. So the text is checked: what Redbike makes of each field must be what croniter has
made of it. If the fields as they were written do not pass, they are written as lists of values.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from redbike.errors import BadSchedule, quoted
from redbike.schedule.bits import make_mask, make_span
from redbike.schedule.crontab import FIELDS, CronFields, DayFields, parse_expression
from redbike.schedule.objects.instants import find_zone_name

_ANY = ["*"]
_DOM, _MONTH, _DOW, _SECOND, _YEAR = 2, 3, 4, 5, 6  # places of fields


def format_cron(cron: Any) -> str:
    """Return the text of a `croniter`, with its zone if its start time has one.

    Raise `BadSchedule` if no expression of Redbike has the same days and times, or the zone has no IANA name.
    """
    written = " ".join(cron.expressions)
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
    """Return (day of the week, number in the month), 0 for the last one, as `DayFields` has them."""
    nth: dict[int, Iterable[Any]] = cron.nth_weekday_of_month
    return {(day, 0 if number == "l" else number) for day, numbers in nth.items() for number in numbers}


def _has_same_times(fields: CronFields, cron: Any) -> bool:
    """Tell whether all fields but those of days are the same."""
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
            # What croniter makes of both fields then is neither "and" nor "or".
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
