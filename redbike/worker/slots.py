"""The slots of a worker that runs several jobs at once, and the ends of runs that the server may not know yet."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from redbike.store.next_state import EndedRun, NextState
from redbike.store.run import Run
from redbike.worker.batch import TOGETHER


class Slots:
    """Counts the free slots: a slot is free again once the server knows how its run has ended."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._ended: list[EndedRun] = []
        self._told: list[EndedRun] = []
        self._changing = threading.Lock()
        # Two conditions: waking a thread that has nothing to do costs more than a short job.
        self._for_taker, self._for_ender = threading.Condition(self._changing), threading.Condition(self._changing)
        self._is_left = False  # whether ends are left to `wait_for_ends`, so to another thread
        self._is_over = False

    def note_end(self, run: Run, next_state: NextState) -> None:
        """Note how a run has ended."""
        with self._changing:
            self._ended.append((run, next_state))
            (self._for_ender if self._is_left else self._for_taker).notify()

    def wait(self, seconds: float) -> tuple[list[EndedRun], int]:
        """Wait until slots are free or runs have ended; return the ends, and the number of free slots with theirs."""
        with self._changing:
            if not (self._free or self._ended):
                self._for_taker.wait(seconds)
            ended, free = self._take_ended(), self._free
            self._free = 0
            return ended, free + len(ended)

    def _take_ended(self) -> list[EndedRun]:
        ended, self._ended = self._ended[:TOGETHER], self._ended[TOGETHER:]
        self._told = [*self._told, *ended]
        return ended

    def free(self, number: int, told: Sequence[EndedRun] = ()) -> None:
        """Free `number` slots; the server knows of the ends in `told`."""
        with self._changing:
            self._free += number
            known = set(map(id, told))
            self._told = [each for each in self._told if id(each) not in known]
            self._for_taker.notify()

    def put_back(self, ended: list[EndedRun], number: int) -> None:
        """Put back what `wait` has returned: nothing was done with it."""
        with self._changing:
            self._ended = [*ended, *self._ended]
        self.free(number - len(ended), ended)

    @contextmanager
    def leave_ends(self) -> Iterator[None]:
        """Leave the ends of runs during the block to `wait_for_ends`."""
        with self._changing:
            self._is_left = True
            self._for_ender.notify()
        try:
            yield
        finally:
            self._is_left = False

    def wait_for_ends(self) -> list[EndedRun]:
        """Wait for ends that `leave_ends` leaves to this thread, and return them; none when the worker is over."""
        with self._changing:
            while not (self._is_over or (self._is_left and self._ended)):
                self._for_ender.wait()
            return self._take_ended()

    def wait_until_all_free(self) -> None:
        """Wait until nothing runs any more."""
        with self._changing:
            self._is_left = True
            self._for_ender.notify()
            while self._free < self._size:
                self._for_taker.wait()
            self._is_over = True
            self._for_ender.notify()

    def list_untold(self) -> list[EndedRun]:
        """Return the ends that the server may not know yet."""
        with self._changing:
            return [*self._told, *self._ended]
