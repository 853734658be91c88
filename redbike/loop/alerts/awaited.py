"""For which due time a follower waits: it is late as well if its parents are, or have failed."""

from typing import NamedTuple

from redbike.schedule.moments import AWAITED
from redbike.store.inspected import JobState
from redbike.store.records import RetryState
from redbike.store.store import Store

MOST_LEVELS = 64  # of parents above a job


class Awaited(NamedTuple):
    """What a follower waits for."""

    due: float  # that it will have: the latest of its parents
    parents: list[str]  # those that have not ended


def find_awaited(store: Store, jobid: str, now: float) -> Awaited | None:
    """Return what a follower waits for; None if one of its parents is not due either. A round trip for each parent."""
    [state] = store.questions.inspect([jobid])
    due = _find_due(store, state, now, MOST_LEVELS)
    return None if due is None else Awaited(due, state.waits_for)


def _find_due(store: Store, state: JobState, now: float, levels: int) -> float | None:
    follows = state.follows
    if follows is None or not levels or not state.waits_for:
        return None
    dues = [float(due) for due in follows["ended"].values()]
    for parent in store.questions.inspect(state.waits_for):
        due = _find_pending(store, parent, now, levels)
        # What has failed for good does not end well any more.
        if due is None and follows["when"] == "ok":
            due = _find_failed(parent)
        if due is None:
            return None
        dues.append(due)
    return max(dues)


def _find_pending(store: Store, state: JobState, now: float, levels: int) -> float | None:
    """Return the due time of the occurrence of a parent that runs, waits or is tried again; None if there is none."""
    if place := state.run or state.waiting:
        return place.due
    if state.timeline == AWAITED:
        return _find_due(store, state, now, levels - 1)
    tried = RetryState.parse(state.retry_state).due
    if state.due is not None and tried is not None:
        return tried
    return state.due if state.due is not None and state.due <= now else None


def _find_failed(state: JobState) -> float | None:
    due = (state.failure or {}).get("due")
    return float(due) if isinstance(due, int | float) else None
