"""Find the next instant of a cron expression with EXDATE and RDATE lines (RFC 5545, 3.8.5.1 and 3.8.5.2).

1. An EXDATE that is a date closes a day in the zone of the expression: its local times on that day have no run.
2. An EXDATE with a time cancels the run at that instant. A local time in a gap cancels the run that the expression has
   for this local time, if there is one; see `Cron.resolve`.
3. An RDATE adds a run, at an instant. It needs a time.

EXDATE prevails over RDATE, as in iCal. The dates are sorted lists or sets, so their number hardly matters.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from math import inf

from redbike.errors import BadSchedule, quoted
from redbike.schedule.cron import Cron
from redbike.schedule.rrule.recurrence import MAX_ZONES
from redbike.schedule.rrule.rule import FIRST, LAST, Line, Moment, parse_line, parse_moments
from redbike.schedule.zones import Offsets, resolve


class AmendedCron:
    """A cron expression in the zone `timezone`, amended by the EXDATE and RDATE lines `lines`.

    `zones` finds a zone by name. The values of ``H`` are hashed from `jobid`. `lines` are the complete ones. Raise
    `BadSchedule`, which quotes the invalid part.
    """

    def __init__(
        self, expression: str, lines: Sequence[str], timezone: str, jobid: str, zones: Callable[[str], Offsets]
    ) -> None:
        self.lines = [_parse(line) for line in lines]
        if len({line.tzid for line in self.lines if line.tzid}) > MAX_ZONES:
            raise BadSchedule(f"bad cron {quoted(expression)}: its dates have more than {MAX_ZONES} time zones")
        self._timezone = timezone
        self._zones = zones
        exdates = [*self._list_moments("EXDATE")]
        closed = frozenset(moment.wall // 86400 for _, moment in exdates if moment.is_date)
        self._cron = Cron(expression, zones(timezone), jobid, closed)
        self.fields = self._cron.fields
        self.closed = sorted(closed)  # days since 1970-01-01
        times = [(tzid, moment) for tzid, moment in exdates if not moment.is_date]
        self._cancelled = frozenset(run for time in times if (run := self._find_run(*time)) is not None)
        instants = {self._resolve(*time) for time in times}
        self.cancelled = sorted(self._to_wall(instant) for instant in self._cancelled)  # local times
        added = {self._resolve(*time) for time in self._list_moments("RDATE")} - instants
        self._added = sorted(instant for instant in added if self._to_wall(instant) // 86400 not in closed)
        self.added = [self._to_wall(instant) for instant in self._added]  # local times
        if self.next(FIRST) is None:
            raise BadSchedule(f"bad cron {quoted(expression)}: its EXDATE leaves nothing, it can never run")

    def next(self, after: float) -> float | None:
        """Return the first instant strictly after `after`, both in epoch seconds; None when there is none."""
        if not after < LAST:
            return None
        due = self._cron.next(after)
        while due in self._cancelled and due is not None:
            due = self._cron.next(due)
        place = bisect_right(self._added, after)
        extra = float(self._added[place]) if place < len(self._added) else inf
        return due if due is not None and due <= extra else extra if extra < inf else None

    def count(self, after: float, until: float, limit: int) -> int | None:
        """Count the instants in (after, until], up to `limit`; None if dates with a time change single instants."""
        return None if self._cancelled or self._added else self._cron.count(after, until, limit)

    def _list_moments(self, name: str) -> Iterator[tuple[str, Moment]]:
        """Yield (zone, moment) for each value of the lines of that name."""
        for line in self.lines:
            if line.name == name:
                yield from ((line.tzid or self._timezone, moment) for moment in parse_moments(line))

    def _find_run(self, timezone: str, moment: Moment) -> int | None:
        """Return the instant of the run of the expression that an EXDATE may cancel."""
        if moment.is_utc or timezone != self._timezone:
            return self._resolve(timezone, moment)
        return self._cron.resolve(moment.wall)

    def _resolve(self, timezone: str, moment: Moment) -> int:
        return moment.wall if moment.is_utc else resolve(moment.wall, self._zones(timezone))

    def _to_wall(self, instant: int) -> int:
        return instant + self._zones(self._timezone)(instant)[2]


def _parse(text: str) -> Line:
    """Return an EXDATE or RDATE line. Raise `BadSchedule`."""
    if text[:6].upper() != "EXDATE" and text[:5].upper() != "RDATE":
        raise BadSchedule(f"bad schedule: {quoted(text)} is not an EXDATE or RDATE, which may follow a cron expression")
    line = parse_line(text)
    dates = [moment.is_date for moment in parse_moments(line)]
    if line.name == "RDATE" and any(dates):
        raise BadSchedule(f"bad schedule: each date in {quoted(text)} needs a time of day")
    if line.tzid and any(dates):
        raise BadSchedule(f"bad schedule: a date in {quoted(text)} must be in the zone of the cron expression")
    return line
