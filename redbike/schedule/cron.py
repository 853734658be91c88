"""Find the next instant of a cron expression, by the rules of Debian's cron.

`redbike.schedule.cron_fields` converts each field to a bit mask. So to find the next run is to find the next bit:

1. A local time is the number of seconds since 1970-01-01T00:00 on the wall clock. So its day is its quotient by 86,400.
2. The next local time that matches is the next bit of the day's minutes, or else the first of the next matching day.
3. The current offset converts it to an instant. When clocks change, there are two kinds of expressions (cron(8),
   "Debian-specific"). If its minutes or hours begin with a star, or if it has seconds, it follows the clock. If its
   times are fixed, it runs once in a repeated hour. Times in a gap run once, at the first instant after the gap.

When both day fields are restricted, a day matches if either field does. But if one of the two begins with a star, a day
matches only if both do (crontab(5)).
"""

from bisect import bisect_left
from datetime import date
from functools import lru_cache
from math import floor

from redbike.errors import BadSchedule, quoted
from redbike.schedule.bits import find_lowest
from redbike.schedule.cron_fields import DayFields, parse_expression
from redbike.schedule.zones import AHEAD, EPOCH_DAY, Offsets, find_gap_end, resolve

_FIRST = (date(2, 1, 1).toordinal() - EPOCH_DAY) * 86400  # not the first day, as offsets are added
_LAST = (date(9999, 12, 24).toordinal() - EPOCH_DAY) * 86400
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # days of each month, from 1
_CYCLE = 4800  # months after which the calendar repeats: 400 years are whole weeks
_MAX_BLOCKS = 256  # of 64 days each: 45 years
_MAX_SEARCHES = 3000  # for a local time that is not in a gap: some hundred years
_NEAR = 200_000  # seconds; only a change of offset within them can repeat a local time


