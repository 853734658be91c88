"""Wait for a run of a job, if one is to come."""

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

LOOK_AGAIN = 5.0  # seconds: no event says that the awaited run was withdrawn, or has expired
DRIFT = 0.001  # seconds by which two clocks may drift apart in each second


class ComingRun:
    """Finds whether a job has a run to come. `inspect` returns the state of the job."""

    def __init__(self, inspect: Callable[[], JobState]) -> None:
        self._inspect = inspect
        self._looked, self._tried = 0.0, RetryState()
        # A run that is not the one to wait for: its due time, and the number of its last try.
        self._before: tuple[float, float] | None = None
        self._since = -math.inf  # a run that began before this instant, by Redis' clock, is another run
        self._places: tuple[object, ...] = ()  # the run of the job, and its other places
        self._first: tuple[object, ...] = ()  # `_places` as `begin` found them
        self._asked_since = math.inf  # when the run to come was requested, by Redis' clock
        self.is_asked_for = False  # whether the job runs, or waits only for a worker, a retry, or the end of a pause

    @property
    def is_any(self) -> bool:
        """Whether a run is to come, by the last look."""
        return any(place is not None for place in self._places)

    @property
    def has_moved(self) -> bool:
        """Whether the job has moved since the first look: a run may have ended since."""
        return self._places != self._first

    def begin(self, asked_at: float | None = None) -> None:
        """Look for the first time. `asked_at` is when a single run was requested, see `read_clock`."""
        state = self.look()
        self._first = self._places
        if self.is_any:
            self._since = state.run.start if state.run else state.now
        elif asked_at is not None and state.dropped is not None:
            self._since = math.inf  # the requested run has expired
        if asked_at is not None:
            ago = read_clock() - asked_at
            self._since = max(self._since, state.now - ago * (1 + DRIFT) - CLOCKS_DIFFER)

    def begin_asked(self, state: JobState, since: float) -> None:
        """Wait for the run that was requested at `since`, by Redis' clock. `state` is the job shortly before this."""
        self._asked_since = self._since = since
        tried, failure = RetryState.parse(state.retry_state), state.failure or {}
        if state.run:
            self._before = state.run.due, max(tried.tries, state.run.failures + state.run.losses) + 1
        elif tried.due is not None:
            self._before = tried.due, tried.tries
        elif isinstance(failure.get("due"), int | float) and isinstance(failure.get("attempt"), int):
            self._before = failure["due"], failure["attempt"]

    def look(self) -> JobState:
        """Read and return the current state of the job."""
        self._looked, state = time.monotonic(), self._inspect()
        self._tried = RetryState.parse(state.retry_state)
        self._places = state.run, state.waiting, state.timeline, state.held
        due = state.held if state.pause else state.due
        is_retry = due is not None and self._tried.has_begun and self._tried.due is not None
        is_held = state.pause and due is not None and due <= state.now
        self.is_asked_for = bool(state.run or state.waiting or is_retry or is_held)
        # `Left.SET` is not among these: to set a recurring job again does not request a further run.
        goes_on = (Left.OWED, Left.ANEW, Left.ONCE)
        if state.run and state.run.next.startswith(goes_on) and state.run.start < self._asked_since:
            # An owed run is the next try of this occurrence, if this run fails and is retried.
            is_owed = state.run.next.startswith(Left.OWED)
            # The retry state is gone if the job was set during the run.
            tries = max(self._tried.tries, state.run.failures + state.run.losses)
            self._before = state.run.due, tries + 1 if is_owed else math.inf
        return state

    @property
    def is_none(self) -> bool:
        """Tell whether no run is to come, by a look at most `LOOK_AGAIN` seconds ago."""
        if time.monotonic() > self._looked + LOOK_AGAIN:
            self.look()
        return not self.is_any

    def awaits(self, run: PastRun) -> bool:
        """Tell whether `run` is the run to wait for."""
        # The start of a very late run is kept in whole seconds.
        exact = 1 / TICKS if run.started - run.due < LONG / TICKS - 1 else 1.0
        if run.started + exact < self._since:
            return False
        if self._before is None or run.due != self._before[0] or run.attempt > self._before[1]:
            return True
        # No higher attempt is kept: then only the start of the run decides.
        return run.attempt == MAX_ATTEMPT and self._before[1] < math.inf

    def is_tried_again(self, run: PastRun, kept: Iterable[PastRun]) -> bool:
        """Tell whether the occurrence of a run that has just ended is retried. `kept` are the kept runs of the job."""
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
    """Wait until a run of `jobid` ends, and return it. If none is to come, return the last one.

    For a `JobHandle`, only runs count that began after its call. Raise `TimeoutError` after `timeout`, or when
    `is_over`. Raise `NoSuchJob` if no run is kept, or the run to come was withdrawn or cancelled, or expired.
    """
    end = math.inf if timeout is None else time.monotonic() + read_duration("timeout", timeout)
    coming = ComingRun(lambda: inspect(jobid))
    # A run in flight that is not the one to wait for may end before this listens. If a test moves the clock, the
    # clock of the handle cannot be compared with it.
    coming.begin(jobid.asked_at if isinstance(jobid, JobHandle) and store.stopped_at is None else None)
    # Listen only to the shard of the job: another one may be away. The next look finds changes of all jobs.
    listen = list_listens(store)[store.number_shard(jobid)]
    events = listen(is_over=lambda: is_over() or time.monotonic() >= end or coming.is_none)
    with closing(cast(Generator[PastRun | LogEntry], events)):
        # The run may have ended before this listened; a recurring job then has a next one.
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
    """Return the ended runs of a job that are kept, the oldest first."""
    return sorted(store.journal.list_runs([jobid]), key=attrgetter("started"))
