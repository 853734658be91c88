"""When jobs run that follow others, as schedules that begin where their jobs are now.

The first one is that of a job, the second that of a follower, whose parents have ended by then. A run takes no time.
"""

import math
from collections.abc import Sequence

from redbike.schedule.kinds import Schedule
from redbike.schedule.windows import Window

AGAIN = 2e-6  # seconds after a run until the next one, which is due at once
JUST_BEFORE = 1e-6  # seconds before an instant, from where a schedule goes on with that


class Stream(Schedule):
    """A job that runs at each of `firsts`, which are in order, and then by `base`, if it has one, after `after`."""

    def __init__(self, firsts: Sequence[float] = (), base: Schedule | None = None, after: float = 0.0) -> None:
        self._firsts, self._base = firsts, base
        self._after = max([after, *firsts])
        if base is not None:
            self.text, self.timezone, self.allows_pause = base.text, base.timezone, base.allows_pause
            self.period, self.anchor = base.period, base.anchor
        else:
            self.text, self.never_runs = "", not firsts

    def next(self, after: float) -> float | None:
        """Return the first instant strictly after `after`, both in epoch seconds; None when there is none."""
        first = next((moment for moment in self._firsts if moment > after), None)
        if first is not None or self._base is None:
            return first
        return self._base.next(max(after, self._after))

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the instants in (after, until], up to `limit`."""
        number = sum(after < moment <= until for moment in self._firsts)
        if self._base is not None and until > self._after:
            number += self._base.count(max(after, self._after), until, limit)
        return min(number, limit)

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return "" if self._base is None else self._base.explain(timezone)


NEVER = Stream()


class Latest(Schedule):
    """A follower that is due when each of `parents` has run since it was due last; `text` is its own.

    It is due first when those of them have run that it waits for. It is `now`, in epoch seconds.
    """

    def __init__(self, text: str, parents: Sequence[Schedule], waits_for: Sequence[Schedule], now: float) -> None:
        self.text, self._parents = text, parents
        self.allows_pause = bool(parents) and all(parent.allows_pause for parent in parents)
        if len(parents) == 1:
            self.period, self.anchor = parents[0].period, parents[0].anchor
        self._first = _find_latest(waits_for, now - JUST_BEFORE, now)
        self._last: tuple[float, float | None] | None = None  # parents that share a parent ask it the same again

    def next(self, after: float) -> float | None:
        """Return the first due time strictly after `after`, both in epoch seconds; None when there is none."""
        if self._first is None or after < self._first:
            return self._first
        if self.allows_pause:
            return math.nextafter(after, math.inf)
        if self._last is None or self._last[0] != after:
            self._last = after, _find_latest(self._parents, after, after)
        return self._last[1]

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the due times in (after, until], up to `limit`."""
        if len(self._parents) == 1 and self._first is not None and after >= self._first:
            return self._parents[0].count(after, until, limit)
        return super().count(after, until, limit)

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"As {self.text} says."


def _find_latest(parents: Sequence[Schedule], after: float, least: float) -> float | None:
    """Return when the last one of `parents` has run after `after`, at `least` then; None if one of them does not."""
    latest = least
    for parent in parents:
        # One that runs all the time has run at once.
        due = latest if parent.allows_pause else parent.next(after)
        if due is None:
            return None
        latest = max(latest, due)
    return latest


class Closed(Schedule):
    """A job that ends by `base`, and is held in `windows`: what falls into one comes when that ends.

    Of all in a window, `most` come.
    """

    def __init__(self, base: Schedule, windows: Sequence[Window], most: int) -> None:
        self.text, self._base, self._windows = base.text, base, windows
        self._most = most
        self.timezone, self.allows_pause = base.timezone, base.allows_pause

    def next(self, after: float) -> float | None:
        """Return the first instant strictly after `after`, both in epoch seconds; None when there is none."""
        falls = next((each for each in self._windows if each.start <= after < each.end + 2 * AGAIN), None)
        while True:
            held = next((moment for moment in self._list_held(falls) if moment > after), None) if falls else None
            if held is not None:
                return held
            due = self._base.next(after if falls is None else max(after, math.nextafter(falls.end, 0)))
            falls = next((each for each in self._windows if due is not None and each.has(due)), None)
            if falls is None:
                return due

    def _list_held(self, window: Window) -> list[float]:
        """Return what comes when a window ends."""
        due, number = self._base.next(window.start - JUST_BEFORE), 0
        while due is not None and due < window.end and number < self._most:
            due, number = self._base.next(due), number + 1
        return [window.end + AGAIN * each for each in range(number)]

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return self._base.explain(timezone)
