"""Parse and format instants and durations, as texts and as Python objects. Limit the size of a text."""

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo

from redbike.errors import BadConfig, BadSchedule
from redbike.schedule.zones import load_zone_info
from redbike.text.parsing import is_number, measure_duration
from redbike.text.printable import quote

InstantLike = float | datetime
"""An instant: epoch seconds, or an aware datetime."""
DurationLike = str | float | timedelta
"""A duration: a text such as ``2h``, seconds, or a timedelta."""

ZoneLike = str | tzinfo
"""A time zone: the IANA name, or a tzinfo that has one, such as a ZoneInfo."""

MAX_TEXT = 8192  # bytes of UTF-8 of a schedule
LEAST_DURATION = 0.001  # seconds
END_OF_TIME = 253402300800.0  # the year 10000
# The place on the timeline of a job that is due only when others have ended: after all jobs with a due time.
AWAITED = 999_999_999_999.0
MONDAY_FIRST = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

EPOCH = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
_BEYOND = re.compile(r"-?\d{13,}(\.\d+)?", re.ASCII)  # epoch seconds, but of no year with four digits


def check_size(text: str) -> str:
    """Return `text` if it is UTF-8 of at most `MAX_TEXT` bytes, else raise `BadSchedule`."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadSchedule(f"bad schedule {text!r:.80}: not UTF-8") from None
    if size > MAX_TEXT:
        raise BadSchedule(f"bad schedule {text[:40]!r}…: it has {size} bytes, {MAX_TEXT} are allowed")
    return text


def is_same_text(text: str, stored: str, span: tuple[int, int] | None) -> bool:
    """Tell whether two texts are the same except an anchor. `span` is the `Schedule.anchor_span` of `text`."""
    if span is None:
        return stored == text
    head, end = span[0], len(stored) - span[1]
    is_alike = stored[:head] == text[:head] and stored[end:] == text[len(text) - span[1] :]
    # If there is a further line in between, it is no anchor, but a rule or dates.
    return head < end and is_alike and "\n" not in stored[:end]


def parse_timestamp(text: str, timezone: str = "UTC") -> float:
    """Return the epoch seconds of a TIMESTAMP.

    `text` is epoch seconds or ISO 8601. An ISO 8601 text without a zone is in `timezone`. Raise `BadSchedule`.
    """
    if not isinstance(text, str):
        raise BadSchedule(f"bad timestamp {text!r:.80}: it must be a text")
    if EPOCH.fullmatch(text.removeprefix("-")):
        instant = float(text) + 0.0  # without the sign of -0
    elif _BEYOND.fullmatch(text):
        instant = math.inf
    else:
        try:
            moment = datetime.fromisoformat(text)
            instant = (moment if moment.tzinfo else moment.replace(tzinfo=load_zone_info(timezone))).timestamp()
        except (ValueError, OverflowError) as error:
            if isinstance(error, BadSchedule):
                raise
            example = "epoch seconds or ISO 8601 is needed, such as 2030-01-31T22:45"
            raise BadSchedule(f"bad timestamp {text!r:.80}: {example}") from None
    if not 0 <= instant < END_OF_TIME:
        raise BadSchedule(f"bad timestamp {text!r:.80}: it is before 1970 or after 9999")
    return instant


def parse_duration(duration: str) -> float:
    """Return the seconds of a text such as 900, 15m or 1h30m. Raise `BadSchedule`."""
    seconds = measure_duration(duration)
    if seconds is None:
        raise BadSchedule(f"bad duration {duration!r:.80}: 900, 15m, 1h30m, 1.5h or 2d is needed")
    if not LEAST_DURATION <= seconds <= 1e10:
        raise BadSchedule(f"bad duration {duration!r:.80}: 0.001 s to 1e10 s are allowed")
    return seconds


def read_duration(name: str, value: DurationLike) -> float:
    """Return the seconds of the argument `name`; 0 is allowed.

    Raise `TypeError` for anything but a number, a text and a timedelta, and `BadConfig` for a text that is no duration,
    and for NaN.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if is_number(value):
        if value != value:
            raise BadConfig(f"bad {name} {value}: seconds are needed")
        return value
    if not isinstance(value, str):
        raise TypeError(f"bad {name} {value!r:.80}: seconds, a text such as 15m, or a timedelta is needed")
    seconds = measure_duration(value)
    if seconds is None:
        raise BadConfig(f"bad {name} {quote(value)}: 900, 15m, 1h30m, 1.5h or 2d is needed")
    return seconds


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
    elif not is_number(value):
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
    """Return the IANA name of a tzinfo of the standard library, dateutil or pytz; None if it has none."""
    for attribute in ("key", "zone"):
        name = getattr(zone, attribute, None)
        if isinstance(name, str):
            return name
    return "UTC" if zone.tzname(None) == "UTC" and zone.utcoffset(None) == timedelta(0) else None


