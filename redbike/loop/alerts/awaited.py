"""For which due time a follower waits: it is late as well if its parents are, or have failed."""

from collections.abc import Sequence
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


class Awaiting:
    """Finds what followers of `store` wait for at the instant `now`, each once."""

    def __init__(self, store: Store, now: float) -> None:
        self._store, self._now = store, now
        self._states: dict[str, JobState] = {}
        self._dues: dict[str, float | None] = {}

    def find(self, jobid: str) -> Awaited | None:
        """Return what a follower waits for; None if one of its parents is not due either."""
        [state] = self._read([jobid])
        due = self._find_due(state, MOST_LEVELS)
        return None if due is None else Awaited(due, state.waits_for)

    def _read(self, jobids: Sequence[str]) -> list[JobState]:
        fresh = [jobid for jobid in jobids if jobid not in self._states]
        self._states.update((state.jobid, state) for state in self._store.questions.inspect(fresh) if fresh)
        return [self._states[jobid] for jobid in jobids]

    def _find_due(self, state: JobState, levels: int) -> float | None:
        if state.jobid not in self._dues:
            self._dues[state.jobid] = None  # if it follows itself, as its record may be damaged
            self._dues[state.jobid] = self._compute_due(state, levels)
        return self._dues[state.jobid]

    def _compute_due(self, state: JobState, levels: int) -> float | None:
        follows = state.follows
        # That something will fail is not to be awaited.
        if follows is None or follows["when"] == "failed" or not levels or not state.waits_for:
            return None
        dues = [float(due) for due in follows["ended"].values()]
        for parent in self._read(state.waits_for):
            due = self._find_pending(parent, levels)
            # What has failed for good does not end well any more.
            if due is None and follows["when"] == "ok":
                due = _find_failed(parent)
            if due is None:
                return None
            dues.append(due)
        return max(dues)

    def _find_pending(self, state: JobState, levels: int) -> float | None:
        """Return the due time of the occurrence of a parent that runs, waits or is tried again; None if none does."""
        if place := state.run or state.waiting:
            return place.due
        if state.timeline == AWAITED:
            return self._find_due(state, levels - 1)
        tried = RetryState.parse(state.retry_state).due
        if state.due is not None and tried is not None:
            return tried
        return state.due if state.due is not None and state.due <= self._now else None


def _find_failed(state: JobState) -> float | None:
    due = (state.failure or {}).get("due")
    return float(due) if isinstance(due, int | float) else None
