"""Wait for the runs that a command has just requested: for each job, the first run that begins after the request."""

import math
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, cast

from redbike.cli.messages import DONE, FAILED, complain
from redbike.cli.output import UNKNOWN
from redbike.cli.tail import Outage, describe_line
from redbike.control import jobs
from redbike.errors import RedbikeError, Unreachable
from redbike.facade.waiting import LOOK_AGAIN, ComingRun
from redbike.process.signals import leave_to_others
from redbike.queries.events import make_line
from redbike.schedule.clock import Clock
from redbike.store.enums import Outcome
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.log import LogEntry
from redbike.store.namespace import PAGE, split
from redbike.store.patterns import Steered
from redbike.store.records import RetryState
from redbike.store.sharded.missing import list_listens
from redbike.store.store import Store

RETRY = 1.0  # seconds between two attempts to reach a server
NAP = 1.0  # seconds after which a signal is noticed at the latest
HEARD = 1.0  # seconds within which an event arrives

Events = Generator[PastRun | LogEntry]


class EndedRun(NamedTuple):
    """A job and how its run ended. `run` is None if it was withdrawn, has expired, or is not in the history."""

    jobid: str
    run: PastRun | None


class AskedRuns:
    """Runs jobs once now, and waits for these runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: queue.SimpleQueue[EndedRun | Exception] = queue.SimpleQueue()
        self._parts: dict[int, _Part] = {}  # by the number of their shard
        self._outage = Outage(complain)
        self.is_any_left_out = False  # whether a job did not run: it is gone, or it is for every host and none is there

    def run(self, store: Store, jobids: Iterable[str]) -> list[Steered]:
        """Run jobs once now, see `redbike.control.jobs.run_jobs`, and note their runs for `wait`."""
        steered = jobs.run_jobs(store, jobids, partial(self._ask, store))
        self.is_any_left_out = sum(len(part.coming) for part in self._parts.values()) < len(steered)
        return steered

    def _ask(self, store: Store, jobids: list[str]) -> list[str]:
        listens = list_listens(self._store)
        for number in dict.fromkeys(map(store.number_shard, jobids)):
            # Listen before any run can end.
            listen = listens[number]
            self._parts[number] = _Part(number, self._store.shards[number], listen, self._outage, self._told.put)
        states = {state.jobid: state for page in split(jobids, PAGE) for state in store.questions.inspect(page)}
        words = store.jobs.run_timed(jobids)
        for jobid, (_, since) in zip(jobids, words, strict=True):
            if not math.isnan(since):
                self._parts[store.number_shard(jobid)].add(jobid, states[jobid], since)
        return [word for word, _ in words]

    def wait(self) -> Iterator[EndedRun]:
        """Yield each run as it ends. For each shard, a thread waits. Raise the first error of a thread."""
        left = sum(len(part.coming) for part in self._parts.values())
        with leave_to_others():
            for part in self._parts.values():
                threading.Thread(target=part.wait, daemon=True).start()
        while left:
            try:
                found = self._told.get(timeout=NAP)
            except queue.Empty:
                continue
            if isinstance(found, Exception):
                raise found
            left -= 1
            yield found

    def list_unworked(self) -> Iterator[str]:
        """Yield a sentence for each queue of these jobs that has no live worker."""
        workers = [each for each in self._store.workers.list_all() if each.kind == "worker" and each.state == "alive"]
        first = dict[str, str]()
        for jobid in chain.from_iterable(part.coming for part in self._parts.values()):
            first.setdefault(self._store.name_queue(jobid), jobid)
        for name, jobid in first.items():
            if name and not any(each.works(name) for each in workers):
                yield f"{jobid}: no worker works its queue {name}, so it waits for one"


class _Part:
    """Waits for the runs of jobs on one shard. It listens for events from its creation on."""

    def __init__(
        self, number: int, shard: Store, listen: Callable[..., Iterator[PastRun | LogEntry]], outage: Outage,
        tell: Callable[[EndedRun | Exception], None],
    ) -> None:  # fmt: skip
        self.coming: dict[str, ComingRun] = {}
        self._number, self._shard, self._listen, self._outage, self._tell = number, shard, listen, outage, tell
        self._states: dict[str, JobState] = {}  # states that were read for many jobs in one request
        self._held = set[str]()  # paused jobs that were reported
        self._over = set[str]()  # jobs whose run is over by a poll, although the event of its end has not arrived
        self._looks_at = math.inf  # when to poll all jobs next
        self._soon, self._soon_at = set[str](), math.inf  # which jobs to poll earlier, and when
        self._events: Events | None = self._begin()

    def _begin(self) -> Events:
        return cast(Events, self._listen(is_over=self._is_over))

    def add(self, jobid: str, state: JobState, since: float) -> None:
        """Wait for the run of a job that was requested now; see `ComingRun.begin_asked`."""
        self.coming[jobid] = ComingRun(lambda: self._inspect(jobid))
        self.coming[jobid].begin_asked(state, since)

    def wait(self) -> None:
        """Send each `EndedRun`, or an error, to the queue. If the server is unreachable, wait for it."""
        self._looks_at = time.monotonic() + HEARD
        while self.coming:
            try:
                if self._events is None:
                    self._events, self._looks_at = self._begin(), -math.inf
                    self._outage.end(self._number)
                with closing(self._events) as events:
                    for event in events:
                        self._hear(event)
            except Unreachable as error:
                self._events = None
                self._outage.begin(self._number, error)
                time.sleep(RETRY)
            except Exception as error:
                return self._tell(error)  # it is raised where it can be reported

    def _is_over(self) -> bool:
        if time.monotonic() >= self._looks_at:
            self._looks_at = time.monotonic() + LOOK_AGAIN
            self._look(list(self.coming))
        elif time.monotonic() >= self._soon_at:
            jobids = [jobid for jobid in self._soon if jobid in self.coming]
            self._soon, self._soon_at = set(), math.inf
            self._look(jobids)
        return not self.coming

    def _hear(self, event: PastRun | LogEntry) -> None:
        if isinstance(event, LogEntry):
            if event.jobid in self.coming and event.action != "run":
                self._look_soon(event.jobid)
        elif event.jobid in self.coming:
            # `_find` uses `kept` only if the run was lost or has overrun.
            kept = self._shard.journal.list_runs([event.jobid])
            if self._find(self.coming[event.jobid], [event], kept):
                self._end(event.jobid, event)

    def _look_soon(self, jobid: str) -> None:
        # Events that happened before now arrive before this poll.
        self._soon.add(jobid)
        self._soon_at = min(self._soon_at, time.monotonic() + HEARD)

    def _look(self, jobids: Sequence[str]) -> None:
        """Poll for runs that are over without an event. For example, no event says that a run has expired."""
        for page in split(jobids, PAGE):
            # Read the states before the runs. A run that ends in between is among the runs.
            self._states = {state.jobid: state for state in self._shard.questions.inspect(page)}
            kept = defaultdict[str, list[PastRun]](list)
            for run in sorted(self._shard.journal.list_runs(page), key=attrgetter("started", "attempt")):
                kept[run.jobid].append(run)
            for jobid in page:
                coming = self.coming[jobid]
                state = coming.look()
                found = self._find(coming, kept[jobid], kept[jobid])
                if found is None and coming.is_asked_for:
                    self._say_if_held(state)
                    continue
                if jobid in self._over:
                    tries = [run for run in kept[jobid] if coming.awaits(run)]
                    self._end(jobid, found or next(reversed(tries), None))
                else:
                    # The event of its end is on the way, unless it was sent while the server was unreachable.
                    self._over.add(jobid)
                    self._look_soon(jobid)

    def _say_if_held(self, state: JobState) -> None:
        """Print once for a job that its pause holds the requested run, or its next try."""
        if state.pause and not (state.run or state.waiting or state.jobid in self._held):
            self._held.add(state.jobid)
            held = "next try" if RetryState.parse(state.retry_state).has_begun else "run"
            complain(f"{state.jobid}: it is paused, and its {held} is held until it is resumed")

    def _end(self, jobid: str, run: PastRun | None) -> None:
        del self.coming[jobid]
        self._tell(EndedRun(jobid, run))

    def _inspect(self, jobid: str) -> JobState:
        state = self._states.pop(jobid, None)
        return self._shard.questions.inspect([jobid])[0] if state is None else state

    @staticmethod
    def _find(coming: ComingRun, runs: Sequence[PastRun], kept: Iterable[PastRun]) -> PastRun | None:
        """Return the first of `runs` that was requested, and is not tried again; None for none."""
        return next((run for run in runs if coming.awaits(run) and not coming.is_tried_again(run, kept)), None)


def print_ends(asked: AskedRuns, timezone: str) -> int:
    """Print how each run ends, as ``redbike tail`` does. Return 0 if all jobs ran and succeeded, else 1."""
    status, clock = FAILED if asked.is_any_left_out else DONE, Clock(0.0, timezone)
    with suppress(RedbikeError):  # it is only advice
        for said in asked.list_unworked():
            complain(said)
    for jobid, run in asked.wait():
        if run is None:
            complain(f"{jobid}: {UNKNOWN}")
        else:
            print(describe_line(make_line(run), clock), flush=True)
            if run.outcome == Outcome.RETRY:
                complain(f"{jobid}: it is not tried again: somebody has cancelled it, or set or unset the job")
        if run is None or run.outcome != Outcome.OK:
            status = FAILED
    return status
