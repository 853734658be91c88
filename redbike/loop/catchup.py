"""The occurrences of a job: which one comes next, which ones were missed, and which are skipped. Pure functions."""

import math
from dataclasses import replace
from operator import itemgetter
from typing import Any

from redbike.config.settings import Settings
from redbike.schedule.kinds import Schedule
from redbike.store.enums import Skip
from redbike.store.jobs import Due
from redbike.store.next_state import NextState
from redbike.store.records import RetryState
from redbike.store.run import Run

JUST_BEFORE = 1e-6  # seconds before an instant: a schedule that goes on from there has this instant next
WALKED = 200  # occurrences that are passed over one by one
COUNT_LIMIT = 10_000  # skipped occurrences that are counted one by one after a single run


def decide_next(run: Run, schedule: Schedule, settings: Settings, now: float, **kept: Any) -> NextState:
    """Go on with the next occurrence: after `now`, or earlier by ``catchup`` or ``overlap``; count the skipped ones."""
    if schedule.allows_pause:
        return NextState("next", due="+0", **kept)
    after = run.goes_on_after
    next_due = schedule.find_place(after)
    if next_due is None or next_due > now:
        return NextState("next", due=next_due, **kept)
    # A single run is not skipped: it came due during one that somebody asked for.
    is_queued = settings.overlap == "queue" or schedule.runs_once
    if run.has_begun and is_queued and settings.catchup != "all":
        # Nobody knows when the first try began: all that came due since may have done so during it.
        run = replace(run, start=after)
    if settings.catchup == "all" and schedule.count(after, min(run.start, now), 1):
        surplus, on = pass_surplus(schedule, after, min(run.start, now), settings.catchup_limit)
        due = schedule.find_place(on)
        first, passed = pass_late_ones(schedule, due, now, settings)
        paused = count_paused(run, schedule, after, now if due is None else due - JUST_BEFORE)
        return NextState("next", due=first, missed=max(0, surplus - paused), paused=paused, **passed, **kept)
    missed, overlapped = count_skipped(run, schedule, now)
    paused = count_paused(run, schedule, after, min(run.start, now))
    skipped: dict[str, Any] = {"missed": max(0, missed - paused), "paused": paused, "overlapped": overlapped}
    next_state = NextState("next", due=schedule.find_place(max(now, after)), **skipped, **kept)
    return _queue_overlapped(next_state, run, schedule, settings, now) if is_queued else next_state


def _queue_overlapped(next_state: NextState, run: Run, schedule: Schedule, settings: Settings, now: float) -> NextState:
    """Go on with the first occurrence that came due during `run`, if there is one; the others are skipped."""
    due = schedule.next(max(min(run.start, now), run.goes_on_after))
    first, passed = pass_late_ones(schedule, due, now, settings)
    if not next_state.overlapped or first is None or first > now:
        # Of a single run, its own bound is the reason.
        return replace(next_state, overlapped=0, **passed) if schedule.runs_once and passed else next_state
    # The occurrences until now are counted already.
    retry_state = replace(RetryState.parse(next_state.retry_state), after=now).format()
    overlapped = next_state.overlapped - sum(passed.values()) - 1
    return replace(next_state, due=first, overlapped=overlapped, retry_state=retry_state, **passed)


def find_first_due(schedule: Schedule, since: float, now: float, settings: Settings) -> tuple[Due, dict[Skip, int]]:
    """Return the first due time of a job whose occurrences count from `since`; by ``catchup``, if some were missed.

    Also return how many are skipped before it, by reason. Those missed after it are counted at the end of its run.
    """
    if schedule.is_immediate:
        return "now", {}
    due = schedule.find_place(since)
    if due is None or due > now or schedule.runs_once:
        return due, {}
    if settings.catchup == "none":
        return schedule.next(now), {Skip.MISSED: count_given_up(schedule, due, now)}
    surplus = 0
    if settings.catchup == "all":
        surplus, on = pass_surplus(schedule, since, now, settings.catchup_limit)
        due = schedule.find_place(on)
    first, passed = pass_late_ones(schedule, due, now, settings)
    return first, {**({Skip.MISSED: surplus} if surplus else {}), **passed}


def pass_late_ones(
    schedule: Schedule, due: float | None, now: float, settings: Settings
) -> tuple[float | None, dict[Any, Any]]:
    """Return the first occurrence from `due` on that may still be enqueued, and how many before it may not, by reason.

    One that is older than ``grace`` is late, and one that is older than ``expires`` has expired. Where a job has both,
    the shorter one counts.
    """
    # A follower is not late: other jobs have made it due just now.
    grace = 0.0 if schedule.is_awaiting else settings.grace
    bounds = [(grace, Skip.LATE), (settings.expires, Skip.EXPIRED)]
    bound, reason = min((each for each in bounds if each[0]), key=itemgetter(0), default=(math.inf, Skip.LATE))
    if due is None or now - due <= bound or schedule.allows_pause:
        return due, {}
    first = schedule.find_place(now - bound - JUST_BEFORE)
    return first, {} if first == due else {reason: _count_late(schedule, due, first, now)}


