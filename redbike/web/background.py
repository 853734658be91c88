"""What takes too long for a request: it is computed once for all who ask for it, beside the requests.

There is one thread, and only while there is something to compute. It leaves half of the time to the requests, and to
the server.
"""

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from redbike.errors import RedbikeError, Unreachable
from redbike.store.sharded.missing import tolerate_missing

log = logging.getLogger("redbike.web")

KEPT = 10.0  # seconds for which a result is kept
SHARE = 10  # or this many times what it took to compute, if that is more
RETRY = 5.0  # seconds after which it is tried again if it was not possible
MOST_RESULTS, MOST_WAITING = 8, 4  # that are kept, and that wait for the thread
LONGEST_PAUSE = 0.05  # seconds
PATIENCE = 0.08  # seconds for which one waits for the first result: few jobs are looked at in that time

Report = Callable[[int, int], None]


class Stopped(Exception):
    """The site is closed while something is computed."""


@dataclass
class Task:
    """Something that is computed, or was."""

    result: Any = None
    problem: str = ""  # why there is no newer result
    missing: dict[str, Unreachable] = field(default_factory=dict)  # the shards that the result lacks
    progress: float | None = None  # how much of the next result is done, from 0 to 1; None: nobody computes it
    _ended: float = field(default=float("-inf"), repr=False)  # monotonic
    _took: float = field(default=0.0, repr=False)
    _asked: float = field(default=0.0, repr=False)

    @property
    def age(self) -> float | None:
        """How many seconds the result is old; None without one."""
        return None if self.result is None else time.monotonic() - self._ended

    @property
    def is_fresh(self) -> bool:
        """Whether there is no need to compute it again."""
        if self.problem:
            return time.monotonic() - self._ended < RETRY
        # Shards that are missing may be back soon, and to wait for them was no work.
        share = 1 if self.missing else SHARE
        return time.monotonic() - self._ended < max(KEPT, share * self._took)


class Background:
    """Computes tasks, each known by a key. It may be asked from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._tasks: dict[Hashable, Task] = {}
        self._waiting: list[tuple[Task, Callable[[Report], Any]]] = []
        self._is_at_work = False
        self._closing = threading.Event()

    def get(self, key: Hashable, compute: Callable[[Report], Any]) -> Task:
        """Return the task `key` as it is now, and compute it if it is not fresh.

        Return a copy, which does not change any more: if the task ended while a page reads it, the page would show
        neither a result nor progress. `compute` is given a function to call now and then, with how much of how much
        is done. Wait a moment for the first result. Whoever uses a result notes what it is `missing`.
        """
        with self._lock:
            task = self._tasks.get(key)
            if task is None:
                self._forget_oldest()
                task = self._tasks[key] = Task()
            task._asked = time.monotonic()
            if task.progress is None and not task.is_fresh and not self._closing.is_set():
                if len(self._waiting) >= MOST_WAITING:
                    task.problem = task.problem or "too many other counts run; try again in a moment"
                else:
                    task.progress = 0.0
                    self._waiting.append((task, compute))
                    self._begin()
            if task.result is None:
                self._lock.wait_for(lambda: task.progress is None, PATIENCE)
            return replace(task)

    @contextmanager
    def open(self) -> Iterator[None]:
        """End what is being computed, soon, when this ends."""
        self._closing.clear()
        try:
            yield
        finally:
            self._closing.set()

    def _begin(self) -> None:
        if not self._is_at_work:
            self._is_at_work = True
            threading.Thread(target=self._work, name="redbike-web-background", daemon=True).start()

    def _forget_oldest(self) -> None:
        idle = [key for key, task in self._tasks.items() if task.progress is None]
        while len(self._tasks) >= MOST_RESULTS and idle:
            oldest = min(idle, key=lambda key: self._tasks[key]._asked)
            idle.remove(oldest)
            del self._tasks[oldest]

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_at_work = False
                    return
                task, compute = self._waiting.pop(0)
            self._compute(task, compute)

    def _compute(self, task: Task, compute: Callable[[Report], Any]) -> None:
        began = time.monotonic()
        result, problem, missing = task.result, task.problem, task.missing
        try:
            with tolerate_missing() as silent:
                result, problem, missing = compute(self._make_report(task)), "", silent
        except Stopped:
            pass
        except RedbikeError as error:
            problem = str(error)
        except Exception:
            log.exception("something cannot be computed")
            problem = "it cannot be computed; the log of this page says why"
        with self._lock:
            task.result, task.problem, task.missing, task.progress = result, problem, missing, None
            task._ended = time.monotonic()
            task._took = task._ended - began
            self._lock.notify_all()

    def _make_report(self, task: Task) -> Report:
        last = time.monotonic()

        def report(done: int, number: int) -> None:
            nonlocal last
            task.progress = min(1.0, done / number) if number else 1.0
            if self._closing.wait(min(LONGEST_PAUSE, time.monotonic() - last)):
                raise Stopped
            last = time.monotonic()

        return report
