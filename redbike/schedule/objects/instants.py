"""Read instants and time zones as Python has them."""

from datetime import datetime, timedelta, tzinfo

from redbike.errors import BadConfig
from redbike.schedule.moments import END_OF_TIME
from redbike.text.printable import quote

InstantLike = float | datetime
"""An instant: epoch seconds, or an aware datetime."""

ZoneLike = str | tzinfo
"""A time zone: the IANA name, or a tzinfo that has one, such as a ZoneInfo."""


def read_instant(name: str, value: InstantLike | None) -> float | None:
    """Return the epoch seconds of the argument `name`; None for None.

    Raise `TypeError` for anything but a number and an aware datetime, and `BadConfig` for an instant before 1970 or
    after 9999, such as milliseconds, and for NaN.
    """
    if value is None:
        return None
    if isinstance(value, datetime):
        check_aware(value)
        seconds = value.timestamp()
    elif isinstance(value, bool) or not isinstance(value, int | float):
        kind = type(value).__name__
        raise TypeError(f"bad {name} {value!r:.80}, which is a {kind}: epoch seconds or an aware datetime is needed")
    else:
        seconds = value
    if not 0 <= seconds < END_OF_TIME:
        what = "epoch seconds or an aware datetime is needed, from 1970 to 9999"
        raise BadConfig(f"bad {name} {quote(value)}: {what}")
    return seconds


def read_zone(tz: ZoneLike | None) -> str | None:
    """Return the name of a time zone; None for None.

    Raise `TypeError` for anything but a text and a tzinfo, and `BadConfig` for a tzinfo without an IANA name.
    """
    if tz is None:
        return None
    if isinstance(tz, str):
        return str.__str__(tz)
    if not isinstance(tz, tzinfo):
        kind = type(tz).__name__
        raise TypeError(f"bad timezone {tz!r:.80}, which is a {kind}: a name or a ZoneInfo is needed")
    name = find_zone_name(tz)
    if name is None:
        raise BadConfig(f"bad timezone {tz!r:.80}: it has no IANA name, such as 'Europe/Berlin'")
    return name


def check_aware(moment: datetime) -> None:
    """Raise `TypeError` for a datetime without a time zone."""
    if moment.utcoffset() is None:
        raise TypeError(f"the datetime {moment!r:.80} is naive: give it a time zone, as datetime.now(UTC) has one")


def find_zone_name(zone: tzinfo) -> str | None:
    """Return the IANA name of a tzinfo, of the standard library, of dateutil or of pytz; None if it has none."""
    for attribute in ("key", "zone"):
        name = getattr(zone, attribute, None)
        if isinstance(name, str):
            return name
    return "UTC" if zone.tzname(None) == "UTC" and zone.utcoffset(None) == timedelta(0) else None
