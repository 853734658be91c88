"""A line in the log for each run that has ended, written by a thread of its own, so that it costs a worker little.

A job has one line a second at most, which then stands for several runs. Where more than `MOST` runs end in a second, a
last line says how many more there were.
"""

import atexit
import logging
import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from redbike.schedule.forecast import format_length, format_took
from redbike.state.run import Answer, EndedRun, Placement, Run
from redbike.state.runs import measure
from redbike.words import Outcome

log = logging.getLogger("redbike.worker")

PAUSE = 1.0  # seconds between two times that lines are written
MOST = 50  # runs after which further ones are only counted
LATE = 1.0  # seconds from which on it is worth telling that a run was late


class RunLog:
    """Logs runs that have ended."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Sequence[EndedRun], Sequence[Answer]]] = []
        self._kept = self._more = 0  # runs that wait, and runs of which only the number is told
        self._changing = threading.Lock()
        self._wanted, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def add(self, ended: Sequence[EndedRun], answers: Sequence[Answer]) -> None:
        """Log these runs soon, if the server has accepted their ends."""
        if not log.isEnabledFor(logging.INFO):
            return
        with self._changing:
            if self._kept >= MOST:
                # Nothing is kept of them: to keep many objects for a second costs more than to make them.
                self._more += len(ended)
                return
            self._kept += len(ended)
            self._waiting.append((ended, answers))
        if not self._wanted.is_set():
            if self._thread is None:
                # For programs that call `work_one` and end.
                atexit.register(self.stop)
                self._thread = threading.Thread(target=self._write_on, name="redbike-run-log", daemon=True)
                self._thread.start()
            self._wanted.set()

    def stop(self) -> None:
        """Log what is left, and end the thread."""
        atexit.unregister(self.stop)
        if os.getpid() != self._process:
            # The child of a program has no such thread.
            return
        self._stopping.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(PAUSE)

    def _write_on(self) -> None:
        while not self._stopping.is_set():
            self._wanted.wait()
            self._wanted.clear()
            self._write()
            self._stopping.wait(PAUSE)
        self._write()

    def _write(self) -> None:
        with self._changing:
            waiting, more = self._waiting, self._more
            self._waiting, self._kept, self._more = [], 0, 0
        runs = dict[str, _Runs]()
        for ended, answers in waiting:
            for (run, placement), answer in zip(ended, answers, strict=True):
                if answer.word == "ok" and placement.outcome is not None:
                    runs.setdefault(run.jobid, _Runs()).add(run, placement)
        for each in runs.values():
            log.info("%s", each.describe(), extra={"fields": each.to_dict()})
        if more:
            log.info("%s", f"{more:,} more runs have ended", extra={"fields": {"runs": more}})


@dataclass(slots=True)
class _Runs:
    """The runs of a job since its last line."""

    run: Run | None = None
    placement: Placement | None = None
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    def add(self, run: Run, placement: Placement) -> None:
        self.run, self.placement = run, placement
        assert placement.outcome
        self.outcomes[placement.outcome] += 1

    def describe(self) -> str:
        run, (late, took) = self._last()
        assert self.placement
        tried = f", try {run.attempt}" if run.attempt > 1 else ""
        lateness = f", {format_length(late)} late" if late >= LATE else ""
        number = self.outcomes.total()
        each = ", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes.items())
        details = f": {each}" if len(self.outcomes) > 1 else ""
        others = f" ({number:,} runs{details})" if number > 1 else ""
        return f"{run.jobid}: {self.placement.outcome} after {format_took(took)}{lateness}{tried}{others}"

    def to_dict(self) -> dict[str, object]:
        """Return the fields of an object in the log."""
        run, (late, took) = self._last()
        assert self.placement
        return {
            "job": run.jobid,
            "due": run.due,
            "late": round(late, 6),
            "took": round(took, 6),
            "outcome": self.placement.outcome,
            "attempt": run.attempt,
            "runs": self.outcomes.total(),
        }

    def _last(self) -> tuple[Run, tuple[float, float]]:
        assert self.run
        return self.run, measure(self.run)
