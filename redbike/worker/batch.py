"""Short jobs, several at a time: the runs that a worker has taken under one tag, and how many it takes.

1. A worker takes as many jobs as it can run in `TARGET` seconds, by how long the last ones took. It runs them in turn.
2. It tells the server of their ends without waiting for an answer. After a job that took longer than `UNREPORTED` it
   does so at once: if the worker is killed then, that job is not run again. Of very short jobs it tells later,
   `TOGETHER` at a time.
3. When a batch takes longer than `SPLIT_AFTER`, another thread ends the jobs that are done, and gives back those that
   have not begun, so that other workers may have them. Only the slow one is left.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from redbike.store.run import EndedRun, Run

MOST = 128  # jobs in a batch
TARGET = 0.002  # seconds that a batch should take
SPLIT_AFTER = 0.005  # seconds after which a batch is split
TOGETHER = 64  # ends in one request, while the next jobs are run
UNREPORTED = 25e-6  # seconds of work that the server may not know of: if the worker is killed, it is repeated
STALE = 3.0  # seconds after which a worker asks whether its runs are still its own: it may have been suspended
LONG_ENOUGH = 1.0  # seconds: with a shorter timeout, jobs are taken one by one


class Pace:
    """How many jobs to take at a time."""

    def __init__(self) -> None:
        self.number = 1

    def note(self, number: int, seconds: float) -> None:
        """Learn that `number` jobs took `seconds`. One sample is unreliable: it doubles the number at most."""
        fitting = int(TARGET * number / seconds) if seconds > 0 else MOST
        self.number = max(1, min(MOST, 2 * self.number, fitting))


class Batch:
    """Runs that were taken together, in order. Threads take them by atomic pops, so no run is done twice."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = list(runs)
        self.todo = deque(runs)
        self.done: deque[EndedRun] = deque()
        self.over: set[int] = set()  # the identities of the runs that are over
        self.watched: list[Run] = []  # the runs that have a heartbeat
        self.began = time.monotonic()
        self.changing = threading.Lock()  # held to give runs back, and to close
        self.closed = False
        self.split = False


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
                self._split(batch)

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
