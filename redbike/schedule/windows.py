"""The windows of a recurring blackout: each begins at a time of a schedule, and lasts a number of seconds."""

from collections.abc import Iterator
from typing import NamedTuple

from redbike.errors import BadSchedule, quoted
from redbike.schedule.clock import format_length
from redbike.schedule.kinds import Schedule

MOST_JOINED = 10_000  # windows without a gap; with more, the blackout would never end


class Window(NamedTuple):
    """The time [`start`, `end`), in epoch seconds."""

    start: float
    end: float

    def has(self, moment: float) -> bool:
        """Tell whether `moment` is in it."""
        return self.start <= moment < self.end


class HeldWindow(NamedTuple):
    """The time [`start`, `end`) in which a job is held, in epoch seconds."""

    start: float
    end: float
    of: str  # what holds it: "job", "queue" or "all"
    opens: float  # from then on, a due job is enqueued, and only its queue is paused; otherwise the same as `end`
    later: tuple[Window, ...] = ()  # times after `opens` in which no job is enqueued

    def has(self, moment: float) -> bool:
        """Tell whether `moment` is in it."""
        return self.start <= moment < self.end


def find_window(schedule: Schedule, seconds: float, now: float) -> Window | None:
    """Return the first window that ends after `now`; it may have begun. None if there is no further window.

    Windows that overlap or meet are joined. Raise `BadSchedule` if so many are joined that the blackout never ends.
    """
    start = schedule.next(now - seconds)
    while start is not None and round(start + seconds, 6) <= now:
        start = schedule.next(start)  # the difference was rounded, and so is the end of the previous window
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
    """Yield the windows that overlap [`start`, `end`)."""
    window = find_window(schedule, seconds, start)
    while window is not None and window.start < end:
        yield window
        window = find_window(schedule, seconds, window.end)


def join_windows(windows: Iterator[Window] | list[Window]) -> list[Window]:
    """Return windows by time. Windows that overlap or meet are joined."""
    joined: list[Window] = []
    for window in sorted(windows):
        if joined and window.start <= joined[-1].end:
            joined[-1] = Window(joined[-1].start, max(joined[-1].end, window.end))
        else:
            joined.append(window)
    return joined


def check_recurring(schedule: Schedule, now: float | None) -> None:
    """Raise `BadSchedule` unless `schedule` recurs, and, if `now` is not None, is due after `now`."""
    is_other = schedule.runs_once or schedule.never_runs or schedule.is_immediate or schedule.allows_pause
    is_of_others = schedule.is_awaiting or schedule.is_for_hosts  # other jobs make it due, or it is for every host
    if is_other or is_of_others or (now is not None and schedule.next(now) is None):
        raise BadSchedule(f"bad schedule {quoted(schedule.text)}: a blackout needs times that come again and again")
