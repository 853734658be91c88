"""Read the pauses of jobs in a CSV file. A cell is a JSON object, as ``redbike tell`` prints it."""

import json
import math
from typing import Any, NamedTuple

from redbike.errors import BadConfig
from redbike.schedule.moments import END_OF_TIME
from redbike.text.printable import quote

MOST = 500  # characters of who has paused a job, and of the reason


class WantedPause(NamedTuple):
    """The pause that a job is to have, unless it is paused already. Times are epoch seconds."""

    since: float | None = None  # None: from now on
    until: float | None = None  # when it ends by itself; None: never
    by: str | None = None  # None: whoever loads the file
    reason: str | None = None


def read_pause(cell: str) -> WantedPause:
    """Return what the cell of a paused job says. Raise `BadConfig`."""
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found.keys() <= {*WantedPause._fields}:
        names = ", ".join(WantedPause._fields)
        raise BadConfig(f"bad paused {quote(cell)}: a JSON object is needed, which may have {names}")
    for name, value in found.items():
        if value is not None and not (_is_line(value) if name in ("by", "reason") else _is_instant(value)):
            what = f"a line of up to {MOST} characters" if name in ("by", "reason") else "epoch seconds"
            raise BadConfig(f"bad paused {quote(cell)}: {name!r} is {what}")
    return WantedPause(**found)


def _is_instant(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_number and 0 <= value < END_OF_TIME


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= MOST
