"""Compute in the background what takes too long for a request, once for all requests that need it.

One thread computes, and ends when nothing is left. It rests about half of the time, for the requests and the server.
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
SHARE = 10  # a result is kept for this many times its computing time, if that is longer than `KEPT`
RETRY = 5.0  # seconds after which a failed computation is tried again
MOST_RESULTS, MOST_WAITING = 8, 4  # the most tasks that are kept, and that wait for the thread
LONGEST_PAUSE = 0.05  # seconds
PATIENCE = 0.08  # seconds for which a request waits for the first result, which is enough for few jobs

Report = Callable[[int, int], None]


class Stopped(Exception):
    """The site was closed during a computation."""


@dataclass
class Task:
    """A computation, with its last result and its progress."""

    result: Any = None
    problem: str = ""  # why there is no newer result
    missing: dict[str, Unreachable] = field(default_factory=dict)  # the shards that the result lacks
    progress: float | None = None  # how much of the next result is done, from 0 to 1; None: nobody computes it
    _ended: float = field(default=float("-inf"), repr=False)  # monotonic
    _took: float = field(default=0.0, repr=False)
    _asked: float = field(default=0.0, repr=False)

    @property
    def age(self) -> float | None:
        """The age of the result in seconds; None without a result."""
        return None if self.result is None else time.monotonic() - self._ended

    @property
    def is_fresh(self) -> bool:
        """Whether the result, or the failure, is so new that it is not computed again."""
        if self.problem:
            return time.monotonic() - self._ended < RETRY
        # Missing shards may be back soon, and the computing time includes the wait for them.
        share = 1 if self.missing else SHARE
        return time.monotonic() - self._ended < max(KEPT, share * self._took)


class Background:
    """Computes tasks, each with a key. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._tasks: dict[Hashable, Task] = {}
        self._waiting: list[tuple[Task, Callable[[Report], Any]]] = []
        self._is_at_work = False
        self._closing = threading.Event()

    def get(self, key: Hashable, compute: Callable[[Report], Any]) -> Task:
        """Return the present state of the task `key`, and start `compute` if its result is not fresh.

        Wait up to `PATIENCE` seconds for the first result. `compute` gets a `Report`, which it has to call often, with
        the work that is done and all work. The caller has to report the `missing` shards. Return a copy, because a task
        that ends while a page reads it would show neither a result nor progress.
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
        """At the end of the block, stop the present computation soon."""
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
