"""Cron: when a crontab line runs next, as Debian's cron has it.

An expression has five fields, or six of which the last is seconds, or a seventh of years. Each becomes a bit mask when
it is parsed, so that finding the next run is a matter of finding the next bit:

1. Local times are seconds since 1970-01-01T00:00 on the clock on the wall, so a day is their quotient by 86,400.
2. The next local time that matches is the next bit of the day's minutes, or else the first of the next matching day.
3. It becomes an instant by the offset in force. Where clocks change, a line whose minutes or hours begin with a star,
   or that has seconds, goes by the clock as it runs; one at fixed times runs once in a repeated hour, and what a gap
   swallows runs once, at the first instant after it (cron(8), "Debian-specific").

A line whose day fields both are restricted runs when either matches, but if one of them begins with a star, when both
do (crontab(5)).
"""

import re
from binascii import crc32
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import date
from functools import lru_cache
from math import floor
from typing import NamedTuple

from redbike.errors import BadSchedule, quoted
from redbike.schedule.bits import lowest
from redbike.schedule.zones import AHEAD, EPOCH_DAY, Offsets

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_FIRST = (date(2, 1, 1).toordinal() - EPOCH_DAY) * 86400  # some way from the ends of the calendar, for the offsets
_LAST = (date(9999, 12, 24).toordinal() - EPOCH_DAY) * 86400
_CYCLE = 4800  # months after which the calendar repeats: 400 years are whole weeks
_SHORT = 40  # characters of a field that is kept with its values
_BLOCKS = 256  # of 64 days each: 45 years
_SWALLOWED = 3000  # looks for a local time that no gap swallows: some hundred years
_NEAR = 200_000  # seconds within which a change of offset can bring back a local time


class Field(NamedTuple):
    """A field's name, its bounds, the highest value that is not another name of a lower one, its place, its names."""

    name: str
    low: int
    high: int
    top: int
    place: int
    names: tuple[str, ...] = ()


FIELDS = (
    Field("minute", 0, 59, 59, 0),
    Field("hour", 0, 23, 23, 1),
    Field("day of month", 1, 31, 31, 2),
    Field("month", 1, 12, 12, 3, MONTHS),
    Field("day of week", 0, 8, 6, 4, WEEKDAYS),  # 7 is Sunday again, and 8 Monday
    Field("second", 0, 59, 59, 5),
    Field("year", 1970, 2099, 2099, 6),
)
_ITEM = re.compile(r"(?P<low>\*|\w+)(?:-(?P<high>\w+))?(?:/(?P<step>\d{1,9}))?", re.ASCII)
_HASHED = re.compile(r"h(?:\((?P<low>\d{1,4})-(?P<high>\d{1,4})\))?(?:/(?P<step>\d{1,9}))?", re.ASCII | re.IGNORECASE)
_NEAREST = re.compile(r"w?(\d{1,2})w?", re.ASCII)
_NTH = re.compile(r"(?P<days>[\w-]+)#(?P<nth>[1-5])", re.ASCII)
_LAST_DAY = re.compile(r"l([0-7])|([0-7])l", re.ASCII)


class Days(NamedTuple):
    """What the day fields ask for; every mask has bit n for the value n, days of the week from Sunday, 0."""

    months: int
    dom: int  # days of the month
    last: bool  # the last day of the month
    nearest: tuple[int, ...]  # the weekdays nearest to these days
    dow: int  # days of the week
    nth: tuple[tuple[int, int], ...]  # (day of the week, which one in the month); 0 is the last
    either: bool  # a day matches when one of the fields does, else when both do

    def mask(self, month: int, length: int, first: int) -> int:
        """The matching days, bit n for day n, of a month of `length` days whose first is weekday `first`."""
        if not self.months >> month & 1:
            return 0
        every = (2 << length) - 2
        by_month = self.dom | (1 << length if self.last else 0)
        for day in self.nearest:
            by_month |= 1 << _nearest_weekday(min(day, length), length, first)
        by_week = 0
        for day in range(1, length + 1):
            by_week |= (self.dow >> (first + day - 1) % 7 & 1) << day
        for weekday, nth in self.nth:
            found = range(1 + (weekday - first) % 7, length + 1, 7)
            if nth <= len(found):
                by_week |= 1 << found[nth - 1]
        return (by_month | by_week if self.either else by_month & by_week) & every


