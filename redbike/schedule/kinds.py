"""The kinds of schedules. Each says when its job runs next, and how such a job behaves; no clock is read here.

`text` is the complete form of a schedule, with the instant that it counts from and its time zone. So the text means the
same instants wherever and whenever it is set again. `redbike.schedule.parser` makes a schedule of a text.
"""

import math
from abc import ABC, abstractmethod

from redbike.schedule.cron import Cron
from redbike.schedule.explain import explain_cron, explain_recurrence, format_duration, format_moment
from redbike.schedule.rrule.recurrence import Recurrence

END_OF_TIME = 253402300800.0  # the year 10000


class Schedule(ABC):
    """When a job runs."""

    text: str  # the complete form
    timezone: str | None = None  # the IANA zone whose clock it follows; None if it follows no clock
    is_immediate = False  # due at the moment when it is set
    runs_once = False  # one run, which is still owed if it comes due while the job is in flight
    never_runs = False  # the job is stopped
    allows_pause = False  # a number that the worker returns is a pause before the next run
    is_command = False  # setting it takes effect even if the job has this schedule already
    # How many characters of `text` stand before and after an anchor that was not given, but filled in by `parse`.
    anchor_span: tuple[int, int] | None = None

    @abstractmethod
    def next(self, after: float) -> float | None:
        """Return the first due time strictly after `after`, both in epoch seconds; None when there is none."""

    @abstractmethod
    def explain(self) -> str:
        """Return a sentence in plain English that says when it runs."""

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the due times in (after, until], up to `limit`."""
        found = 0
        due = self.next(after)
        while due is not None and due <= until and found < limit:
            found += 1
            due = self.next(due)
        return found

    def with_zone(self) -> "Schedule":
        """Return the same schedule with its zone in its text, even if that is UTC."""
        return self


class Now(Schedule):
    """Run once, right away."""

    text = "NOW"
    is_immediate = runs_once = is_command = True

    def next(self, after: float) -> float | None:
        """Return None: it is due when it is set, and never again."""
        return None

    def explain(self) -> str:
        """Return a sentence in plain English that says when it runs."""
        return "Once, right away."


class Continue(Schedule):
    """Run again as soon as a run has ended."""

    text = "CONTINUE"
    is_immediate = allows_pause = True

    def next(self, after: float) -> float | None:
        """Return the next representable instant."""
        return math.nextafter(after, math.inf)

    def count(self, after: float, until: float, limit: int) -> int:
        """Return 0: there are no occurrences that could be missed."""
        return 0

    def explain(self) -> str:
        """Return a sentence in plain English that says when it runs."""
        return "Again as soon as a run is done, or after the pause that it asks for."


class Stop(Schedule):
    """Do not run any more."""

    text = "STOP"
    never_runs = is_command = True

    def next(self, after: float) -> float | None:
        """Return None."""
        return None

    def explain(self) -> str:
        """Return a sentence in plain English that says when it runs."""
        return "Not any more."


class At(Schedule):
    """Run once, at `instant` (epoch seconds)."""

    runs_once = True

    def __init__(self, text: str, instant: float) -> None:
        self.text = text
        self.instant = instant

    def next(self, after: float) -> float | None:
        """Return the instant if it is after `after`."""
        return self.instant if self.instant > after else None

    def explain(self) -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"Once, on {format_moment(self.instant)} UTC."


class Every(Schedule):
    """Run every `period` seconds, counted from `anchor` (epoch seconds)."""

    def __init__(self, text: str, period: float, anchor: float) -> None:
        self.text = text
        self.period = period
        self.anchor = anchor

    def next(self, after: float) -> float | None:
        """Return the first multiple of the period after both `after` and the anchor; None after the year 9999."""
        if not after < END_OF_TIME:
            return None
        # The quotient is rounded, so the multiples around it are tried.
        steps = max(1, math.floor((max(after, self.anchor) - self.anchor) / self.period))
        due = next(due for due in (self.anchor + (steps + more) * self.period for more in range(4)) if due > after)
        return due if due < END_OF_TIME else None

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the due times in (after, until], up to `limit`, by division."""
        first, last = (max(0, math.floor((t - self.anchor) / self.period)) for t in (after, until))
        return min(limit, max(0, last - first))

    def explain(self) -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"Every {format_duration(self.period)}, counted from {format_moment(self.anchor)} UTC."


class CronSchedule(Schedule):
    """Run as `cron` says, in the zone `timezone`."""

    def __init__(self, text: str, cron: Cron, timezone: str) -> None:
        self.text = text
        self.timezone = timezone
        self._cron = cron

    def next(self, after: float) -> float | None:
        """Return the first occurrence after `after`, both in epoch seconds; None after the year 9999."""
        return self._cron.next(after)

    def explain(self) -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"{explain_cron(self._cron.fields)}, {self.timezone} time."

    def with_zone(self) -> Schedule:
        """Return the same schedule with its zone in its text, even if that is UTC."""
        if self.text.startswith("CRON_TZ="):
            return self
        return CronSchedule(f"CRON_TZ={self.timezone} {self.text}", self._cron, self.timezone or "UTC")


class RecurrenceSchedule(Schedule):
    """Run as `recurrence` says, a set of iCal rules and dates."""

    def __init__(self, recurrence: Recurrence) -> None:
        self.text = recurrence.text
        self.timezone = recurrence.timezone
        self._recurrence = recurrence

    def next(self, after: float) -> float | None:
        """Return the first occurrence after `after`, both in epoch seconds; None when there is none."""
        return self._recurrence.next(after)

    def explain(self) -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"{explain_recurrence(self._recurrence)}, {self.timezone} time."
