"""A span of time around an instant, as people write it: ``03:05±20m``."""

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from redbike.errors import BadConfig, BadSchedule
from redbike.schedule.moments import parse_timestamp
from redbike.text.parsing import measure_duration
from redbike.text.printable import quote

WIDTH = "20m"  # before and after the instant, if nobody says
LEAST, MOST = 1.0, 86400.0  # seconds before and after it
NOW = "now"

_SIGN = re.compile(r"±|\+-")
_DIGITS = re.compile(r"\d{3,4}", re.ASCII)  # a time without its colon, or an instant of 1970
_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Window:
    """The time from `since` to `until` around `at`, in epoch seconds. It does not go beyond now."""

    at: float
    width: float  #: seconds before and after `at`
    since: float
    until: float


def parse_window(text: str, now: float, zone: str) -> Window:
    """Read ``<INSTANT>``, or ``<INSTANT>±<DURATION>``, also with ``+-``. Raise `BadConfig`.

    An instant is a timestamp, ``now``, or a time of day such as 03:05: then it is the last 03:05 in `zone`.
    """
    parts = [part.strip() for part in _SIGN.split(text)]
    if len(parts) > 2 or not parts[0]:
        raise BadConfig(f"bad window {quote(text)}: an instant is needed, such as 03:05 or 03:05±20m")
    width = measure_duration(parts[1] if len(parts) == 2 else WIDTH)
    if width is None or not LEAST <= width <= MOST:
        raise BadConfig(f"bad window {quote(text)}: behind the instant, 1s to 24h is needed, such as ±20m")
    at = _find_instant(parts[0], now, zone)
    if at > now:
        raise BadConfig(f"bad window {quote(text)}: this instant is to come")
    return Window(at, width, max(0.0, at - width), min(now, at + width))


def _find_instant(text: str, now: float, zone: str) -> float:
    if text.lower() == NOW:
        return now
    if _DIGITS.fullmatch(text):
        raise BadConfig(f"bad instant {quote(text)}: is {text.zfill(4)[:2]}:{text.zfill(4)[2:]} meant?")
    if _TIME.fullmatch(text):
        return _find_last(text, now, zone)
    try:
        return parse_timestamp(text, zone)
    except BadSchedule:
        raise BadConfig(
            f"bad instant {quote(text)}: now, a time such as 03:05, epoch seconds or ISO 8601 is needed"
        ) from None


def _find_last(text: str, now: float, zone: str) -> float:
    """Return when it was last this time of day. A day on which clocks change may have it twice, or not at all."""
    try:
        wanted = time.fromisoformat(text.zfill(5) if text.count(":") == 1 else text.zfill(8))
    except ValueError:
        raise BadConfig(f"bad instant {quote(text)}: no day has this time") from None
    place = ZoneInfo(zone)
    today = datetime.fromtimestamp(now, place).date()
    for days in range(3):
        for fold in (1, 0):
            moment = datetime.combine(today - timedelta(days), wanted.replace(fold=fold), place).timestamp()
            is_there = datetime.fromtimestamp(moment, place).time() == wanted
            if is_there and moment <= now:
                return moment
    return now - 86400  # no zone changes its clocks on two days in a row
