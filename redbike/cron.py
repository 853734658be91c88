"""Cron: five fields, or six of which the last is seconds, in a zone; over croniter."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

from redbike.errors import BadSchedule

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_START = datetime(2000, 1, 1, tzinfo=UTC).timestamp()


class Cron:
    """An expression in `zone`; `jobid` is what ``H`` is hashed from. Raises `BadSchedule`."""

    def __init__(self, expression: str, zone: str, jobid: str) -> None:
        self.expression = expression
        fields = ALIASES.get(expression.lower(), expression).split()
        if len(fields) not in (5, 6):
            raise BadSchedule(f"bad cron {expression!r}: 5 or 6 fields are needed, it has {len(fields)}")
        if any(field.lower().startswith("r") for field in fields):
            raise BadSchedule(f"bad cron {expression!r}: R is not the same every time")
        self._fields = " ".join(fields)
        self._zone = ZoneInfo(zone)
        self._hash = jobid if _hashed(fields) else None
        # crontab(5): either day field matches, but both must when one of them begins with a star.
        self._either_day = not (fields[2].startswith("*") or fields[4].startswith("*"))
        try:
            self.next(_START)
        except (CroniterError, ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
            raise BadSchedule(f"bad cron {expression!r}: {error}") from None

    def next(self, after: float) -> float | None:
        """The first instant strictly after `after`, both in epoch seconds."""
        start = datetime.fromtimestamp(math.floor(after), self._zone)
        return float(croniter(self._fields, start, float, self._either_day, hash_id=self._hash).get_next())


def _hashed(fields: Sequence[str]) -> bool:
    return any("h" in field.lower() and "thu" not in field.lower() for field in fields)
