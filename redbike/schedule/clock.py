"""Format instants, and the next runs of a schedule, for people: the local time, UTC, and the time from now."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import END_OF_TIME, format_utc, is_repeated

NOTHING = "–"  # in place of a missing value


class Clock(NamedTuple):
    """When and where somebody looks: Redis' clock in epoch seconds, and the IANA zone in which times are shown."""

    now: float
    zone: str

    def measure(self, moment: float | None) -> str:
        """Return the distance of an instant from now, in words."""
        return NOTHING if moment is None else format_distance(min(max(moment, 0.0), END_OF_TIME) - self.now)

    def format(self, moment: float, timespec: str = "seconds") -> str:
        """Return an instant in local time, with the distance from UTC if that day has this hour twice.

        `timespec` is that of `datetime.isoformat`.
        """
        # A window of a blackout may begin a fraction before its second.
        moment = min(max(round(moment, 5), 0.0), END_OF_TIME - 1)
        try:
            local = datetime.fromtimestamp(moment, ZoneInfo(self.zone))
        except (ValueError, OverflowError):
            # There the year 10000 has begun, which Python cannot write.
            return datetime.fromtimestamp(moment, UTC).isoformat(" ", timespec)
        return (local if is_repeated(local) else local.replace(tzinfo=None)).isoformat(" ", timespec)

    def format_minute(self, moment: float) -> str:
        """`format` without seconds."""
        return self.format(moment, "minutes")

    def name(self, moment: float) -> str:
        """Return an instant in local time, with the zone."""
        return f"{self.format(moment)} {self.zone}"


def list_due_of_job(schedule: Schedule, after: float, now: float, stored: float | None = None) -> Iterator[float]:
    """Yield the due times of a job with this schedule strictly after `after` (epoch seconds).

    `stored` is the current due time of the job; None if the job is not set yet. It comes first, as a retry or a pause
    may have changed it. A schedule that is due at once has only this due time.
    """
    due = None if schedule.is_immediate else schedule.next(after)
    if stored is not None and (after <= now or stored > after):
        due = stored
    while due is not None:
        yield due
        # As after a run: the first due time that is after the last one and after now.
        due = None if schedule.is_immediate else schedule.next(due if stored is None else max(due, now))


def list_runs(
    schedule: Schedule,
    after: float,
    now: float,
    count: int,
    zone: str,
    stored: float | None = None,
    remark: Callable[[float], str] = lambda due: "",
    find_shown: Callable[[float], float] = lambda due: due,
) -> Iterator[str]:
    """Yield up to `count` lines: one for each due time, see `list_due_of_job`. `zone` is an IANA zone.

    `remark` returns the text after a due time; `find_shown` returns the instant to show for it.
    """
    is_now = schedule.is_immediate and stored is None
    for due in islice(iter([now]) if is_now else list_due_of_job(schedule, after, now, stored), count):
        yield f"{_format_run(find_shown(due), now, zone)}{remark(due)}"


def _format_run(due: float, now: float, zone: str) -> str:
    moment = datetime.fromtimestamp(due, UTC)
    # At the end of the calendar, the local time of a zone may be in the year 10000.
    local = (
        moment if moment.year == 9999 and (moment.month, moment.day) == (12, 31) else moment.astimezone(ZoneInfo(zone))
    )
    return f"{local.isoformat()}  {format_utc(min(due, END_OF_TIME - 1))}  {format_distance(due - now)}"


def format_distance(seconds: float) -> str:
    """Format a number of seconds from now in its two largest units: ``in 2 d 3 h``, ``5 min 12 s ago``, ``now``."""
    if round(abs(seconds)) == 0:
        return "now"
    text = format_length(seconds)
    return f"in {text}" if seconds > 0 else f"{text} ago"


def format_length(seconds: float) -> str:
    """Format a number of whole seconds, whatever its sign, in its two largest units: ``2 d 3 h``, ``0 s``."""
    whole, parts = round(abs(seconds)), list[str]()
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, whole = divmod(whole, size)
        if number or parts:
            parts.append(f"{number} {name}" if number else "")
    return " ".join(filter(None, parts[:2])) or "0 s"


def format_took(seconds: float) -> str:
    """Return a duration in words: ``2 ms``, ``1.24 s``, ``5 min 12 s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 60 else format_length(seconds)