class Cron:
    """A cron expression in `zone`; the values of ``H`` are hashed from `jobid`.

    On the days `closed`, local days since 1970-01-01, no time matches. `fields` is the parsed expression. Raise
    `BadSchedule`, which quotes the invalid part.
    """

    def __init__(self, expression: str, zone: Offsets, jobid: str = "", closed: frozenset[int] = frozenset()) -> None:
        fields = self.fields = parse_expression(expression, jobid)
        self._zone = zone
        self._seconds = fields.seconds
        self._minutes = fields.minutes * _spread_hours(fields.hours)
        self._first_second = find_lowest(fields.seconds)
        self._first_of_day = find_lowest(self._minutes) * 60 + self._first_second
        dates = _get_dates(fields.days, fields.years)
        self._dates: Dates | OpenDates = OpenDates(dates, closed) if closed else dates
        self._is_daily = dates.is_every_day and not closed
        self._search = self._search_by_clock if fields.follows_clock else self._search_fixed
        if dates.is_empty:
            raise BadSchedule(f"bad cron {quoted(expression)}: there is no such day, it can never run")

    def next(self, after: float) -> float | None:
        """Return the first instant strictly after `after`, both in epoch seconds; None after the year 9999."""
        if not after < _LAST:
            return None
        # A conditional takes a third of the time of max(), and schedulers spend most of their time here.
        return self._search(floor(after) if after > _FIRST else _FIRST)

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the instants in (after, until], up to `limit`: day by day, and one by one where the offset changes."""
        at, last, number = floor(max(after, _FIRST)), floor(min(until, _LAST)), 0
        while at < last and number < limit:
            _, end, offset, reached = self._zone(at)
            if self.fields.follows_clock or at + offset >= reached:
                # Up to the end of the segment, each local time has one instant, and there is no other one.
                stop = min(last, end - 1)
                number += self._count_walls(at + offset, stop + offset, limit - number)
                at = stop
            due = self.next(at)
            if due is None or due > last:
                break
            at, number = int(due), number + 1
        return min(number, limit)

    def resolve(self, wall: int) -> int | None:
        """Return the instant of a local time, the first one if it is repeated.

        In a gap, it is the instant of its run; None if it has no run.
        """
        gap_end = find_gap_end(wall, self._zone)
        if gap_end is None:
            return resolve(wall, self._zone)
        return None if self.fields.follows_clock or self._find_wall(wall - 1) != wall else gap_end

    def _search_fixed(self, after: int) -> float | None:
        """Search for fixed times: each local time has one instant, its first one, or in a gap the end of the gap."""
        begin, end, offset, reached = self._zone(after)
        local = after + offset
        wall = self._find_wall(local if local > reached else reached)
        while wall is not None:
            # If a local time is later than `reached`, but its instant is before the segment, it is in a gap.
            instant = wall - offset if wall - offset > begin else begin
            if instant < end:
                return float(instant)
            begin, end, offset, reached = self._zone(max(end, instant - AHEAD))
        return None

    def _search_by_clock(self, after: int) -> float | None:
        """Search for times that follow the clock: every instant whose local time matches."""
        start = after
        for _ in range(_MAX_SEARCHES):
            _, end, offset, _ = self._zone(start + 1)
            wall = self._find_wall(start + offset)
            if wall is None:
                return None
            instant = wall - offset
            if instant < end:
                return float(instant)
            # A change of offset soon after may repeat a matching local time. A later one repeats none before `wall`.
            start = (end if end - after < _NEAR else max(end, instant - AHEAD)) - 1
        return None

    def _find_wall(self, wall: int) -> int | None:
        """Return the first matching local time after `wall`."""
        day, second = divmod(wall, 86400)
        found: int | None = day if self._is_daily else self._dates.find_day(day)
        if found == day:
            later = self._find_second(second)
            if later is not None:
                return day * 86400 + later
            found = day + 1 if self._is_daily else self._dates.find_day(day + 1)
        return None if found is None else found * 86400 + self._first_of_day

    def _count_walls(self, after: int, last: int, limit: int) -> int:
        """Count the matching local times in (after, last]; when there are `limit` of them, stop."""
        (day, second), (final, end) = divmod(after, 86400), divmod(last, 86400)
        number = self._count_of_day(final, end) - self._count_of_day(day, second)
        whole = self._minutes.bit_count() * self._seconds.bit_count()
        if self._is_daily:
            return number + (final - day) * whole
        found = self._dates.find_day(day)
        while found is not None and found < final and number < limit:
            number += whole
            found = self._dates.find_day(found + 1)
        return number

    def _count_of_day(self, day: int, second: int) -> int:
        """Count the matching local times of a day up to `second`."""
        if not self._is_daily and self._dates.find_day(day) != day:
            return 0
        minute, second = divmod(second, 60)
        number = (self._minutes & (1 << minute) - 1).bit_count() * self._seconds.bit_count()
        return number + (self._seconds & (2 << second) - 1).bit_count() * (self._minutes >> minute & 1)

    def _find_second(self, second: int) -> int | None:
        """Return the first matching second of the day after `second`."""
        minute, second = divmod(second, 60)
        rest = self._minutes >> minute
        if rest & 1:
            seconds = self._seconds >> second + 1
            if seconds:
                return minute * 60 + second + 1 + find_lowest(seconds)
        rest >>= 1
        return (minute + (rest & -rest).bit_length()) * 60 + self._first_second if rest else None


class Dates:
    """The dates that match the fields of days and of years (None for every year), in days since 1970-01-01."""

    def __init__(self, days: DayFields, years: int | None) -> None:
        self._days = days
        self._years = years
        self._blocks: dict[int, list[int]] = {}
        self._months: dict[tuple[int, int, int], int] = {}
        self.is_every_day = years is None and _match_all(days)
        self.is_empty = self._search(0) is None

    def find_day(self, day: int) -> int | None:
        """Return the first matching day from `day` on. Blocks of 64 days are cached."""
        days = self._blocks.get(day >> 6)
        if days is None:
            if len(self._blocks) >= _MAX_BLOCKS:
                self._blocks.clear()
            days = self._blocks[day >> 6] = self._list_block(day >> 6)
        place = bisect_left(days, day)
        return days[place] if place < len(days) else None

    def _list_block(self, number: int) -> list[int]:
        """List the matching days of a block, and the first one after them."""
        days, last = list[int](), (number + 1 << 6) - 1
        day = self._search(number << 6)
        while day is not None:
            days.append(day)
            day = self._search(day + 1) if day <= last else None
        return days

    def _search(self, day: int) -> int | None:
        """Return the first matching day from `day` on; None if the calendar's cycle or the year 9999 has none."""
        if day * 86400 > _LAST:
            return None
        moment = date.fromordinal(day + EPOCH_DAY)
        year, month = moment.year, moment.month
        mask = self._match(year, month) >> moment.day << moment.day
        for _ in range(_CYCLE):
            if mask:
                return date(year, month, find_lowest(mask)).toordinal() - EPOCH_DAY
            later = self._days.months >> month + 1
            if later and self._has_year(year):
                month += 1 + find_lowest(later)
            else:
                following = self._find_year_after(year)
                if following is None:
                    return None
                year, month = following, find_lowest(self._days.months)
            mask = self._match(year, month)
        return None

    def _has_year(self, year: int) -> bool:
        return self._years is None or bool(self._years >> year & 1)

    def _find_year_after(self, year: int) -> int | None:
        if self._years is None:
            return year + 1 if year < 9999 else None
        rest = self._years >> year + 1
        return year + 1 + find_lowest(rest) if rest else None

    def _match(self, year: int, month: int) -> int:
        """Return the matching days of a month, bit n for day n. Months of the same shape share a cached mask."""
        first = date(year, month, 1).toordinal() % 7  # day 7 of the calendar was a Sunday
        is_leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        shape = month, 29 if is_leap else _LENGTHS[month], first
        mask = self._months.get(shape)
        if mask is None:
            mask = self._months[shape] = _match_month(self._days, *shape)
        return mask if self._has_year(year) else 0


