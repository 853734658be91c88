"""Find the local days that the instants of a series of days mean, as some calendars write a time for a day."""

import re

from redbike.schedule.rrule.rule import LAST, NO_END, Moment, format_day, parse_moment
from redbike.schedule.zones import Offsets

_UNTIL = re.compile(r"(?<=UNTIL=)\d{8}T\d{6}Z?", re.IGNORECASE)


def find_local_day(moment: Moment, zone: Offsets) -> int:
    """Return the day that a moment means: of an instant in UTC, the day that it has in `zone`.

    The first and the last second of a day in UTC mean that day. Their calendar takes days as those of UTC.
    """
    is_instant = moment.is_utc and moment.wall % 86400 not in (0, 86399) and moment.wall < LAST
    return (moment.wall + (zone(moment.wall)[2] if is_instant else 0)) // 86400


def cut_until(rule: str, zone: Offsets) -> str:
    """Return a rule whose UNTIL is a day in `zone`. Raise `BadSchedule`."""
    return _UNTIL.sub(lambda found: _format_local_day(found[0], zone), rule)


def _format_local_day(text: str, zone: Offsets) -> str:
    return format_day(find_local_day(parse_moment(text, "UNTIL", last=NO_END), zone))
