"""Schedules of jobs and their followers that begin with the current states of the jobs.

`Stream` is for a job, `Latest` for a follower, whose parents have ended when it is due. A run takes no time.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from redbike.loop.catchup import JUST_BEFORE
from redbike.schedule.kinds import Schedule
from redbike.schedule.windows import HeldWindow
from redbike.store.groups import GroupState

AGAIN = 2e-6  # seconds between two runs that are both due at once
MOST_STEPS = 10_000  # due times before a window that are computed one by one


class Stream(Schedule):
    """A job that runs at each of `firsts`, which are sorted, and then by `base` after `after`, if it has a base."""

    def __init__(self, firsts: Sequence[float] = (), base: Schedule | None = None, after: float = 0.0) -> None:
        self._firsts, self.base = firsts, base
        self._after = max([after, *firsts])
        if base is not None:
            self.text, self.timezone, self.allows_pause = base.text, base.timezone, base.allows_pause
            self.period, self.runs_once = base.period, base.runs_once
        else:
            self.text, self.never_runs = "", not firsts

    def next(self, after: float) -> float | None:
        """Return the first instant strictly after `after`, both in epoch seconds; None when there is none."""
        first = next((moment for moment in self._firsts if moment > after), None)
        if first is not None or self.base is None:
            return first
        return self.base.next(max(after, self._after))

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the instants in (after, until], up to `limit`."""
        number = sum(after < moment <= until for moment in self._firsts)
        if self.base is not None and until > self._after:
            number += self.base.count(max(after, self._after), until, limit)
        return min(number, limit)

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return "" if self.base is None else self.base.explain(timezone)


NEVER = Stream()


class Latest(Schedule):
    """A follower that is due when each of `parents` has run since it was last due. `text` is its own schedule.

    It is first due when the parents in `waits_for` have run. It is `now`, in epoch seconds.
    """

    def __init__(self, text: str, parents: Sequence[Schedule], waits_for: Sequence[Schedule], now: float) -> None:
        self.text, self._parents = text, parents
        self.allows_pause = bool(parents) and all(parent.allows_pause for parent in parents)
        if len(parents) == 1:
            self.period = parents[0].period
        self._first = _find_latest(waits_for, now - JUST_BEFORE, now)
        self._last: tuple[float, float | None] | None = None  # parents that share a parent repeat a call of it

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
    """Return when the last of `parents` has run after `after`, but not before `least`; None if one does not run."""
    latest = least
    for parent in parents:
        # A parent that runs all the time has run at once.
        due = latest if parent.allows_pause else parent.next(after)
        if due is None:
            return None
        latest = max(latest, due)
    return latest


def make_group_stream(group: GroupState, members: Sequence[Schedule], now: float) -> Schedule | None:
    """Return when a group has ended whose jobs end by the schedules `members`; None if it is not known."""
    if group.counts.is_open or group.counts.left > len(group.jobids):
        return None
    last = Latest("", [], members, now).next(now - 1)
    return NEVER if last is None else Stream([last])


class Closed(Schedule):
    """A job that ends by `base`, and is held in `windows`: occurrences in a window run when it ends.

    `count` returns for a window how many run then, and whether an occurrence due at its very end is among them.
    """

    def __init__(
        self, base: Schedule, windows: Sequence[HeldWindow], count: Callable[[HeldWindow], tuple[int, bool]]
    ) -> None:
        self.text, self._base, self._windows, self._count = base.text, base, windows, count
        # For each window, the runs at its end, and the first due time after these. This due time counts if no other
        # window comes before it.
        self._passed: list[tuple[list[float], float | None]] = []
        self.timezone, self.allows_pause = base.timezone, base.allows_pause

    def next(self, after: float) -> float | None:
        """Return the first instant strictly after `after`, both in epoch seconds; None when there is none."""
        index = bisect_right(self._windows, after, key=lambda window: window.start)
        runs, due = self._find_passed(index - 1) if index else ([], None)
        if (place := bisect_right(runs, after)) < len(runs):
            return runs[place]
        if not index or after >= self._windows[index - 1].end:
            due = self._base.next(after)
        for each in range(index, len(self._windows)):
            if due is None or due < self._windows[each].start:
                return due
            runs, due = self._find_passed(each)
            if runs:
                return runs[0]
        return due

    def _find_passed(self, index: int) -> tuple[list[float], float | None]:
        while len(self._passed) <= index:
            following = len(self._passed) + 1
            runs, due = self._pass(self._windows[following - 1])
            is_open = following == len(self._windows) or (due is not None and due < self._windows[following].start)
            self._passed.append(([*runs, due] if is_open and due is not None else runs, due))
        return self._passed[index]

    def _pass(self, window: HeldWindow) -> tuple[list[float], float | None]:
        """Return the runs at the end of a window, and the first due time after these."""
        number, is_among = self._count(window)
        runs = [window.end + AGAIN * each for each in range(number)]
        due = self._base.next(window.end if is_among else math.nextafter(window.end, 0))
        return runs, _pass_runs(self._base, runs, due)

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return self._base.explain(timezone)


def _pass_runs(base: Schedule, runs: Sequence[float], due: float | None) -> float | None:
    """Return the first due time of `base` after these runs."""
    return base.next(runs[-1]) if runs and due is not None and due <= runs[-1] else due


class ClosedFollower(Closed):
    """A follower that is held in windows, or whose queue is.

    Its due times in a window depend on earlier ends, as one of several parents may end before the window, and the
    others in it. If it `drops`, its own pause drops them. Occurrences older than `expires` seconds do not run.
    """

    def __init__(
        self, base: Schedule, windows: Sequence[HeldWindow], drops: bool = False, expires: float = math.inf
    ) -> None:
        super().__init__(base, windows, lambda window: (0, False))
        self._walks, self._drops, self._expires = base.period is None, drops, expires

    def _pass(self, window: HeldWindow) -> tuple[list[float], float | None]:
        due, number, waits = self._enter(window), 0, list[float]()
        # If the job is paused, the latest occurrence is held. If its queue is, one waits, and it is due once more.
        replaces, is_held = window.of == "job", window.of == "job" and self._walks
        most = 2 if not replaces else 0 if self._drops else 1
        limit = MOST_STEPS if is_held or self._expires < math.inf else 2
        while due is not None and due < window.end and number < limit:
            waits = [due] if replaces else self._wait_for(due, waits)
            due, number = self._base.next(due), number + 1
        kept = [moment for moment in waits if moment + self._expires > window.end][:most]
        runs = [window.end + AGAIN * each for each in range(len(kept))]
        if runs and self._base.next(math.nextafter(window.end, 0)) == window.end:
            # The waiting occurrence begins first, and then the job is due once more.
            runs.append(runs[-1] + AGAIN)
        if not is_held and (number > 1 or not self._walks):
            due = self._base.next(math.nextafter(window.end, 0))  # ends of parents before this are used up
        return runs, _pass_runs(self._base, runs, due)

    def _wait_for(self, due: float, waits: list[float]) -> list[float]:
        """Return the due times that wait when a window is over, after `due` came in it: at most two."""
        while waits and waits[0] + self._expires <= due:
            waits = waits[1:]
        return [*waits[:1], due]

    def _enter(self, window: HeldWindow) -> float | None:
        """Return the first due time from the beginning of a window on."""
        if not self._walks:
            return self._base.next(window.start - JUST_BEFORE)
        due = self._passed[-1][1] if self._passed else self._base.next(0.0)
        for _ in range(MOST_STEPS):
            if due is None or due >= window.start:
                return due
            due = self._base.next(due)
        return self._base.next(window.start - JUST_BEFORE)
