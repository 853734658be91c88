"""Limits of queues: how many jobs run at once, and how many are taken in a time, across all workers."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

from redbike.errors import BadConfig
from redbike.text.parsing import is_whole_number
from redbike.text.printable import quote

MOST_AT_ONCE = 1_000_000
MOST_RATE = 1_000_000
NO_LIMIT = "none"  # removes a limit
UNITS = {"s": 1, "m": 60, "h": 3600}  # seconds

_RATE = re.compile(r"(\d{1,7})/([smh])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Limit:
    """The limits of a queue; None means no limit. Raise `BadConfig` for invalid values.

    `at_once` is how many runs may be in flight. `rate` is how many jobs may be taken in a time: ``"100/m"`` is 100 a
    minute; ``s`` is a second, ``h`` an hour. At most 100 jobs are taken in one burst, and then one each 0.6 s.
    """

    at_once: int | None = None
    rate: str | None = None

    def __post_init__(self) -> None:
        for name, read in LIMITS.items():
            read(getattr(self, name))


class Limits(TypedDict, total=False):
    """Changes of the limits of a queue, by name. None removes a limit; a limit that is missing stays as it is."""

    at_once: int | None
    rate: str | None


def check_at_once(value: Any) -> int | None:
    """Return `value` if it is a number of runs, or None. Raise `BadConfig`."""
    if value is None:
        return None
    if not is_whole_number(value) or not 1 <= value <= MOST_AT_ONCE:
        raise BadConfig(f"bad at-once {quote(value)}: a whole number from 1 to {MOST_AT_ONCE} is needed")
    return value


def parse_rate(text: Any) -> tuple[int, int] | None:
    """Return the number of jobs and the seconds of a rate such as ``100/m``; None for None. Raise `BadConfig`."""
    if text is None:
        return None
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None or not 1 <= int(found[1]) <= MOST_RATE:
        raise BadConfig(f"bad rate {text!r:.80}: a number from 1 to {MOST_RATE} and a unit are needed, such as 100/m")
    return int(found[1]), UNITS[found[2]]


# The function that reads each limit. A test checks that `Limit` and `Limits` have the same names.
LIMITS: dict[str, Callable[[Any], Any]] = {"at_once": check_at_once, "rate": parse_rate}


def read_limit(name: str, text: str) -> Any:
    """Return the value in `text` of the limit `name` of `LIMITS`; None for `NO_LIMIT`. Raise `BadConfig`."""
    if text.lower() == NO_LIMIT:
        return None
    if name == "rate":
        parse_rate(text)
        return text
    if not (text.isascii() and text.isdecimal()):
        raise BadConfig(f"bad at-once {text!r:.40}: a whole number, or {NO_LIMIT}, is needed")
    return check_at_once(int(text[:12]))


def format_rate(count: float, seconds: float) -> str:
    """Return the text of a rate: ``100/m`` for 100 in 60 seconds."""
    unit = next((unit for unit, size in UNITS.items() if size == seconds), None)
    return f"{count:g}/{unit}" if unit else f"{count:g}/{seconds:g}s"