class Dates:
    """The dates that the day fields ask for, and the field of years (None for all): days since 1970-01-01."""

    def __init__(self, days: Days, years: int | None) -> None:
        self._days = days
        self._years = years
        self._blocks: dict[int, list[int]] = {}
        self._months: dict[tuple[int, int, int], int] = {}
        self.every = years is None and days.mask(1, 31, 0) == (2 << 31) - 2 and days.months == (2 << 12) - 2
        self.none = self._search(0) is None

    def following(self, day: int) -> int | None:
        """The first matching day from `day` on, looked up among those of its 64 days."""
        days = self._blocks.get(day >> 6)
        if days is None:
            if len(self._blocks) >= _BLOCKS:
                self._blocks.clear()
            days = self._blocks[day >> 6] = self._block(day >> 6)
        place = bisect_left(days, day)
        return days[place] if place < len(days) else None

    def _block(self, number: int) -> list[int]:
        """The matching days of 64, and the first one after them."""
        found, last = list[int](), (number + 1 << 6) - 1
        day = self._search(number << 6)
        while day is not None:
            found.append(day)
            day = self._search(day + 1) if day <= last else None
        return found

    def _search(self, day: int) -> int | None:
        """The first matching day from `day` on; None when there is none until the calendar or the year 9999 is over."""
        if day * 86400 > _LAST:
            return None
        moment = date.fromordinal(day + EPOCH_DAY)
        year, month = moment.year, moment.month
        mask = self._month(year, month) >> moment.day << moment.day
        for _ in range(_CYCLE):
            if mask:
                return date(year, month, lowest(mask)).toordinal() - EPOCH_DAY
            later = self._days.months >> month + 1
            if later and self._in(year):
                month += 1 + lowest(later)
            else:
                following = self._year_after(year)
                if following is None:
                    return None
                year, month = following, lowest(self._days.months)
            mask = self._month(year, month)
        return None

    def _in(self, year: int) -> bool:
        return self._years is None or (year >= 0 and bool(self._years >> year & 1))

    def _year_after(self, year: int) -> int | None:
        """The first year after `year` that is asked for."""
        if self._years is None:
            return year + 1 if year < 9999 else None
        rest = self._years >> year + 1
        return year + 1 + lowest(rest) if rest else None

    def _month(self, year: int, month: int) -> int:
        first = date(year, month, 1).toordinal() % 7  # day 7 of the calendar was a Sunday
        leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        shape = month, 29 if leap else _LENGTHS[month], first
        mask = self._months.get(shape)
        if mask is None:
            mask = self._months[shape] = self._days.mask(*shape)
        return mask if self._in(year) else 0


@lru_cache(1024)
def _dates(days: Days, years: int | None) -> Dates:
    """Shared, as many lines have the same days."""
    return Dates(days, years)


