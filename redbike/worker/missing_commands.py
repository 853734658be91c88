"""Leave a job to other workers of its queue if this worker has no command or function for it. This is no failure.

Each time, the job waits on the timeline for a moment. Then an idle worker that has its command takes it before this
one, as Redis first serves the client that has waited longest. So workers with different commands can share a queue, and
so can two versions of a program with functions. If no worker has the command, the waits grow, so that no worker takes
the same job all the time, and the entry of this worker names the job, for ``health``. The occurrence keeps its due
time and its tries: it has no run.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from redbike.errors import RedbikeError
from redbike.loop.naming import knows_commands, knows_functions
from redbike.loop.policies import decide_left
from redbike.store.next_state import NextState
from redbike.store.processes import Takers
from redbike.store.run import Run
from redbike.store.shell import QUEUE, get_taker, is_of_shell, say_need

log = logging.getLogger("redbike.worker")

SHORT = 0.5  # seconds until a job is offered again whose command another worker has
FIRST, LONGEST = 1.0, 20.0  # the same if no worker has it: twice as long each time
FORGOTTEN = 3 * LONGEST  # seconds after which a job that did not come again is forgotten
SURE = 2  # times that a job is left before other workers are checked for its command: they may just be starting
MOST, TOLD = 10_000, 20  # jobs that are remembered, and that the entry of the worker names


@dataclass(slots=True)
class _Left:
    """A job that was left."""

    queue: str
    at: float  # when it was left last, by the monotonic clock
    times: int = 0
    is_nobodys: bool = False  # as far as is known, no other worker has what it needs


class MissingCommands:
    """Leaves the jobs that `worker` has no command or function for, from any thread.

    `takers` knows which commands and functions other workers have.
    """

    def __init__(self, worker: Any, takers: Takers) -> None:
        self._kind, self._knows = "", None  # what jobs need, and whether the worker has that of a job
        if knows_commands(worker):
            self._kind, self._knows = "command", worker.has_command
        elif knows_functions(worker):
            self._kind, self._knows = "function", worker.has_function
        self._worker = worker
        # A class with neither may run any job, except a one-off of a shell. Checking more would cost each run.
        self.leave = self.decide if self._knows else self._decide_of_shell
        self._takers = takers
        self._left: OrderedDict[str, _Left] = OrderedDict()  # by job id; the one that was left last is at the end
        self._changing = threading.Lock()

    def decide(self, run: Run) -> NextState | None:
        """Return the next state of the job of `run` if it is left to other workers; None if this worker runs it."""
        if self._has(run.base):
            if self._left:
                with self._changing:
                    self._left.pop(run.base, None)
            return None
        with self._changing:
            left = self._note(run)
            times = left.times
        if times == 1:
            log.info("%s: left to other workers: this one has no %s %r", run.base, self._kind, get_taker(run.base))
        if times >= SURE:
            was, left.is_nobodys = left.is_nobodys, not self._takers.has_taker(run.base, run.queue)
            if left.is_nobodys and not was:
                self._complain(run)
        return decide_left(run, min(LONGEST, FIRST * 2.0 ** (times - 1)) if left.is_nobodys else SHORT)

    def _decide_of_shell(self, run: Run) -> NextState | None:
        return self.decide(run) if run.queue == QUEUE else None

    def list_lacking(self) -> dict[str, str]:
        """Return the queues of up to `TOLD` jobs that no worker can run, by job id, for the entry of this worker."""
        if not self._left:
            return {}
        with self._changing:
            return dict(islice(self._list_lacking(), TOLD))

    def _list_lacking(self) -> Iterator[tuple[str, str]]:
        now = time.monotonic()
        for jobid, left in self._left.items():
            if left.is_nobodys and now - left.at < FORGOTTEN and not self._has(jobid):
                yield jobid, left.queue

    def _has(self, jobid: str) -> bool:
        if self._knows is None:
            return not is_of_shell(jobid)  # it would not run what such a job says
        try:
            return bool(self._knows(jobid))
        except RedbikeError:
            return True  # the run raises the error

    def _note(self, run: Run) -> _Left:
        now = time.monotonic()
        left = self._left.pop(run.base, None)
        if left is None or now - left.at > FORGOTTEN:
            left = _Left(run.queue, now)
        left.queue, left.at, left.times = run.queue, now, left.times + 1
        self._left[run.base] = left
        if len(self._left) > MOST:
            self._left.popitem(last=False)
        return left

    def _complain(self, run: Run) -> None:
        need = say_need(get_taker(run.base))
        why = f"no worker of its queue {run.queue!r} {need}"
        log.error("%s: %s; it waits for one that does", run.base, why)
        tell: Callable[[Run, str], None] | None = getattr(self._worker, "tell_missing", None)
        if tell:
            tell(run, why)
