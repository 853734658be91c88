"""iCal recurrence rules (RFC 5545, 3.3.10 and 3.8.5), over dateutil.

1. The rule is expanded in wall-clock time, without a zone, from DTSTART or from a later instant of the same phase.
2. Each wall-clock time is then resolved to an instant in the zone of DTSTART: one in a gap by the offset in force
   before it, one that occurs twice to the first (3.3.5).
"""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr

from redbike.errors import BadSchedule

_LINE = re.compile(r"^([A-Z]+)((?:;[^:]*)?):(.*)$", re.DOTALL)
_UNTIL = re.compile(r"UNTIL=(\d{8}T\d{6})Z", re.IGNORECASE)
_ZONE = re.compile(r"TZID=([^;:]+)", re.IGNORECASE)
_UNITS = {"SECONDLY": 1, "MINUTELY": 60, "HOURLY": 3600, "DAILY": 86400, "WEEKLY": 604800}


class Rule:
    """The recurrence set of `text`, whose first line is its DTSTART."""

    def __init__(self, text: str) -> None:
        self.text = text
        lines = text.split("\n")
        self._zone, self._start = _start_of(lines[0])
        self._lines = [_floating(line, self._zone) for line in lines[1:]]
        self._step = _step_of(self._lines)
        try:
            next(iter(self._expanded(self._start)), None)
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError) as error:
            raise BadSchedule(f"bad rule {text[:120]!r}: {error}") from None

    def next(self, after: float) -> float | None:
        """The first instant strictly after `after`, both in epoch seconds."""
        wall = datetime.fromtimestamp(after, self._zone).replace(tzinfo=None)
        # A day earlier: around a change of offset, wall-clock times and instants are not in the same order.
        since = wall - timedelta(days=1)
        for found in self._expanded(self._jump(since)).xafter(since, inc=True):
            instant = self._resolve(found)
            if instant > after:
                return instant
        return None

    def _jump(self, since: datetime) -> datetime:
        """The latest start before `since` that leaves the phase of the rule as it is."""
        if not self._step or since <= self._start:
            return self._start
        steps = int((since - self._start).total_seconds() // self._step) - 1
        return self._start + timedelta(seconds=max(0, steps) * self._step)

    def _expanded(self, start: datetime):  # type: ignore[no-untyped-def]
        return rrulestr("\n".join(self._lines), dtstart=start, forceset=True, ignoretz=True)

    def _resolve(self, wall: datetime) -> float:
        return wall.replace(tzinfo=self._zone, fold=0).timestamp()


def _start_of(line: str) -> tuple[ZoneInfo, datetime]:
    found = _LINE.match(line)
    if not found or found[1] != "DTSTART":
        raise BadSchedule(f"bad rule: {line[:80]!r} is no DTSTART")
    zone = _ZONE.search(found[2])
    try:
        value = found[3].strip()
        start = datetime.strptime(value.rstrip("Z"), "%Y%m%dT%H%M%S" if "T" in value else "%Y%m%d")
        return ZoneInfo(zone[1] if zone and not value.endswith("Z") else "UTC"), start
    except (ValueError, OSError) as error:
        raise BadSchedule(f"bad rule: {line[:80]!r}: {error}") from None


def _floating(line: str, zone: ZoneInfo) -> str:
    """The line with its instants as wall-clock times in `zone`."""

    def local(text: str) -> str:
        instant = datetime.strptime(text.rstrip("Z"), "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
        return instant.astimezone(zone).strftime("%Y%m%dT%H%M%S")

    if line.startswith(("RRULE", "EXRULE")):
        return _UNTIL.sub(lambda found: f"UNTIL={local(found[1])}", line)
    found = _LINE.match(line)
    if not found or found[1] not in ("RDATE", "EXDATE"):
        raise BadSchedule(f"bad rule: {line[:80]!r} is no line of a recurrence")
    values = [value.partition("/")[0] for value in found[3].split(",")]
    try:
        return f"{found[1]}:{','.join(local(value) if value.endswith('Z') else value for value in values)}"
    except ValueError as error:
        raise BadSchedule(f"bad rule: {line[:80]!r}: {error}") from None


def _step_of(lines: list[str]) -> int:
    """Seconds by which the start may be moved without changing the phase of any line; 0 if it may not be moved."""
    if len(lines) != 1 or "COUNT=" in lines[0].upper():
        return 0
    parts = dict(part.split("=", 1) for part in lines[0].upper().partition(":")[2].split(";") if "=" in part)
    interval = parts.get("INTERVAL", "1")
    if not interval.isdecimal() or int(interval) < 1:
        raise BadSchedule(f"bad rule: INTERVAL={interval[:20]}")
    # A whole number of days keeps the times of day, and of weeks the days of the week.
    unit = _UNITS.get(parts.get("FREQ", ""), 0) * int(interval)
    return unit if unit % 604800 == 0 else unit * 604800 if unit else 0