def _count_late(schedule: Schedule, due: float, first: float | None, now: float) -> int:
    """Count the occurrences from `due` to the `first` one that is not late; `first` is None if none is left."""
    if schedule.is_awaiting:
        return 1
    return 1 + schedule.count(due, now, COUNT_LIMIT) if first is None else schedule.count(due, first, COUNT_LIMIT)


def count_given_up(schedule: Schedule, due: float, now: float) -> int:
    """Return how many occurrences from `due` to `now` a job gives up with ``catchup = none``; 0 if it is only late."""
    if schedule.runs_once or schedule.allows_pause or schedule.is_awaiting:
        return 0
    return 1 + schedule.count(due, now, COUNT_LIMIT)


def pass_surplus(schedule: Schedule, after: float, until: float, limit: int) -> tuple[int, float]:
    """Return how many occurrences in (after, until] precede the last `limit`, and the instant after which these come.

    At most `COUNT_LIMIT` are counted. A limit as high as that counts as none. Where it costs too much to count all, the
    limit is at most a tenth of the counted ones.
    """
    if limit >= COUNT_LIMIT:
        return 0, after
    number, is_all = schedule.count_safely(after, until, COUNT_LIMIT + limit)
    if not is_all:
        passed = _pass_all_but(max(1, min(limit, number // 10)), schedule, after, until)
        return schedule.count(after, passed, COUNT_LIMIT), passed
    surplus = max(0, number - limit)
    if surplus >= min(COUNT_LIMIT, max(WALKED, 10 * limit)):
        # To pass over each of them may take minutes.
        return surplus, _pass_all_but(limit, schedule, after, until)
    for _ in range(surplus):
        after = schedule.next(after) or after
    return surplus, after


def _pass_all_but(limit: int, schedule: Schedule, after: float, until: float) -> float:
    """Return the instant after which the last `limit` occurrences in (after, until] come, by bisection."""
    last, known = until, 0  # so many come after `last`
    while last - after > 2 * JUST_BEFORE:
        middle = round((after + last) / 2, 6)  # as Redis keeps it
        number, is_all = schedule.count_safely(middle, last, limit + 1 - known)
        if is_all and known + number == limit:
            return middle
        has_fewer = is_all and known + number < limit
        after, last, known = (after, middle, known + number) if has_fewer else (middle, last, known)
    return last


def count_skipped(run: Run, schedule: Schedule, until: float) -> tuple[int, int]:
    """Return how many occurrences were missed before the run began, and how many came due from then to `until`."""
    began, after = min(run.start, until), run.goes_on_after
    return schedule.count(after, began, COUNT_LIMIT), schedule.count(max(began, after), until, COUNT_LIMIT)


def count_paused(run: Run, schedule: Schedule, after: float, until: float) -> int:
    """Count the occurrences in (after, until] that came due while the queue of `run` was paused."""
    if run.queue_pause is None:
        return 0
    since, ended = run.queue_pause
    return schedule.count(max(after, since), min(until, ended), COUNT_LIMIT)


def find_expiry(run: Run, schedule: Schedule, settings: Settings) -> float | None:
    """Return when a waiting run expires, if it has not begun before; None for never.

    An occurrence that may have begun in an earlier try does not expire. An overdue one that somebody has asked for
    expires by the time of that request, which only the timer of the job has: return None.
    """
    if not settings.expires or run.has_begun or run.was_asked_for or schedule.allows_pause:
        return None
    return run.due + settings.expires


def give_up_expired(run: Run, schedule: Schedule, settings: Settings, now: float) -> NextState:
    """Decide for a job whose occurrence has not begun in time: it goes on at its next one, as seen at `now`."""
    next_state = decide_next(run, schedule, settings, now, retried=True, outcome=None, given_up=Skip.EXPIRED)
    next_state = keep_failed(next_state, run.failed)
    if next_state.due is None and (schedule.runs_once or run.was_asked_for):
        # It never ran: its due time is kept, as `lua/skip.lua` keeps it.
        kept = replace(RetryState.parse(next_state.retry_state), due=run.due, after=run.due)
        return replace(next_state, retry_state=kept.format())
    return next_state


def keep_failed(next_state: NextState, failed: int) -> NextState:
    """Keep how many occurrences have failed in a row, for one that has neither failed nor succeeded."""
    if not failed:
        return next_state
    return replace(next_state, retry_state=replace(RetryState.parse(next_state.retry_state), failed=failed).format())


def give_up_paused(run: Run, schedule: Schedule, settings: Settings, now: float) -> NextState | None:
    """Decide for a job whose occurrence was missed because its queue was paused; None if the run is to begin.

    Only ``catchup = none`` gives it up. It never gives up a further try, a one-off, or a run that was asked for.
    """
    if run.queue_pause is None or settings.catchup != "none" or run.tries or run.after is not None:
        return None
    since, ended = run.queue_pause
    # The due time of a follower is that of its parents: nobody knows whether it came due during the pause.
    if schedule.runs_once or schedule.allows_pause or schedule.is_awaiting or not since < run.due <= ended:
        return None
    # What came due after the pause waits for its worker, which may have been busy.
    next_state = decide_next(run, schedule, settings, min(now, ended), retried=True, outcome=None)
    return keep_failed(replace(next_state, paused=next_state.paused + 1), run.failed)
