"""Wait for the runs that a command has just asked for: of each job, the first one that has begun since."""

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

RETRY = 1.0  # seconds after which a server that is away is asked again
NAP = 1.0  # seconds after which a signal is noticed that came in an odd instant
HEARD = 1.0  # seconds in which an event is heard that has happened

Events = Generator[PastRun | LogEntry]


class EndedRun(NamedTuple):
    """How the run of a job has ended; None if it was withdrawn, or has expired, or nothing of it is kept."""

    jobid: str
    run: PastRun | None


class AskedRuns:
    """Runs jobs once now, and waits for these runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: queue.SimpleQueue[EndedRun | Exception] = queue.SimpleQueue()
        self._parts: dict[int, _Part] = {}  # by the number of their shard
        self._outage = Outage(complain)
        self.is_any_left_out = False  # whether a job was not asked for: it is gone, or for hosts of which none is there

    def run(self, store: Store, jobids: Iterable[str]) -> list[Steered]:
        """Run jobs once now, see `redbike.control.jobs.run_jobs`; note these runs as those to wait for."""
        steered = jobs.run_jobs(store, jobids, partial(self._ask, store))
        self.is_any_left_out = sum(len(part.coming) for part in self._parts.values()) < len(steered)
        return steered

    def _ask(self, store: Store, jobids: list[str]) -> list[str]:
        listens = list_listens(self._store)
        for number in dict.fromkeys(map(store.number_shard, jobids)):
            # It listens before anything can end.
            listen = listens[number]
            self._parts[number] = _Part(number, self._store.shards[number], listen, self._outage, self._told.put)
        states = {state.jobid: state for page in split(jobids, PAGE) for state in store.questions.inspect(page)}
        words = store.jobs.run_timed(jobids)
        for jobid, (_, since) in zip(jobids, words, strict=True):
            if not math.isnan(since):
                self._parts[store.number_shard(jobid)].add(jobid, states[jobid], since)
        return [word for word, _ in words]

    def wait(self) -> Iterator[EndedRun]:
        """Yield how each run has ended, as it ends; a thread waits for those of each shard."""
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
        """Yield why nobody runs jobs now, a sentence for each queue that no worker works."""
        workers = [each for each in self._store.workers.list_all() if each.kind == "worker" and each.state == "alive"]
        first = dict[str, str]()
        for jobid in chain.from_iterable(part.coming for part in self._parts.values()):
            first.setdefault(self._store.name_queue(jobid), jobid)
        for name, jobid in first.items():
            if name and not any(each.works(name) for each in workers):
                yield f"{jobid}: no worker works its queue {name}, so it waits for one"


class _Part:
    """The jobs of one shard whose runs are still to come. It listens from the beginning."""

    def __init__(
        self, number: int, shard: Store, listen: Callable[..., Iterator[PastRun | LogEntry]], outage: Outage,
        tell: Callable[[EndedRun | Exception], None],
    ) -> None:  # fmt: skip
        self.coming: dict[str, ComingRun] = {}
        self._number, self._shard, self._listen, self._outage, self._tell = number, shard, listen, outage, tell
        self._states: dict[str, JobState] = {}  # that were read for many jobs together
        self._held = set[str]()  # paused jobs of which it has said that they are
        self._over = set[str]()  # jobs whose run is over, as a look has found out before its end was heard
        self._looks_at = math.inf  # the next look at all of them
        self._soon, self._soon_at = set[str](), math.inf  # those at which it looks before that, and when
        self._events: Events | None = self._begin()

    def _begin(self) -> Events:
        return cast(Events, self._listen(is_over=self._is_over))

    def add(self, jobid: str, state: JobState, since: float) -> None:
        """Note that a job was asked to run; see `ComingRun.begin_asked`."""
        self.coming[jobid] = ComingRun(lambda: self._inspect(jobid))
        self.coming[jobid].begin_asked(state, since)

    def wait(self) -> None:
        """Tell how each run ends, or an error; a server that is away is waited for."""
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
            # Nothing of that is read, unless the run was lost, or has overrun.
            kept = self._shard.journal.list_runs([event.jobid])
            if self._find(self.coming[event.jobid], [event], kept):
                self._end(event.jobid, event)

    def _look_soon(self, jobid: str) -> None:
        # What has happened before is heard until then.
        self._soon.add(jobid)
        self._soon_at = min(self._soon_at, time.monotonic() + HEARD)

    def _look(self, jobids: Sequence[str]) -> None:
        """Look for runs that are over, and have not been heard of: nobody tells that one has expired."""
        for page in split(jobids, PAGE):
            # Before their runs: what has gone from its place meanwhile is among these.
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
                    # Its end is on the way, unless that was told while the server was away.
                    self._over.add(jobid)
                    self._look_soon(jobid)

    def _say_if_held(self, state: JobState) -> None:
        """Say once that a job waits for the end of its pause: that holds further tries of a run that was asked for."""
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
        """Return the first of `runs` that was asked for, and is not tried again."""
        return next((run for run in runs if coming.awaits(run) and not coming.is_tried_again(run, kept)), None)


def print_ends(asked: AskedRuns, timezone: str) -> int:
    """Print how each run ends, as ``redbike tail`` does; return 0 if all have succeeded, and 1 otherwise."""
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
