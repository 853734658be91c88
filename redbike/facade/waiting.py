"""Wait for a run of a job, if it has one to wait for."""

import math
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import chain
from operator import attrgetter
from typing import cast

from redbike.errors import NoSuchJob
from redbike.schedule.moments import DurationLike, read_duration
from redbike.store.enums import Left, Outcome
from redbike.store.history import LONG, MAX_ATTEMPT, TICKS, PastRun, is_tried_again
from redbike.store.inspected import JobState
from redbike.store.lease import CLOCKS_DIFFER
from redbike.store.log import LogEntry
from redbike.store.records import RetryState
from redbike.store.sharded.missing import list_listens
from redbike.store.store import Store
from redbike.worker.calls import JobHandle, read_clock

LOOK_AGAIN = 5.0  # seconds: nobody says so when what is waited for is withdrawn, or expires
DRIFT = 0.001  # seconds in each second by which two clocks may run apart


class ComingRun:
    """Whether a job has a run that is to come, by what `inspect` finds."""

    def __init__(self, inspect: Callable[[], JobState]) -> None:
        self._inspect = inspect
        self._looked, self._tried = 0.0, RetryState()
        # The due time of a run that is not the one to wait for, and the number of its try, or of the last one.
        self._before: tuple[float, float] | None = None
        self._since = -math.inf  # what began before that, by Redis' clock, is another run
        self._places: tuple[object, ...] = ()  # its run, and where else it is
        self._first: tuple[object, ...] = ()  # as it was found first
        self._asked_since = math.inf  # when the run was asked for that is to come, by Redis' clock
        self.is_asked_for = False  # whether it waits for no more than a worker, a retry, or the end of a pause

    @property
    def is_any(self) -> bool:
        """Whether one is to come, as it was found last."""
        return any(place is not None for place in self._places)

    @property
    def has_moved(self) -> bool:
        """Whether it is not where it was found first: a run may have ended since."""
        return self._places != self._first

    def begin(self, asked_at: float | None = None) -> None:
        """Look for the first time; `asked_at` is when a single run was asked for, see `read_clock`."""
        state = self.look()
        self._first = self._places
        if self.is_any:
            self._since = state.run.start if state.run else state.now
        elif asked_at is not None and state.dropped is not None:
            self._since = math.inf  # what was asked for has expired
        if asked_at is not None:
            ago = read_clock() - asked_at
            self._since = max(self._since, state.now - ago * (1 + DRIFT) - CLOCKS_DIFFER)

    def begin_asked(self, state: JobState, since: float) -> None:
        """Wait for the run that was asked for at `since`, by Redis' clock; `state` is the job shortly before that."""
        self._asked_since = self._since = since
        tried, failure = RetryState.parse(state.retry_state), state.failure or {}
        if state.run:
            self._before = state.run.due, max(tried.tries, state.run.failures + state.run.losses) + 1
        elif tried.due is not None:
            self._before = tried.due, tried.tries
        elif isinstance(failure.get("due"), int | float) and isinstance(failure.get("attempt"), int):
            self._before = failure["due"], failure["attempt"]

    def look(self) -> JobState:
        """Look at the job as it is now."""
        self._looked, state = time.monotonic(), self._inspect()
        self._tried = RetryState.parse(state.retry_state)
        self._places = state.run, state.waiting, state.timeline, state.held
        due = state.held if state.pause else state.due
        is_retry = due is not None and self._tried.has_begun and self._tried.due is not None
        is_held = state.pause and due is not None and due <= state.now
        self.is_asked_for = bool(state.run or state.waiting or is_retry or is_held)
        # A recurring job that was set anew has not been asked to run once more.
        goes_on = (Left.OWED, Left.ANEW, Left.ONCE)
        if state.run and state.run.next.startswith(goes_on) and state.run.start < self._asked_since:
            # One that is owed is the next try, if this one fails and is tried again.
            is_owed = state.run.next.startswith(Left.OWED)
            # The other record is gone if the job was set during the run.
            tries = max(self._tried.tries, state.run.failures + state.run.losses)
            self._before = state.run.due, tries + 1 if is_owed else math.inf
        return state

    @property
    def is_none(self) -> bool:
        """Tell whether none is to come, as found out `LOOK_AGAIN` seconds ago at most."""
        if time.monotonic() > self._looked + LOOK_AGAIN:
            self.look()
        return not self.is_any

    def awaits(self, run: PastRun) -> bool:
        """Tell whether that is the run to wait for."""
        # When a run began that was very late, is kept in whole seconds.
        exact = 1 / TICKS if run.started - run.due < LONG / TICKS - 1 else 1.0
        if run.started + exact < self._since:
            return False
        if self._before is None or run.due != self._before[0] or run.attempt > self._before[1]:
            return True
        # No higher number is kept: then only the time tells.
        return run.attempt == MAX_ATTEMPT and self._before[1] < math.inf

    def is_tried_again(self, run: PastRun, kept: Iterable[PastRun]) -> bool:
        """Tell whether the occurrence of a run that has just ended is tried again; `kept` are the runs of the job."""
        if run.outcome in (Outcome.LOST, Outcome.OVERRUN):
            self.look()
        return is_tried_again(run, self._tried, kept)


def wait_for_run(
    store: Store,
    jobid: str,
    timeout: DurationLike | None,
    is_over: Callable[[], bool],
    inspect: Callable[[str], JobState],
) -> PastRun:
    """Return a run of `jobid` that ends, or the last one if none is to come.

    Of a `JobHandle`, only a run counts that began after the call. Raise `TimeoutError` after `timeout`, or when
    `is_over`, and `NoSuchJob` if no run is kept, or what was to come does not run.
    """
    end = math.inf if timeout is None else time.monotonic() + read_duration("timeout", timeout)
    coming = ComingRun(lambda: inspect(jobid))
    # A run that goes on now, and is not the one to wait for, may end while this begins to listen. Where a test moves
    # the clock, the other one says nothing.
    coming.begin(jobid.asked_at if isinstance(jobid, JobHandle) and store.stopped_at is None else None)
    # Only its own shard: another one may be away. What concerns all jobs is found out by looking again.
    listen = list_listens(store)[store.number_shard(jobid)]
    events = listen(is_over=lambda: is_over() or time.monotonic() >= end or coming.is_none)
    with closing(cast(Generator[PastRun | LogEntry], events)):
        # It may have ended before anybody has listened; a recurring job has a next one then.
        coming.look()
        missed = _list_kept(store, jobid) if coming.is_any and coming.has_moved else ()
        for event in chain(missed, events) if coming.is_any else ():
            if isinstance(event, LogEntry):
                if event.jobid in (jobid, ""):  # "" is everything
                    coming.look()
            elif event.jobid != jobid or not coming.awaits(event):
                continue
            elif not coming.is_tried_again(event, store.journal.list_runs([jobid])):
                return event
    if coming.is_any:
        raise TimeoutError(f"no run of {jobid!r} has ended in time")
    kept = _list_kept(store, jobid)
    if not kept:
        raise NoSuchJob(f"no run of {jobid!r} is kept, and none will come")
    if not coming.awaits(kept[-1]):
        raise NoSuchJob(f"{jobid!r} does not run any more: what was to come was withdrawn or cancelled, or has expired")
    return kept[-1]


def _list_kept(store: Store, jobid: str) -> list[PastRun]:
    """Return the ended runs of a job that are kept, the first one first."""
    return sorted(store.journal.list_runs([jobid]), key=attrgetter("started"))
