"""iCal recurrence (RFC 5545, 3.3.10 and 3.8.5): find when a set of rules and dates occurs next.

The search for the next occurrence does not walk from DTSTART:

1. One mask of 366 bits has the days of a year that match the BYxxx parts. It depends only on the weekday of
   1 January and on the leap years around, so a few masks are enough for all years. INTERVAL clears the bits of the
   periods that it skips. The next day is the next bit.
2. **DAILY and longer** (`DailyEvaluator`): the times of day are the same every day. So the next local time is the next
   time of the day, or the first one of the next day. With BYSETPOS it is the next picked time of the period.
   It is converted to an instant by 3.3.5: in a gap with the offset before the gap, in a repeated hour to the first one.
3. **HOURLY, MINUTELY, SECONDLY** (`SubdailyEvaluator`): periods are elapsed time from DTSTART, so a repeated hour has
   occurrences twice. A period counts if its local time matches the BYxxx parts. If it does not, the search jumps
   to the next local time that may match, and from there to the next period.
4. When the rule is parsed, COUNT is converted to the instant of the last occurrence: by adding up whole years (2.) or
   days (3.), or with BYSETPOS period by period. UNTIL is an instant too. If it is a date, it includes that day.

The standard leaves some choices. Missing parts come from DTSTART. YEARLY with BYMONTHDAY means every month. The period
of BYWEEKNO is the week-numbering year. A part that the standard forbids for a frequency limits the occurrences; then
the number before a weekday is ignored. DTSTART is an occurrence only if it matches.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import floor

from redbike.errors import BadSchedule, quoted
from redbike.schedule.rrule.daily import DailyEvaluator
from redbike.schedule.rrule.evaluator import SPARSE
from redbike.schedule.rrule.rule import (
    FIRST,
    HOURLY,
    LAST,
    Line,
    Moment,
    Rule,
    format_wall,
    make_start,
    parse_line,
    parse_moment,
    parse_moments,
    parse_rule,
    unfold,
)
from redbike.schedule.rrule.subdaily import SubdailyEvaluator
from redbike.schedule.zones import Offsets, resolve

MAX_RULES = 16  # RRULE and EXRULE lines of one schedule
MAX_ZONES = 16  # zones that its other lines name
_MAX_EXCLUDED = 3000  # occurrences that are cancelled in a row, for a schedule of one rule: about 10 ms
_MAX_COUNTED = 14_000  # steps to count occurrences one by one, of all rules together: up to 35 ms


class Recurrence:
    """The recurrence set of `text`: its rules and dates, without its exceptions.

    Floating times are in `timezone`. A text without DTSTART starts at the instant `anchor` (epoch seconds). `zones`
    finds a zone by name. The attribute `text` is the complete form, whose first line is DTSTART. If exceptions cancel
    thousands of occurrences in a row, the set ends there. Raise `BadSchedule`, which quotes the invalid part.
    """

    def __init__(self, text: str, timezone: str, anchor: float, zones: Callable[[str], Offsets]) -> None:
        lines = [parse_line(line) for line in unfold(text)]
        self.timezone, self.start, others = _read_start(lines, timezone, anchor, zones)
        self.zone = zones(self.timezone)
        self.rules = [parse_rule(line) for line in others if line.name == "RRULE"]
        if self.start.is_date:
            # If runs are not at midnight, an EXDATE without a time would cancel none of them: it is refused.
            has_times = any(
                each.freq >= HOURLY or any((*each.hours, *each.minutes, *each.seconds)) for each in self.rules
            )
            others = [line if has_times and line.name == "EXDATE" else _add_times(line) for line in others]
        self.text = "\n".join(map(str, (make_start(self.timezone, self.start.wall), *others)))
        if len({line.tzid for line in others if line.tzid}) > MAX_ZONES:
            raise BadSchedule(f"bad rule {quoted(text)}: it has more than {MAX_ZONES} time zones")
        self.exrules = [parse_rule(line) for line in others if line.name == "EXRULE"]
        self.dates = sorted(_parse_dates("RDATE", others, self.zone, zones))
        self.exdates = _parse_dates("EXDATE", others, self.zone, zones)
        share = len(self.rules) + len(self.exrules)
        if not self.rules and not self.dates:
            raise BadSchedule(f"bad rule {quoted(text)}: it has neither RRULE nor RDATE")
        if share > MAX_RULES:
            raise BadSchedule(f"bad rule {quoted(text)}: it has {share} rules, {MAX_RULES} are allowed")
        self._rules = [_make_evaluator(rule, self.start.wall, self.zone, share) for rule in self.rules]
        self._exrules = [_make_evaluator(rule, self.start.wall, self.zone, share) for rule in self.exrules]
        self._only = self._rules[0] if len(self._rules) == 1 and not self.dates else None
        self._has_exceptions = bool(self._exrules or self.exdates)
        # These EXRULEs cancel all occurrences of the rules at local times that match them. So the search jumps to the
        # end of these local times, or to the next RDATE.
        self._covering = [rule for rule in self._exrules if all(map(rule.covers, self._rules))]
        self._budget = _MAX_EXCLUDED // max(1, share)
        self._counted = _MAX_COUNTED // max(1, share + len(self.exrules))
        is_endless = any(rule.count is None and rule.until is None for rule in self.rules)
        if is_endless and self.next(FIRST) is None:
            raise BadSchedule(f"bad rule {quoted(self.text)}: its exceptions leave nothing")

    def next(self, after: float) -> float | None:
        """Return the first instant strictly after `after`, both in epoch seconds; None when there is none."""
        if not after < LAST:
            return None
        due, _ = self._search(floor(max(after, FIRST)))
        return None if due is None else float(due)

    def count(self, after: float, until: float, limit: int) -> tuple[int, bool]:
        """Count the instants in (after, until], up to `limit`. Also return False if it was given up: too many steps."""
        at, last = (floor(min(max(moment, FIRST), LAST)) for moment in (after, until))
        if self._only is not None and not self._has_exceptions:
            found = self._only.count(at, last)
            if found is not None:
                return min(found, limit), True
        number, budget = 0, self._counted
        while number < limit:
            if budget <= 0:
                return number, False
            due, steps = self._search(at)
            if due is None or due > last:
                break
            budget -= steps + (3 if due - at > SPARSE else 1)
            at, number = due, number + 1
        return number, True

    def _search(self, after: int) -> tuple[int | None, int]:
        """Return the first instant after `after`, and the number of steps to skip exceptions."""
        due = self._find_candidate(after)
        return self._skip_exceptions(due) if self._has_exceptions else (due, 0)

    def _find_candidate(self, after: int) -> int | None:
        if self._only is not None:
            return self._only.next(after)
        found = [due for due in (rule.next(after) for rule in self._rules) if due is not None]
        return min(found + self._find_date(after), default=None)

    def _find_date(self, after: int) -> list[int]:
        """Return the first RDATE after `after`, if there is one."""
        place = bisect_right(self.dates, after)
        return self.dates[place : place + 1]

    def _skip_exceptions(self, due: int | None) -> tuple[int | None, int]:
        """Return the first candidate from `due` on that no exception cancels, and the number of steps."""
        budget = self._budget
        while due is not None and budget > 0:
            rule = next((rule for rule in self._exrules if rule.occurs_at(due)), None)
            if rule is None and due not in self.exdates:
                return due, self._budget - budget
            clear = min([rule.find_uncovered(due), *self._find_date(due)]) if rule in self._covering else due + 1
            before, due = due, self._find_candidate(clear - 1)
            budget -= 3 if due is not None and due - before > SPARSE else 1
        return None, self._budget - budget


def _make_evaluator(rule: Rule, start: int, zone: Offsets, share: int) -> DailyEvaluator | SubdailyEvaluator:
    return (
        SubdailyEvaluator(rule, start, zone, share) if rule.freq >= HOURLY else DailyEvaluator(rule, start, zone, share)
    )


def _read_start(
    lines: Sequence[Line], timezone: str, anchor: float, zones: Callable[[str], Offsets]
) -> tuple[str, Moment, list[Line]]:
    """Return the zone and the local time of DTSTART, and the other lines."""
    starts = [line for line in lines if line.name == "DTSTART"]
    others = [line for line in lines if line.name != "DTSTART"]
    if len(starts) > 1:
        raise BadSchedule(f"bad rule: it has more than one DTSTART, {quoted(str(starts[1]))}")
    if not starts:
        instant = min(floor(anchor), LAST - 1)
        wall = instant + zones(timezone)(instant)[2]
        if resolve(wall, zones(timezone)) != instant:
            _check_counts(others, wall)
        return timezone, Moment(wall, False, False), others
    moment = parse_moment(starts[0].value, str(starts[0]))
    return "UTC" if moment.is_utc else starts[0].tzid or timezone, moment, others


def _check_counts(lines: Iterable[Line], wall: int) -> None:
    """Raise `BadSchedule` for a rule of elapsed time with COUNT: it would count from the first of two equal times."""
    for line in lines:
        rule = parse_rule(line) if line.name in ("RRULE", "EXRULE") else None
        if rule and rule.freq >= HOURLY and rule.count:
            why = f"it counts from {format_wall(wall)}, which is in a repeated hour: give another time as its DTSTART"
            raise BadSchedule(f"bad rule {quoted(rule.text)}: {why}")


def _add_times(line: Line) -> Line:
    """Return the line with a time of midnight for each date, as DTSTART has a time too."""
    if line.name not in ("RDATE", "EXDATE"):
        return line
    values = (value if "T" in value else f"{value}T000000" for value in line.value.split(","))
    return line._replace(value=",".join(values))


def _parse_dates(name: str, lines: Iterable[Line], zone: Offsets, zones: Callable[[str], Offsets]) -> set[int]:
    """Return the instants of all lines of that name."""
    return {at for line in lines if line.name == name for at in _parse_instants(line, zone, zones)}


def _parse_instants(line: Line, zone: Offsets, zones: Callable[[str], Offsets]) -> Iterator[int]:
    """Yield the instants of RDATE or EXDATE; of a period, its start."""
    zone = zones(line.tzid) if line.tzid else zone
    for moment in parse_moments(line):
        if moment.is_date:
            raise BadSchedule(f"bad rule: each date in {quoted(str(line))} needs a time, as its runs have one")
        yield moment.wall if moment.is_utc else resolve(moment.wall, zone)
