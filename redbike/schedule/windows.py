"""The windows of a recurring blackout: from each time of a schedule on, for so many seconds."""

from collections.abc import Iterator
from typing import NamedTuple

from redbike.errors import BadSchedule, quoted
from redbike.schedule.clock import format_length
from redbike.schedule.kinds import Schedule

MOST_JOINED = 10_000  # windows without a gap, beyond which it would never open


class Window(NamedTuple):
    """From `start` to `end`, without that instant itself; epoch seconds."""

    start: float
    end: float

    def has(self, moment: float) -> bool:
        """Tell whether `moment` is in it."""
        return self.start <= moment < self.end


class HeldWindow(NamedTuple):
    """From `start` to `end`, without that instant itself, a job is held; epoch seconds."""

    start: float
    end: float
    of: str  # what holds it: "job", "queue" or "all"
    opens: float  # from when on it is enqueued all the same when it is due: not before the end, but by a queue alone
    later: tuple[Window, ...] = ()  # when nothing is enqueued after that

    def has(self, moment: float) -> bool:
        """Tell whether `moment` is in it."""
        return self.start <= moment < self.end


def find_window(schedule: Schedule, seconds: float, now: float) -> Window | None:
    """Return the first window that ends after `now`; it may have begun. None if no further one comes.

    Windows that overlap or meet are one. Raise `BadSchedule` if so many do that it would never open.
    """
    start = schedule.next(now - seconds)
    while start is not None and round(start + seconds, 6) <= now:
        start = schedule.next(start)  # the difference was rounded, and so is the end of the window before
    if start is None:
        return None
    last = start
    for _ in range(MOST_JOINED):
        later, end = schedule.next(last), round(last + seconds, 6)
        if later is None or later > end:
            return Window(start, end)
        last = later
    raise BadSchedule(
        f"bad blackout {quoted(schedule.text)} for {format_length(seconds)}: it would never end, because it is not "
        "shorter than its period"
    )


def list_windows(schedule: Schedule, seconds: float, start: float, end: float) -> Iterator[Window]:
    """Yield the windows of which a part is in [`start`, `end`)."""
    window = find_window(schedule, seconds, start)
    while window is not None and window.start < end:
        yield window
        window = find_window(schedule, seconds, window.end)


def join_windows(windows: Iterator[Window] | list[Window]) -> list[Window]:
    """Return windows by time; those that overlap or meet as one."""
    joined: list[Window] = []
    for window in sorted(windows):
        if joined and window.start <= joined[-1].end:
            joined[-1] = Window(joined[-1].start, max(joined[-1].end, window.end))
        else:
            joined.append(window)
    return joined


def check_recurring(schedule: Schedule, now: float | None) -> None:
    """Raise `BadSchedule` unless it has times after `now` at which a blackout may begin; if that is None, or had."""
    is_other = schedule.runs_once or schedule.never_runs or schedule.is_immediate or schedule.allows_pause
    is_of_others = schedule.is_awaiting or schedule.is_for_hosts  # it follows jobs, or is that of hosts
    if is_other or is_of_others or (now is not None and schedule.next(now) is None):
        raise BadSchedule(f"bad schedule {quoted(schedule.text)}: a blackout needs times that come again and again")
