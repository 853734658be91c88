"""Rules of DAILY and longer, whose occurrences are local times; `rrule` tells how."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from redbike.errors import BadSchedule, quoted
from redbike.schedule.bits import nth_bit
from redbike.schedule.rrule.days import YEARS, Days, Times, places_of, year_of
from redbike.schedule.rrule.evaluator import Evaluator, horizon, uncountable
from redbike.schedule.rrule.rule import DAILY, LAST, YEARLY, Rule, until_of
from redbike.schedule.zones import AHEAD, Offsets, resolve

# What one search, and one count, may cost a schedule of one rule; all of it is about 20 ms.
_PERIODS = 2000
_COUNTED_PERIODS = 4000
_COUNTED_YEARS = 8000
_FEW = 4  # places that are cheaper to look for one by one


class Walls(Evaluator):
    """A rule of whole days or longer: its occurrences are local times."""

    def __init__(self, rule: Rule, start: int, zone: Offsets, share: int) -> None:
        self._rule = rule
        self._zone = zone
        self._start = start
        self._years = _COUNTED_YEARS // share
        self._far = YEARS // share * 366
        self._days = Days(rule, start // 86400, share)
        self._times = Times(rule, start % 86400)
        if not self._times.count:
            raise BadSchedule(f"bad rule {quoted(rule.text)}: it can never occur")
        self._positions = rule.setpos if rule.freq < DAILY else ()  # a day has the same times as any other
        self._next_wall = self._of_set if self._positions else self._of_day
        self._places: dict[int, Sequence[int]] = {}
        self._held: tuple[int, int, list[int]] = 0, 0, []  # a period, until when, and its local times
        halved = 2 if rule.freq == YEARLY else 1
        self._periods, self._counted = _PERIODS // share // halved, _COUNTED_PERIODS // share // halved
        self._before = resolve(start, zone) - 1
        if self._search(self._before) is None:
            raise BadSchedule(f"bad rule {quoted(rule.text)}: it can never occur")
        self._until = min(until_of(rule, zone), self._last(rule.count) if rule.count else LAST)

    def _search(self, after: int) -> int | None:
        """As `next`, without an end: local times become instants segment by segment."""
        begin, end, offset, reached = self._zone(after)
        while True:
            opening = begin + offset
            wall = self._next_wall(max(after + offset, reached, opening - 1))
            due = LAST if wall is None else wall - offset
            if reached + 1 < opening:
                # The segment begins with a gap, whose local times are read with the offset before it.
                before = reached + 1 - begin
                wall = self._next_wall(max(after + before, reached))
                due = due if wall is None or wall >= opening else min(due, wall - before)
            if due < end:
                return due if due < LAST else None
            if due >= LAST:
                return None
            after = max(end, due - AHEAD) - 1
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
        day = wall // 86400
        low, stop, chosen = self._held
        if low <= day < stop:
            if chosen[-1] > wall:
                return chosen[bisect_right(chosen, wall)]
            day = stop
        for low, stop, mask, places in self._sets(day, self._periods):
            chosen = self._chosen(low, mask, places)
            if chosen and chosen[-1] > wall:
                self._held = low, stop, chosen
                return chosen[bisect_right(chosen, wall)]
        return None

    def _sets(self, day: int, most: int) -> Iterator[tuple[int, int, int, Sequence[int]]]:
        """Up to `most` periods with days from `day` on: the first day, the first one after it, the mask, the places."""
        stop = day
        for _ in range(most):
            found = self._days.following(stop)
            if found is None or found > day + self._far:
                return
            low, stop = self._days.period(found)
            mask = self._days.between(low, stop)
            size = mask.bit_count() * self._times.count
            if size not in self._places:
                self._places[size] = places_of(self._positions, size)
            yield low, stop, mask, self._places[size]

    def _chosen(self, low: int, mask: int, places: Sequence[int]) -> list[int]:
        """The local times of those places, in order."""
        pairs = [divmod(place, self._times.count) for place in places]
        if len(pairs) < _FEW:
            days = {day: low + nth_bit(mask, day) for day, _ in pairs}
        else:
            days = dict(enumerate(low + bit for bit in range(mask.bit_length()) if mask >> bit & 1))
        return [days[day] * 86400 + self._times.at(time) for day, time in pairs]

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
        low, _, mask, places = next(self._sets(day, 1))
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
        return LAST if wall is None else resolve(wall, self._zone)

    def _last_of_day(self, count: int) -> int | None:
        """By adding up whole years; None when it is too far."""
        day, second = divmod(self._start - 1, 86400)
        year, times = year_of(day), self._times
        jan1, mask = self._days.year(year)
        left = count + (mask & (1 << day - jan1) - 1).bit_count() * times.count
        left += times.rank(second) if mask >> day - jan1 & 1 else 0
        for later in range(year, min(year + self._years, 10_000)):
            jan1, mask = self._days.year(later)
            held = mask.bit_count() * times.count
            if left <= held:
                place, time = divmod(left - 1, times.count)
                return (jan1 + nth_bit(mask, place)) * 86400 + times.at(time)
            left -= held
        self._check_reach(jan1)
        return None

    def _last_of_set(self, count: int) -> int | None:
        """Period by period; None when it is too far."""
        missed, low = None, self._start // 86400
        for low, _, mask, places in self._sets(self._start // 86400, self._counted):
            if missed is None:
                missed = bisect_left(self._chosen(low, mask, places), self._start)
                count += missed
            if count <= len(places):
                return self._chosen(low, mask, places)[count - 1]
            count -= len(places)
        self._check_reach(low)
        return None

    def _check_reach(self, day: int) -> None:
        """Refuse a count that was given up before the horizon. Raises `BadSchedule`."""
        if day * 86400 < min(horizon(self._start), LAST - 400 * 86400):
            raise uncountable(self._rule)
