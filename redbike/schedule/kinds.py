"""Define the kinds of schedules. Each computes when its job runs next, and says how such a job behaves.

`text` is the complete form of a schedule, with the instant that it counts from and its time zone. So the text means the
same instants wherever and whenever it is set again. `redbike.schedule.parser` parses a text to a schedule.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Self

from redbike.errors import BadSchedule, quoted
from redbike.schedule.moments import (
    END_OF_TIME,
    EPOCH,
    format_duration,
    format_moment,
    format_utc,
    is_same_text,
    parse_duration,
    parse_timestamp,
)
from redbike.text.parsing import measure_duration


class Schedule(ABC):
    """When a job runs."""

    text: str  # the complete form
    timezone: str | None = None  # the IANA zone whose clock it follows; None if it follows no clock
    is_immediate = False  # due at the moment when it is set
    runs_once = False  # one run, which is not skipped if it comes due while the job is in flight
    never_runs = False  # the job is stopped
    allows_pause = False  # a number that the worker returns is a pause before the next run
    is_awaiting = False  # other jobs make it due, when they have ended
    is_for_hosts = False  # each host has a job of its own, and the job with this schedule is never due
    is_command = False  # setting it takes effect even if the job has this schedule already
    asked = ""  # the part of the text as it was set that `text` does not have, such as the duration of IN
    period: float | None = None  # seconds from each occurrence to the next one, if they are always the same
    anchor = 0.0  # the instant from which `period` counts, in epoch seconds
    # If `parse` has added the anchor: the numbers of characters of `text` before it and after it.
    anchor_span: tuple[int, int] | None = None

    @abstractmethod
    def next(self, after: float) -> float | None:
        """Return the first due time strictly after `after`, both in epoch seconds; None when there is none."""

    def find_place(self, after: float) -> float | None:
        """Return the place on the timeline of a job that has run until `after`: its due time, or `AWAITED`."""
        return self.next(after)

    def find_parents(self) -> dict[str, Any] | None:
        """Return `parents` (the jobs that make it due) and `when` (``ok``, ``failed`` or ``any``); None without any."""
        return None

    @property
    def label(self) -> str:
        """The text without instants that belong to one job, so that similar jobs have the same label."""
        return "\n".join(line for line in self.text.split("\n") if not line.startswith("DTSTART"))

    @abstractmethod
    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs.

        Instants are in the zone of the schedule; if it has none, in `timezone`.
        """

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the due times in (after, until], up to `limit`."""
        return sum(1 for _ in islice(self.list_due(after, until), limit))

    def count_safely(self, after: float, until: float, limit: int) -> tuple[int, bool]:
        """Return the number of `count`, and whether it is complete: False if counting was given up before `limit`."""
        return self.count(after, until, limit), True

    def list_due(self, after: float, until: float) -> Iterator[float]:
        """Yield the due times in (after, until]."""
        due = self.next(after)
        while due is not None and due <= until:
            yield due
            due = self.next(due)

    def with_zone(self) -> "Schedule":
        """Return the same schedule with its zone in its text, even if that is UTC."""
        return self

    def is_stored_as(self, text: str) -> bool:
        """Tell whether `text`, a stored schedule, means the same as this one. An added anchor is not compared."""
        return is_same_text(self.text, text, self.anchor_span)

    def exclude(self, days: Iterable[int]) -> str:
        """Return a text without the runs on `days` (since 1970-01-01, in its zone). Raise `BadSchedule`."""
        raise BadSchedule(f"bad schedule {quoted(self.text)}: only cron and rules can leave out days")


class Keyword(Schedule):
    """A schedule whose text begins with a keyword; the keyword ends with a colon if more text follows it."""

    keyword: str
    sentence: str  # what `explain` returns

    @classmethod
    def parse(cls, rest: str, timezone: str, anchor: float) -> Self:
        """Make a schedule from the text after the keyword. Raise `BadSchedule`.

        Times without a zone are in `timezone`. If `rest` has no instant to count from, it is `anchor` (epoch seconds).
        """
        return cls()

    @classmethod
    def needs_anchor(cls, rest: str) -> bool:
        """Tell whether the text after the keyword has no instant to count from, but needs one."""
        return False

    def next(self, after: float) -> float | None:
        """Return None: it is due when it is set, or never."""
        return None

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return self.sentence


class Now(Keyword):
    """Run once, right away."""

    keyword = text = "NOW"
    sentence = "Once, right away."
    is_immediate = runs_once = is_command = True


class Continue(Keyword):
    """Run again as soon as a run has ended."""

    keyword = text = "CONTINUE"
    sentence = "Again as soon as a run is done, or after the pause that it asks for."
    is_immediate = allows_pause = True

    def next(self, after: float) -> float | None:
        """Return the next representable instant."""
        return math.nextafter(after, math.inf)

    def count(self, after: float, until: float, limit: int) -> int:
        """Return 0: there are no occurrences that could be missed."""
        return 0


class Stop(Keyword):
    """Do not run any more."""

    keyword = text = "STOP"
    sentence = "Not any more."
    never_runs = is_command = True


class At(Keyword):
    """Run once, at `instant` (epoch seconds)."""

    keyword = "AT:"
    runs_once = True

    def __init__(self, text: str, instant: float) -> None:
        self.text = text
        self.instant = round(instant, 6)  # Redis keeps six decimals

    @classmethod
    def parse(cls, rest: str, timezone: str, anchor: float) -> Self:
        """Make a schedule from a TIMESTAMP. Raise `BadSchedule`."""
        given = rest.strip()
        instant = parse_timestamp(given, timezone)
        return cls(f"AT:{given if EPOCH.fullmatch(given) else format_utc(instant)}", instant)

    @property
    def label(self) -> str:
        """The keyword alone."""
        return At.keyword

    def is_stored_as(self, text: str) -> bool:
        """Tell whether `text`, a complete one, means the same instant, even if it is spelled in another way."""
        if text == self.text or not text.startswith(self.keyword):
            return text == self.text
        try:
            return At.parse(text.removeprefix(self.keyword), "UTC", 0).instant == self.instant
        except BadSchedule:
            return False

    def next(self, after: float) -> float | None:
        """Return the instant if it is after `after`."""
        return self.instant if self.instant > after else None

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"Once, on {format_moment(self.instant, timezone)}."


class In(At):
    """Run once, a duration after it is set. Its complete text is an `At` schedule."""

    keyword = "IN:"
    is_command = True

    @classmethod
    def needs_anchor(cls, rest: str) -> bool:
        """Return True: it counts from when it is set."""
        return True

    @classmethod
    def parse(cls, rest: str, timezone: str, anchor: float) -> Self:
        """Make a schedule from a DURATION. Raise `BadSchedule`."""
        instant = anchor + (duration := parse_duration(rest.strip()))
        if instant >= END_OF_TIME:
            raise BadSchedule(f"bad schedule {quoted(f'IN:{rest}')}: that is after the year 9999")
        schedule = cls(f"{At.keyword}{instant:.6f}".rstrip("0").rstrip("."), instant)
        schedule.asked = f"{cls.keyword}{duration:.15g}"
        return schedule

    def is_stored_as(self, text: str) -> bool:
        """Tell whether `text` is an instant. The record of a row shows whether the same duration has set it."""
        return text.startswith(At.keyword)


# Its anchor is before the end of time.
_STORED_EVERY = re.compile(r"EVERY:([0-9a-z.]{1,50})@(\d{1,11}(?:\.\d{1,6})?)", re.ASCII)


class Every(Keyword):
    """Run every `period` seconds, counted from `anchor` (epoch seconds)."""

    keyword = "EVERY:"
    period: float

    def __init__(self, text: str, period: float, anchor: float) -> None:
        self.text, self.period, self.anchor = text, period, anchor

    @classmethod
    def needs_anchor(cls, rest: str) -> bool:
        """Tell whether there is no ``@TIMESTAMP``."""
        return "@" not in rest

    @classmethod
    def parse(cls, rest: str, timezone: str, anchor: float) -> Self:
        """Make a schedule from DURATION[@TIMESTAMP]. Raise `BadSchedule`."""
        duration, at, start = rest.strip().partition("@")
        since = parse_timestamp(start, timezone) if at else anchor
        anchor_text = start if at and EPOCH.fullmatch(start) else f"{since:.6f}".rstrip("0").rstrip(".")
        every = cls(f"EVERY:{duration.lower()}@{anchor_text}", parse_duration(duration), float(anchor_text))
        every.anchor_span = None if at else (len("EVERY:@") + len(duration), 0)
        return every

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Make a schedule from a complete text of EVERY; None for another text. Raise `BadSchedule`.

        It is ten times as fast as `parse`. This matters if very many jobs each have their own anchor.
        """
        found = _STORED_EVERY.fullmatch(text)
        return cls(text, parse_duration(found[1]), float(found[2])) if found else None

    def is_stored_as(self, text: str) -> bool:
        """Tell whether `text`, a complete one, has the same period, even if it is spelled in another way."""
        found = _STORED_EVERY.fullmatch(text) if self.anchor_span else None
        return measure_duration(found[1]) == self.period if found else super().is_stored_as(text)

    def next(self, after: float) -> float | None:
        """Return the first multiple of the period after both `after` and the anchor; None after the year 9999."""
        if not after < END_OF_TIME:
            return None
        due = self._find_instant(self._count_until(after) + 1)
        return due if due < END_OF_TIME else None

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the due times in (after, until], up to `limit`, by division."""
        return min(limit, max(0, self._count_until(until) - self._count_until(after)))

    @property
    def label(self) -> str:
        """The text without its anchor."""
        return self.text.partition("@")[0]

    def _count_until(self, moment: float) -> int:
        """Return how many due times there are up to `moment`."""
        steps = math.floor(max(0.0, (moment - self.anchor) / self.period))
        # The quotient is rounded, and so are the instants.
        while self._find_instant(steps + 1) <= moment:
            steps += 1
        while steps and self._find_instant(steps) > moment:
            steps -= 1
        return steps

    def _find_instant(self, steps: int) -> float:
        # Redis keeps six decimals. An instant with more decimals would be due a second time, after itself.
        return round(self.anchor + steps * self.period, 6)

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"Every {format_duration(self.period)}, counted from {format_moment(self.anchor, timezone)}."
