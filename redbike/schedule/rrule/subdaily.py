"""Rules of HOURLY, MINUTELY and SECONDLY, whose periods are elapsed time; `rrule` tells how."""

from collections.abc import Iterator

from redbike.errors import BadSchedule, quoted
from redbike.schedule.bits import lowest, mask_of, nth_bit, span
from redbike.schedule.rrule.days import Days, places_of
from redbike.schedule.rrule.evaluator import Evaluator, horizon, uncountable
from redbike.schedule.rrule.rule import HOURLY, LAST, MINUTELY, SECONDLY, Rule, until_of
from redbike.schedule.zones import AHEAD, Offsets, Segment, resolve

_ALL_DAY = (1 << 1440) - 1
_SIXTY = (1 << 60) - 1
# What one search, and one count, may cost a schedule of one rule; all of it is about 20 ms.
_STEPS = 4000
_COUNTED = 20_000
_SPARSE = 20 * 86400  # seconds after which a step costs more, as years and offsets are new to it
_NEW_DAY = 50  # of these, to count the seconds of a day that is like none before


class Elapsed(Evaluator):
    """A rule of hours, minutes or seconds: its periods are elapsed time, looked at on the local clock."""

    def __init__(self, rule: Rule, start: int, zone: Offsets, share: int) -> None:
        self._rule = rule
        self._zone = zone
        self._unit = (3600, 60, 1)[rule.freq - HOURLY]
        self._step = self._unit * rule.interval
        self._days = Days(rule, start // 86400, share)
        self._steps = _STEPS // share
        self._counted = _COUNTED // share
        # Minutes and seconds are looked at, or else expanded to: then they are seconds into the hour or minute.
        self._minutes = _moments(rule)
        self._seconds = mask_of(rule.seconds) if rule.freq == SECONDLY and rule.seconds else _SIXTY
        self._base, self._offsets = _expansion(rule, start)
        # Every period passes; and then, as a rule, an occurrence is as far from DTSTART as its period.
        self._every = self._days.unlimited and self._minutes == _ALL_DAY and self._seconds == _SIXTY
        self._free = self._every and self._offsets == (start % self._base,)
        self._units = _units(self._unit, self._minutes, self._seconds) if rule.count else 0
        self._start = resolve(start, zone)
        self._before = self._start - 1
        self._phase = zone(self._start)[2] % self._base
        if not self._offsets or self._search(self._before) is None:
            raise BadSchedule(f"bad rule {quoted(rule.text)}: it never occurs, or too rarely to find out when")
        self._until = min(until_of(rule, zone), self._last(rule.count) if rule.count else LAST)

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
            if at >= LAST:
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
        if self._passing(wall) != wall or self._seconds != _SIXTY:
            return wall if self._passing(wall) != wall else wall + 1
        day, second = divmod(wall, 86400)
        minute = second // 60
        return day * 86400 + min(1440, minute + lowest(~(self._minutes >> minute))) * 60

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
            return day * 86400 + ((minute + lowest(rest)) * 60 if rest else 86400)
        rest = self._seconds >> second
        return wall if rest & 1 else wall + (lowest(rest) if rest else 60 - second)

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
            return LAST
        return found - (found + self._zone(found)[2]) % self._base + self._offsets[place]

    def _period(self, number: int, at: int) -> int | None:
        """The passing period that has `number` others before it from `at` on; None when it is too far.

        Days are added up: many at once when all are alike, else one by one.
        """
        if self._every:
            instant = self._aligned(at) + number * self._step
            return instant if instant < LAST else None
        counts: dict[tuple[int, int], int] = {}
        end, budget = horizon(at), self._counted
        while budget > 0:
            at = self._aligned(at)
            segment = self._zone(at)
            day, second = divmod(at + segment[2], 86400)
            found = self._days.following(day)
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
                counts[key] = (self._units & self._spaced(*key)).bit_count()
            alike = self._alike(at, day, segment) if second < self._step else 0
            if alike and number >= alike * counts[key]:
                number -= alike * counts[key]
                at += self._chunk(at, segment) * 86400
                budget -= 19
            elif number < counts[key]:
                return at + (nth_bit(self._units & self._spaced(*key), number) - key[0]) * self._unit
            else:
                number -= counts[key]
                at = stop
        raise uncountable(self._rule)

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
        return (mask & span(0, number * step)) << first


def _moments(rule: Rule) -> int:
    """The minutes of the day at which a period passes; those that it expands to do not matter."""
    minutes = mask_of(rule.minutes) if rule.minutes and rule.freq > HOURLY else _SIXTY
    return sum(minutes << hour * 60 for hour in set(rule.hours) or range(24))


def _units(unit: int, minutes: int, seconds: int) -> int:
    """The periods of a day that pass, were there one for every `unit` seconds."""
    if unit == 60:
        return minutes
    if unit == 3600:
        return mask_of(hour for hour in range(24) if minutes >> hour * 60 & 1)
    hours = (minutes >> hour * 60 & span(0, 60) for hour in range(24))
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
    places = places_of(rule.setpos, len(found)) if rule.setpos else range(len(found))
    return base, tuple(found[place] for place in places)


def _jump(wall: int, segment: Segment) -> int:
    """The instant from which to look for a later local time: its own, or where the offset has changed on the way."""
    _, end, offset, _ = segment
    return wall - offset if wall - offset < end else max(end, wall - offset - AHEAD)
