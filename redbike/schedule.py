"""Schedules: a text becomes something that says when its job runs next; no clock is read here.

A schedule is kept complete: with the instant that it was anchored at and the zone that it is in, so that its text means
the same instants wherever and whenever it is set again.
"""

import math
import re
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from redbike.cron import Cron
from redbike.errors import BadSchedule
from redbike.rrule import Rule

MAX_TEXT = 8192  # bytes of UTF-8
END_OF_TIME = 253402300800.0  # the year 10000

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.IGNORECASE)
_EPOCH = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
_CRON_ZONE = re.compile(r"CRON_TZ=(\S+)\s+", re.IGNORECASE)


class Schedule(ABC):
    """When a job runs. `text` is its complete form."""

    text: str
    immediate = False  # due the moment it is set
    once = False  # for one run, which is owed when it comes due while the job is in flight
    backs_off = False  # a number that the worker returns is a pause

    @abstractmethod
    def next(self, after: float) -> float | None:
        """The first due time strictly after `after`, both in epoch seconds; None when there is none."""

    def count(self, after: float, until: float, limit: int) -> int:
        """How many due times there are in (after, until], counted up to `limit`."""
        found = 0
        due = self.next(after)
        while due is not None and due <= until and found < limit:
            found += 1
            due = self.next(due)
        return found


class Now(Schedule):
    """Once, right away."""

    text = "NOW"
    immediate = once = True

    def next(self, after: float) -> float | None:
        """None: it is due when it is set, and then no more."""
        return None


class Continue(Schedule):
    """Again as soon as it is done."""

    text = "CONTINUE"
    immediate = backs_off = True

    def next(self, after: float) -> float | None:
        """The very next moment."""
        return math.nextafter(after, math.inf)

    def count(self, after: float, until: float, limit: int) -> int:
        """0: it has no occurrences that could be missed."""
        return 0


class Stop(Schedule):
    """Not any more."""

    text = "STOP"

    def next(self, after: float) -> float | None:
        """None."""
        return None


class At(Schedule):
    """Once, at an instant."""

    once = True

    def __init__(self, text: str, instant: float) -> None:
        self.text = text
        self.instant = instant

    def next(self, after: float) -> float | None:
        """The instant, if it is still to come."""
        return self.instant if self.instant > after else None


class Every(Schedule):
    """Every `period` seconds, counted from `anchor`."""

    def __init__(self, text: str, period: float, anchor: float) -> None:
        self.text = text
        self.period = period
        self.anchor = anchor

    def next(self, after: float) -> float | None:
        """The first multiple of the period after both `after` and the anchor."""
        steps = max(1, math.floor((after - self.anchor) / self.period) + 1)
        due = self.anchor + steps * self.period
        return due if due > after else due + self.period

    def count(self, after: float, until: float, limit: int) -> int:
        """By arithmetic."""
        first, last = (max(0, math.floor((t - self.anchor) / self.period)) for t in (after, until))
        return min(limit, max(0, last - first))


class Calendar(Schedule):
    """A cron expression or a recurrence rule."""

    def __init__(self, text: str, source: Cron | Rule) -> None:
        self.text = text
        self.next = source.next  # type: ignore[method-assign]

    def next(self, after: float) -> float | None:
        """The first occurrence after `after`."""
        raise AssertionError("replaced by the source's own")


def parse(text: str, timezone: str = "UTC", jobid: str = "", anchor: float | None = None) -> Schedule:
    """The schedule that `text` stands for.

    `timezone` is the zone of times that name none, `jobid` what ``H`` is hashed from, `anchor` the instant (epoch
    seconds) at which it is set: EVERY and a rule without DTSTART count from there, or from the epoch without one.
    Raises `BadSchedule` for whatever is none.
    """
    if not isinstance(text, str):
        raise BadSchedule(f"bad schedule {text!r:.80}: not a text")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadSchedule(f"bad schedule {text!r:.80}: not UTF-8") from None
    if size > MAX_TEXT:
        raise BadSchedule(f"bad schedule {text[:40]!r}…: it has {size} bytes, {MAX_TEXT} are allowed")
    return _parse(text.strip(), timezone, jobid, anchor or 0.0)


@lru_cache(4096)
def _parse(text: str, timezone: str, jobid: str, anchor: float) -> Schedule:
    keyword, colon, rest = text.partition(":")
    upper = keyword.upper()
    if not colon and upper in ("NOW", "CONTINUE", "STOP"):
        return Now() if upper == "NOW" else Continue() if upper == "CONTINUE" else Stop()
    if colon and upper == "AT":
        return _at(rest, timezone)
    if colon and upper == "EVERY":
        return _every(rest, timezone, anchor)
    if "RRULE" in text.upper() or "FREQ=" in text.upper() or text.upper().startswith(("DTSTART", "RDATE")):
        return _rule(text, timezone, anchor)
    return _cron(text, timezone, jobid)


