"""What cancelling the occurrence of a job does: what of it waits or runs, and when the job goes on."""

from redbike.config.settings import Settings, override
from redbike.loop.policies import decide_rescheduled
from redbike.schedule.parser import is_one_off
from redbike.store.enums import Skip
from redbike.store.inspected import JobState
from redbike.store.jobs import Cancellation
from redbike.store.records import RetryState
from redbike.store.run import Run


def compute_cancellation(state: JobState, settings: Settings) -> Cancellation | str:
    """Return what is to be cancelled of a job, and when it goes on; or a word if there is nothing to cancel."""
    if state.schedule is None:
        return "missing"
    found = {name: text for name, text in state.stored.items() if name in ("schedule", "timeline", "queued", "pause")}
    if state.run:
        return Cancellation(state.jobid, found, state.run.tag)
    due = _find_waiting(state)
    if due is None or state.running:
        return "idle"
    queue = state.waiting.queue if state.waiting else None
    after = RetryState.parse(state.retry_state).after
    # What came due since the job was paused is for whoever resumes it.
    until = state.pause.since if state.pause else state.now
    run = Run(state.jobid, due, "", until, until, 0, 0, state.schedule, queue or "", after=after)
    run.options = state.options
    next_state = decide_rescheduled(run, override(settings, state.options), until, why="")
    # CONTINUE goes on at once.
    goes_on = state.now if isinstance(next_state.due, str) else next_state.due
    skipped: dict[str, int] = {Skip.MISSED: next_state.missed} if next_state.missed else {}
    spent = goes_on is None and is_one_off(state.schedule)
    return Cancellation(state.jobid, found, None, queue, goes_on, spent, skipped)


def _find_waiting(state: JobState) -> float | None:
    """Return the due time of the occurrence that waits; None if there is none, or if its time is yet to come."""
    if state.waiting:
        return state.waiting.due
    waits_until = state.held if state.pause else state.timeline
    if state.queued or waits_until is None:
        return None
    tried = RetryState.parse(state.retry_state).due
    return tried if tried is not None else waits_until if waits_until <= state.now else None