def format_moment(instant: float, timezone: str) -> str:
    """Return an instant (epoch seconds) as a local time: ``Monday, 4 May 2026 at 09:00, Europe/Berlin time``.

    On the last day of the year 9999 it is in UTC: other zones may have the year 10000 then.
    """
    if timezone == "UTC" or instant > END_OF_TIME - 86400:
        return f"{format_instant(instant, 'UTC')} UTC"
    return f"{format_instant(instant, timezone)}, {timezone} time"


def format_instant(instant: float, timezone: str) -> str:
    """Return an instant as a local time, with the distance from UTC if that day has this hour twice.

    It is in UTC if it is in the year 10000 in that zone.
    """
    try:
        local = datetime.fromtimestamp(math.floor(instant), load_zone_info(timezone))
    except (ValueError, OverflowError):
        # In this zone, the year 10000 has begun, which Python cannot write.
        return f"{format_local(datetime.fromtimestamp(math.floor(instant), UTC))} UTC"
    return f"{format_local(local)} (UTC{local.isoformat()[19:25]})" if is_repeated(local) else format_local(local)


def format_utc(instant: float) -> str:
    """Return an instant (epoch seconds) in UTC, by ISO 8601: ``2026-05-04T09:00:00Z``."""
    return datetime.fromtimestamp(instant, UTC).isoformat().replace("+00:00", "Z")


def is_repeated(local: datetime) -> bool:
    """Tell whether a local time comes twice, as clocks are set back."""
    return local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()


def format_local(moment: datetime) -> str:
    """Return a local time: ``Monday, 4 May 2026 at 09:00``."""
    return f"{format_day(moment)} at {format_time(moment.hour, moment.minute, moment.second)}"


def format_day(moment: datetime) -> str:
    """Return the day of a local time: ``Monday, 4 May 2026``."""
    return f"{MONDAY_FIRST[moment.weekday()]}, {moment.day} {MONTHS[moment.month - 1]} {moment.year}"


def format_time(hour: int, minute: int, second: int) -> str:
    """Return a time of day: ``09:00``, ``09:00:05``."""
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def make_local(wall: float) -> datetime:
    """Return the datetime of a local time, in seconds since 1970-01-01T00:00 on the wall clock."""
    return datetime(1970, 1, 1) + timedelta(seconds=wall)


def format_duration(seconds: float) -> str:
    """Return a number of seconds in words: 86400 is ``day``, 5400 is ``1 hour and 30 minutes``."""
    words, rest = [], seconds
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        number, rest = divmod(rest, size)
        words += [f"{number:g} {unit}{'s' * (number != 1)}"] if number else []
    words += [f"{rest:g} second{'s' * (rest != 1)}"] if rest else []
    return words[0][2:] if len(words) == 1 and words[0].startswith("1 ") else join_words(words)


def join_words(words: Iterable[str]) -> str:
    """Return a list in words: ``1, 2 and 3``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
