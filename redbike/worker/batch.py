"""Short jobs, several at a time: the runs that a worker has taken under one tag, and how many it takes.

1. A worker takes as many jobs as it can probably run in `TARGET` seconds, as it has measured. It runs them in turn.
2. It sends their ends to the server without waiting for a reply. After a job that took longer than `UNREPORTED`, it
   sends them at once. If the worker is killed then, that job is not run again, unless the server had not yet answered
   the request before. The ends of very short jobs are sent later, `TOGETHER` at a time.
3. When a batch takes longer than `SPLIT_AFTER`, another thread ends the jobs that are done, and releases those that
   have not begun, so that other workers can take them. Only the slow job is left.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from redbike.errors import RedbikeError
from redbike.loop.loop import Loop
from redbike.loop.queues import Queues
from redbike.store.lease import LEASE
from redbike.store.next_state import EndedRun
from redbike.store.run import Run
from redbike.text.printable import name_number
from redbike.worker.heartbeat import Heartbeat
from redbike.worker.runner import Runner
from redbike.worker.source import Source

log = logging.getLogger("redbike.worker")

T = TypeVar("T")

MOST = 128  # jobs in a batch
TARGET = 0.002  # seconds that a batch should take
SPLIT_AFTER = 0.005  # seconds after which a batch is split
TOGETHER = 64  # ends in one request, while the next jobs are run
UNREPORTED = 25e-6  # seconds of work that the server may not know of: if the worker is killed, it is repeated
LONG_ENOUGH = 1.0  # seconds: with a shorter timeout, jobs are taken one by one


class Pace:
    """The number of jobs to take at a time."""

    def __init__(self) -> None:
        self.number = 1

    def note(self, number: int, seconds: float) -> None:
        """Learn that `number` jobs took `seconds`. One sample is unreliable: it doubles the number at most."""
        fitting = int(TARGET * number / seconds) if seconds > 0 else MOST
        self.number = max(1, min(MOST, 2 * self.number, fitting))


class Batch:
    """Runs that were taken together, in order. Threads take them by atomic pops, so no run is done twice.

    If it `is_shared`, only other threads use the source of its jobs once it is split.
    """

    def __init__(self, runs: Sequence[Run], is_shared: bool = False) -> None:
        self._is_shared = is_shared
        self.runs = list(runs)
        self.todo = deque(runs)
        self.done: deque[EndedRun] = deque()
        self.over: set[int] = set()  # the identities of the runs that are over
        self.watched: list[Run] = []  # the runs that have a heartbeat
        self.began = time.monotonic()
        self.changing = threading.Lock()  # held to release runs, and to close
        self.closed = False
        self.split = False
        self.settled = threading.Event()  # it is over, or split

    @property
    def has_source(self) -> bool:
        """Tell whether its thread may use the source."""
        return not (self.split and self._is_shared)


class Watch:
    """Calls `split(batch)`, in a thread of its own, for each batch that takes longer than `SPLIT_AFTER`.

    The thread wakes every few milliseconds while batches are run, and never while the worker is idle.
    """

    def __init__(self, split: Callable[[Batch], None]) -> None:
        self._split = split
        self._batch: Batch | None = None
        self._asleep = True
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def begin(self, batch: Batch) -> None:
        """Watch `batch` until it is closed."""
        self._batch = batch
        if self._asleep:
            with self._changed:
                self._asleep = False
                self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="redbike-batch", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            batch = self._next()
            if batch is None:
                return
            left = batch.began + SPLIT_AFTER - time.monotonic()
            if left > 0:
                time.sleep(left)
            elif not batch.closed:
                batch.split = True
                try:
                    self._split(batch)
                except Exception:
                    # Later batches need this thread: until they are split, their runs have no heartbeats.
                    log.exception("jobs that were taken together cannot be divided")

    def _next(self) -> Batch | None:
        """Wait for a batch that is neither closed nor split, and return it; None when stopped."""
        with self._changed:
            while not self._stopped:
                batch = self._batch
                if batch is not None and not batch.closed and not batch.split:
                    return batch
                # Only now: `begin` need not wake a thread that is about to look again.
                self._asleep = True
                if self._batch is batch:
                    self._changed.wait()
            return None


class BatchRunner:
    """Runs batches, one after the other."""

    def __init__(self, loop: Loop, queues: Queues, source: Source, runner: Runner, heartbeat: Heartbeat) -> None:
        self._stopping = loop.stopping
        self._queues, self._find_shard = queues, loop.store.number_shard
        self._source = source
        self._runner = runner
        self._heartbeat = heartbeat
        self.watch = Watch(self.split)

    def stop(self) -> None:
        """End the thread that watches."""
        self.watch.stop()

    def run(self, batch: Batch) -> list[EndedRun]:
        """Run the jobs of `batch`; return the ends that were not sent to the server."""
        self.watch.begin(batch)
        self._runner.spent = 0.0
        try:
            while not batch.closed:
                self._run_in_turn(batch)
                with batch.changing:
                    batch.closed = not batch.todo or self._stopping.is_set()
        finally:
            batch.closed = True
            for run in batch.watched:
                self._heartbeat.remove(run)
        if batch.todo:
            self._source.release(list(batch.todo))
        return list(batch.done)

    def _run_in_turn(self, batch: Batch) -> None:
        stopping, fresh_until = self._stopping, self._source.fresh_until
        while batch.todo and not stopping.is_set():
            if time.monotonic() > fresh_until and batch.has_source:
                self._drop_stale(batch)
                fresh_until = self._source.fresh_until
            try:
                run = batch.todo.popleft()
            except IndexError:
                # The thread that splits batches was faster.
                return
            # Only now: a run that is released takes no turn.
            self._queues.advance(run.queue, self._find_shard(run.jobid))
            next_state = self._runner.run(run)
            batch.over.add(id(run))
            if batch.watched:
                # A run that has ended sends no heartbeat, while others of the batch still run.
                self._heartbeat.remove(run)
            batch.done.append((run, next_state))
            if self._runner.spent > UNREPORTED or len(batch.done) >= TOGETHER:
                self._tell_ends(batch)
                self._runner.spent = 0.0

    def _tell_ends(self, batch: Batch) -> None:
        with batch.changing:
            if batch.has_source:
                self._source.send_ends(_drain(batch.done.popleft))
                return
        self._source.tell(_drain(batch.done.popleft))

    def _drop_stale(self, batch: Batch) -> None:
        """Remove the runs from `batch` that this worker has lost because it was suspended for long."""
        with batch.changing:
            if batch.has_source:
                batch.todo.extend(self._source.keep_own(_drain(batch.todo.popleft)))

    def split(self, batch: Batch) -> None:
        """End the runs of `batch` that are done, and release those that have not begun, as the batch takes long."""
        try:
            with batch.changing:
                if not batch.closed:
                    self._split_open(batch)
        finally:
            batch.settled.set()

    def _split_open(self, batch: Batch) -> None:
        # In this order: otherwise a run that ends in between would wait for a slow one that begins after it.
        rest = _drain(batch.todo.pop)[::-1]
        done = _drain(batch.done.popleft)
        # From now on, the runs take long enough for a heartbeat.
        left = batch.over | {id(run) for run in rest}
        batch.watched = [run for run in batch.runs if id(run) not in left]
        for run in batch.watched:
            self._heartbeat.add(run)
            if id(run) in batch.over:
                self._heartbeat.remove(run)
        try:
            self._source.tell(done, patience=LEASE)
            if batch.has_source:
                # The server may not have run the last request: it did not know the script, or its slot had moved.
                self._source.end([], patience=LEASE)
            if rest:
                self._source.release(rest, patience=LEASE)
        except RedbikeError as error:
            jobs = name_number(len(rest), "job")
            log.error("%s: cannot be ended or handed back, so they will count as lost: %s", jobs, error)


def _drain(pop: Callable[[], T]) -> list[T]:
    """Return all that `pop` returns until it raises `IndexError`."""
    found = []
    while True:
        try:
            found.append(pop())
        except IndexError:
            return found
