"""When jobs run that follow others, as schedules that begin where their jobs are now.

The first one is that of a job, the second that of a follower, whose parents have ended by then. A run takes no time.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence

from redbike.schedule.kinds import Schedule
from redbike.schedule.windows import Window

AGAIN = 2e-6  # seconds after a run until the next one, which is due at once
JUST_BEFORE = 1e-6  # seconds before an instant, from where a schedule goes on with that
MOST_STEPS = 10_000  # due times before a window that are looked at one by one


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

    Of all in a window, `most` come. If it `is_follower`, what comes in a window depends on what came before, as one
    parent of several may end before it, and the others in it. If it `is_held`, the latest takes the place of others.
    """

    def __init__(
        self, base: Schedule, windows: Sequence[Window], most: int, is_follower: bool = False, is_held: bool = False
    ) -> None:
        self.text, self._base, self._windows = base.text, base, windows
        self._most, self._walks = most, is_follower and base.period is None
        self._is_held = is_held and self._walks
        self._passed: list[tuple[list[float], float | None]] = []  # for each window, what comes, and what is due then
        self.timezone, self.allows_pause = base.timezone, base.allows_pause

    def next(self, after: float) -> float | None:
        """Return the first instant strictly after `after`, both in epoch seconds; None when there is none."""
        index = bisect_right(self._windows, after, key=lambda window: window.start)
        if index and (found := next((moment for moment in self._list_runs(index - 1) if moment > after), None)):
            return found
        due = self._base.next(after)
        for each in range(index, len(self._windows)):
            if due is None or due < self._windows[each].start:
                return due
            if runs := self._list_runs(each):
                return runs[0]
            due = self._passed[each][1]
        return due

    def _list_runs(self, index: int) -> list[float]:
        """Return what comes when a window ends, and the first one after that, if it is before the next window."""
        while len(self._passed) <= index:
            self._passed.append(self._pass(self._windows[len(self._passed)]))
        runs, due = self._passed[index]
        is_open = index + 1 == len(self._windows) or (due is not None and due < self._windows[index + 1].start)
        return [*runs, due] if is_open and due is not None else runs

    def _pass(self, window: Window) -> tuple[list[float], float | None]:
        """Return what comes when a window ends, and when it is due then."""
        due, number = self._enter(window), 0
        limit = MOST_STEPS if self._is_held else max(2, self._most)
        while due is not None and due < window.end and number < limit:
            due, number = self._base.next(due), number + 1
        runs = [window.end + AGAIN * each for each in range(min(self._most, number))]
        if not self._is_held and (number > 1 or not self._walks):
            due = self._base.next(math.nextafter(window.end, 0))  # what has ended meanwhile is used up then
        if runs and due is not None and due <= runs[-1]:
            due = self._base.next(runs[-1])
        return runs, due

    def _enter(self, window: Window) -> float | None:
        """Return when it is due first from the beginning of a window on."""
        if not self._walks:
            return self._base.next(window.start - JUST_BEFORE)
        due = self._passed[-1][1] if self._passed else self._base.next(0.0)
        for _ in range(MOST_STEPS):
            if due is None or due >= window.start:
                return due
            due = self._base.next(due)
        return self._base.next(window.start - JUST_BEFORE)

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return self._base.explain(timezone)
