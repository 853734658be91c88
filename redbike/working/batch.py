"""Short jobs, several at a time: the runs that a worker has taken under one tag, and how many it takes.

A worker takes as many jobs as its last ones would have filled `TARGET` with, and runs them in turn. It tells the server
of their ends without waiting for an answer: at once after a job that took longer than `UNTOLD`, so that no job that is
done is run again when its worker is killed, and `TOGETHER` at a time if they are very short. When a batch takes longer
than `PATIENCE`, another thread ends those that are done and gives back those that have not begun, so that other workers
may have them; then only the slow one is left.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from redbike.state.records import EndedRun, Run

MOST = 128  # jobs taken together
TARGET = 0.002  # seconds that they are to take
PATIENCE = 0.005  # seconds after which the rest is given back
TOGETHER = 64  # runs whose end is told together, while the next ones are run
UNTOLD = 25e-6  # seconds of work after which the end of a run is told at once: a killed worker's is repeated otherwise
STALE = 3.0  # seconds after which runs that have not begun may be another worker's: this one was suspended
LONG_ENOUGH = 1.0  # seconds: the timeout of a queue below which its jobs are taken one by one


class Pace:
    """How many jobs to take at a time, by how long the last ones took."""

    def __init__(self) -> None:
        self.number = 1

    def note(self, number: int, seconds: float) -> None:
        """`number` jobs took `seconds`: at most twice as many next time, as one measure is none."""
        fitting = int(TARGET * number / seconds) if seconds > 0 else MOST
        self.number = max(1, min(MOST, 2 * self.number, fitting))


class Batch:
    """Runs that were taken together, in order. Both ends are taken by atomic pops, so no run is done by two threads."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = list(runs)
        self.todo = deque(runs)
        self.done: deque[EndedRun] = deque()
        self.over: set[int] = set()  # the identities of those that were run
        self.watched: list[Run] = []  # those that the heartbeat was told of
        self.began = time.monotonic()
        self.changing = threading.Lock()  # held while runs are given back, and to close
        self.closed = False
        self.split = False


class Watch:
    """Calls `split(batch)`, from a thread of its own, for each batch that takes longer than `PATIENCE`.

    It costs a busy worker a look every few milliseconds, and an idle one nothing.
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
                self._thread = threading.Thread(target=self._look_on, name="redbike-batch", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _look_on(self) -> None:
        while True:
            batch = self._next()
            if batch is None:
                return
            left = batch.began + PATIENCE - time.monotonic()
            if left > 0:
                time.sleep(left)
            elif not batch.closed:
                batch.split = True
                self._split(batch)

    def _next(self) -> Batch | None:
        """The batch to look at, as soon as there is one; None when stopped."""
        with self._changed:
            while not self._stopped:
                batch = self._batch
                if batch is not None and not batch.closed and not batch.split:
                    return batch
                # Only now: `begin` need not wake whoever is about to look again.
                self._asleep = True
                if self._batch is batch:
                    self._changed.wait()
            return None
