"""Parse what schedules and options have in common: instants and durations. Limit the size of a text."""

import math
import re
from datetime import datetime

from redbike.errors import BadSchedule
from redbike.schedule.zones import load_zone_info
from redbike.text.durations import measure_duration

MAX_TEXT = 8192  # bytes of UTF-8 of a schedule
END_OF_TIME = 253402300800.0  # the year 10000

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


def parse_timestamp(text: str, timezone: str = "UTC") -> float:
    """Return the epoch seconds of a TIMESTAMP.

    `text` is epoch seconds or ISO 8601. The latter is in `timezone` if it has no zone. Raise `BadSchedule`.
    """
    if not isinstance(text, str):
        raise BadSchedule(f"bad timestamp {text!r:.80}: it must be a text")
    if EPOCH.fullmatch(text.removeprefix("-")):
        instant = float(text) + 0.0  # without the sign that a zero may have
    elif _BEYOND.fullmatch(text):
        instant = math.inf
    else:
        try:
            moment = datetime.fromisoformat(text)
            instant = (moment if moment.tzinfo else moment.replace(tzinfo=load_zone_info(timezone))).timestamp()
        except (ValueError, OverflowError) as error:
            if isinstance(error, BadSchedule):
                raise
            raise BadSchedule(f"bad timestamp {text!r:.80}: epoch seconds or ISO 8601 is needed") from None
    if not 0 <= instant < END_OF_TIME:
        raise BadSchedule(f"bad timestamp {text!r:.80}: it is before 1970 or after 9999")
    return instant


def parse_duration(duration: str) -> float:
    """Return the seconds of a text such as 900, 15m or 1h30m. Raise `BadSchedule`."""
    seconds = measure_duration(duration)
    if seconds is None:
        raise BadSchedule(f"bad duration {duration!r:.80}: 900, 15m, 1h30m, 1.5h or 2d is needed")
    if not 0.001 <= seconds <= 1e10:
        raise BadSchedule(f"bad duration {duration!r:.80}: 0.001 s to 1e10 s are allowed")
    return seconds
