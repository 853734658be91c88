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

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from math import floor

from redbike.errors import BadSchedule, quoted
from redbike.schedule.rrule.daily import Walls
from redbike.schedule.rrule.rule import (
    FIRST,
    HOURLY,
    LAST,
    Line,
    Moment,
    Rule,
    parse_line,
    parse_moment,
    parse_rule,
    unfolded,
)
from redbike.schedule.rrule.subdaily import Elapsed
from redbike.schedule.zones import EPOCH_DAY, Offsets, resolve

MAX_RULES = 16  # RRULE and EXRULE lines of one schedule
_EXCLUDED = 3000  # occurrences cancelled in a row, for a schedule of one rule: about 10 ms
_SPARSE = 20 * 86400  # seconds after which the next one costs more, as years and offsets are new to it


class Recurrence:
    """The recurrence set of `text`: its rules and dates, less its exceptions.

    `timezone` is the zone of floating times, `anchor` the instant (epoch seconds) that a text without DTSTART starts
    at, `zones` finds a zone by name. `text` becomes the complete form, whose first line is DTSTART. Raises
    `BadSchedule`, quoting what is bad. A set whose exceptions cancel thousands of occurrences in a row has run out.
    """

    def __init__(self, text: str, timezone: str, anchor: float, zones: Callable[[str], Offsets]) -> None:
        lines = [parse_line(line) for line in unfolded(text)]
        self.timezone, self.start, others = _start(lines, timezone, anchor, zones)
        self.zone = zones(self.timezone)
        others = [_timed(line) for line in others] if self.start.is_date else others
        self.text = "\n".join(map(str, (_dtstart(self.timezone, self.start.wall), *others)))
        if len({line.tzid for line in others}) > MAX_RULES:
            raise BadSchedule(f"bad rule {quoted(text)}: it has more than {MAX_RULES} time zones")
        self.rules = [parse_rule(line) for line in others if line.name == "RRULE"]
        self.exrules = [parse_rule(line) for line in others if line.name == "EXRULE"]
        self.dates = sorted({at for line in others if line.name == "RDATE" for at in _instants(line, self.zone, zones)})
        self.exdates = {at for line in others if line.name == "EXDATE" for at in _instants(line, self.zone, zones)}
        share = len(self.rules) + len(self.exrules)
        if not self.rules and not self.dates:
            raise BadSchedule(f"bad rule {quoted(text)}: it has neither RRULE nor RDATE")
        if share > MAX_RULES:
            raise BadSchedule(f"bad rule {quoted(text)}: it has {share} rules, {MAX_RULES} are allowed")
        self._rules = [_evaluator(rule, self.start.wall, self.zone, share) for rule in self.rules]
        self._exrules = [_evaluator(rule, self.start.wall, self.zone, share) for rule in self.exrules]
        self._only = self._rules[0] if len(self._rules) == 1 and not self.dates else None
        self._excepting = bool(self._exrules or self.exdates)
        # An exception that cancels whatever it passes is left in one jump, not occurrence by occurrence.
        self._covering = [rule for rule in self._exrules if not self.dates and all(map(rule.covers, self._rules))]
        self._budget = _EXCLUDED // max(1, share)
        endless = any(rule.count is None and rule.until is None for rule in self.rules)
        if endless and self.next(FIRST) is None:
            raise BadSchedule(f"bad rule {quoted(self.text)}: its exceptions leave nothing")

    def next(self, after: float) -> float | None:
        """The first instant strictly after `after`, both in epoch seconds; None when there is none."""
        if not after < LAST:
            return None
        due = self._candidate(floor(max(after, FIRST)))
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


def _evaluator(rule: Rule, start: int, zone: Offsets, share: int) -> Walls | Elapsed:
    return Elapsed(rule, start, zone, share) if rule.freq >= HOURLY else Walls(rule, start, zone, share)


def _start(
    lines: Sequence[Line], timezone: str, anchor: float, zones: Callable[[str], Offsets]
) -> tuple[str, Moment, list[Line]]:
    """The zone and local time of DTSTART, and the other lines."""
    starts = [line for line in lines if line.name == "DTSTART"]
    others = [line for line in lines if line.name != "DTSTART"]
    if len(starts) > 1:
        raise BadSchedule(f"bad rule: it has more than one DTSTART, {quoted(str(starts[1]))}")
    if not starts:
        instant = min(floor(anchor), LAST - 1)
        return timezone, Moment(instant + zones(timezone)(instant)[2], False, False), others
    moment = parse_moment(starts[0].value, str(starts[0]))
    return "UTC" if moment.is_utc else starts[0].tzid or timezone, moment, others


def _dtstart(timezone: str, wall: int) -> Line:
    day, second = divmod(wall, 86400)
    text = f"{date.fromordinal(day + EPOCH_DAY):%Y%m%d}T{second // 3600:02}{second // 60 % 60:02}{second % 60:02}"
    text = text.rjust(15, "0")
    return Line("DTSTART", "", f"{text}Z") if timezone == "UTC" else Line("DTSTART", timezone, text)


def _timed(line: Line) -> Line:
    """The line with its dates as midnights, as DTSTART is stored."""
    if line.name not in ("RDATE", "EXDATE"):
        return line
    values = (value if "T" in value else f"{value}T000000" for value in line.value.split(","))
    return line._replace(value=",".join(values))


def _instants(line: Line, zone: Offsets, zones: Callable[[str], Offsets]) -> Iterator[int]:
    """The instants of RDATE or EXDATE; of a period, its start."""
    zone = zones(line.tzid) if line.tzid else zone
    for value in line.value.split(","):
        moment = parse_moment(value.partition("/")[0], str(line))
        if moment.is_date:
            raise BadSchedule(f"bad rule: {quoted(value)} in {quoted(str(line))} needs a time, as DTSTART has one")
        yield moment.wall if moment.is_utc else resolve(moment.wall, zone)
