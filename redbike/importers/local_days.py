"""Find the local days that a series of all-day events means. Some calendars write a time instead of a day."""

import re

from redbike.schedule.rrule.rule import LAST, NO_END, Moment, format_day, parse_moment
from redbike.schedule.zones import Offsets

_UNTIL = re.compile(r"(?<=UNTIL=)\d{8}T\d{6}Z?", re.IGNORECASE)


def find_local_day(moment: Moment, zone: Offsets) -> int:
    """Return the day (since 1970-01-01) that a moment means. An instant in UTC means its local day in `zone`.

    But the first or the last second of a day in UTC means this day: such a calendar has its days in UTC.
    """
    is_instant = moment.is_utc and moment.wall % 86400 not in (0, 86399) and moment.wall < LAST
    return (moment.wall + (zone(moment.wall)[2] if is_instant else 0)) // 86400


def cut_until(rule: str, zone: Offsets) -> str:
    """Return `rule`, with the time in its UNTIL replaced by the day in `zone`. Raise `BadSchedule`."""
    return _UNTIL.sub(lambda found: _format_local_day(found[0], zone), rule)


def _format_local_day(text: str, zone: Offsets) -> str:
    return format_day(find_local_day(parse_moment(text, "UNTIL", last=NO_END), zone))
