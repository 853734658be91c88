"""Write local times and instants as RFC 5545 has them (3.3.5, 3.8.5)."""

from collections.abc import Iterable, Iterator
from datetime import date

from redbike.schedule.rrule.rule import Line
from redbike.schedule.zones import EPOCH_DAY, Offsets, resolve


def format_wall(wall: int) -> str:
    """Return a local time as a date and time: ``20260105T090000``."""
    day, second = divmod(wall, 86400)
    return f"{format_day(day)}T{second // 3600:02}{second // 60 % 60:02}{second % 60:02}"


def format_day(day: int) -> str:
    """Return a day (since 1970-01-01) as a date: ``20260105``."""
    return f"{date.fromordinal(day + EPOCH_DAY):%Y%m%d}".rjust(8, "0")


def write_dates(name: str, instants: Iterable[int], zone: Offsets) -> Iterator[str]:
    """Yield the lines of an EXDATE or RDATE with these instants, in order.

    They are local times in `zone`, the zone of the schedule; in UTC if that is ambiguous. Yield nothing without any.
    """
    local, others = [], []
    for instant in sorted(instants):
        wall = instant + zone(instant)[2]
        if resolve(wall, zone) == instant:
            local.append(format_wall(wall))
        else:
            others.append(f"{format_wall(instant)}Z")
    yield from (str(Line(name, "", ",".join(values))) for values in (local, others) if values)