class Cron:
    """An expression in `zone`; `jobid` is what ``H`` is hashed from. Raises `BadSchedule`, quoting what is bad.

    `text` is the expression with each ``H`` replaced by what it stands for. The masks are `minutes`, `hours`,
    `seconds`, `years` (None for all) and `days`; `follows` says whether it goes by the clock where clocks change.
    """

    def __init__(self, expression: str, zone: Offsets, jobid: str = "") -> None:
        crc = crc32(jobid.encode("utf-8", "surrogatepass"))
        fields = [_unhashed(text, field, crc) for text, field in zip(expression.split(), FIELDS, strict=False)]
        self.text = expression.lower() if expression.startswith("@") else " ".join(fields)
        texts = ALIASES.get(self.text, self.text.lower()).split()
        if self.text == "@reboot":
            raise BadSchedule("bad cron '@reboot': it is no time; a job that is set to NOW runs right away")
        if not 5 <= len(texts) <= 7 or len(expression.split()) > 7:
            size = len(expression.split())
            raise BadSchedule(f"bad cron {quoted(expression)}: 5 to 7 fields are needed, it has {size}")
        self.minutes = _values(texts[0], FIELDS[0])
        self.hours = _values(texts[1], FIELDS[1])
        self.seconds = _values(texts[5], FIELDS[5]) if len(texts) > 5 else 1
        self.days = _days(texts[2], texts[3], texts[4])
        self.follows = len(texts) > 5 or texts[0][0] == "*" or texts[1][0] == "*"
        self.years = _values(texts[6], FIELDS[6]) if texts[6:] and texts[6] != "*" else None
        self._zone = zone
        self._moments = sum(self.minutes << hour * 60 for hour in range(24) if self.hours >> hour & 1)
        self._second = lowest(self.seconds)
        self._opening = lowest(self._moments) * 60 + self._second
        self._dates = _dates(self.days, self.years)
        self._daily = self._dates.every
        self._search = self._following if self.follows else self._fixed
        if self._dates.none:
            raise BadSchedule(f"bad cron {quoted(expression)}: there is no such day, it can never run")

    def next(self, after: float) -> float | None:
        """The first instant strictly after `after`, both in epoch seconds; None after the year 9999."""
        if not after < _LAST:
            return None
        # A conditional takes a third of the time of max(), and this is where schedulers spend theirs.
        return self._search(floor(after) if after > _FIRST else _FIRST)

    def _fixed(self, after: int) -> float | None:
        """For fixed times: each local time has one instant, its first, or in a gap the end of the gap."""
        begin, end, offset, reached = self._zone(after)
        local = after + offset
        wall = self._next_wall(local if local > reached else reached)
        while wall is not None:
            # What is later than `reached` and yet before the segment's begin was swallowed by a gap.
            instant = wall - offset if wall - offset > begin else begin
            if instant < end:
                return float(instant)
            begin, end, offset, reached = self._zone(max(end, instant - AHEAD))
        return None

    def _following(self, after: int) -> float | None:
        """For wildcards: every instant whose local time matches."""
        start = after
        for _ in range(_SWALLOWED):
            _, end, offset, _ = self._zone(start + 1)
            wall = self._next_wall(start + offset)
            if wall is None:
                return None
            instant = wall - offset
            if instant < end:
                return float(instant)
            # A change close by may bring back a local time that matches; one far away brings back none before `wall`.
            start = (end if end - after < _NEAR else max(end, instant - AHEAD)) - 1
        return None

    def _next_wall(self, wall: int) -> int | None:
        """The first local time after `wall` that matches."""
        day, second = divmod(wall, 86400)
        found: int | None = day if self._daily else self._dates.following(day)
        if found == day:
            later = self._later(second)
            if later is not None:
                return day * 86400 + later
            found = day + 1 if self._daily else self._dates.following(day + 1)
        return None if found is None else found * 86400 + self._opening

    def _later(self, second: int) -> int | None:
        """The first matching second of the day after `second`."""
        minute, second = divmod(second, 60)
        rest = self._moments >> minute
        if rest & 1:
            seconds = self.seconds >> second + 1
            if seconds:
                return minute * 60 + second + 1 + lowest(seconds)
        rest >>= 1
        return (minute + (rest & -rest).bit_length()) * 60 + self._second if rest else None


_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _nearest_weekday(day: int, length: int, first: int) -> int:
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else 3
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


@lru_cache(1024)
def _days(dom: str, month: str, dow: str) -> Days:
    dom, dow = ("*" if text == "?" else text for text in (dom, dow))
    days = [item for item in dom.split(",") if item in ("l", "lw") or _is_nearest(item)]
    plain = ",".join(item for item in dom.split(",") if item not in days)
    counted = [item for item in dow.split(",") if "#" in item or _LAST_DAY.fullmatch(item)]
    weekly = ",".join(item for item in dow.split(",") if item not in counted)
    week = _values(weekly, FIELDS[4]) if weekly or not counted else 0
    return Days(
        months=_values(month, FIELDS[3]),
        dom=_values(plain, FIELDS[2]) if plain or not days else 0,
        last="l" in days,
        nearest=tuple(dict.fromkeys(_nearest_of(item) for item in days if item != "l")),
        dow=week,
        nth=tuple(dict.fromkeys(pair for item in counted for pair in _nth(item))),
        either=not (dom[0] == "*" or dow[0] == "*"),
    )


