"""iCal recurrence (RFC 5545, 3.3.10 and 3.8.5): when a rule occurs next.

Nothing walks from DTSTART. The search for the next occurrence goes like this:

1. The days of a year that the BYxxx parts let through are one mask of 366 bits. It depends on nothing but the weekday
   of 1 January and where the leap days are, so a few masks do for all years; INTERVAL clears the bits of the periods
   that are left out. The next day is the next bit.
2. **DAILY and longer** (`Walls`): the times of day are the same every day, so the next local time is the next time of
   the day or the first of the next day; with BYSETPOS, one of those that are chosen in its period. It becomes an
   instant by 3.3.5: what a gap swallows by the offset before the gap, what occurs twice the first time.
3. **HOURLY, MINUTELY, SECONDLY** (`Elapsed`): periods are elapsed time from DTSTART, so that a repeated hour is not
   silent. A period counts when its local time passes the BYxxx parts; one that does not is left with a jump to the next
   local time that may, then up to the next period.
4. COUNT becomes the last occurrence when the rule is parsed: by adding up whole years (`Walls`) or days (`Elapsed`),
   with BYSETPOS period by period. UNTIL is an instant, too; one that is a date includes that day.

Where the standard leaves a choice: missing parts come from DTSTART, YEARLY with BYMONTHDAY means every month, the
period of BYWEEKNO is the week-numbering year, a part in a place where the standard forbids it limits (a number before a
weekday is then ignored), and DTSTART is an occurrence only when it matches.
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from itertools import accumulate
from math import floor
from typing import NamedTuple

from redbike.errors import BadSchedule

Segment = tuple[int, int, int, int]
Zone = Callable[[int], Segment]
"""The stretch of constant offset that holds an instant (epoch seconds): its first instant, the first one after it, the
offset in seconds east, and the latest local time that was reached before it."""

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY = range(7)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_RULES = 16  # RRULE and EXRULE lines of one schedule

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST_DAY = date(3, 1, 1).toordinal() - _EPOCH_DAY  # some way from the ends of the calendar, for weeks and offsets
_LAST_DAY = date(9999, 12, 24).toordinal() - _EPOCH_DAY
_FIRST, _LAST = _FIRST_DAY * 86400, _LAST_DAY * 86400
_AHEAD = 100_000  # more seconds than any two offsets differ by
# What one search may cost, for a schedule of one rule; several rules share it. All of it together is about 20 ms.
_YEARS = 3000
_PERIODS = 4000
_STEPS = 4000
_COUNTED = 20_000
_COUNTED_YEARS = 8000
_EXCLUDED = 6000
_SPARSE = 20 * 86400  # seconds after which a step costs more, as years and offsets are new to it
_NEW_DAY = 50  # of these, to count the seconds of a day that is like none before


@dataclass(frozen=True)
class Rule:
    """The parts of an RRULE or EXRULE; a tuple that is empty stands for a part that is missing."""

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
    weekdays: tuple[tuple[int, int], ...] = ()  # (which one in the month or year, or 0 for all; day of the week)
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()


class Recurrence:
    """The recurrence set of `text`: its rules and dates, less its exceptions.

    `timezone` is the zone of floating times, `anchor` the instant (epoch seconds) that a text without DTSTART starts
    at, `zones` finds a zone by name. `text` becomes the complete form, whose first line is DTSTART. Raises
    `BadSchedule`, quoting what is bad. A set whose exceptions cancel thousands of occurrences in a row has run out.
    """

    def __init__(self, text: str, timezone: str, anchor: float, zones: Callable[[str], Zone]) -> None:
        lines = [_line(line) for line in _unfolded(text)]
        self.timezone, self.start, others = _start(lines, timezone, anchor, zones)
        self.zone = zones(self.timezone)
        others = [_timed(line) for line in others] if self.start.is_date else others
        self.text = "\n".join(map(str, (_dtstart(self.timezone, self.start.wall), *others)))
        if len({line.tzid for line in others}) > MAX_RULES:
            raise BadSchedule(f"bad rule {_short(text)}: it has more than {MAX_RULES} time zones")
        self.rules = [parse_rule(line) for line in others if line.name == "RRULE"]
        self.exrules = [parse_rule(line) for line in others if line.name == "EXRULE"]
        self.dates = sorted({at for line in others if line.name == "RDATE" for at in _instants(line, self.zone, zones)})
        self.exdates = {at for line in others if line.name == "EXDATE" for at in _instants(line, self.zone, zones)}
        share = len(self.rules) + len(self.exrules)
        if not self.rules and not self.dates:
            raise BadSchedule(f"bad rule {_short(text)}: it has neither RRULE nor RDATE")
        if share > MAX_RULES:
            raise BadSchedule(f"bad rule {_short(text)}: it has {share} rules, {MAX_RULES} are allowed")
        self._rules = [_evaluator(rule, self.start.wall, self.zone, share) for rule in self.rules]
        self._exrules = [_evaluator(rule, self.start.wall, self.zone, share) for rule in self.exrules]
        self._only = self._rules[0] if len(self._rules) == 1 and not self.dates else None
        self._excepting = bool(self._exrules or self.exdates)
        # An exception that cancels whatever it passes is left in one jump, not occurrence by occurrence.
        self._covering = [rule for rule in self._exrules if not self.dates and all(map(rule.covers, self._rules))]
        self._budget = _EXCLUDED // max(1, share)
        endless = any(rule.count is None and rule.until is None for rule in self.rules)
        if endless and self.next(_FIRST) is None:
            raise BadSchedule(f"bad rule {_short(self.text)}: its exceptions leave nothing")

    def next(self, after: float) -> float | None:
        """The first instant strictly after `after`, both in epoch seconds; None when there is none."""
        if not after < _LAST:
            return None
        due = self._candidate(floor(max(after, _FIRST)))
        if self._excepting:
            due = self._spared(due)
        return None if due is None else float(due)

    def _candidate(self, after: int) -> int | None:
        if self._only is not None:
            return self._only.next(after)
        found = [due for due in (rule.next(after) for rule in self._rules) if due is not None]
        place = bisect_right(self.dates, after)
        return min(found + self.dates[place : place + 1], default=None)

    def _spared(self, due: int | None) -> int | None:
        """The first candidate from `due` on that no exception cancels."""
        budget = self._budget
        while due is not None and budget > 0:
            rule = next((rule for rule in self._exrules if rule.holds(due)), None)
            if rule is None and due not in self.exdates:
                return due
            clear = rule.clear(due) if rule in self._covering else due + 1
            before, due = due, None if clear is None else self._candidate(clear - 1)
            budget -= 3 if due is not None and due - before > _SPARSE else 1
        return None


class Evaluator(ABC):
    """A rule that is evaluated; all instants are whole epoch seconds."""

    _before: int  # the second before DTSTART
    _until: int  # the last instant that UNTIL and COUNT leave
    _found = (0, 0)  # an instant, and what comes after it: the answer for all instants in between

    def next(self, after: int) -> int | None:
        """The first occurrence after `after`."""
        if after >= self._until:
            return None
        after = max(after, self._before)
        low, due = self._found
        if not low <= after < due:
            found = self._search(after)
            low, due = self._found = after, _LAST if found is None else found
        return due if due <= self._until and due < _LAST else None

    @abstractmethod
    def _search(self, after: int) -> int | None:
        """As `next`, for an instant from `_before` on, and without an end."""

    @abstractmethod
    def holds(self, due: int) -> bool:
        """Whether it occurs at `due`."""

    @abstractmethod
    def covers(self, other: "Evaluator") -> bool:
        """Whether it has every occurrence of `other` while its own local time passes, as far as that is known."""

    @abstractmethod
    def clear(self, due: int) -> int | None:
        """The first instant after `due` that it may not cover; None when there is none within reach."""


class Walls(Evaluator):
    """A rule of whole days or longer: its occurrences are local times."""

    def __init__(self, rule: Rule, start: int, zone: Zone, share: int) -> None:
        self._zone = zone
        self._start = start
        self._years = _COUNTED_YEARS // share
        self._days = Days(rule, start // 86400, _YEARS // share)
        self._times = Times(rule, start % 86400)
        if not self._times.count:
            raise BadSchedule(f"bad rule {_short(rule.text)}: it can never occur")
        self._positions = rule.setpos if rule.freq < DAILY else ()  # a day has the same times as any other
        self._next_wall = self._of_set if self._positions else self._of_day
        self._places: dict[int, Sequence[int]] = {}
        self._kept: dict[int, list[int]] = {}
        self._periods = _PERIODS // share // (2 if rule.freq == YEARLY else 1)
        self._before = resolve(start, zone) - 1
        if self._search(self._before) is None:
            raise BadSchedule(f"bad rule {_short(rule.text)}: it can never occur")
        self._until = min(_until(rule, zone), self._last(rule.count) if rule.count else _LAST)

    def _search(self, after: int) -> int | None:
        """As `next`, without an end: local times become instants segment by segment."""
        begin, end, offset, reached = self._zone(after)
        while True:
            opening = begin + offset
            wall = self._next_wall(max(after + offset, reached, opening - 1))
            due = _LAST if wall is None else wall - offset
            if reached + 1 < opening:
                # The segment begins with a gap, whose local times are read with the offset before it.
                before = reached + 1 - begin
                wall = self._next_wall(max(after + before, reached))
                due = due if wall is None or wall >= opening else min(due, wall - before)
            if due < end:
                return due if due < _LAST else None
            if due >= _LAST:
                return None
            after = max(end, due - _AHEAD) - 1
            begin, end, offset, reached = self._zone(after + 1)

    def _of_day(self, wall: int) -> int | None:
        """The first local time after `wall`, for a rule without BYSETPOS."""
        day, second = divmod(max(wall, self._start - 1), 86400)
        found = self._days.following(day)
        if found == day:
            rank = self._times.rank(second)
            if rank < self._times.count:
                return day * 86400 + self._times.at(rank)
            found = self._days.following(day + 1)
        return None if found is None else found * 86400 + self._times.first

    def _of_set(self, wall: int) -> int | None:
        """The first local time after `wall`, for a rule with BYSETPOS."""
        wall = max(wall, self._start - 1)
        for low, mask, places in self._sets(wall // 86400):
            chosen = self._kept.get(low) or self._chosen(low, mask, places)
            if chosen and chosen[-1] > wall:
                return chosen[bisect_right(chosen, wall)]
        return None

    def _sets(self, day: int) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Of each period that has days, from that of `day` on: its first day, their mask, and the places picked."""
        opening: int | None = self._days.period(day)[0]
        for _ in range(self._periods):
            opening = self._days.following(opening) if opening is not None else None
            if opening is None:
                return
            low, opening = self._days.period(opening)
            mask = self._days.between(low, opening)
            size = mask.bit_count() * self._times.count
            if size not in self._places:
                self._places[size] = _places(self._positions, size)
            yield low, mask, self._places[size]

    def _chosen(self, low: int, mask: int, places: Sequence[int]) -> list[int]:
        """The local times of those places, in order."""
        days = [low + bit for bit in range(mask.bit_length()) if mask >> bit & 1] if places else []
        pairs = (divmod(place, self._times.count) for place in places)
        if len(self._kept) > 64:
            self._kept.clear()
        found = self._kept[low] = [days[day] * 86400 + self._times.at(time) for day, time in pairs]
        return found

    def holds(self, due: int) -> bool:
        """Whether it occurs at `due`: whether a local time that `due` may be read from is one of the rule's."""
        begin, _, offset, reached = self._zone(due)
        gap = reached + 1 - begin - offset
        return self._before < due <= self._until and (
            self._has(due + offset, due) or self._has(due + offset + gap, due)
        )

    def _has(self, wall: int, due: int) -> bool:
        day, second = divmod(wall, 86400)
        if wall < self._start or resolve(wall, self._zone) != due or not self._days.between(day, day + 1):
            return False
        if not self._positions:
            return self._times.rank(second) > self._times.rank(second - 1)
        low, mask, places = next(self._sets(day))
        return wall in self._chosen(low, mask, places)

    def covers(self, other: Evaluator) -> bool:
        """Not looked into."""
        return False

    def clear(self, due: int) -> int | None:
        """The next second."""
        return due + 1

    def _last(self, count: int) -> int:
        """The instant of occurrence number `count`, counted from DTSTART; the end of time when it is too far."""
        wall = self._last_of_set(count) if self._positions else self._last_of_day(count)
        return _LAST if wall is None else resolve(wall, self._zone)

    def _last_of_day(self, count: int) -> int | None:
        """By adding up whole years; a count that thousands of years do not reach is no limit."""
        day, second = divmod(self._start - 1, 86400)
        year, times = _year(day), self._times
        jan1, mask = self._days.year(year)
        left = count + (mask & (1 << day - jan1) - 1).bit_count() * times.count
        left += times.rank(second) if mask >> day - jan1 & 1 else 0
        for later in range(year, min(year + self._years, 10_000)):
            jan1, mask = self._days.year(later)
            held = mask.bit_count() * times.count
            if left <= held:
                place, time = divmod(left - 1, times.count)
                return (jan1 + _nth_bit(mask, place)) * 86400 + times.at(time)
            left -= held
        return None

    def _last_of_set(self, count: int) -> int | None:
        """Period by period; a count that thousands of periods do not reach is no limit."""
        missed: int | None = None
        for low, mask, places in self._sets(self._start // 86400):
            if missed is None:
                missed = bisect_left(self._chosen(low, mask, places), self._start)
                count += missed
            if count <= len(places):
                return self._chosen(low, mask, places)[count - 1]
            count -= len(places)
        return None


class Elapsed(Evaluator):
    """A rule of hours, minutes or seconds: its periods are elapsed time, looked at on the local clock."""

    def __init__(self, rule: Rule, start: int, zone: Zone, share: int) -> None:
        self._rule = rule
        self._zone = zone
        self._unit = (3600, 60, 1)[rule.freq - HOURLY]
        self._step = self._unit * rule.interval
        self._days = Days(rule, start // 86400, _YEARS // share)
        self._steps = _STEPS // share
        self._counted = _COUNTED // share
        # Minutes and seconds are looked at, or else expanded to: then they are seconds into the hour or minute.
        self._minutes = _moments(rule)
        self._seconds = _mask(rule.seconds) if rule.freq == SECONDLY and rule.seconds else (1 << 60) - 1
        self._base, self._offsets = _expansion(rule, start)
        # Every period passes; and then, as a rule, an occurrence is as far from DTSTART as its period.
        self._every = self._days.unlimited and self._minutes == _ALL_DAY and self._seconds == (1 << 60) - 1
        self._free = self._every and self._offsets == (start % self._base,)
        self._units = _units(self._unit, self._minutes, self._seconds) if rule.count else 0
        self._start = resolve(start, zone)
        self._before = self._start - 1
        self._phase = zone(self._start)[2] % self._base
        if not self._offsets or self._search(self._before) is None:
            raise BadSchedule(f"bad rule {_short(rule.text)}: it never occurs, or too rarely to find out when")
        self._until = min(_until(rule, zone), self._last(rule.count) if rule.count else _LAST)

    def _search(self, after: int) -> int | None:
        """As `next`, without an end: from period to period that passes."""
        if self._free:
            due = self._start + ((after - self._start) // self._step + 1) * self._step
            if self._base == 1 or self._zone(due)[2] % self._base == self._phase:
                return due
        # An occurrence is at most so much later than the instant that its period is looked at.
        at = before = max(self._start, after + 2 - self._base)
        budget = self._steps
        while budget > 0:
            at = self._aligned(at)
            budget -= 16 if at - before > _SPARSE else 1
            if at >= _LAST:
                return None
            segment = self._zone(at)
            wall = at + segment[2]
            passing = self._passing(wall)
            if passing is None:
                return None
            before = at
            if passing > wall:
                at = _jump(passing, segment)
                continue
            for due in self._expanded(at, segment):
                if due > after:
                    return due
            at += 1
        return None

    def holds(self, due: int) -> bool:
        """Whether it occurs at `due`: whether a period close by passes and expands to it."""
        if not self._before < due <= self._until:
            return False
        at = self._aligned(max(self._start, due - self._base + 1))
        while at < due + self._base:
            segment = self._zone(at)
            wall = at + segment[2]
            day = wall // 86400
            passes = self._days.between(day, day + 1) and self._passing(wall) == wall
            if passes and due in self._expanded(at, segment):
                return True
            at += self._step
        return False

    def covers(self, other: Evaluator) -> bool:
        """Whether it has the periods of `other`, and all that those expand to."""
        if not isinstance(other, Elapsed) or other._unit != self._unit or other._rule.interval % self._rule.interval:
            return False
        return set(other._offsets) <= set(self._offsets)

    def clear(self, due: int) -> int | None:
        """Where its local time does not pass any more."""
        for _ in range(self._steps):
            if due > self._until:
                return due
            segment = self._zone(due)
            wall = due + segment[2]
            failing = self._failing(wall)
            if failing == wall:
                return due
            due = _jump(failing, segment)
        return None

    def _failing(self, wall: int) -> int:
        """The first local time from `wall` on that may fail to pass: itself when it does."""
        if self._passing(wall) != wall or self._seconds != (1 << 60) - 1:
            return wall if self._passing(wall) != wall else wall + 1
        day, second = divmod(wall, 86400)
        minute = second // 60
        return day * 86400 + min(1440, minute + _lowest(~(self._minutes >> minute))) * 60

    def _aligned(self, at: int) -> int:
        """The first period from `at` on."""
        return self._start - (self._start - at) // self._step * self._step

    def _passing(self, wall: int) -> int | None:
        """The first local time from `wall` on that may pass: itself when it does."""
        day, second = divmod(wall, 86400)
        found = self._days.following(day)
        if found != day:
            return None if found is None else found * 86400
        minute, second = divmod(second, 60)
        rest = self._minutes >> minute
        if not rest & 1:
            return day * 86400 + ((minute + _lowest(rest)) * 60 if rest else 86400)
        rest = self._seconds >> second
        return wall if rest & 1 else wall + (_lowest(rest) if rest else 60 - second)

    def _expanded(self, at: int, segment: Segment) -> Iterator[int]:
        """The occurrences of the period at `at`, which passes, in order."""
        begin, end, offset, reached = segment
        opening = at - (at + offset) % self._base
        for seconds in self._offsets:
            due = opening + seconds
            if begin <= due < end or self._zone(due)[2] == offset:
                yield due
            # The offset changes within the period: what a gap swallows is read with the offset before it (3.3.5).
            elif due < begin and due + offset > reached:
                yield begin + due + offset - reached - 1
            elif due >= end and due + offset < end + self._zone(end)[2]:
                yield due

    def _last(self, count: int) -> int:
        """The instant of occurrence number `count`, counted from DTSTART; the end of time when it is too far."""
        at, segment = self._start, self._zone(self._start)
        if self._passing(at + segment[2]) == at + segment[2]:
            first = [due for due in self._expanded(at, segment) if due >= at]
            if count <= len(first):
                return first[count - 1]
            count -= len(first)
        periods, place = divmod(count - 1, len(self._offsets))
        found = self._period(periods, at + 1)
        if found is None:
            return _LAST
        return found - (found + self._zone(found)[2]) % self._base + self._offsets[place]

    def _period(self, number: int, at: int) -> int | None:
        """The passing period that has `number` others before it from `at` on; None when it is too far.

        Days are added up: many at once when all are alike, else one by one.
        """
        if self._every:
            instant = self._aligned(at) + number * self._step
            return instant if instant < _LAST else None
        counts: dict[tuple[int, int], int] = {}
        horizon, budget = max(_FAR, at + _FAR), self._counted
        while budget > 0:
            at = self._aligned(at)
            segment = self._zone(at)
            day, second = divmod(at + segment[2], 86400)
            found = self._days.following(day)
            if found is None or at > horizon:
                return None
            budget -= 10 if self._step > 86400 else 1
            if found != day:
                at = _jump(found * 86400, segment)
                budget -= 4
                continue
            stop = min(segment[1], (day + 1) * 86400 - segment[2])
            key = second // self._unit, (stop - at - 1) // self._step + 1
            if key not in counts:
                budget -= _NEW_DAY if self._unit == 1 else 0
                counts[key] = (self._units & self._spaced(*key)).bit_count()
            alike = self._alike(at, day, segment) if second < self._step else 0
            if alike and number >= alike * counts[key]:
                number -= alike * counts[key]
                at += self._chunk(at, segment) * 86400
                budget -= 19
            elif number < counts[key]:
                return at + (_nth_bit(self._units & self._spaced(*key), number) - key[0]) * self._unit
            else:
                number -= counts[key]
                at = stop
        raise BadSchedule(f"bad rule {_short(self._rule.text)}: its COUNT is too high to be counted")

    def _alike(self, at: int, day: int, segment: Segment) -> int:
        """How many of the following days pass, when all of them have the same periods."""
        whole = self._chunk(at, segment) if 86400 % self._step == 0 else 0
        return (self._days.between(day, day + whole).bit_count() if not self._days.unlimited else whole) if whole else 0

    def _chunk(self, at: int, segment: Segment) -> int:
        """The whole days, a year's at most, that are left of a segment."""
        return min(366, max(0, segment[1] - at) // 86400)

    def _spaced(self, first: int, number: int) -> int:
        """`number` bits from bit `first` on, one for each period."""
        step = self._rule.interval
        if number < 64:
            return sum(1 << first + place * step for place in range(number))
        mask, held = 1, 1
        while held < number:
            mask, held = mask | mask << held * step, 2 * held
        return (mask & _span(0, number * step)) << first


class Days:
    """The days that a rule lets through, a year at a time: bit n of a year's mask is its day n, from 0.

    Days are counted from 1970-01-01. `years` is how far a search goes.
    """

    def __init__(self, rule: Rule, start: int, years: int) -> None:
        self._rule = _completed(rule, date.fromordinal(start + _EPOCH_DAY))
        self._start = start
        self._search = years
        self._shapes: dict[tuple[int, bool, bool, bool], int] = {}
        self._years: dict[int, tuple[int, int]] = {}
        parts = (rule.months, rule.weeks, rule.yeardays, rule.monthdays, rule.weekdays)
        self.unlimited = rule.freq >= HOURLY and not any(parts)
        self._opening = _year(start)
        self._stride = rule.interval if rule.freq == YEARLY and not rule.weeks else 1
        self._gated = rule.freq < HOURLY and (rule.interval > 1 or bool(rule.weeks))

    def following(self, day: int) -> int | None:
        """The first day from `day` on."""
        if self.unlimited:
            return day
        if day > _LAST_DAY:
            return None
        year = _year(day)
        jan1, mask = self._years.get(year) or self.year(year)
        rest = mask >> day - jan1
        if rest:
            return day + _lowest(rest)
        stop = min(year + self._search, 10_000)
        for later in range(year + 1 + (self._opening - year - 1) % self._stride, stop, self._stride):
            jan1, mask = self._years.get(later) or self.year(later)
            if mask:
                return jan1 + _lowest(mask)
        return None

    def between(self, low: int, high: int) -> int:
        """The mask of the days from `low` until `high`: bit n is n days after `low`."""
        mask = 0
        for year in range(_year(max(low, _FIRST_DAY)), _year(min(high - 1, _LAST_DAY)) + 1):
            jan1, days = self._years.get(year) or self.year(year)
            mask |= days << jan1 - low if jan1 >= low else days >> low - jan1
        return mask & _span(0, high - low)

    def period(self, day: int) -> tuple[int, int]:
        """The first day of the period that `day` is in, and the first one after it."""
        moment = date.fromordinal(day + _EPOCH_DAY)
        if self._rule.freq == DAILY:
            return day, day + 1
        if self._rule.freq == WEEKLY:
            first = day - (moment.weekday() - self._rule.wkst) % 7
            return first, first + 7
        if self._rule.freq == MONTHLY:
            low, high = _month_spans(_leap(moment.year))[moment.month - 1]
            return day - moment.day + 1, day - moment.day + 1 + high - low
        opens = self._week_one if self._rule.weeks else _jan1
        year = next(year for year in (moment.year + 1, moment.year, moment.year - 1) if opens(year) <= day)
        return opens(year), opens(year + 1)

    def year(self, year: int) -> tuple[int, int]:
        """1 January and the mask of a year."""
        jan1 = _jan1(year)
        shape = (jan1 + 3) % 7, _leap(year - 1), _leap(year), _leap(year + 1)
        mask = self._shapes.get(shape)
        if mask is None:
            mask = self._shapes[shape] = self._mask(year, jan1)
        if mask and self._gated:
            mask &= self._active(year, jan1)
        if len(self._years) > 512:
            self._years.clear()
        self._years[year] = jan1, mask
        return jan1, mask

    def _mask(self, year: int, jan1: int) -> int:
        """What all parts let through."""
        rule, months = self._rule, _month_spans(_leap(year))
        length = 365 + _leap(year)
        mask = (1 << length) - 1
        if rule.months:
            mask &= sum(_span(*months[month - 1]) for month in set(rule.months))
        if rule.weeks:
            mask &= self._week_mask(year, jan1)
        if rule.yeardays:
            mask &= _picked(rule.yeardays, (0, length))
        if rule.monthdays:
            mask &= sum(_picked(rule.monthdays, month) for month in months)
        if rule.weekdays:
            mask &= self._weekday_mask(jan1, length, months)
        return mask

    def _weekday_mask(self, jan1: int, length: int, months: Sequence[tuple[int, int]]) -> int:
        """Plain weekdays, and those with a number: counted in the month, or with YEARLY and no BYMONTH in the year."""
        spans = [(0, length)] if self._rule.freq == YEARLY and not self._rule.months else months
        mask = 0
        for nth, weekday in self._rule.weekdays:
            every = _periodic(1, 7, jan1 + 3 - weekday) & _span(0, length)
            if not nth:
                mask |= every
                continue
            for low, high in spans:
                found = every >> low & _span(0, high - low)
                place = nth - 1 if nth > 0 else found.bit_count() + nth
                if 0 <= place < found.bit_count():
                    mask |= 1 << low + _nth_bit(found, place)
        return mask

    def _week_mask(self, year: int, jan1: int) -> int:
        """The weeks of BYWEEKNO: of this week-numbering year, and of its neighbours what is in this calendar year."""
        mask = 0
        for numbered in (year - 1, year, year + 1):
            first = self._week_one(numbered)
            weeks = (self._week_one(numbered + 1) - first) // 7
            for week in self._rule.weeks:
                place = week - 1 if week > 0 else weeks + week
                if 0 <= place < weeks:
                    low = first + place * 7 - jan1
                    mask |= _span(0, 7) << low if low >= 0 else _span(0, 7) >> -low
        return mask

    def _week_one(self, year: int) -> int:
        """The first day of week 1, the first that has four days in the year."""
        jan1 = _jan1(year)
        past = (jan1 + 3 - self._rule.wkst) % 7
        return jan1 - past if past <= 3 else jan1 + 7 - past

    def _active(self, year: int, jan1: int) -> int:
        """The days whose period INTERVAL does not leave out."""
        rule, start = self._rule, self._start
        if rule.freq == DAILY:
            return _periodic(1, rule.interval, jan1 - start)
        if rule.freq == WEEKLY:
            return _periodic(7, 7 * rule.interval, jan1 - self.period(start)[0])
        first = date.fromordinal(start + _EPOCH_DAY)
        if rule.freq == MONTHLY:
            spans = enumerate(_month_spans(_leap(year)), year * 12 - first.year * 12 - first.month + 1)
            return sum(_span(*span) for number, span in spans if number % rule.interval == 0)
        if not rule.weeks:
            return _span(0, 366) if (year - first.year) % rule.interval == 0 else 0
        # The days of three week-numbering years; those before DTSTART's calendar year are none of the rule's.
        active = [
            number >= 0 and number % rule.interval == 0
            for number in range(year - first.year - 1, year - first.year + 2)
        ]
        if all(active) or not any(active):
            return _span(0, 366) if active[0] else 0
        opens = [max(0, self._week_one(year + step) - jan1) for step in range(2)]
        weeks = zip(active, [0, *opens], [*opens, 366], strict=True)
        return sum(_span(low, high) for passes, low, high in weeks if passes)


class Times:
    """The times of the day of a rule of days or longer, in order; all numbers are seconds of the day.

    They may be as many as there are seconds, so they are counted rather than listed.
    """

    def __init__(self, rule: Rule, start: int) -> None:
        hours = sorted(set(rule.hours)) or [start // 3600]
        minutes = sorted(set(rule.minutes)) or [start // 60 % 60]
        self._minutes = [hour * 60 + minute for hour in hours for minute in minutes]
        self._seconds = sorted(set(rule.seconds)) or [start % 60]
        self.count = len(self._minutes) * len(self._seconds)
        self._picked: Sequence[int] = range(self.count)
        if rule.freq == DAILY and rule.setpos:
            self._picked = _places(rule.setpos, self.count)
            self.count = len(self._picked)
        self.first = self.at(0) if self.count else 0

    def at(self, place: int) -> int:
        """The time that has `place` others before it."""
        minute, second = divmod(self._picked[place], len(self._seconds))
        return self._minutes[minute] * 60 + self._seconds[second]

    def rank(self, second: int) -> int:
        """How many times there are up to `second`, itself included."""
        minute, second = divmod(second, 60)
        place = bisect_left(self._minutes, minute)
        rank = place * len(self._seconds)
        if place < len(self._minutes) and self._minutes[place] == minute:
            rank += bisect_right(self._seconds, second)
        return bisect_left(self._picked, rank)


def resolve(wall: int, zone: Zone) -> int:
    """The instant of a local time (RFC 5545, 3.3.5): the first of two; in a gap, by the offset before the gap."""
    begin, end, offset, reached = zone(wall - _AHEAD)
    while wall - offset >= end:
        begin, end, offset, reached = zone(end)
    return wall - offset if wall - offset >= begin else begin + wall - reached - 1


class Line(NamedTuple):
    """A content line: NAME;TZID=zone:VALUE, in upper case but for the zone."""

    name: str
    tzid: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}{';TZID=' + self.tzid if self.tzid else ''}:{self.value}"


class Moment(NamedTuple):
    """A date or date-time as it is written: its local time, or the instant when `is_utc`."""

    wall: int
    is_utc: bool
    is_date: bool


def parse_rule(line: Line) -> Rule:
    """The rule of a line whose value is like FREQ=DAILY;INTERVAL=2. Raises `BadSchedule`."""
    parts = _parts(line.value)
    freq = FREQUENCIES.index(parts["FREQ"])
    return Rule(
        text=line.value,
        freq=freq,
        interval=(_numbers(parts, "INTERVAL", 1, 9_999_999_999) or (1,))[0],
        count=(_numbers(parts, "COUNT", 1, 9_999_999_999) or (None,))[0],
        until=parts.get("UNTIL"),
        wkst=_weekday(parts.get("WKST", "MO"), freq)[1],
        setpos=_numbers(parts, "BYSETPOS", -366, 366),
        months=_numbers(parts, "BYMONTH", 1, 12),
        weeks=_numbers(parts, "BYWEEKNO", -53, 53),
        yeardays=_numbers(parts, "BYYEARDAY", -366, 366),
        monthdays=_numbers(parts, "BYMONTHDAY", -31, 31),
        weekdays=tuple(_weekday(item, freq) for item in parts["BYDAY"].split(",")) if "BYDAY" in parts else (),
        hours=_numbers(parts, "BYHOUR", 0, 23),
        minutes=_numbers(parts, "BYMINUTE", 0, 59),
        # Without leap seconds, second 60 is read as 59 (3.3.12).
        seconds=tuple(min(second, 59) for second in _numbers(parts, "BYSECOND", 0, 60)),
    )


_PARTS = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYSETPOS", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY"}
_PARTS |= {"BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND"}
_LINE = re.compile(r"([A-Z]+)((?:;[^:;=]+=[^:;]*)*):(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_PARAMETERS = {"DTSTART": ("TZID", "VALUE"), "RDATE": ("TZID", "VALUE"), "EXDATE": ("TZID", "VALUE")}
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?([A-Z]{2})", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,10}", re.ASCII)
_ALL_DAY = (1 << 1440) - 1
_FAR = 4_102_444_800  # the year 2100, or as much after DTSTART: a COUNT that is not reached till then is no limit


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.removesuffix(";").split(";"):
        name, _, value = part.partition("=")
        if name not in _PARTS or not value:
            raise BadSchedule(f"bad rule {_short(text)}: {_short(part)} is no part of one")
        if name in parts:
            raise BadSchedule(f"bad rule {_short(text)}: it has more than one {name}")
        parts[name] = value
    if parts.get("FREQ") not in FREQUENCIES:
        raise BadSchedule(f"bad rule {_short(text)}: FREQ= one of {', '.join(FREQUENCIES)} is needed")
    return parts


def _numbers(parts: dict[str, str], name: str, low: int, high: int) -> tuple[int, ...]:
    """The numbers of a part, without 0 where it may be negative; INTERVAL and COUNT are a single one."""
    found = []
    for item in parts[name].split(",") if name in parts else ():
        number = int(item) if _NUMBER.fullmatch(item) else None
        if number is None or not low <= number <= high or (low < 0 and not number):
            raise BadSchedule(f"bad {name}={_short(parts[name])}: {_short(item)} is not from {low} to {high}")
        found.append(number)
    if name in ("INTERVAL", "COUNT") and len(found) > 1:
        raise BadSchedule(f"bad {name}={_short(parts[name])}: one number is needed")
    return tuple(found)


def _weekday(text: str, freq: int) -> tuple[int, int]:
    """(which one, day of the week from Monday); the number only counts in a month or year."""
    found = _WEEKDAY.fullmatch(text)
    if not found or found[2] not in WEEKDAYS or (found[1] and not 1 <= abs(int(found[1])) <= 53):
        raise BadSchedule(f"bad weekday {_short(text)} in a rule: MO or, of 53 at most, 1MO or -1MO is needed")
    return int(found[1] or 0) if freq <= MONTHLY else 0, WEEKDAYS.index(found[2])


def _evaluator(rule: Rule, start: int, zone: Zone, share: int) -> Walls | Elapsed:
    return Elapsed(rule, start, zone, share) if rule.freq >= HOURLY else Walls(rule, start, zone, share)


def _completed(rule: Rule, start: date) -> Rule:
    """The rule with the days that it is silent about taken from DTSTART (3.3.10)."""
    if rule.yeardays or rule.monthdays or rule.weekdays or rule.freq > WEEKLY:
        return rule
    if rule.freq == WEEKLY or (rule.freq == YEARLY and rule.weeks):
        return rule if rule.weeks and rule.freq == WEEKLY else replace(rule, weekdays=((0, start.weekday()),))
    if rule.weeks:
        return rule
    months = rule.months or ((start.month,) if rule.freq == YEARLY else ())
    return replace(rule, months=months, monthdays=(start.day,))


def _moments(rule: Rule) -> int:
    """The minutes of the day at which a period passes; those that it expands to do not matter."""
    minutes = _mask(rule.minutes) if rule.minutes and rule.freq > HOURLY else (1 << 60) - 1
    return sum(minutes << hour * 60 for hour in set(rule.hours) or range(24))


def _units(unit: int, minutes: int, seconds: int) -> int:
    """The periods of a day that pass, were there one for every `unit` seconds."""
    if unit == 60:
        return minutes
    if unit == 3600:
        return _mask(hour for hour in range(24) if minutes >> hour * 60 & 1)
    hours = (minutes >> hour * 60 & _span(0, 60) for hour in range(24))
    return sum(
        sum(seconds << minute * 60 for minute in range(60) if hour >> minute & 1) << place * 3600
        for place, hour in enumerate(hours)
    )


def _expansion(rule: Rule, start: int) -> tuple[int, tuple[int, ...]]:
    """What a period expands to: seconds from the start of its local hour, minute or second (the first number)."""
    seconds = sorted(set(rule.seconds)) or [start % 60]
    minutes = sorted(set(rule.minutes)) or [start // 60 % 60]
    if rule.freq == HOURLY:
        base, found = 3600, [minute * 60 + second for minute in minutes for second in seconds]
    else:
        base, found = (60, seconds) if rule.freq == MINUTELY else (1, [0])
    places = _places(rule.setpos, len(found)) if rule.setpos else range(len(found))
    return base, tuple(found[place] for place in places)


def _places(positions: Iterable[int], size: int) -> list[int]:
    """The places, from 0, that BYSETPOS picks from a set of `size`."""
    places = {position - 1 if position > 0 else size + position for position in positions}
    return sorted(place for place in places if 0 <= place < size)


def _jump(wall: int, segment: Segment) -> int:
    """The instant from which to look for a later local time: its own, or where the offset has changed on the way."""
    _, end, offset, _ = segment
    return wall - offset if wall - offset < end else max(end, wall - offset - _AHEAD)


def _until(rule: Rule, zone: Zone) -> int:
    if rule.until is None:
        return _LAST
    moment = _moment(rule.until, rule.text)
    if moment.is_date:
        return resolve(moment.wall + 86400, zone) - 1
    return moment.wall if moment.is_utc else resolve(moment.wall, zone)


def _unfolded(text: str) -> list[str]:
    """The content lines of a text, whose lines end in a newline or in a backslash and an n (3.1)."""
    lines = text.replace("\\n", "\n").replace("\\N", "\n").replace("\r\n", "\n")
    return [line.strip() for line in lines.replace("\n ", "").replace("\n\t", "").split("\n") if line.strip()]


def _line(text: str) -> Line:
    found = _LINE.fullmatch(text if ":" in text else f"RRULE:{text}")
    if not found or found[1].upper() not in ("RRULE", "EXRULE", *_PARAMETERS):
        raise BadSchedule(f"bad rule: {_short(text)} is no DTSTART, RRULE, RDATE, EXRULE or EXDATE")
    name, tzid = found[1].upper(), ""
    for parameter in found[2].split(";")[1:]:
        key, _, value = parameter.partition("=")
        if key.upper() not in _PARAMETERS.get(name, ()):
            raise BadSchedule(f"bad rule: {_short(parameter)} has no place in {_short(text)}")
        tzid = value if key.upper() == "TZID" else tzid
    return Line(name, tzid, found[3].upper())


def _start(
    lines: Sequence[Line], timezone: str, anchor: float, zones: Callable[[str], Zone]
) -> tuple[str, Moment, list[Line]]:
    """The zone and local time of DTSTART, and the other lines."""
    starts = [line for line in lines if line.name == "DTSTART"]
    others = [line for line in lines if line.name != "DTSTART"]
    if len(starts) > 1:
        raise BadSchedule(f"bad rule: it has more than one DTSTART, {_short(str(starts[1]))}")
    if not starts:
        instant = floor(anchor)
        return timezone, Moment(instant + zones(timezone)(instant)[2], False, False), others
    moment = _moment(starts[0].value, str(starts[0]))
    return "UTC" if moment.is_utc else starts[0].tzid or timezone, moment, others


def _dtstart(timezone: str, wall: int) -> Line:
    day, second = divmod(wall, 86400)
    text = f"{date.fromordinal(day + _EPOCH_DAY):%Y%m%d}T{second // 3600:02}{second // 60 % 60:02}{second % 60:02}"
    text = text.rjust(15, "0")
    return Line("DTSTART", "", f"{text}Z") if timezone == "UTC" else Line("DTSTART", timezone, text)


def _timed(line: Line) -> Line:
    """The line with its dates as midnights, as DTSTART is stored."""
    if line.name not in ("RDATE", "EXDATE"):
        return line
    values = (value if "T" in value else f"{value}T000000" for value in line.value.split(","))
    return line._replace(value=",".join(values))


def _instants(line: Line, zone: Zone, zones: Callable[[str], Zone]) -> Iterator[int]:
    """The instants of RDATE or EXDATE; of a period, its start."""
    zone = zones(line.tzid) if line.tzid else zone
    for value in line.value.split(","):
        moment = _moment(value.partition("/")[0], str(line))
        if moment.is_date:
            raise BadSchedule(f"bad rule: {_short(value)} in {_short(str(line))} needs a time, as DTSTART has one")
        yield moment.wall if moment.is_utc else resolve(moment.wall, zone)


def _moment(text: str, where: str) -> Moment:
    found = _MOMENT.fullmatch(text)
    try:
        if not found:
            raise ValueError
        year, month, day, hour, minute, second = (int(number or 0) for number in found.groups()[:6])
        wall = (date(year, month, day).toordinal() - _EPOCH_DAY) * 86400 + hour * 3600 + minute * 60 + min(second, 59)
        if hour > 23 or minute > 59 or second > 60 or not _FIRST <= wall < _LAST:
            raise ValueError
    except ValueError:
        raise BadSchedule(
            f"bad rule: {_short(text)} in {_short(where)} is no date and time of the years 3 to 9999"
        ) from None
    return Moment(wall, found[7] == "Z", found[4] is None)


def _year(day: int) -> int:
    return date.fromordinal(day + _EPOCH_DAY).year


def _jan1(year: int) -> int:
    """1 January, also of the years beside the calendar's first and last, which datetime does not have."""
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400 - _EPOCH_DAY + 1


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _spans(lengths: Iterable[int]) -> tuple[tuple[int, int], ...]:
    ends = tuple(accumulate(lengths))
    return tuple(zip((0, *ends), ends, strict=False))


_MONTHS = tuple(_spans((31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)) for leap in (0, 1))


def _month_spans(leap: bool) -> tuple[tuple[int, int], ...]:
    """The first day of the year of each month, and the first one after it."""
    return _MONTHS[leap]


# Masks: bit n stands for n.


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _nth_bit(mask: int, place: int) -> int:
    """The bit that has `place` others below it."""
    bits, found = bin(mask)[:1:-1], -1
    for _ in range(place + 1):
        found = bits.index("1", found + 1)
    return found


def _mask(values: Iterable[int]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


def _span(low: int, high: int) -> int:
    """The bits from `low` until `high`."""
    return (1 << high) - (1 << low) if high > low else 0


def _picked(numbers: Iterable[int], span: tuple[int, int]) -> int:
    """Those of a span's bits, counted from 1, or from its end when negative."""
    low, high = span
    places = ((low + number - 1 if number > 0 else high + number) for number in numbers)
    return _mask(place for place in places if low <= place < high)


def _periodic(run: int, step: int, past: int) -> int:
    """The bits of a year, the first `run` of every `step`, of which `past` have gone by at bit 0."""
    past %= step
    if step <= 366:
        return _pattern(run, step) >> past & _span(0, 366)
    now = _span(0, run) >> past
    return (now | _span(0, run) << step - past) & _span(0, 366) if step - past < 366 else now


@lru_cache(256)
def _pattern(run: int, step: int) -> int:
    return _mask(bit for bit in range(366 + step) if bit % step < run)


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "…")
