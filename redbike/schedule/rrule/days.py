"""Find the days and the times of day that match a rule."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from itertools import accumulate, pairwise

from redbike.schedule.bits import find_lowest, find_nth, make_span, pick_bits, repeat_bits
from redbike.schedule.rrule.rule import DAILY, FIRST_DAY, HOURLY, LAST_DAY, MONTHLY, WEEKLY, YEARLY, Rule
from redbike.schedule.zones import EPOCH_DAY

YEARS = 3000  # the most years of one search


class Days:
    """The days that match a rule. Bit n of the mask of a year is its day n, from 0.

    Days are counted from 1970-01-01. `share` is the number of rules that share the budget of a search.
    """

    def __init__(self, rule: Rule, start: int, share: int) -> None:
        self._rule = complete_days(rule, date.fromordinal(start + EPOCH_DAY))
        self._start = start
        self._search = YEARS // share
        self._shapes: dict[tuple[int, bool, bool, bool], int] = {}
        self._years: dict[int, tuple[int, int]] = {}
        parts = (rule.months, rule.weeks, rule.yeardays, rule.monthdays, rule.weekdays)
        self.is_unlimited = rule.freq >= HOURLY and not any(parts)
        self._opening = get_year_of(start)
        self._stride = rule.interval if rule.freq == YEARLY and not rule.weeks else 1
        self._is_gated = rule.freq < HOURLY and (rule.interval > 1 or bool(rule.weeks))

    def find_day(self, day: int) -> int | None:
        """Return the first matching day from `day` on; None if the search finds none."""
        if self.is_unlimited:
            return day
        if day > LAST_DAY:
            return None
        year = get_year_of(day)
        jan1, mask = self._years.get(year) or self.get_year(year)
        rest = mask >> day - jan1
        if rest:
            return day + find_lowest(rest)
        stop = min(year + self._search, 10_000)
        for later in range(year + 1 + (self._opening - year - 1) % self._stride, stop, self._stride):
            jan1, mask = self._years.get(later) or self.get_year(later)
            if mask:
                return jan1 + find_lowest(mask)
        return None

    def get_mask(self, low: int, high: int) -> int:
        """Return the mask of the matching days from `low` to `high` - 1: bit n is n days after `low`."""
        mask = 0
        for year in range(get_year_of(max(low, FIRST_DAY)), get_year_of(min(high - 1, LAST_DAY)) + 1):
            jan1, days = self._years.get(year) or self.get_year(year)
            mask |= days << jan1 - low if jan1 >= low else days >> low - jan1
        return mask & make_span(0, high - low)

    def find_period(self, day: int) -> tuple[int, int]:
        """Return the first day of the week, month or year of `day`, and the first day after that period."""
        moment = date.fromordinal(day + EPOCH_DAY)
        if self._rule.freq == WEEKLY:
            first = day - (moment.weekday() - self._rule.wkst) % 7
            return first, first + 7
        if self._rule.freq == MONTHLY:
            low, high = _get_months(_is_leap(moment.year))[moment.month - 1]
            return day - moment.day + 1, day - moment.day + 1 + high - low
        opens = self._find_week_one if self._rule.weeks else get_jan1
        year = next(year for year in (moment.year + 1, moment.year, moment.year - 1) if opens(year) <= day)
        return opens(year), opens(year + 1)

    def get_year(self, year: int) -> tuple[int, int]:
        """Return the day of 1 January, and the mask of the matching days of the year; cached."""
        jan1 = get_jan1(year)
        shape = (jan1 + 3) % 7, _is_leap(year - 1), _is_leap(year), _is_leap(year + 1)
        mask = self._shapes.get(shape)
        if mask is None:
            mask = self._shapes[shape] = self._mask_parts(year, jan1)
        if mask and self._is_gated:
            mask &= self._mask_active(year, jan1)
        if len(self._years) > 512:
            self._years.clear()
        self._years[year] = jan1, mask
        return jan1, mask

    def _mask_parts(self, year: int, jan1: int) -> int:
        """Return the mask of the days of a year that match all parts."""
        rule, months = self._rule, _get_months(_is_leap(year))
        length = 365 + _is_leap(year)
        mask = (1 << length) - 1
        if rule.months:
            mask &= sum(make_span(*months[month - 1]) for month in set(rule.months))
        if rule.weeks:
            mask &= self._mask_weeks(year, jan1)
        if rule.yeardays:
            mask &= pick_bits(rule.yeardays, (0, length))
        if rule.monthdays:
            mask &= sum(pick_bits(rule.monthdays, month) for month in months)
        if rule.weekdays:
            mask &= self._mask_weekdays(jan1, length, months)
        return mask

    def _mask_weekdays(self, jan1: int, length: int, months: Sequence[tuple[int, int]]) -> int:
        """Return the mask of the days of BYDAY.

        A number counts weekdays of the month; with YEARLY and without BYMONTH, of the year.
        """
        spans = [(0, length)] if self._rule.freq == YEARLY and not self._rule.months else months
        mask = 0
        for nth, weekday in self._rule.weekdays:
            every = repeat_bits(1, 7, jan1 + 3 - weekday) & make_span(0, length)
            if not nth:
                mask |= every
                continue
            for low, high in spans:
                found = every >> low & make_span(0, high - low)
                place = nth - 1 if nth > 0 else found.bit_count() + nth
                if 0 <= place < found.bit_count():
                    mask |= 1 << low + find_nth(found, place)
        return mask

    def _mask_weeks(self, year: int, jan1: int) -> int:
        """Return the mask of the days of BYWEEKNO. A week of a neighbouring year may have days in this year."""
        mask = 0
        for numbered in (year - 1, year, year + 1):
            first = self._find_week_one(numbered)
            weeks = (self._find_week_one(numbered + 1) - first) // 7
            for week in self._rule.weeks:
                place = week - 1 if week > 0 else weeks + week
                if 0 <= place < weeks:
                    low = first + place * 7 - jan1
                    mask |= make_span(0, 7) << low if low >= 0 else make_span(0, 7) >> -low
        return mask

    def _find_week_one(self, year: int) -> int:
        """Return the first day of week 1, which is the first week with four days in the year."""
        jan1 = get_jan1(year)
        past = (jan1 + 3 - self._rule.wkst) % 7
        return jan1 - past if past <= 3 else jan1 + 7 - past

    def _mask_active(self, year: int, jan1: int) -> int:
        """Return the mask of the days in periods that INTERVAL does not skip."""
        rule, start = self._rule, self._start
        if rule.freq == DAILY:
            return repeat_bits(1, rule.interval, jan1 - start)
        if rule.freq == WEEKLY:
            return repeat_bits(7, 7 * rule.interval, jan1 - self.find_period(start)[0])
        first = date.fromordinal(start + EPOCH_DAY)
        if rule.freq == MONTHLY:
            spans = enumerate(_get_months(_is_leap(year)), year * 12 - first.year * 12 - first.month + 1)
            return sum(make_span(*month) for number, month in spans if number % rule.interval == 0)
        if not rule.weeks:
            return make_span(0, 366) if (year - first.year) % rule.interval == 0 else 0
        # A calendar year has days of three week-numbering years. Years before that of DTSTART do not count.
        active = [
            number >= 0 and number % rule.interval == 0
            for number in range(year - first.year - 1, year - first.year + 2)
        ]
        if all(active) or not any(active):
            return make_span(0, 366) if active[0] else 0
        opens = [max(0, self._find_week_one(year + step) - jan1) for step in range(2)]
        weeks = zip(active, [0, *opens], [*opens, 366], strict=True)
        return sum(make_span(low, high) for is_active, low, high in weeks if is_active)


class Times:
    """The times of day of a rule of DAILY or longer, in order, in seconds of the day.

    There may be as many as a day has seconds, so they are counted and not listed.
    """

    def __init__(self, rule: Rule, start: int) -> None:
        hours = sorted(set(rule.hours)) or [start // 3600]
        minutes = sorted(set(rule.minutes)) or [start // 60 % 60]
        self._minutes = [hour * 60 + minute for hour in hours for minute in minutes]
        self._seconds = sorted(set(rule.seconds)) or [start % 60]
        self.count = len(self._minutes) * len(self._seconds)
        self._picked: Sequence[int] = range(self.count)
        if rule.freq == DAILY and rule.setpos:
            self._picked = pick_places(rule.setpos, self.count)
            self.count = len(self._picked)
        self.first = self.get(0) if self.count else 0

    def get(self, place: int) -> int:
        """Return the time that has `place` others before it."""
        minute, second = divmod(self._picked[place], len(self._seconds))
        return self._minutes[minute] * 60 + self._seconds[second]

    def rank(self, second: int) -> int:
        """Count the times up to `second`, including it."""
        minute, second = divmod(second, 60)
        place = bisect_left(self._minutes, minute)
        rank = place * len(self._seconds)
        if place < len(self._minutes) and self._minutes[place] == minute:
            rank += bisect_right(self._seconds, second)
        return bisect_left(self._picked, rank)


def pick_places(positions: Iterable[int], size: int) -> list[int]:
    """Return the sorted places, from 0, that the `positions` of BYSETPOS pick in a set of `size`."""
    places = {position - 1 if position > 0 else size + position for position in positions}
    return sorted(place for place in places if 0 <= place < size)


def complete_days(rule: Rule, start: date) -> Rule:
    """Return the rule with its missing days taken from DTSTART (3.3.10)."""
    if rule.yeardays or rule.monthdays or rule.weekdays or rule.freq > WEEKLY:
        return rule
    if rule.freq == WEEKLY or (rule.freq == YEARLY and rule.weeks):
        return rule if rule.weeks and rule.freq == WEEKLY else replace(rule, weekdays=((0, start.weekday()),))
    if rule.weeks:
        return rule
    months = rule.months or ((start.month,) if rule.freq == YEARLY else ())
    return replace(rule, months=months, monthdays=(start.day,))


def get_year_of(day: int) -> int:
    """Return the calendar year of a day."""
    return date.fromordinal(day + EPOCH_DAY).year


def get_jan1(year: int) -> int:
    """Return the day of 1 January, also of the years 0 and 10000, which datetime does not have."""
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400 - EPOCH_DAY + 1


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


_ENDS = tuple((0, *accumulate((31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))) for leap in (0, 1))
_MONTHS = tuple(tuple(pairwise(ends)) for ends in _ENDS)


def _get_months(leap: bool) -> tuple[tuple[int, int], ...]:
    """Return for each month its first day, counted from 1 January, and the first day after it."""
    return _MONTHS[leap]
