"""Schedules: a text becomes something that says when its job runs next; no clock is read here.

A schedule is kept complete: with the instant that it was anchored at and the zone that it is in, so that its text means
the same instants wherever and whenever it is set again.
"""

import math
import re
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from functools import lru_cache

from redbike.errors import BadSchedule
from redbike.schedule.cron import Cron
from redbike.schedule.rrule.recurrence import Recurrence
from redbike.schedule.zones import zone, zone_info

MAX_TEXT = 8192  # bytes of UTF-8
END_OF_TIME = 253402300800.0  # the year 10000

_RULE = re.compile(r"RRULE|FREQ=|^(DTSTART|RDATE)", re.ASCII | re.IGNORECASE)
_BLANKS = " \t\r\n"
_ANCHORED = re.compile(r"\s*every:[^@]*$|(?!.*dtstart).*freq=", re.IGNORECASE | re.DOTALL)
_HASHED = re.compile(r"(?:^|[\s,])h(?![a-z])", re.IGNORECASE)
_SECONDS = re.compile(r"\d{1,11}(\.\d{1,6})?", re.ASCII)
_DURATION = re.compile("".join(rf"(?:(\d+(?:\.\d{{1,6}})?){unit})?" for unit in "dhms"), re.ASCII | re.IGNORECASE)
_EPOCH = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
_CRON_ZONE = re.compile(r"CRON_TZ=(\S+)\s+", re.IGNORECASE)


class Schedule(ABC):
    """When a job runs. `text` is its complete form."""

    text: str
    immediate = False  # due the moment it is set
    once = False  # for one run, which is owed when it comes due while the job is in flight
    backs_off = False  # a number that the worker returns is a pause
    is_order = False  # to set it is an order, also for a job that has it already
    anchor_span: tuple[int, int] | None = (
        None  # characters of `text` before and after the anchor that `parse` has put in
    )

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
    immediate = once = is_order = True

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
    is_order = True

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
        """The first multiple of the period after both `after` and the anchor; None after the year 9999."""
        if not after < END_OF_TIME:
            return None
        # Division rounds, so the multiple is looked for on both sides of what it says.
        steps = max(1, math.floor((max(after, self.anchor) - self.anchor) / self.period))
        due = next(due for due in (self.anchor + (steps + more) * self.period for more in range(4)) if due > after)
        return due if due < END_OF_TIME else None

    def count(self, after: float, until: float, limit: int) -> int:
        """By arithmetic."""
        first, last = (max(0, math.floor((t - self.anchor) / self.period)) for t in (after, until))
        return min(limit, max(0, last - first))


class Calendar(Schedule):
    """A cron expression or a recurrence rule, which is its `source`, in a zone."""

    def __init__(self, text: str, source: Cron | Recurrence, timezone: str) -> None:
        self.text = text
        self.source = source
        self.timezone = timezone

    def named(self) -> "Calendar":
        """The same with its zone in its text, also if that is UTC."""
        if isinstance(self.source, Recurrence) or self.text.startswith("CRON_TZ="):
            return self
        return Calendar(f"CRON_TZ={self.timezone} {self.text}", self.source, self.timezone)

    def next(self, after: float) -> float | None:
        """The first occurrence after `after`."""
        return self.source.next(after)


def parse(text: str, timezone: str = "UTC", jobid: str = "", anchor: float | None = None) -> Schedule:
    """The schedule that `text` stands for.

    `timezone` is the zone of times that name none, `jobid` what ``H`` is hashed from, `anchor` the instant (epoch
    seconds) at which it is set: EVERY without @ and a rule without DTSTART count from there, or from the epoch when it
    is None. Raises `BadSchedule`, and nothing else, for whatever is none.
    """
    if not (isinstance(text, str) and isinstance(timezone, str) and isinstance(jobid, str)):
        raise BadSchedule(f"bad schedule {text!r:.80}: it, its zone and its job id must be texts")
    text = _fitting(text).strip(_BLANKS)
    # What it does not depend on is left out of the key of the cache.
    anchored = _ANCHORED.match(text) is not None
    since = float(anchor or 0) if anchored else 0.0
    if not 0 <= since < END_OF_TIME:
        raise BadSchedule(f"bad schedule {text!r:.80}: {anchor!r:.40} is no instant to count from")
    return _parse(text, timezone, jobid if _HASHED.search(text) else "", since)


@lru_cache(4096)
def stored(text: str) -> Schedule:
    """`parse` for a complete text, as it is kept in Redis."""
    return parse(text)


