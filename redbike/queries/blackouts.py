"""Find and describe the coming windows of blackouts that pause a job.

A blackout belongs to a job, to a queue, or to everything.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from redbike.config.settings import Settings, override
from redbike.loop.blackouts import describe_name
from redbike.loop.catchup import COUNT_LIMIT
from redbike.schedule.clock import Clock, format_length
from redbike.schedule.kinds import Schedule
from redbike.schedule.windows import HeldWindow, Window, join_windows
from redbike.store.blackouts import EVERYTHING, OF_JOB, OF_QUEUE, Blackout, BlackoutDetails, name_all
from redbike.store.inspected import JobState
from redbike.store.queue_limits import Pause as QueuePause
from redbike.store.queue_limits import QueueLimits
from redbike.store.store import Store
from redbike.store.totals import Queue
from redbike.text.printable import escape

UNDECIDED = "catchup decides when it runs"


class Coming(NamedTuple):
    """The current or next window of a blackout."""

    name: str  # of the blackout
    blackout: Blackout
    window: Window

    def describe(self, clock: Clock) -> str:
        """Return its start, its end and the reason, as a part of a sentence."""
        start, end = clock.name(self.window.start), clock.name(self.window.end)
        reason = f" ({self.blackout.reason})" if self.blackout.reason else ""
        return f"from {start} until {end}{reason}"


def find_coming(found: Mapping[str, Blackout], now: float) -> list[Coming]:
    """Return the current or next window of each of these blackouts, the earliest first."""
    windows = ((name, blackout, blackout.find(now)) for name, blackout in found.items())
    coming = [Coming(name, blackout, window) for name, blackout, window in windows if window]
    return sorted(coming, key=lambda each: each.window)


def find_for(found: Mapping[str, Blackout], moment: float) -> Coming | None:
    """Return the blackout that is on at `moment`, or None. If several are on, return the one that ends last."""
    falls = [each for each in find_coming(found, moment) if each.window.has(moment)]
    return max(falls, key=lambda each: each.window.end, default=None)


def read_blackouts(store: Store, names: Sequence[str], states: Iterable[JobState] = ()) -> dict[str, Blackout]:
    """Return these blackouts; one that pauses now has its current window. `states` are the states of their jobs."""
    if not (found := store.blackouts.read(names)):
        return found
    paused = {f"{OF_QUEUE}{limits.queue}" for limits in store.queue_limits.list_all() if limits.pause}
    paused |= {f"{OF_JOB}{state.jobid}" for state in states if state.pause}
    return found | {name: replace(found[name], begins=None) for name in paused & found.keys()}


def describe_next(blackout: Blackout, clock: Clock) -> str:
    """Return when a blackout begins, or that it is on, as a line for a person."""
    window = blackout.find(clock.now)
    if window is None:
        return "it has no further time"
    if window.start <= clock.now:
        return f"paused until {clock.name(window.end)}, and so each time for {format_length(blackout.seconds)}"
    start = f"{clock.name(window.start)}, {clock.measure(window.start)}"
    return f"paused from {start}, for {format_length(window.end - window.start)}, and so each time"


def list_details(store: Store, states: Sequence[JobState]) -> list[list[BlackoutDetails]]:
    """Return the blackouts of each of these jobs, for users; the earliest first."""
    runs = [state.run or state.waiting for state in states]
    queues = [run.queue if run else store.name_queue(state.jobid) for state, run in zip(states, runs, strict=True)]
    names = [name_all(state.jobid, queue) for state, queue in zip(states, queues, strict=True)]
    found = read_blackouts(store, list(dict.fromkeys(chain.from_iterable(names))), states)
    own = [{name: found[name] for name in each if name in found} for each in names]
    return [_describe(find_coming(each, state.now)) for each, state in zip(own, states, strict=True)]


def _describe(coming: Iterable[Coming]) -> list[BlackoutDetails]:
    return [
        {
            "of": "job" if each.name.startswith(OF_JOB) else each.name.removeprefix(OF_QUEUE) or "everything",
            "every": each.blackout.every,
            "seconds": each.blackout.seconds,
            "start": each.window.start,
            "end": each.window.end,
            "by": each.blackout.by,
            "reason": each.blackout.reason,
        }
        for each in coming
    ]


def add_blackouts(store: Store, queues: Sequence[Queue]) -> Iterator[Queue]:
    """Yield queues with `blackout`: the start of their current or next pause by a blackout."""
    found = read_blackouts(store, [EVERYTHING, *(f"{OF_QUEUE}{queue.queue}" for queue in queues)])
    now = store.timeline.read_clock() if found else 0.0
    starts = {each.name: each.window.start for each in reversed(find_coming(found, now))}
    for queue in queues:
        names = EVERYTHING, f"{OF_QUEUE}{queue.queue}"
        yield replace(queue, blackout=min((starts[name] for name in names if name in starts), default=None))


def describe_of_queues(store: Store, queues: Sequence[Queue], clock: Clock) -> Iterator[str]:
    """Yield a line for each blackout of these queues, and for the blackout of everything."""
    found = read_blackouts(store, [EVERYTHING, *(f"{OF_QUEUE}{queue.queue}" for queue in queues)])
    for each in find_coming(found, clock.now):
        length = format_length(each.blackout.seconds)
        yield f"of {describe_name(each.name)}, {each.blackout.every} for {length}: {each.describe(clock)}"


def describe_details(details: BlackoutDetails, clock: Clock) -> str:
    """Return a blackout as a line for a person."""
    by, reason = (escape(details[name].encode(errors="replace")) for name in ("by", "reason"))
    said = f"{clock.name(details['start'])} until {clock.name(details['end'])}"
    every = f"{details['every']} for {format_length(details['seconds'])}"
    return f"{said}, each time of {every}{f', by {by}' if by else ''}{f': {reason}' if reason else ''}"


def make_remark(
    details: Sequence[BlackoutDetails], clock: Clock, limits: Iterable[QueueLimits] = ()
) -> Callable[[float], str]:
    """Return a function that says of an instant until when the job is paused then; it returns "" if it is not."""
    found = {each["of"]: Blackout(each["every"], each["seconds"], 0.0, begins=each["start"]) for each in details}
    pauses = [each.pause for each in limits if each.pause]

    def remark(moment: float) -> str:
        falls = find_for(found, moment)
        ends = [falls.window.end] if falls else []
        for pause in (each for each in pauses if each.holds(moment)):
            if pause.until is None:
                return "  paused then"
            ends.append(pause.until)
        return f"  paused then, until {clock.name(max(ends))}" if ends else ""

    return remark


def warn_of(
    found: Mapping[str, Blackout], due: float, clock: Clock, foretell: Callable[[Window], str] | None = None
) -> str:
    """Return the further sentence that a job is paused when it is due; "" if it is not.

    `foretell` says what becomes of the occurrence. Without it, the sentence says that ``catchup`` decides.
    """
    falls = find_for(found, due)
    if falls is None:
        return ""
    what = "It" if falls.name.startswith(OF_JOB) else describe_name(falls.name)
    then = foretell(falls.window) if foretell else UNDECIDED
    return f" {what[0].upper()}{what[1:]} will be paused then, {falls.describe(clock)}: {then}."


class Held(NamedTuple):
    """The windows in which a job is held, and the policies for occurrences that are due in a window."""

    windows: tuple[HeldWindow, ...]
    catchup: str
    limit: int
    grace: float  # seconds after which an occurrence is late; infinite for never
    expires: float  # seconds after which it has expired

    def count_after(
        self, window: HeldWindow, first: float | None, after: float, schedule: Schedule
    ) -> tuple[int, bool]:
        """Return how many runs begin when a window ends, and whether an occurrence due at this end is among them.

        The job is due at `first`, and then by its schedule after `after`.
        """
        # An occurrence that waits in a paused queue is not late. One that is older than ``expires`` has expired.
        alive = math.nextafter(window.end - self.expires, math.inf)
        begin = max(window.start, alive, window.opens - self.grace)
        number = _count_due(begin, window.end, first, after, schedule)
        for each in window.later:
            late_from = max(begin, each.start)
            number -= _count_due(late_from, max(late_from, each.end - self.grace), first, after, schedule)
        if not number or schedule.runs_once:
            return int(number > 0), False
        if self.catchup == "none":
            return 0, False
        if self.catchup == "last":
            waits = window.of != "queue" or self._waits_at(window, first, after, schedule)
            return int(waits), waits
        if window.of == "queue":
            # The waiting occurrence is followed by those that are not late.
            later = max(begin, math.nextafter(window.end - self.grace, math.inf))
            number = 1 + min(number - 1, _count_due(later, window.end, first, after, schedule))
        number += schedule.next(math.nextafter(window.end, 0)) == window.end
        # If the first one waits already, the limit counts from the second one on.
        return min(number, self.limit + (window.of != "job")), True

    def foretell(self, due: float, schedule: Schedule) -> str:
        """Return what becomes of an occurrence that is due in a window, as the end of a sentence."""
        window = next((each for each in self.windows if each.has(due)), None)
        if window is None or schedule.allows_pause:
            return UNDECIDED
        is_left_out = self.catchup == "none" and (window.of == "job" or not schedule.is_awaiting)
        if not schedule.is_awaiting and window.end - due > self.expires:
            return "it expires before that ends, and does not run"
        opens = next((each.end for each in window.later if each.has(due)), window.opens)
        if not schedule.is_awaiting and opens - due > self.grace:
            return "it is late when that ends, by its grace, and does not run"
        if schedule.runs_once:
            return "it runs when that ends"
        return "it does not run, as catchup is none" if is_left_out else UNDECIDED

    def _waits_at(self, window: HeldWindow, first: float | None, after: float, schedule: Schedule) -> bool:
        """Tell whether an occurrence waits in its queue when a window ends. If one expires, the next one follows it."""
        is_first = first is not None and window.has(first)
        due = first if is_first else schedule.next(max(after, math.nextafter(window.start, 0)))
        for _ in range(COUNT_LIMIT):
            if due is None or due + self.expires > window.end:
                break
            due = schedule.next(due + self.expires)
        return due is not None and due < window.end


def _count_due(begin: float, end: float, first: float | None, after: float, schedule: Schedule) -> int:
    """Count the occurrences in [`begin`, `end`). `after` is infinite for a job that is paused without an end."""
    own = first is not None and begin <= first < end
    return own + schedule.count(min(max(after, math.nextafter(begin, 0)), end), math.nextafter(end, 0), COUNT_LIMIT)


class Calendar:
    """Knows when jobs are held from `start` to `end`, except by pauses of single jobs.

    `pauses` of queues and of everything ("") count as windows, also if a blackout has begun them. Windows that are over
    at `since` do not count.
    """

    def __init__(
        self,
        found: Mapping[str, Blackout],
        settings: Settings,
        start: float,
        end: float,
        pauses: Mapping[str, QueuePause] | None = None,
        since: float = -math.inf,
    ) -> None:
        self.settings, self._start, self._end = settings, start, end
        windows = {name: list(each.list_between(max(start, since), end)) for name, each in found.items()}
        for queue, pause in (pauses or {}).items():
            until = math.nextafter(end, math.inf) if pause.until is None else pause.until
            if until > start:
                windows.setdefault(f"{OF_QUEUE}{queue}", []).append(Window(pause.since, until))
        self._windows = {name: each for name, each in windows.items() if each}
        self._joined: dict[tuple[str, ...], tuple[HeldWindow, ...]] = {}

    @property
    def closed(self) -> Sequence[str]:
        """The queues that are paused all the time, by name; "" is everything."""
        found = ((name, join_windows(each)) for name, each in self._windows.items() if not name.startswith(OF_JOB))
        return sorted(
            name.removeprefix(OF_QUEUE)
            for name, windows in found
            if any(window.start <= self._start and window.end > self._end for window in windows)
        )

    def find(self, jobid: str, queue: str, options: str) -> Held | None:
        """Return when a job of this queue with these options is held, except by its own pause; None for never."""
        names = tuple(name for name in name_all(jobid, queue) if name in self._windows) if self._windows else ()
        if not names:
            return None
        if (windows := self._joined.get(names)) is None:
            windows = tuple(_join([(name, each) for name in names for each in self._windows[name]], self._start))
            if not names[0].startswith(OF_JOB):
                self._joined[names] = windows
        own = override(self.settings, options) if options else self.settings
        return Held(windows, own.catchup, own.catchup_limit, own.grace or math.inf, own.expires or math.inf)


def _join(found: Sequence[tuple[str, Window]], now: float) -> Iterator[HeldWindow]:
    """Yield the windows of `found` by time. Windows that overlap or meet are joined."""
    shut = join_windows([each for name, each in found if name.startswith(OF_JOB) or name == EVERYTHING])
    own = sorted(each.start for name, each in found if name.startswith(OF_JOB))
    for window in join_windows([each for _, each in found]):
        opens, later = window.start, []
        for each in shut[bisect_left(shut, (window.start,)) : bisect_left(shut, (window.end,))]:
            if each.has(max(opens, now)):
                opens = each.end
            elif each.start > now:
                later.append(each)
        is_own = bisect_left(own, window.start) < bisect_left(own, window.end)
        of = "queue" if opens < window.end else "job" if is_own else "all"
        yield HeldWindow(*window, of, min(opens, window.end), tuple(later))


def read_calendar(store: Store, settings: Settings, start: float, end: float, since: float = -math.inf) -> Calendar:
    """Return when jobs are held from `start` to `end`: by blackouts, and by pauses of queues and of everything."""
    pauses = {each.queue: each.pause for each in store.queue_limits.list_all() if each.pause}
    return Calendar(store.blackouts.list_all(), settings, start, end, pauses, since)
