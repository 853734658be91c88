"""Parse and write recurrences (RFC 5545, 3.1, 3.3.5, 3.3.10, 3.8.2.4, 3.8.5). Occurrences are computed elsewhere."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from redbike.errors import BadSchedule, quoted
from redbike.schedule.zones import EPOCH_DAY, Offsets, resolve

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY = range(7)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

# Not the very ends of the calendar, as weeks and offsets reach further.
FIRST_DAY = date(3, 1, 1).toordinal() - EPOCH_DAY
LAST_DAY = date(9999, 12, 24).toordinal() - EPOCH_DAY
FIRST, LAST = FIRST_DAY * 86400, LAST_DAY * 86400

_PARTS = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYSETPOS", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY"}
_PARTS |= {"BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND"}
_LINE = re.compile(r"([A-Z]+)((?:;[^:;=]+=[^:;]*)*):(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_PARAMETERS = {"DTSTART": ("TZID", "VALUE"), "RDATE": ("TZID", "VALUE"), "EXDATE": ("TZID", "VALUE")}
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?([A-Z]{2})", re.ASCII)
NO_END = 1 << 60  # "until the end of time" is often written as 99991231
_NUMBER = re.compile(r"[+-]?\d{1,10}", re.ASCII)


@dataclass(frozen=True)
class Rule:
    """The parts of an RRULE or EXRULE. The tuple of a missing part is empty."""

    text: str
    freq: int  # an index into FREQUENCIES
    interval: int = 1
    count: int | None = None
    until: str | None = None
    wkst: int = 0  # days of the week from Monday, 0
    setpos: tuple[int, ...] = ()
    months: tuple[int, ...] = ()
    weeks: tuple[int, ...] = ()
    yeardays: tuple[int, ...] = ()
    monthdays: tuple[int, ...] = ()
    weekdays: tuple[tuple[int, int], ...] = ()  # (number in the month or year, or 0 for every one; day of the week)
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()


class Line(NamedTuple):
    """A content line NAME;TZID=zone:VALUE. Name and value are in upper case."""

    name: str
    tzid: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}{';TZID=' + self.tzid if self.tzid else ''}:{self.value}"


class Moment(NamedTuple):
    """A date or date-time as it is written: a local time, or an instant if `is_utc`."""

    wall: int
    is_utc: bool
    is_date: bool


def parse_rule(line: Line) -> Rule:
    """Return the rule of a line whose value is like FREQ=DAILY;INTERVAL=2. Raise `BadSchedule`."""
    parts = _parse_parts(line.value)
    freq = FREQUENCIES.index(parts["FREQ"])
    return Rule(
        text=line.value,
        freq=freq,
        interval=(_parse_numbers(parts, "INTERVAL", 1, 9_999_999_999) or (1,))[0],
        count=(_parse_numbers(parts, "COUNT", 1, 9_999_999_999) or (None,))[0],
        until=parts.get("UNTIL"),
        wkst=_parse_weekday(parts.get("WKST", "MO"), freq)[1],
        setpos=_parse_numbers(parts, "BYSETPOS", -366, 366),
        months=_parse_numbers(parts, "BYMONTH", 1, 12),
        weeks=_parse_numbers(parts, "BYWEEKNO", -53, 53),
        yeardays=_parse_numbers(parts, "BYYEARDAY", -366, 366),
        monthdays=_parse_numbers(parts, "BYMONTHDAY", -31, 31),
        weekdays=tuple(_parse_weekday(item, freq) for item in parts["BYDAY"].split(",")) if "BYDAY" in parts else (),
        hours=_parse_numbers(parts, "BYHOUR", 0, 23),
        minutes=_parse_numbers(parts, "BYMINUTE", 0, 59),
        # Without leap seconds, second 60 is read as 59 (3.3.12).
        seconds=tuple(min(second, 59) for second in _parse_numbers(parts, "BYSECOND", 0, 60)),
    )


def unfold(text: str) -> list[str]:
    """Return the content lines of a text (3.1). They end in a newline, or in a backslash and an n."""
    lines = text.replace("\\n", "\n").replace("\\N", "\n").replace("\r\n", "\n")
    return [line.strip() for line in lines.replace("\n ", "").replace("\n\t", "").split("\n") if line.strip()]


def parse_line(text: str) -> Line:
    """Return a content line; one without a name is an RRULE. Raise `BadSchedule`."""
    found = _LINE.fullmatch(text if ":" in text else f"RRULE:{text}")
    if not found or found[1].upper() not in ("RRULE", "EXRULE", *_PARAMETERS):
        raise BadSchedule(f"bad rule: {quoted(text)} is no DTSTART, RRULE, RDATE, EXRULE or EXDATE")
    name, tzid = found[1].upper(), ""
    for parameter in found[2].split(";")[1:]:
        key, _, value = parameter.partition("=")
        if key.upper() not in _PARAMETERS.get(name, ()):
            raise BadSchedule(f"bad rule: {quoted(parameter)} is not allowed in {quoted(text)}")
        if key.upper() == "TZID":
            if tzid or not value:
                raise BadSchedule(f"bad rule: {quoted(text)} needs one zone in its TZID")
            tzid = value
    return Line(name, tzid, found[3].upper())


def parse_moment(text: str, where: str, last: int = LAST) -> Moment:
    """Return a date or date-time (3.3.4, 3.3.5) before `last`; errors quote `where`. Raise `BadSchedule`."""
    found = _MOMENT.fullmatch(text)
    try:
        if not found:
            raise ValueError
        year, month, day, hour, minute, second = (int(number or 0) for number in found.groups()[:6])
        wall = (date(year, month, day).toordinal() - EPOCH_DAY) * 86400 + hour * 3600 + minute * 60 + min(second, 59)
        if hour > 23 or minute > 59 or second > 60 or not FIRST <= wall < last:
            raise ValueError
    except ValueError:
        raise BadSchedule(
            f"bad schedule: {quoted(text)} in {quoted(where)} is no date and time from the year 3 to 23 December 9999"
        ) from None
    return Moment(wall, found[7] == "Z", found[4] is None)


def parse_moments(line: Line) -> Iterator[Moment]:
    """Yield the moments of an RDATE or EXDATE; of a period, its start. Raise `BadSchedule`."""
    for value in line.value.split(","):
        yield parse_moment(value.partition("/")[0], str(line))


def resolve_until(rule: Rule, zone: Offsets) -> int:
    """Return the last instant that UNTIL allows: its own, or the end of its day. Without UNTIL it is `LAST`."""
    if rule.until is None:
        return LAST
    moment = parse_moment(rule.until, rule.text, last=NO_END)
    if moment.is_date:
        return resolve(moment.wall + 86400, zone) - 1
    return moment.wall if moment.is_utc else resolve(moment.wall, zone)


def _parse_parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.removesuffix(";").split(";"):
        name, _, value = part.partition("=")
        if name not in _PARTS or not value:
            raise BadSchedule(f"bad rule {quoted(text)}: {quoted(part)} is not a part of a rule")
        if name in parts:
            raise BadSchedule(f"bad rule {quoted(text)}: it has more than one {name}")
        parts[name] = value
    if parts.get("FREQ") not in FREQUENCIES:
        raise BadSchedule(f"bad rule {quoted(text)}: FREQ= one of {', '.join(FREQUENCIES)} is needed")
    return parts


def _parse_numbers(parts: dict[str, str], name: str, low: int, high: int) -> tuple[int, ...]:
    """Return the numbers of a part, from `low` to `high`; none if the part is missing. Raise `BadSchedule`.

    If `low` is negative, 0 is invalid. INTERVAL and COUNT may have only one number.
    """
    found = []
    for item in parts[name].split(",") if name in parts else ():
        number = int(item) if _NUMBER.fullmatch(item) else None
        if number is None or not low <= number <= high or (low < 0 and not number):
            raise BadSchedule(f"bad {name}={quoted(parts[name])}: {quoted(item)} is not from {low} to {high}")
        found.append(number)
    if name in ("INTERVAL", "COUNT") and len(found) > 1:
        raise BadSchedule(f"bad {name}={quoted(parts[name])}: one number is needed")
    return tuple(found)


def _parse_weekday(text: str, freq: int) -> tuple[int, int]:
    """Return (number, day of the week) for a text such as ``2MO``: the second Monday. Monday is 0.

    The number is 0 if the text has none, or if `freq` is shorter than MONTHLY. Raise `BadSchedule`.
    """
    found = _WEEKDAY.fullmatch(text)
    if not found or found[2] not in WEEKDAYS or (found[1] and not 1 <= abs(int(found[1])) <= 53):
        raise BadSchedule(f"bad weekday {quoted(text)} in a rule: MO, 1MO to 53MO or -1MO to -53MO is needed")
    return int(found[1] or 0) if freq <= MONTHLY else 0, WEEKDAYS.index(found[2])


def format_wall(wall: int) -> str:
    """Return a local time as a date and time: ``20260105T090000``."""
    day, second = divmod(wall, 86400)
    return f"{format_day(day)}T{second // 3600:02}{second // 60 % 60:02}{second % 60:02}"


def format_day(day: int) -> str:
    """Return a day (since 1970-01-01) as a date: ``20260105``."""
    return f"{date.fromordinal(day + EPOCH_DAY):%Y%m%d}".rjust(8, "0")


def make_start(timezone: str, wall: int) -> Line:
    """Return the line DTSTART for a local time in a zone."""
    text = format_wall(wall)
    return Line("DTSTART", "", f"{text}Z") if timezone == "UTC" else Line("DTSTART", timezone, text)


def write_dates(name: str, instants: Iterable[int], zone: Offsets) -> Iterator[str]:
    """Yield the lines of an EXDATE or RDATE with these instants, in order.

    They are local times in `zone`, the zone of the schedule; ambiguous ones are in UTC. Yield nothing without instants.
    """
    local, others = [], []
    for instant in sorted(instants):
        wall = instant + zone(instant)[2]
        if resolve(wall, zone) == instant:
            local.append(format_wall(wall))
        else:
            others.append(f"{format_wall(instant)}Z")
    yield from (str(Line(name, "", ",".join(values))) for values in (local, others) if values)
