"""Evaluate rules of HOURLY, MINUTELY and SECONDLY, whose periods are elapsed time; see `recurrence` for the method."""

from collections.abc import Iterable, Iterator

from redbike.errors import BadSchedule, quoted
from redbike.schedule.bits import find_lowest, find_nth, make_mask, make_span
from redbike.schedule.rrule.days import Days, pick_places
from redbike.schedule.rrule.evaluator import SPARSE, Evaluator, get_count_horizon, make_count_error
from redbike.schedule.rrule.rule import HOURLY, LAST, MINUTELY, SECONDLY, Rule, resolve_until
from redbike.schedule.zones import AHEAD, Offsets, Segment, resolve

_ALL_DAY = (1 << 1440) - 1
_SIXTY = (1 << 60) - 1
# The budgets of a search and of a count, for a schedule of one rule; together they take about 20 ms.
_STEPS = 4000
_COUNTED = 20_000
_NEW_DAY = 50  # steps; the cost of counting the seconds of a day of a new shape


class SubdailyEvaluator(Evaluator):
    """Evaluates a rule of hours, minutes or seconds: periods are elapsed time, and local times filter them."""

    _covered = (0, 0)  # an instant, and the cached answer of `find_uncovered` for all instants in between

    def __init__(self, rule: Rule, start: int, zone: Offsets, share: int) -> None:
        self._rule = rule
        self._zone = zone
        self._unit = (3600, 60, 1)[rule.freq - HOURLY]
        self._step = self._unit * rule.interval
        self._days = Days(rule, start // 86400, share)
        self._steps = _STEPS // share
        self._counted = _COUNTED // share
        # BYMINUTE and BYSECOND filter the periods. But if they are finer than a period, they expand it to offsets from
        # its start.
        self._minutes = _mask_minutes(rule)
        self._seconds = make_mask(rule.seconds) if rule.freq == SECONDLY and rule.seconds else _SIXTY
        self._base, self._offsets = _find_offsets(rule, start)
        # No part filters the periods. If each period has one occurrence, all are whole steps away from DTSTART.
        self._matches_always = self._days.is_unlimited and self._minutes == _ALL_DAY and self._seconds == _SIXTY
        self._is_regular = self._matches_always and self._offsets == (start % self._base,)
        self._units = _mask_units(self._unit, self._minutes, self._seconds) if rule.count else 0
        self._start = resolve(start, zone)
        self._before = self._start - 1
        self._phase = zone(self._start)[2] % self._base
        if not self._offsets or self._search(self._before) is None:
            raise BadSchedule(f"bad rule {quoted(rule.text)}: it never occurs, or too rarely to find out when")
        self._until = min(resolve_until(rule, zone), self._find_last(rule.count) if rule.count else LAST)

    def count(self, after: int, until: int) -> int | None:
        """Count the occurrences in (after, until] by division; None if they must be counted one by one."""
        after, until = max(after, self._before), min(until, self._until)
        _, end, offset, _ = self._zone(after + 1)
        has_same_phase = self._base == 1 or (until + 2 * self._base < end and offset % self._base == self._phase)
        if not (self._is_regular and has_same_phase):
            return None
        return max(0, (until - self._start) // self._step - (after - self._start) // self._step)

    def _search(self, after: int) -> int | None:
        """Search from period to period."""
        if self._is_regular:
            due = self._start + ((after - self._start) // self._step + 1) * self._step
            if self._base == 1 or self._zone(due)[2] % self._base == self._phase:
                return due
        at = before = self._find_earliest(after)
        budget, found = self._steps, LAST
        while budget > 0:
            at = self._align(at)
            budget -= 16 if at - before > SPARSE else 1
            if at >= min(found + self._base, LAST):
                break
            segment = self._zone(at)
            wall = at + segment[2]
            match = self._find_match(wall)
            if match is None:
                break
            before = at
            if match > wall:
                at = _jump(match, segment)
                continue
            found = min(found, next((due for due in self._expand(at, segment) if due > after), LAST))
            # Where clocks change within a period, one of its times may become later than those of the next periods.
            if found < min(segment[1], at - wall % self._base + self._base):
                return found
            at += 1
        return found if found < LAST else None

    def _find_earliest(self, after: int) -> int:
        """Return an instant before which no period has an occurrence after `after`, mostly `_base` before that."""
        begin = self._zone(after)[0] if self._has_shifted(after) else after + 2
        return max(self._start, begin - self._base)

    def _has_shifted(self, at: int) -> bool:
        """Tell whether clocks have changed within a period shortly before `at`: its occurrences may be out of place."""
        begin, _, offset, reached = self._zone(at)
        base, old, new = self._base, reached + 1, begin + offset
        return at - begin < base + abs(new - old) and bool(old % base or new % base)

    def occurs_at(self, due: int) -> bool:
        """Tell whether the rule occurs at `due`: whether a period close by matches and expands to it."""
        if not self._before < due <= self._until:
            return False
        at = self._align(self._find_earliest(due - 1))
        # Where clocks go back, an occurrence may be up to twice as long before its period.
        near = self._base if due + 2 * self._base <= self._zone(due)[1] else 2 * self._base
        while at < due + near:
            segment = self._zone(at)
            wall = at + segment[2]
            day = wall // 86400
            is_match = self._days.get_mask(day, day + 1) and self._find_match(wall) == wall
            if is_match and due in self._expand(at, segment):
                return True
            at += self._step
        return False

    def covers(self, other: Evaluator) -> bool:
        """Tell whether the rule has the periods of `other`, and all occurrences to which these expand."""
        if not isinstance(other, SubdailyEvaluator) or other._unit != self._unit:
            return False
        return not other._rule.interval % self._rule.interval and set(other._offsets) <= set(self._offsets)

    def find_uncovered(self, due: int) -> int:
        """Return the first instant after `due` whose local time does not match; `LAST` if the search gives up."""
        low, found = self._covered
        if not low <= due < found:
            if self._has_shifted(due):
                return due + 1
            low, found = self._covered = due, max(due + 1, self._search_uncovered(due))
        return found

    def _search_uncovered(self, due: int) -> int:
        for _ in range(self._steps):
            if due > self._until:
                return self._until + 1
            segment = self._zone(due)
            wall = due + segment[2]
            mismatch = self._find_mismatch(wall)
            if mismatch == wall:
                return due
            due = _jump(mismatch, segment)
        return LAST

    def _find_mismatch(self, wall: int) -> int:
        """Return the first local time from `wall` on that may not match."""
        if self._find_match(wall) != wall:
            return wall
        if self._seconds != _SIXTY:
            return wall + find_lowest(~(self._seconds >> wall % 60))
        day, second = divmod(wall, 86400)
        minute = second // 60
        if minute or self._minutes != _ALL_DAY:
            return day * 86400 + (minute + find_lowest(~(self._minutes >> minute))) * 60
        return (day + find_lowest(~self._days.get_mask(day, day + 366))) * 86400

    def _align(self, at: int) -> int:
        """Return the start of the first period that begins at the instant `at` or later."""
        return self._start - (self._start - at) // self._step * self._step

    def _find_match(self, wall: int) -> int | None:
        """Return the first local time from `wall` on that may match; `wall` itself if it does. None if none does."""
        day, second = divmod(wall, 86400)
        found = self._days.find_day(day)
        if found != day:
            return None if found is None else found * 86400
        minute, second = divmod(second, 60)
        rest = self._minutes >> minute
        if not rest & 1:
            return day * 86400 + ((minute + find_lowest(rest)) * 60 if rest else 86400)
        rest = self._seconds >> second
        return wall if rest & 1 else wall + (find_lowest(rest) if rest else 60 - second)

    def _expand(self, at: int, segment: Segment) -> Iterable[int]:
        """Return the occurrences of the matching period at `at`, in order."""
        begin, end, offset, _ = segment
        opening = at - (at + offset) % self._base
        if begin <= opening and opening + self._base <= end:
            return (opening + seconds for seconds in self._offsets)
        # A time in a gap may become later than times after the gap.
        return sorted(self._convert(opening, segment))

    def _convert(self, opening: int, segment: Segment) -> Iterator[int]:
        """Yield the occurrences of a period of which a part may be in other segments, in the order of local times."""
        begin, end, offset, _ = segment
        for seconds in self._offsets:
            due = opening + seconds
            is_inside = begin <= due < end or self._zone(due)[2] == offset
            yield due if is_inside else resolve(due + offset, self._zone)

    def _find_last(self, count: int) -> int:
        """Return the instant of occurrence number `count`, counted from DTSTART; `LAST` if it is too far away."""
        at, segment = self._start, self._zone(self._start)
        if self._find_match(at + segment[2]) == at + segment[2]:
            first = [due for due in self._expand(at, segment) if due >= at]
            if count <= len(first):
                return first[count - 1]
            count -= len(first)
        periods, place = divmod(count - 1, len(self._offsets))
        found = self._find_period(periods, at + 1)
        if found is None:
            return LAST
        return found - (found + self._zone(found)[2]) % self._base + self._offsets[place]

    def _find_period(self, number: int, at: int) -> int | None:
        """Return the matching period from `at` on that has `number` others before it; None if it is too far away.

        Add up days: many at once if all have the same periods, else one by one.
        """
        if self._matches_always:
            instant = self._align(at) + number * self._step
            return instant if instant < LAST else None
        counts: dict[tuple[int, int], int] = {}
        end, budget = get_count_horizon(at), self._counted
        while budget > 0:
            at = self._align(at)
            segment = self._zone(at)
            day, second = divmod(at + segment[2], 86400)
            found = self._days.find_day(day)
            if found is None or at > end:
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
                counts[key] = (self._units & self._space_bits(*key)).bit_count()
            alike = self._count_alike(at, day, segment) if second < self._step else 0
            if alike and number >= alike * counts[key]:
                number -= alike * counts[key]
                at += self._count_days_left(at, segment) * 86400
                budget -= 19
            elif number < counts[key]:
                return at + (find_nth(self._units & self._space_bits(*key), number) - key[0]) * self._unit
            else:
                number -= counts[key]
                at = stop
        raise make_count_error(self._rule)

    def _count_alike(self, at: int, day: int, segment: Segment) -> int:
        """Count the matching days that follow in the segment, if all have the same periods; else return 0."""
        whole = self._count_days_left(at, segment) if 86400 % self._step == 0 else 0
        return (
            (self._days.get_mask(day, day + whole).bit_count() if not self._days.is_unlimited else whole)
            if whole
            else 0
        )

    def _count_days_left(self, at: int, segment: Segment) -> int:
        """Count the whole days that are left of a segment, up to a year."""
        return min(366, max(0, segment[1] - at) // 86400)

    def _space_bits(self, first: int, number: int) -> int:
        """Return `number` bits from bit `first` on, one for each period."""
        step = self._rule.interval
        if number < 64:
            return sum(1 << first + place * step for place in range(number))
        mask, size = 1, 1
        while size < number:
            mask, size = mask | mask << size * step, 2 * size
        return (mask & make_span(0, number * step)) << first


def _mask_minutes(rule: Rule) -> int:
    """Return the mask of the minutes of the day at which a period matches, before it is expanded."""
    minutes = make_mask(rule.minutes) if rule.minutes and rule.freq > HOURLY else _SIXTY
    return sum(minutes << hour * 60 for hour in set(rule.hours) or range(24))


def _mask_units(unit: int, minutes: int, seconds: int) -> int:
    """Return the mask of the matching periods of a day, as if one began every `unit` seconds."""
    if unit == 60:
        return minutes
    if unit == 3600:
        return make_mask(hour for hour in range(24) if minutes >> hour * 60 & 1)
    hours = (minutes >> hour * 60 & make_span(0, 60) for hour in range(24))
    return sum(
        sum(seconds << minute * 60 for minute in range(60) if hour >> minute & 1) << place * 3600
        for place, hour in enumerate(hours)
    )


def _find_offsets(rule: Rule, start: int) -> tuple[int, tuple[int, ...]]:
    """Return the unit of a period in seconds, and the occurrences in it, in seconds from the start of that unit."""
    seconds = sorted(set(rule.seconds)) or [start % 60]
    minutes = sorted(set(rule.minutes)) or [start // 60 % 60]
    if rule.freq == HOURLY:
        base, found = 3600, [minute * 60 + second for minute in minutes for second in seconds]
    else:
        base, found = (60, seconds) if rule.freq == MINUTELY else (1, [0])
    places = pick_places(rule.setpos, len(found)) if rule.setpos else range(len(found))
    return base, tuple(found[place] for place in places)


def _jump(wall: int, segment: Segment) -> int:
    """Return the instant of the later local time `wall`; an earlier instant if the offset changes before that."""
    _, end, offset, _ = segment
    return wall - offset if wall - offset < end else max(end, wall - offset - AHEAD)