def check_text(schedule: object) -> None:
    """Raise `TypeError` for a schedule that is neither a text nor None."""
    if not isinstance(schedule, str | None):
        kind = type(schedule).__name__
        raise TypeError(f"a schedule is a text, or None to unset the job, not {schedule!r:.80}, which is a {kind}")


def _fitting(text: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadSchedule(f"bad schedule {text!r:.80}: not UTF-8") from None
    if size > MAX_TEXT:
        raise BadSchedule(f"bad schedule {text[:40]!r}…: it has {size} bytes, {MAX_TEXT} are allowed")
    return text


@lru_cache(4096)
def _parse(text: str, timezone: str, jobid: str, anchor: float) -> Schedule:
    if not text.isascii():
        # Some letters of other alphabets become ours in upper case.
        raise BadSchedule(f"bad schedule {text!r:.80}: no keyword, cron expression or rule")
    keyword, colon, rest = text.partition(":")
    upper = keyword.upper()
    if not colon and upper in ("NOW", "CONTINUE", "STOP"):
        return Now() if upper == "NOW" else Continue() if upper == "CONTINUE" else Stop()
    if colon and upper == "AT":
        return _at(rest, timezone)
    if colon and upper == "EVERY":
        return _every(rest, timezone, anchor)
    if _RULE.search(text):
        rule = Recurrence(text, timezone, anchor, zone)
        calendar = Calendar(rule.text, rule, rule.timezone)
        if _ANCHORED.match(text):
            start, _, rest = rule.text.partition("\n")
            calendar.anchor_span = start.index(":") + 1, len(rest) + 1
        return calendar
    return _cron(text, timezone, jobid)


def timestamp(text: str, timezone: str = "UTC") -> float:
    """Epoch seconds for epoch seconds or ISO 8601, the latter in `timezone` if it names none. Raises `BadSchedule`."""
    if not isinstance(text, str):
        raise BadSchedule(f"bad timestamp {text!r:.80}: it must be a text")
    if _EPOCH.fullmatch(text):
        instant = float(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
            instant = (moment if moment.tzinfo else moment.replace(tzinfo=zone_info(timezone))).timestamp()
        except (ValueError, OverflowError) as error:
            if isinstance(error, BadSchedule):
                raise
            raise BadSchedule(f"bad timestamp {text!r:.80}: epoch seconds or ISO 8601 is needed") from None
    if not 0 <= instant < END_OF_TIME:
        raise BadSchedule(f"bad timestamp {text!r:.80}: it is before 1970 or after 9999")
    return instant


def _at(rest: str, timezone: str) -> Schedule:
    instant = timestamp(rest.strip(), timezone)
    if _EPOCH.fullmatch(rest.strip()):
        return At(f"AT:{rest.strip()}", instant)
    return At(f"AT:{datetime.fromtimestamp(instant, UTC).isoformat().replace('+00:00', 'Z')}", instant)


def _every(rest: str, timezone: str, anchor: float) -> Schedule:
    duration, at, start = rest.strip().partition("@")
    since = timestamp(start, timezone) if at else anchor
    kept = start if at and _EPOCH.fullmatch(start) else f"{since:.6f}".rstrip("0").rstrip(".")
    every = Every(f"EVERY:{duration.lower()}@{kept}", _seconds(duration), float(kept))
    every.anchor_span = None if at else (len("EVERY:@") + len(duration), 0)
    return every


def _seconds(duration: str) -> float:
    if _SECONDS.fullmatch(duration):
        seconds = float(duration)
    else:
        found = _DURATION.fullmatch(duration)
        if not found or not duration:
            raise BadSchedule(f"bad duration {duration!r:.80}: 900, 15m, 1h30m, 1.5h or 2d is needed")
        days, hours, minutes, rest = (float(number or 0) for number in found.groups())
        # In whole microseconds, as six decimals of a second, a minute, … all are.
        seconds = round(days * 86400 + hours * 3600 + minutes * 60 + rest, 6)
    if not 0.001 <= seconds <= 1e10:
        raise BadSchedule(f"bad duration {duration!r:.80}: 0.001 s to 1e10 s are allowed")
    return seconds


def _cron(text: str, timezone: str, jobid: str) -> Schedule:
    found = _CRON_ZONE.match(text)
    name = found[1] if found else timezone
    expression = (text[found.end() :] if found else text).replace("\t", " ")
    if (
        not expression.isascii()
        or not expression.isprintable()
        or (len(expression.split()) < 2 and expression[:1] != "@")
    ):
        raise BadSchedule(f"bad schedule {text!r:.80}: no keyword, cron expression or rule")
    cron = Cron(expression, zone(name), jobid)
    return Calendar(f"CRON_TZ={name} {cron.text}" if found or name != "UTC" else cron.text, cron, name)