class OpenDates:
    """The dates of `dates`, except the days `closed`."""

    def __init__(self, dates: Dates, closed: frozenset[int]) -> None:
        self._dates = dates
        self._closed = closed

    def find_day(self, day: int) -> int | None:
        """Return the first matching day from `day` on."""
        found = self._dates.find_day(day)
        while found is not None and found in self._closed:
            found = self._dates.find_day(found + 1)
        return found


@lru_cache(1024)
def _spread_hours(hours: int) -> int:
    """Return the mask of the minutes of a day at which these hours begin.

    The mask of the minutes of an hour, times this mask, is the mask of the minutes of the day: an hour has 60 bits.
    """
    return sum(1 << hour * 60 for hour in range(24) if hours >> hour & 1)


@lru_cache(1024)
def _get_dates(days: DayFields, years: int | None) -> Dates:
    """Return the dates of these fields; expressions with the same fields share them."""
    return Dates(days, years)


def _match_all(days: DayFields) -> bool:
    """Tell whether every day matches, in months of any length that begin on any day of the week."""
    if days.months != (2 << 12) - 2:
        return False
    if days.dom == (2 << 31) - 2 and (days.either or days.dow == (1 << 7) - 1):
        return True
    shapes = ((length, first) for length in (31, 30, 29, 28) for first in range(7))
    return all(_match_month(days, 1, length, first) == (2 << length) - 2 for length, first in shapes)


def _match_month(days: DayFields, month: int, length: int, first: int) -> int:
    """Return the matching days of a month of `length` days whose first is weekday `first`, bit n for day n."""
    if not days.months >> month & 1:
        return 0
    every = (2 << length) - 2
    by_month = days.dom | (1 << length if days.last else 0)
    for day in days.nearest:
        by_month |= 1 << _find_nearest_weekday(min(day, length), length, first)
    by_week = 0
    for day in range(1, length + 1):
        by_week |= (days.dow >> (first + day - 1) % 7 & 1) << day
    for weekday, nth in days.nth:
        found = range(1 + (weekday - first) % 7, length + 1, 7)
        if nth <= len(found):
            by_week |= 1 << found[nth - 1]
    return (by_month | by_week if days.either else by_month & by_week) & every


def _find_nearest_weekday(day: int, length: int, first: int) -> int:
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else 3
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
