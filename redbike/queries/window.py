"""A span of time around an instant, as people write it: ``03:05±20m``."""

import re
from dataclasses import dataclass

from redbike.errors import BadConfig, BadSchedule
from redbike.schedule.typed_times import EXAMPLES, SaidTime, read_time
from redbike.text.parsing import measure_duration
from redbike.text.printable import quote

WIDTH = "20m"  # before and after the instant, by default
LEAST, MOST = 1.0, 86400.0  # seconds before and after it
NOW = "now"

_SIGN = re.compile(r"±|\+-")
_DIGITS = re.compile(r"\d{3,4}", re.ASCII)  # a time without its colon, or an instant of 1970


@dataclass(frozen=True, slots=True)
class Window:
    """The time from `since` to `until` around `at`, in epoch seconds. It does not go beyond now."""

    at: float
    width: float  #: seconds before and after `at`
    since: float
    until: float
    is_exact: bool = True  #: the text alone defines the instant `at`


def parse_window(text: str, now: float, zone: str) -> Window:
    """Read ``<INSTANT>``, or ``<INSTANT>±<DURATION>``, also with ``+-``. Raise `BadConfig`.

    An instant is a time as `redbike.schedule.typed_times` reads it: ``03:05`` is the last 03:05 in `zone`.
    """
    parts = [part.strip() for part in _SIGN.split(text)]
    if len(parts) > 2 or not parts[0]:
        raise BadConfig(f"bad window {quote(text)}: an instant is needed, such as 03:05 or 03:05±20m")
    width = measure_duration(parts[1] if len(parts) == 2 else WIDTH)
    if width is None or not LEAST <= width <= MOST:
        raise BadConfig(f"bad window {quote(text)}: after the instant, 1s to 24h is needed, such as ±20m")
    at, is_exact = _find_instant(parts[0], now, zone)
    if at > now:
        raise BadConfig(f"bad window {quote(text)}: it is in the future")
    return Window(at, width, max(0.0, at - width), min(now, at + width), is_exact)


def _find_instant(text: str, now: float, zone: str) -> SaidTime:
    if _DIGITS.fullmatch(text):
        raise BadConfig(f"bad instant {quote(text)}: is {text.zfill(4)[:2]}:{text.zfill(4)[2:]} meant?")
    try:
        return read_time(text, now, zone, looks_back=True)
    except BadSchedule:
        raise BadConfig(f"bad instant {quote(text)}: a time is needed, such as now, {EXAMPLES}") from None
