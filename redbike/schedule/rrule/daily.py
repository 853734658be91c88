"""Evaluate rules of DAILY and longer, whose occurrences are local times; see `recurrence` for the method."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from redbike.errors import BadSchedule, quoted
from redbike.schedule.bits import find_nth
from redbike.schedule.rrule.days import YEARS, Days, Times, get_year_of, pick_places
from redbike.schedule.rrule.evaluator import Evaluator, get_count_horizon, make_count_error
from redbike.schedule.rrule.rule import DAILY, LAST, YEARLY, Rule, resolve_until
from redbike.schedule.zones import AHEAD, Offsets, resolve

# The budgets of a search and of a count, for a schedule of one rule; together they take about 20 ms.
_MAX_PERIODS = 2000
_COUNTED_PERIODS = 4000
_COUNTED_YEARS = 8000
_FEW = 4  # up to this number, it is faster to find places one by one


class DailyEvaluator(Evaluator):
    """Evaluates a rule of days or longer periods: its occurrences are local times."""

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
        self._positions = rule.setpos if rule.freq < DAILY else ()  # all days have the same times
        self._find_wall = self._find_by_set if self._positions else self._find_by_day
        self._places_by_size: dict[int, Sequence[int]] = {}
        self._last_set: tuple[int, int, list[int]] = 0, 0, []  # first day of a period, first day after it, local times
        halved = 2 if rule.freq == YEARLY else 1
        self._periods, self._counted = _MAX_PERIODS // share // halved, _COUNTED_PERIODS // share // halved
        self._before = resolve(start, zone) - 1
        if self._search(self._before) is None:
            raise BadSchedule(f"bad rule {quoted(rule.text)}: it can never occur")
        self._until = min(resolve_until(rule, zone), self._find_last(rule.count) if rule.count else LAST)

    def _search(self, after: int) -> int | None:
        """Search segment by segment, and convert local times to instants."""
        begin, end, offset, reached = self._zone(after)
        while True:
            opening = begin + offset
            wall = self._find_wall(max(after + offset, reached))
            due = LAST if wall is None else wall - offset
            if reached + 1 < opening:
                # The segment begins after a gap. Local times in the gap are converted with the offset before it.
                before = reached + 1 - begin
                wall = self._find_wall(max(after + before, reached))
                due = due if wall is None or wall >= opening else min(due, wall - before)
            if due < end:
                return due if due < LAST else None
            if due >= LAST:
                return None
            after = max(end, due - AHEAD) - 1
            begin, end, offset, reached = self._zone(after + 1)

    def _find_by_day(self, wall: int) -> int | None:
        """Return the first local time after `wall`, for a rule without BYSETPOS."""
        day, second = divmod(max(wall, self._start - 1), 86400)
        found = self._days.find_day(day)
        if found == day:
            rank = self._times.rank(second)
            if rank < self._times.count:
                return day * 86400 + self._times.get(rank)
            found = self._days.find_day(day + 1)
        return None if found is None else found * 86400 + self._times.first

    def _find_by_set(self, wall: int) -> int | None:
        """Return the first local time after `wall`, for a rule with BYSETPOS."""
        wall = max(wall, self._start - 1)
        day = wall // 86400
        low, stop, chosen = self._last_set
        if low <= day < stop:
            if chosen[-1] > wall:
                return chosen[bisect_right(chosen, wall)]
            day = stop
        for low, stop, mask, places in self._iterate_sets(day, self._periods):
            chosen = self._choose(low, mask, places)
            if chosen and chosen[-1] > wall:
                self._last_set = low, stop, chosen
                return chosen[bisect_right(chosen, wall)]
        return None

    def _iterate_sets(self, day: int, most: int) -> Iterator[tuple[int, int, int, Sequence[int]]]:
        """Yield the periods from `day` on that have days of the rule, up to `most` of them.

        Of each, yield its first day, the first day after it, a mask of its days, and the places of BYSETPOS in it.
        """
        stop = day
        for _ in range(most):
            found = self._days.find_day(stop)
            if found is None or found > day + self._far:
                return
            low, stop = self._days.find_period(found)
            mask = self._days.get_mask(low, stop)
            size = mask.bit_count() * self._times.count
            if size not in self._places_by_size:
                self._places_by_size[size] = pick_places(self._positions, size)
            yield low, stop, mask, self._places_by_size[size]

    def _choose(self, low: int, mask: int, places: Sequence[int]) -> list[int]:
        """Return the local times at these places, in order."""
        pairs = [divmod(place, self._times.count) for place in places]
        if len(pairs) < _FEW:
            days = {day: low + find_nth(mask, day) for day, _ in pairs}
        else:
            days = dict(enumerate(low + bit for bit in range(mask.bit_length()) if mask >> bit & 1))
        return [days[day] * 86400 + self._times.get(time) for day, time in pairs]

    def occurs_at(self, due: int) -> bool:
        """Tell whether the rule occurs at `due`: whether it has a local time that is converted to `due`."""
        begin, _, offset, reached = self._zone(due)
        gap = reached + 1 - begin - offset
        return self._before < due <= self._until and (
            self._has_wall(due + offset, due) or self._has_wall(due + offset + gap, due)
        )

    def _has_wall(self, wall: int, due: int) -> bool:
        day, second = divmod(wall, 86400)
        if wall < self._start or resolve(wall, self._zone) != due or not self._days.get_mask(day, day + 1):
            return False
        if not self._positions:
            return self._times.rank(second) > self._times.rank(second - 1)
        low, _, mask, places = next(self._iterate_sets(day, 1))
        return wall in self._choose(low, mask, places)

    def _find_last(self, count: int) -> int:
        """Return the instant of occurrence number `count`, counted from DTSTART; `LAST` if it is too far away."""
        wall = self._find_last_by_set(count) if self._positions else self._find_last_by_day(count)
        return LAST if wall is None else resolve(wall, self._zone)

    def _find_last_by_day(self, count: int) -> int | None:
        """Return the local time of occurrence number `count`, by adding up whole years; None if it is too far away."""
        day, second = divmod(self._start - 1, 86400)
        year, times = get_year_of(day), self._times
        jan1, mask = self._days.get_year(year)
        left = count + (mask & (1 << day - jan1) - 1).bit_count() * times.count
        left += times.rank(second) if mask >> day - jan1 & 1 else 0
        for later in range(year, min(year + self._years, 10_000)):
            jan1, mask = self._days.get_year(later)
            size = mask.bit_count() * times.count
            if left <= size:
                place, time = divmod(left - 1, times.count)
                return (jan1 + find_nth(mask, place)) * 86400 + times.get(time)
            left -= size
        self._check_reach(jan1)
        return None

    def _find_last_by_set(self, count: int) -> int | None:
        """Return the local time of occurrence number `count`, period by period; None if it is too far away."""
        missed, low = None, self._start // 86400
        for low, _, mask, places in self._iterate_sets(self._start // 86400, self._counted):
            if missed is None:
                missed = bisect_left(self._choose(low, mask, places), self._start)
                count += missed
            if count <= len(places):
                return self._choose(low, mask, places)[count - 1]
            count -= len(places)
        self._check_reach(low)
        return None

    def _check_reach(self, day: int) -> None:
        """Raise `BadSchedule` if `day`, at which counting was given up, is before the horizon."""
        if day * 86400 < min(get_count_horizon(self._start), LAST - 400 * 86400):
            raise make_count_error(self._rule)
