"""Decide where a job goes that was set, asked for, cancelled or paused during its run. All are pure functions.

The script that is to end the run commits nothing then. It replies with the schedule and with what was left behind.
`decide_again` computes the next state from that, and the script is called again.
"""

from dataclasses import replace

from redbike.config.settings import Settings
from redbike.loop.catchup import JUST_BEFORE, decide_next, keep_failed
from redbike.loop.policies import Why, decide_rescheduled
from redbike.schedule.parser import is_one_off
from redbike.store.enums import Left, Outcome, Skip
from redbike.store.next_state import Answer, NextState
from redbike.store.records import RetryState
from redbike.store.run import Run
from redbike.store.schedules import find_schedule


def decide_again(run: Run, next_state: NextState, changed: Answer, settings: Settings, now: float) -> NextState:
    """Decide again for a job that was set, asked for, paused or cancelled during its run, by what was `changed`."""
    if changed.left.startswith(Left.WAS_CANCELLED):
        return _decide_cancelled_again(run, next_state, changed, settings, now)
    return replace(_decide_changed(run, next_state, changed, settings, now), error=next_state.error)


def _decide_changed(run: Run, next_state: NextState, changed: Answer, settings: Settings, now: float) -> NextState:
    next_state = replace(next_state, left=changed.left)
    left, _, paused = changed.left.partition(Left.WAS_PAUSED)
    if left.startswith(Left.OWED):
        return decide_owed(run, next_state, changed.detail)
    is_of_pause = left == Left.NOTHING and changed.detail == run.schedule
    if is_of_pause:
        # What came due since the pause is decided when the job is resumed.
        return _decide_paused(run, next_state, settings, float(paused) if paused else now)
    # A further try would be of the old schedule.
    next_state = _give_up_retry(next_state)
    if left.startswith(Left.ANEW):
        moment = left.removeprefix(Left.ANEW).removesuffix(Left.ON_TIMELINE)
        return replace(next_state, place="due", due=float(moment), retry_state="")
    if left.endswith(Left.ON_TIMELINE):
        return replace(next_state, place="stay", due=None, retry_state="")
    now = float(paused) if paused else now
    # The new schedule has no occurrence before it was set. Where the old one would go on does not count.
    run = replace(run, schedule=changed.detail, options=changed.options, after=max(run.due, run.start))
    decided = decide_rescheduled(run, settings, now, why=next_state.why, failure=next_state.failure)
    kept = {name: getattr(next_state, name) for name in ("retried", "outcome", "given_up")}
    return replace(decided, left=changed.left, **kept)


def _give_up_retry(next_state: NextState) -> NextState:
    """Decide for an occurrence that is not tried again after all: a failed try that was no failure yet is one now."""
    if next_state.failed_try is not None:
        outcome = Outcome.FAILED if next_state.outcome == Outcome.RETRY else next_state.outcome
        return replace(next_state, retried=False, failure=next_state.failed_try, outcome=outcome)
    if next_state.outcome is None and next_state.place == "due":
        # Its worker could not do it, and has left it to others.
        return replace(next_state, given_up=Skip.WITHDRAWN)
    # Its worker has asked for another run, or was to stop: it has neither failed nor succeeded.
    return replace(next_state, outcome=Outcome.CANCELLED) if next_state.outcome == Outcome.RETRY else next_state


def _decide_paused(run: Run, next_state: NextState, settings: Settings, since: float) -> NextState:
    """Decide for a job that was paused at `since`, during its run: it goes on at its next occurrence, even if past."""
    if next_state.place != "next" or isinstance(next_state.due, str):
        return next_state
    schedule = find_schedule(run.jobid, run.schedule, run.options)
    decided = decide_next(run, schedule, settings, since)
    skipped = {name: getattr(decided, name) for name in ("missed", "overlapped", "late", "paused", "expired")}
    # What comes due from the pause on is neither run nor counted yet.
    after = RetryState.parse(decided.retry_state).after
    kept = replace(RetryState.parse(next_state.retry_state), after=after)
    retry_state = "" if kept == RetryState() else kept.format()
    return replace(next_state, due=decided.due, retry_state=retry_state, **skipped)


def decide_cancelled(run: Run, settings: Settings, now: float, why: Why = "") -> NextState:
    """Decide for a job whose run was cancelled: it goes on at its next occurrence, neither failed nor successful."""
    decided = keep_failed(decide_rescheduled(run, settings, now, why=why, retried=True), run.failed)
    return replace(decided, left=f"{Left.WAS_CANCELLED}{Left.NOTHING}", outcome=Outcome.CANCELLED)


def _decide_cancelled_again(
    run: Run, next_state: NextState, changed: Answer, settings: Settings, now: float
) -> NextState:
    """Decide for a job whose run was cancelled. What its worker decided counts: success, `StopWork` and `UnsetJob`."""
    failed = next_state.failure is not None or next_state.why or next_state.place in ("die", "due")
    decided = decide_cancelled(run, settings, now, next_state.why) if failed else next_state
    left = changed.left.removeprefix(Left.WAS_CANCELLED)
    if left != Left.NOTHING or changed.detail != run.schedule:
        decided = decide_again(run, decided, changed._replace(left=left), settings, now)
    return replace(decided, left=changed.left)


def decide_owed(run: Run, next_state: NextState, schedule: str) -> NextState:
    """Decide for a job of which a further run is owed: that run comes first, then the schedule goes on where it was."""
    moment = next_state.left.partition(Left.WAS_PAUSED)[0].removeprefix(Left.OWED).removesuffix(Left.ON_TIMELINE)
    asked_for = replace(next_state, place="due", due=float(moment), retry_state="")
    once = is_one_off(schedule)
    if once and schedule != run.schedule:
        return _give_up_retry(asked_for)
    if next_state.place == "due":
        # If this occurrence is tried again, that try is the run that was asked for. It counts failed occurrences anew.
        tried = replace(RetryState.parse(next_state.retry_state), failed=0)
        due = next_state.due if tried.due is None else tried.due
        if isinstance(due, float):
            return replace(asked_for, due=due, retry_state=tried.format())
    if once:
        return asked_for
    if next_state.place in ("stop", "unset") and schedule == run.schedule:
        return replace(asked_for, stops=True)
    after = run.due
    if next_state.place == "next":
        if not isinstance(next_state.due, float):
            return asked_for
        after = next_state.due - JUST_BEFORE
        if (counted_until := RetryState.parse(next_state.retry_state).after) is not None:
            # The run that is owed takes the place of the occurrence that came due during this one.
            asked_for, after = replace(asked_for, overlapped=asked_for.overlapped + 1), counted_until
    return replace(asked_for, retry_state=RetryState(after=after).format()) if schedule == run.schedule else asked_for
