"""Log a line for each run that has ended, in a thread of its own, so that it costs a worker little.

A job has at most one line a second, which may stand for several runs. If more than `MOST` runs end in a second, a last
line says how many more there were.

The same traceback is logged in full at most once a minute, however many jobs raise it, so that a different one can be
found. Each failure still gets a line, and ``redbike failures`` shows its whole traceback.
"""

import atexit
import logging
import os
import threading
import time
import traceback
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence

from redbike.loop.steps import list_ended_fields
from redbike.schedule.clock import format_length, format_took
from redbike.store.next_state import Answer, EndedRun
from redbike.store.runs import measure

log = logging.getLogger("redbike.worker")

PAUSE = 1.0  # seconds between two times that lines are written
MOST = 50  # runs after which further ones are only counted
LATE = 1.0  # seconds from which on the line says how late a run was
INTERVAL = 60.0  # seconds
MOST_REMEMBERED = 1000  # remembered tracebacks


class RunLog:
    """Logs runs that have ended."""

    def __init__(self) -> None:
        self._waiting: list[EndedRun] = []
        self._more = 0  # runs of which only the number is logged
        self._changing = threading.Lock()
        self._wanted, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def add(self, ended: Sequence[EndedRun], answers: Sequence[Answer]) -> None:
        """Log these runs soon, if the server has accepted their ends."""
        if not log.isEnabledFor(logging.INFO):
            return
        accepted = [each for each, answer in zip(ended, answers, strict=True) if answer.ends(each[1])]
        if not accepted:
            return
        with self._changing:
            if len(self._waiting) >= MOST:
                # They are only counted: keeping many objects for a second costs more than making them.
                self._more += len(accepted)
                return
            self._waiting += accepted
        if not self._wanted.is_set():
            if self._thread is None:
                self._start()
            self._wanted.set()

    def _start(self) -> None:
        with self._changing:
            if self._thread is None:
                # For programs that call `work_one` and end.
                atexit.register(self.stop)
                self._thread = threading.Thread(target=self._run, name="redbike-run-log", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Log what is left, and end the thread."""
        atexit.unregister(self.stop)
        if os.getpid() != self._process:
            # A forked process has no such thread.
            return
        self._stopping.set()
        self._wanted.set()
        with self._changing:  # another thread may be about to start it
            thread = self._thread
        if thread is not None:
            thread.join(PAUSE)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wanted.wait()
            self._wanted.clear()
            self._write()
            self._stopping.wait(PAUSE)
        self._write()

    def _write(self) -> None:
        with self._changing:
            waiting, more = self._waiting, self._more
            self._waiting, self._more = [], 0
        by_job = dict[str, list[EndedRun]]()
        for each in waiting:
            by_job.setdefault(each[0].jobid, []).append(each)
        for ended in by_job.values():
            text, fields = describe(ended)
            log.info("%s", text, extra={"fields": fields})
        if more:
            log.info("%s", f"{more:,} more runs have ended", extra={"fields": {"runs": more}})


def describe(ended: Sequence[EndedRun]) -> tuple[str, dict[str, object]]:
    """Return one line for some runs of a job, and the fields of an object in the log. Both describe the last run."""
    run, next_state = ended[-1]
    late, took = measure(run)
    outcomes = Counter(next_state.outcome for _, next_state in ended)
    lateness = f", {format_length(late)} late" if late >= LATE and not run.backfill_of else ""
    tried = f", try {run.attempt}" if run.attempt > 1 else ""
    each = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
    details = f": {each}" if len(outcomes) > 1 else ""
    others = f" ({len(ended):,} runs{details})" if len(ended) > 1 else ""
    text = f"{run.jobid}: {next_state.outcome} after {format_took(took)}{lateness}{tried}{others}"
    return text, list_ended_fields(run, next_state, late, took, len(ended))


class Tracebacks:
    """The tracebacks of the last minute. Two are the same if they lead through the same lines to the same exception."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: OrderedDict[Hashable, float] = OrderedDict()
        self._changing = threading.Lock()

    def keep_if_new(self, error: BaseException, queue: str) -> BaseException | None:
        """Return `error` of a job of `queue`, for ``exc_info``; None if its traceback was logged in the last minute."""
        lines = tuple((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))
        path, now = (queue, type(error), lines), self._clock()
        with self._changing:
            if now - self._logged.get(path, -INTERVAL) < INTERVAL:
                return None
            self._logged[path] = now
            self._logged.move_to_end(path)
            if len(self._logged) > MOST_REMEMBERED:
                self._logged.popitem(last=False)
            return error
