"""Resume paused jobs: on request, or by the dispatcher when a pause is over.

An occurrence that came due while a job was paused was missed, so ``catchup`` decides. One that is due when the pause
ends by itself, or later, is only late. One that waited in a queue when the job was paused, a further try, and a one-off
run in any case, unless they have expired. An occurrence that was not in a queue yet, and is late by more than
``grace``, does not run.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from redbike.config.settings import Settings, override
from redbike.loop.catchup import (
    COUNT_LIMIT,
    JUST_BEFORE,
    find_expiry,
    give_up_expired,
    pass_late_ones,
    pass_surplus,
)
from redbike.schedule.kinds import Schedule
from redbike.store.enums import Event, Left, Skip
from redbike.store.inspected import JobState
from redbike.store.namespace import PAGE
from redbike.store.pauses import JOB_TIMER, Resumption
from redbike.store.records import Pause, RetryState
from redbike.store.run import Run
from redbike.store.schedules import read_schedule
from redbike.store.store import Store
from redbike.store.timeline import is_ahead

log = logging.getLogger("redbike.dispatcher")


def resume(store: Store, settings: Settings, jobids: Iterable[str], only_over: bool = False) -> list[str]:
    """Resume jobs, and return for each where it is now, or ``unchanged``: it was not paused.

    With `only_over`, resume only those whose pause is over.
    """
    left, words = list(jobids), dict[str, str]()
    order = list(left)
    while left:
        page, left = left[:PAGE], left[PAGE:]
        found = store.questions.inspect(page)
        resumed = [
            (state, decide_resumed(state, override(settings, state.options)))
            for state in found
            if (state.paused or state.timer) and not (only_over and (state.timer is None or state.timer > state.now))
        ]
        replies = zip(resumed, store.pauses.resume(resumed), strict=True)
        words |= dict.fromkeys(page, "unchanged") | {state.jobid: word for (state, _), word in replies}
        # Try those again that have changed since they were inspected.
        left = [jobid for jobid in page if words[jobid] == "stale"] + left
    return [words[jobid] for jobid in order]


def resume_over(store: Store, settings: Settings, timers: Sequence[str]) -> bool:
    """Resume the jobs whose pauses are over; return False if none of `timers` is of a job."""
    jobids = [timer.removeprefix(JOB_TIMER) for timer in timers if timer.startswith(JOB_TIMER)]
    for jobid, word in zip(jobids, resume(store, settings, jobids, only_over=True), strict=True):
        log.info("%s: its pause is over; now %s", jobid, word)
    return bool(jobids)


def decide_resumed(state: JobState, settings: Settings) -> Resumption:
    """Return where a paused job goes on: a pure function of what is known of it."""
    pause, retry_state = state.pause, RetryState.parse(state.retry_state)
    if pause and pause.due is not None and is_ahead(pause.since, state.now):
        # It was paused by a clock that was ahead. A job that was not in a queue came due later.
        began = state.now if state.has_event(Event.ENQ) else min(state.now, pause.due - JUST_BEFORE)
        pause = replace(pause, since=began)
    if pause is None or pause.due is None:
        return Resumption()
    schedule = read_schedule(state.jobid, state.schedule, state.options)
    if schedule is None:
        return Resumption(pause.due)
    if state.running:
        # What comes due while a run goes on is counted when that ends, unless it is owed then.
        is_owed = state.run is not None and state.run.next == Left.ONCE
        return Resumption(pause.due if pause.due > state.now or is_owed else None)
    due, late = pause.due, dict[Skip, int]()
    # What was in a queue before, or was asked for, is not late.
    is_asked_for = (retry_state.due, retry_state.after) != (None, None)
    if not (state.has_event(Event.ENQ) or retry_state.alone or is_asked_for):
        first, late = pass_late_ones(schedule, due, state.now, settings)
        if first is None:
            # What runs only once never ran: its due time is kept, as `lua/skip.lua` keeps it.
            kept = RetryState(due=due, after=due).format() if schedule.runs_once else ""
            return Resumption(spent=True, retry_state=kept, skipped=late)
        due = first
    elif expired := _drop_expired(state, retry_state, pause, schedule, settings):
        return expired
    # A pause that ends by itself ends before that time, whenever somebody sees it.
    last = state.now if state.timer is None or state.timer > state.now else state.timer - JUST_BEFORE
    resumption = _decide_held(due, pause, retry_state, schedule, settings, state.now, last)
    return replace(resumption, skipped={**late, **resumption.skipped}) if late else resumption


def _drop_expired(
    state: JobState, retry_state: RetryState, pause: Pause, schedule: Schedule, settings: Settings
) -> Resumption | None:
    """Decide for a job whose run was in a queue before, and has expired since; None if it has not."""
    assert pause.due is not None
    due = pause.due if retry_state.due is None else retry_state.due
    run = Run(state.jobid, due, "", pause.since, pause.since, 0, 0, schedule.text, "", tries=retry_state.tries)
    run.after, run.alone, run.failed = retry_state.after, retry_state.alone, retry_state.failed
    expiry = find_expiry(run, schedule, settings)
    if expiry is None or state.now < expiry - JUST_BEFORE:
        return None
    dropped = give_up_expired(run, schedule, settings, pause.since)
    if not isinstance(dropped.due, float):
        return Resumption(spent=True, retry_state=dropped.retry_state, skipped=dropped.skipped)
    # What came due since it was paused is decided as if nothing had waited then.
    held = replace(pause, due=dropped.due).format()
    resumption = decide_resumed(replace(state, paused=held, retry_state="", status=None), settings)
    skipped = Counter(dropped.skipped)
    skipped.update(resumption.skipped)
    kept = RetryState.parse(resumption.retry_state or dropped.retry_state)
    return replace(resumption, retry_state=replace(kept, failed=run.failed).format(), skipped=skipped)


def _decide_held(
    due: float, pause: Pause, retry_state: RetryState, schedule: Schedule, settings: Settings, now: float, last: float
) -> Resumption:
    """Decide for a job that is held for `due`, which is not late; `last` is the last instant of the pause."""
    if retry_state.due is not None or due <= pause.since:
        return _decide_waiting(due, pause, retry_state, schedule, settings, now)
    if due > last or schedule.runs_once or schedule.allows_pause:
        return Resumption(due)
    if settings.catchup == "none":
        following = schedule.find_place(last)
        missed = 1 + schedule.count(due, last, COUNT_LIMIT)
        return Resumption(following, spent=following is None, skipped={Skip.PAUSED: missed})
    return _decide_missed(due, retry_state, schedule, settings, now)


def _decide_missed(
    due: float, retry_state: RetryState, schedule: Schedule, settings: Settings, now: float
) -> Resumption:
    """Decide for a job that came due at `due` while it was paused, by ``catchup``."""
    total = 1 + schedule.count(due, now, COUNT_LIMIT)
    first: float | None = due
    if settings.catchup == "all" and total > settings.catchup_limit:
        first = schedule.find_place(pass_surplus(schedule, due, now, settings.catchup_limit)[1])
    if first is None or first > now:
        following = schedule.find_place(now)
        return Resumption(following, spent=following is None, skipped={Skip.PAUSED: total})
    if settings.catchup == "all":
        surplus = 0 if first == due else schedule.count(due, first, COUNT_LIMIT)
        return Resumption(first, skipped={Skip.PAUSED: surplus} if surplus else {})
    if total == 1:
        return Resumption(first)
    return Resumption(first, retry_state=replace(retry_state, after=now).format(), skipped={Skip.PAUSED: total - 1})


def _decide_waiting(
    due: float, pause: Pause, retry_state: RetryState, schedule: Schedule, settings: Settings, now: float
) -> Resumption:
    """Decide for a job whose run was due before it was paused: that run is not missed, but later ones are."""
    run = Resumption(due, retry_state.due)
    after = retry_state.after or retry_state.due or due
    if schedule.runs_once or schedule.allows_pause:
        return run
    before = schedule.count(after, pause.since, COUNT_LIMIT)
    since = schedule.count(max(after, pause.since), now, COUNT_LIMIT)
    surplus, on = before + since, now
    if settings.catchup == "all":
        surplus, on = pass_surplus(schedule, after, now, settings.catchup_limit)
    if not surplus:
        return run
    missed = {Skip.MISSED: min(before, surplus), Skip.PAUSED: max(0, surplus - before)}
    run.skipped = {reason: number for reason, number in missed.items() if number}
    run.retry_state = replace(retry_state, after=on).format()
    return run