def timestamp(text: str, timezone: str = "UTC") -> float:
    """Epoch seconds for epoch seconds or ISO 8601, the latter in `timezone` if it names none. Raises `BadSchedule`."""
    if _EPOCH.fullmatch(text):
        instant = float(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
            instant = (moment if moment.tzinfo else moment.replace(tzinfo=zone(timezone))).timestamp()
        except (ValueError, OverflowError) as error:
            if isinstance(error, BadSchedule):
                raise
            raise BadSchedule(f"bad timestamp {text!r:.80}: epoch seconds or ISO 8601 is needed") from None
    if not 0 <= instant < END_OF_TIME:
        raise BadSchedule(f"bad timestamp {text!r:.80}: it is before 1970 or after 9999")
    return instant


def zone(name: str) -> ZoneInfo:
    """The IANA zone of that name. Raises `BadSchedule`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise BadSchedule(f"unknown time zone {name!r:.80}") from None


def _at(rest: str, timezone: str) -> Schedule:
    instant = timestamp(rest.strip(), timezone)
    if _EPOCH.fullmatch(rest.strip()):
        return At(f"AT:{rest.strip()}", instant)
    return At(f"AT:{datetime.fromtimestamp(instant, UTC).isoformat().replace('+00:00', 'Z')}", instant)


def _every(rest: str, timezone: str, anchor: float) -> Schedule:
    duration, at, start = rest.strip().partition("@")
    since = timestamp(start, timezone) if at else anchor
    kept = start if at and _EPOCH.fullmatch(start) else f"{since:.6f}".rstrip("0").rstrip(".")
    return Every(f"EVERY:{duration.lower()}@{kept}", _seconds(duration), float(kept))


def _seconds(duration: str) -> float:
    if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", duration, re.ASCII):
        seconds = float(duration)
    else:
        found = _DURATION.fullmatch(duration) if duration.isascii() else None
        if not found or not duration:
            raise BadSchedule(f"bad duration {duration!r:.80}: 900, 15m, 1h30m or 2d is needed")
        days, hours, minutes, rest = (int(number[:12]) if number else 0 for number in found.groups())
        seconds = days * 86400.0 + hours * 3600 + minutes * 60 + rest
    if not 0.001 <= seconds <= 1e10:
        raise BadSchedule(f"bad duration {duration!r:.80}: 0.001 s to 1e10 s are allowed")
    return seconds


def _cron(text: str, timezone: str, jobid: str) -> Schedule:
    found = _CRON_ZONE.match(text)
    name = found[1] if found else timezone
    zone(name)
    expression = text[found.end() :] if found else text
    if expression.lower().startswith("@"):
        expression = expression.lower()
    if not expression or not expression.isascii() or not expression.isprintable():
        raise BadSchedule(f"bad schedule {text!r:.80}: no keyword, cron expression or rule")
    return Calendar(expression if name == "UTC" else f"CRON_TZ={name} {expression}", Cron(expression, name, jobid))


def _rule(text: str, timezone: str, anchor: float) -> Schedule:
    lines = [line.strip() for line in text.replace("\\n", "\n").replace("\\N", "\n").splitlines() if line.strip()]
    lines = [line if ":" in line else f"RRULE:{line}" for line in lines]
    named = [_upper_but_zone(line) for line in lines]
    starts = [line for line in named if line.startswith("DTSTART")]
    if len(starts) > 1:
        raise BadSchedule(f"bad rule {text!r:.80}: it has more than one DTSTART")
    start = starts[0] if starts else datetime.fromtimestamp(anchor, zone(timezone)).strftime("DTSTART:%Y%m%dT%H%M%S")
    complete = "\n".join([_zoned(start, timezone), *(line for line in named if not line.startswith("DTSTART"))])
    return Calendar(complete, Rule(complete))


def _upper_but_zone(line: str) -> str:
    # Names of zones have a case.
    parts = re.split(r"(?<=TZID=)([^;:]+)", line, flags=re.IGNORECASE)
    return "".join(part if place % 2 else part.upper() for place, part in enumerate(parts))


def _zoned(start: str, timezone: str) -> str:
    found = re.search(r"TZID=([^;:]+)", start)
    if found:
        zone(found[1])
        return start
    value = start.partition(":")[2]
    if value.endswith("Z"):
        return start
    return f"{start}Z" if timezone == "UTC" and "T" in value else start.replace(":", f";TZID={timezone}:", 1)
