"""Parse durations (900, 15m, 1h30m, 1.5h, 2d), the names of IANA time zones, and JSON that may be damaged."""

import json
import re
from functools import lru_cache
from typing import Any, TypeGuard
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DEFAULT = "default"  # as the text of an option: removes the option from the job

_SECONDS = re.compile(r"\d{1,11}(\.\d{1,6})?", re.ASCII)
_DURATION = re.compile("".join(rf"(?:(\d+(?:\.\d{{1,6}})?){unit})?" for unit in "dhms"), re.ASCII | re.IGNORECASE)
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}", re.ASCII)


@lru_cache(4096)
def measure_duration(duration: str) -> float | None:
    """Return the seconds of a text such as 900, 15m or 1h30m; None for another text."""
    if _SECONDS.fullmatch(duration):
        return float(duration)
    found = _DURATION.fullmatch(duration)
    if not found or not duration:
        return None
    days, hours, minutes, rest = (float(number or 0) for number in found.groups())
    # Six decimals of a second, a minute, an hour or a day are whole microseconds.
    return round(days * 86400 + hours * 3600 + minutes * 60 + rest, 6)


def load_zone(name: str) -> ZoneInfo | None:
    """Return the data of the IANA zone of that name; None if there is none."""
    # The pattern refuses paths. The listed names depend on the machine, or their zones count leap seconds.
    if not _ZONE.fullmatch(name) or name.partition("/")[0] in ("localtime", "posixrules", "posix", "right"):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def load_json(text: str, otherwise: Any = None) -> Any:
    """Return the value of a JSON text; `otherwise` for a text that is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


def load_object(text: str) -> dict[str, Any] | None:
    """Return the object of a JSON text; None for any other text."""
    found = load_json(text)
    return found if isinstance(found, dict) else None


def parse_whole(text: str, most: int) -> int | None:
    """Return the number that a text of digits means; None for another text, and for a number above `most`."""
    digits = text.lstrip("0") or text[:1]
    is_one = text.isascii() and text.isdecimal() and len(digits) <= len(str(most))
    return int(digits) if is_one and int(digits) <= most else None


def refuse_constant(name: str) -> None:
    """Raise `ValueError` for a constant that Python accepts in JSON against the standard, such as ``NaN``."""
    raise ValueError(f"{name} is not a JSON number")


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a value is a number; a bool does not count as one."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole_number(value: object) -> TypeGuard[int]:
    """Tell whether a value is a whole number; a bool does not count as one."""
    return isinstance(value, int) and not isinstance(value, bool)
