"""A calendar of what a schedule runs: how often on each of the next days, in the zone of the schedule.

What it costs is limited: a day with very many runs is not counted to its end, and a schedule that is slow to compute
has days that are not counted at all.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import END_OF_TIME

WEEKS = 5
MOST = 100  # runs of a day that are counted one by one
MOST_FAST = 100_000_000  # of a schedule that counts without looking at each
COUNT_TIMEOUT = 0.03  # seconds after which no further day is counted
CLOSE = 0.001  # seconds within which two instants are the same


@dataclass(frozen=True, slots=True)
class Day:
    """A day of the calendar."""

    date: date
    runs: int | None  #: None: not counted
    is_past: bool = False
    is_today: bool = False
    is_more: bool = False  #: there are more runs than were counted


def make_calendar(
    schedule: Schedule,
    zone: str,
    now: float,
    due: float | None = None,
    weeks: int = WEEKS,
    patience: float = COUNT_TIMEOUT,
) -> list[list[Day]]:
    """Return the days of the next weeks, each week from Monday on; the first one is that of today.

    `zone` is an IANA zone. `due` is when the job runs next, if that is no occurrence: after a failure it is tried again
    at another time. All is counted that is due after `now` (epoch seconds).
    """
    until, local = time.monotonic() + patience, ZoneInfo(zone)
    today = datetime.fromtimestamp(now, local).date()
    monday = today - timedelta(days=today.weekday())
    extra = None if due is None or due <= now or _is_occurrence(schedule, due) else due
    days = (monday + timedelta(days=number) for number in range(7 * weeks))
    found = [_count_day(schedule, day, local, now, extra, day - today, time.monotonic() < until) for day in days]
    return [found[first : first + 7] for first in range(0, len(found), 7)]


def list_coming(schedule: Schedule, now: float, due: float | None, number: int) -> Iterator[float]:
    """Yield the next instants, in epoch seconds, at which a job runs that is `due` first, at most so many."""
    moment = schedule.next(now) if due is None else due
    for _ in range(number):
        if moment is None:
            return
        yield moment
        moment = schedule.next(max(moment, now))


def _count_day(
    schedule: Schedule, day: date, zone: ZoneInfo, now: float, extra: float | None, distance: timedelta, in_time: bool
) -> Day:
    if distance.days < 0:
        return Day(day, 0, is_past=True)
    start, end = _find_midnight(day, zone), _find_midnight(day + timedelta(days=1), zone)
    if not in_time or end >= END_OF_TIME:
        return Day(day, None, is_today=not distance)
    most = MOST if schedule.period is None else MOST_FAST
    # Midnight itself belongs to this day, and the next one to the next day.
    runs = schedule.count(max(now, math.nextafter(start, 0)), math.nextafter(end, 0), most)
    runs += extra is not None and start <= extra < end
    return Day(day, min(runs, most), is_today=not distance, is_more=runs >= most)


def _find_midnight(day: date, zone: ZoneInfo) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()


def _is_occurrence(schedule: Schedule, due: float) -> bool:
    found = schedule.next(max(0.0, due - CLOSE))
    return found is not None and abs(found - due) <= CLOSE
