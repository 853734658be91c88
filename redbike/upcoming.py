"""The coming instants of a schedule, as lines that people read: local with its offset, UTC, and how long from now."""

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from redbike.schedule import Schedule


def upcoming(schedule: Schedule, after: float, now: float, count: int, zone: str) -> Iterator[str]:
    """At most `count` lines, for the due times strictly after `after` (epoch seconds), local in the IANA `zone`."""
    due: float | None = now if schedule.immediate else schedule.next(after)
    for _ in range(1 if schedule.immediate else count):
        if due is None:
            return
        yield _line(due, now, zone)
        due = schedule.next(due)


def _line(due: float, now: float, zone: str) -> str:
    moment = datetime.fromtimestamp(due, UTC)
    # At the very end of the calendar a zone may be in the year 10000 already.
    local = (
        moment if moment.year == 9999 and (moment.month, moment.day) == (12, 31) else moment.astimezone(ZoneInfo(zone))
    )
    instant = moment.isoformat().replace("+00:00", "Z")
    return f"{local.isoformat()}  {instant}  {distance(due - now)}"


def distance(seconds: float) -> str:
    """How far away that is, in the two largest units: ``in 2 d 3 h``, ``5 min 12 s ago``, ``now``."""
    whole = round(abs(seconds))
    if whole == 0:
        return "now"
    parts: list[str] = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, whole = divmod(whole, size)
        if number or parts:
            parts.append(f"{number} {name}" if number else "")
    shown = " ".join(filter(None, parts[:2]))
    return f"in {shown}" if seconds > 0 else f"{shown} ago"
