"""The runs of a paused job: requested runs, and the occurrences that its pause leaves when it ends by itself.

This includes the occurrences that current and coming blackouts leave.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from redbike.config.settings import Settings, override
from redbike.errors import BadSchedule
from redbike.loop.catchup import COUNT_LIMIT, JUST_BEFORE
from redbike.loop.courses import Course, follow
from redbike.loop.outlook import Hold, Outlook
from redbike.queries.blackouts import Calendar, Held
from redbike.queries.following.budget import Budget
from redbike.queries.following.streams import AGAIN, Closed, Stream
from redbike.schedule.kinds import Schedule
from redbike.schedule.windows import HeldWindow
from redbike.store.enums import Event
from redbike.store.inspected import JobState
from redbike.store.records import Pause, RetryState
from redbike.store.store import Store

MOST_GATHERED = 100_000  # ends of parents that are computed one by one


def follow_paused(
    state: JobState,
    settings: Settings,
    end: float = math.inf,
    window: HeldWindow | None = None,
    most: float = math.inf,
) -> Course:
    """Return the runs of a paused job, no two at one instant; none if its schedule is bad.

    Of pauses of queues and of everything, only this `window` counts. Of the runs that its pause leaves, at most `most`
    are computed.
    """
    outlook = Outlook(state, settings, end, most=most)
    if window:
        queue, common = (Hold(window.start, each, True) for each in (window.end, window.opens))
        outlook = replace(outlook, queue_holds=[queue], common_holds=[common])
    try:
        course = follow(outlook)
    except BadSchedule:
        return Course()
    course.runs = [moment + AGAIN * number for number, moment in enumerate(course.runs)]
    return course


def find_held(calendar: Calendar | None, store: Store, state: JobState) -> Held | None:
    """Return when the windows of the calendar hold a job of `store`; None for never."""
    if calendar is None:
        return None
    queue = state.waiting.queue if state.waiting else store.name_queue(state.jobid)
    return calendar.find(state.jobid, queue, state.options)


def find_due(state: JobState | None, moment: float) -> float:
    """Return the due time of the run of a follower at an instant of its stream: it may be due already, and wait."""
    known = state and (state.waiting.due if state.waiting else state.due)
    return known if state and known and known < moment == state.now else moment


def follow_first(
    store: Store,
    state: JobState,
    settings: Settings,
    calendar: Calendar | None,
    end: float = math.inf,
    budget: Budget | None = None,
) -> Course | None:
    """Return the runs of a job of `store` that is paused, late, retried or requested; None for another job.

    While a job waits for a retry, others may come due. A late job beyond the `budget` has None, too.
    """
    if state.pause:
        return follow_paused(state, settings, end)
    retry_state, held = RetryState.parse(state.retry_state), find_held(calendar, store, state)
    is_asked_for = state.waiting and (retry_state.due, retry_state.after) != (None, None)
    is_due = state.waiting or (state.due is not None and state.due <= state.now and retry_state.due is None)
    if is_asked_for or (is_due and _may_follow_late(state, settings, budget)):
        course = follow_paused(state, settings, end, _find_window(held, state.now))
        if budget:
            budget.charge(course)
        return course
    if state.due is None or retry_state.due is None:
        return None
    return follow_paused(_await_retry(state, held), settings, end)


def _may_follow_late(state: JobState, settings: Settings, budget: Budget | None) -> bool:
    due = state.waiting.due if state.waiting else state.due
    if due is None or not decides_late(state.options, settings):
        return False
    schedule, now = state.schedule or "", state.now
    return budget is None or budget.admit(state.jobid, schedule, state.options, settings, due=due, now=now, end=now)


def decides_late(options: str, settings: Settings) -> bool:
    """Tell whether a late job with these options may run several times, or not at all, instead of once."""
    own = override(settings, options)
    return own.catchup != "last" or own.grace > 0 or own.expires > 0


def _find_window(held: Held | None, moment: float) -> HeldWindow | None:
    return next((each for each in held.windows if each.has(moment)), None) if held else None


def _await_retry(state: JobState, held: Held | None) -> JobState:
    """Return the state of a job when its occurrence is retried. A window that holds it then counts as its pause."""
    at = max(state.now, state.due or 0.0)
    window = _find_window(held, at)
    if window is None:
        return replace(state, now=at)
    return replace(state, now=at, timeline=None, paused=Pause(state.due, window.start, window.end, "").format())


def keeps_run(state: JobState, firsts: Sequence[float], end: float) -> bool:
    """Tell whether a pause up to `end` holds a run that no later one replaces: it was enqueued, or is retried."""
    is_busy = not state.run and (state.has_event(Event.ENQ) or RetryState.parse(state.retry_state).due is not None)
    return is_busy and any(first >= end for first in firsts)


def leave_out(runs: Sequence[float]) -> list[float]:
    """Return the runs for which followers run. Of runs at the same time, these are only the first and the last."""
    between = zip(runs, runs[2:], strict=False)
    kept = [True, *(last - first > 3 * AGAIN for first, last in between), True]
    return [moment for moment, is_kept in zip(runs, kept, strict=False) if is_kept]


def gather(
    base: Schedule, firsts: Sequence[float], now: float, end: float, is_held: bool = False, drops: bool = False
) -> tuple[list[float], float]:
    """Return the first runs of a follower that is held until `end`, and the instant after which it follows its parents.

    `firsts` are runs that it has in any case. Parents that end before `end` make it due once, and once more for the
    latest; only once if it is busy until `end`. If it `is_held`, the latest replaces the others; if it `drops`, none
    runs.
    """
    if base.allows_pause:
        return [*firsts], max([now, *firsts])
    end = max([now, end, *firsts])
    most = 0 if drops else (1 if is_held else 2) - (end in firsts)
    last, number = now - JUST_BEFORE, 0
    while (due := base.next(last)) is not None and due <= end and number < MOST_GATHERED:
        last, number = due, number + 1
    runs = [*firsts, *(end + AGAIN * (len(firsts) + each) for each in range(min(number, most)))]
    if not is_held and number > (0 if end in firsts else 1):
        due = base.next(end)  # ends of parents before this are used up
    return (runs, max(end, runs[-1] if runs else end)) if due is None else ([*runs, due], due)


def hold_back(stream: Schedule, held: Held, state: JobState, most: int) -> Schedule:
    """Return when a job ends that follows no other job. `stream` says when it would end if nothing held it.

    After a window, the job runs what it missed there, at most `most` times.
    """
    waits = state.waiting.due if state.waiting else state.due

    def count(window: HeldWindow) -> tuple[int, bool]:
        is_on = window.has(state.now) and waits is not None and stream.next(state.now - JUST_BEFORE) == state.now
        if is_on and isinstance(stream, Stream) and stream.base is not None:
            # The job waits already: occurrences that came due since then have not run either.
            first = max(waits or 0.0, window.start)
            window = window._replace(opens=window.start) if state.waiting else window
            number, is_among = held.count_after(window, first, first, stream.base)
        else:
            number, is_among = held.count_after(window, None, state.now if state.run else 0.0, stream)
        return min(number, most), is_among

    closed = Closed(stream, held.windows, count)
    # A run in flight goes on.
    return Stream([state.now], closed, state.now) if state.run else closed


def close_runs(course: Course, schedule: Schedule, held: Held | None, state: JobState) -> Schedule:
    """Return when a job runs by its course, if it is also `held`. No two runs of the course are at one instant."""
    firsts = [*course.runs, *([] if course.due is None else [course.due])]
    base = schedule if schedule.runs_once or course.due is not None else None
    stream = Stream(firsts, base, math.inf if schedule.runs_once else 0.0)
    # The run in flight is not one of these runs.
    return hold_back(stream, held, replace(state, running=""), COUNT_LIMIT) if held else stream