def _is_nearest(item: str) -> bool:
    return _NEAREST.fullmatch(item) is not None and item.count("w") == 1


def _nearest_of(item: str) -> int:
    day = int(item.strip("w").replace("l", "31"))
    if not 1 <= day <= 31:
        raise BadSchedule(f"bad day of month {item!r} in the cron expression: 1 to 31 are possible")
    return day


def _nth(item: str) -> Iterator[tuple[int, int]]:
    last = _LAST_DAY.fullmatch(item)
    if last:
        yield int(last[1] or last[2]) % 7, 0
        return
    found = _NTH.fullmatch(item)
    if not found:
        raise BadSchedule(f"bad day of week {item[:40]!r} in the cron expression: 1#1 to 7#5 are possible")
    mask = _values(found["days"], FIELDS[4])
    yield from ((day, int(found["nth"])) for day in range(7) if mask >> day & 1)


def _values(text: str, field: Field) -> int:
    """The mask of a field: bit n is set when it names the value n."""
    return _known_values(text, field.place) if len(text) < _SHORT else _listed(text, field)


@lru_cache(4096)
def _known_values(text: str, place: int) -> int:
    return _listed(text, FIELDS[place])


def _listed(text: str, field: Field) -> int:
    mask = 0
    for item in text.split(","):
        for value in _range(item, field):
            mask |= 1 << value
    return mask


def _range(item: str, field: Field) -> Iterable[int]:
    """The values of one item of a field's list, of which a range that wraps (22-2, FRI-MON) goes on at the low end."""
    found = _ITEM.fullmatch(item)
    if not found or (found["low"] == "*" and found["high"]) or found["low"] == "l":
        raise _bad(item, field)
    if found["step"] and not int(found["step"]):
        raise BadSchedule(f"bad {field.name} {quoted(item)} in the cron expression: a step is 1 or more")
    step = int(found["step"] or 1)
    if found["low"] == "*":
        return range(field.low, field.top + 1, step)
    low = _value(found["low"], item, field)
    high = _value(found["high"], item, field) if found["high"] else field.top if found["step"] else low
    size = field.top - field.low + 1
    last = high if high >= low else high + size
    return (field.low + (value - field.low) % size for value in range(low, last + 1, step))


def _unhashed(text: str, field: Field, crc: int) -> str:
    if "h" not in text and "H" not in text:
        return text
    return ",".join(_hashed(item, field, crc) if item[:1] in "hH" else item for item in text.split(","))


def _hashed(item: str, field: Field, crc: int) -> str:
    """What croniter makes of H, H/15, H(0-29) and H(0-29)/10, so that schedules keep their times."""
    found = _HASHED.fullmatch(item)
    if not found:
        raise _bad(item, field)
    low, high = (int(found["low"]), int(found["high"])) if found["low"] else (field.low, field.top)
    step = int(found["step"] or 1)
    if not field.low <= low < high <= field.top or not step:
        raise _bad(item, field)
    width = min(step, high - low + 1) if found["step"] else high - low + 1
    value = (crc >> field.place) % width + low
    return f"{value}-{high}/{step}" if found["step"] and value < high else str(value)


def _value(text: str, item: str, field: Field) -> int:
    if text in field.names:
        return field.low + field.names.index(text)
    if text == "l" and field.name == "day of month" and "-" in item:
        return field.high
    if not text.isdecimal() or not field.low <= int(text[:9]) <= field.high:
        raise _bad(item, field)
    return int(text)


def _bad(item: str, field: Field) -> BadSchedule:
    if item[:1] == "r" and not item.isalpha():
        return BadSchedule(f"bad {field.name} {quoted(item)} in the cron expression: R is not the same every time")
    return BadSchedule(
        f"bad {field.name} {quoted(item)} in the cron expression: {field.low} to {field.high} are possible"
    )
