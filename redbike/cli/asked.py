"""Wait for the runs that a command has just asked for: of each job, the first one that has begun since."""

import math
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import NamedTuple, cast

from redbike.cli.messages import DONE, FAILED, complain
from redbike.cli.tail import describe_line
from redbike.control import jobs
from redbike.errors import RedbikeError, Unreachable
from redbike.facade.waiting import LOOK_AGAIN, ComingRun, list_kept
from redbike.process.signals import leave_to_others
from redbike.queries.events import make_line
from redbike.schedule.clock import Clock
from redbike.store.enums import Outcome
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.log import LogEntry
from redbike.store.namespace import PAGE, split
from redbike.store.patterns import Steered
from redbike.store.store import Store

RETRY = 1.0  # seconds after which a server that is away is asked again
NAP = 1.0  # seconds after which a signal is noticed that came in an odd instant
ASKED = ("queued", "owed")  # the words of jobs that run


class EndedRun(NamedTuple):
    """How the run of a job has ended; None if it was withdrawn, or has expired, or nothing of it is kept."""

    jobid: str
    run: PastRun | None


class AskedRuns:
    """Runs jobs once now, and waits for these runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parts: dict[int, _Part] = {}  # by the number of their shard
        self.is_any_left_out = False  # whether a job was not asked for: it is gone, or for hosts of which none is there

    def run(self, store: Store, jobids: Iterable[str]) -> list[Steered]:
        """Run jobs once now, see `redbike.control.jobs.run_jobs`; note these runs as those to wait for."""
        jobids = list(jobids)
        for number in dict.fromkeys(map(store.number_shard, jobids)):
            self._parts[number] = _Part(self._store.shards[number])
        steered = jobs.run_jobs(store, jobids)
        for jobid, word in steered:
            if word in ASKED:
                # The job on a host is in the shard of its base.
                self._parts[store.number_shard(jobid)].add(jobid)
            else:
                self.is_any_left_out = True
        return steered

    def wait(self) -> Iterator[EndedRun]:
        """Yield how each run has ended, as it ends; a thread waits for those of each shard."""
        told: queue.SimpleQueue[EndedRun | Exception] = queue.SimpleQueue()
        left = sum(len(part.coming) for part in self._parts.values())
        with leave_to_others():
            for part in self._parts.values():
                threading.Thread(target=part.wait, args=(told.put,), daemon=True).start()
        while left:
            try:
                found = told.get(timeout=NAP)
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
    """The jobs of one shard whose runs are still to come; make it before they are asked for."""

    def __init__(self, shard: Store) -> None:
        self.coming: dict[str, ComingRun] = {}
        self._shard = shard
        self._since = shard.timeline.read_clock()  # a run that has begun before that is another one
        self._states: dict[str, JobState] = {}  # that were read for many jobs together
        self._looked = -math.inf

    def add(self, jobid: str) -> None:
        """Note that a job was asked to run."""
        self.coming[jobid] = ComingRun(lambda: self._inspect(jobid), asked_since=self._since)
        self.coming[jobid].begin()

    def wait(self, tell: Callable[[EndedRun | Exception], None]) -> None:
        """Tell how each run ends, or an error; a server that is away is waited for."""
        is_away = False
        while self.coming:
            try:
                self._listen(tell)
                is_away = False
            except Unreachable as error:
                if not is_away:
                    complain(f"{error}; waiting for it")
                is_away, self._looked = True, -math.inf
                time.sleep(RETRY)
            except Exception as error:
                return tell(error)  # it is raised where it can be reported

    def _listen(self, tell: Callable[[EndedRun], None]) -> None:
        def is_over() -> bool:
            # At first, too: some may have ended before anybody has listened. Nobody tells that one has expired.
            if time.monotonic() >= self._looked + LOOK_AGAIN:
                self._looked = time.monotonic()
                self._look(tell)
            return not self.coming

        with closing(cast(Generator[PastRun | LogEntry], self._shard.events.listen(is_over=is_over))) as events:
            for event in events:
                if isinstance(event, LogEntry):
                    if event.jobid in self.coming:
                        self._looked = -math.inf
                elif event.jobid in self.coming:
                    kept = list_kept(self._shard, [event.jobid])
                    if self._find(self.coming[event.jobid], [event], kept):
                        del self.coming[event.jobid]
                        tell(EndedRun(event.jobid, event))

    def _look(self, tell: Callable[[EndedRun], None]) -> None:
        """Tell of runs that have ended already, and of those that will not come."""
        for page in split(list(self.coming), PAGE):
            # Before their runs: what has gone from its place meanwhile is among these.
            self._states = {state.jobid: state for state in self._shard.questions.inspect(page)}
            ended = defaultdict[str, list[PastRun]](list)
            for run in list_kept(self._shard, page):
                ended[run.jobid].append(run)
            for jobid in page:
                coming = self.coming[jobid]
                coming.look()
                found = self._find(coming, ended[jobid], ended[jobid])
                if found is not None or not coming.is_asked_for:
                    del self.coming[jobid]
                    tell(EndedRun(jobid, found))

    def _inspect(self, jobid: str) -> JobState:
        state = self._states.pop(jobid, None)
        return self._shard.questions.inspect([jobid])[0] if state is None else state

    @staticmethod
    def _find(coming: ComingRun, runs: Sequence[PastRun], kept: Sequence[PastRun]) -> PastRun | None:
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
            complain(f"{jobid}: it is not known to have run: it was withdrawn or cancelled, or its history is not kept")
        else:
            print(describe_line(make_line(run), clock), flush=True)
        if run is None or run.outcome != Outcome.OK:
            status = FAILED
    return status
