"""Telling: the method ``ended`` of a worker class is called for each run that ended, however it ended.

1. The script that ends runs keeps them in ``-untold`` too, in the same step: the tag says that they are to be told.
2. The worker that had them calls ``ended``, and then removes them.
3. If it dies in between, or if it was a dispatcher that ended them, as their worker was lost, another worker of such a
   class does that: it claims them first, for some seconds.

So each run is told at least once; more than once only if a worker dies while it is at it.
"""

import asyncio
import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redbike.errors import RedbikeError
from redbike.state.entries import EntryRun
from redbike.state.history import read_run
from redbike.state.runs import Answer, Placement, Run
from redbike.state.store import Store
from redbike.state.untold import find_field
from redbike.texts import describe
from redbike.words import Outcome

log = logging.getLogger("redbike.worker")


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended."""

    event: Outcome
    error: str  # the last line of what went wrong, or ""
    seconds: float  # for which it ran; of a lost one, until that was found out
    next_run: float | None  # when its job is due next, in epoch seconds; None if it is not


class Teller:
    """Calls ``ended`` of `worker`, if it has that. Any thread may tell."""

    def __init__(self, store: Store, worker: object) -> None:
        self._store = store
        ended = getattr(worker, "ended", None)
        # A class may have something else of that name.
        self._ended: Any = ended if callable(ended) else None
        self.has_others = self.is_wanted  # whether others may have left something untold

    @property
    def is_wanted(self) -> bool:
        """Tell whether the worker class has ``ended``."""
        return self._ended is not None

    def tell(self, ended: Sequence[tuple[Run, Placement]], answers: Sequence[Answer]) -> None:
        """Tell of runs of this worker that one request has ended, from what it replied."""
        field = find_field(ended, answers) if self.is_wanted else None
        if field is None:
            return
        for (run, placement), answer in zip(ended, answers, strict=True):
            if answer.word == "ok" and placement.outcome is not None:
                seconds = max(0.0, run.over - run.began) if run.began else 0.0
                next_run = self._find_next(run, placement, answer)
                self._call(run, End(placement.outcome, placement.error, seconds, next_run))
        self._forget(field)

    def tell_others(self) -> None:
        """Tell of the runs of workers that are gone."""
        if not self.has_others:
            return
        self.has_others = False
        try:
            for field, runs in self._store.untold.claim_all():
                for run in runs:
                    self._tell_other(field.partition(" ")[0], run)
                self._store.untold.forget([field])
        except RedbikeError as error:
            self.has_others = True
            log.error("runs of lost workers cannot be told: %s", error)

    def _tell_other(self, tag: str, packed: EntryRun) -> None:
        past = read_run(packed.jobid, packed.packed, packed.worker)
        [state] = self._store.questions.inspect([packed.jobid], with_data=True)
        over = past.started + past.took
        run = Run(packed.jobid, past.due, tag, past.started, over, 0, 0, state.schedule or "", packed.queue)
        run.tries, run.options, run.stored_data, run.worker = past.attempt - 1, state.options, state.data, past.worker
        waiting = state.waiting.due if state.waiting else None
        self._call(run, End(past.outcome, past.error, past.took, state.timeline if waiting is None else waiting))

    def _find_next(self, run: Run, placement: Placement, answer: Answer) -> float | None:
        if answer.detail not in ("timeline", "queue", "held"):
            return None
        if isinstance(placement.due, str):
            return run.now() + float(placement.due)
        if placement.due is not None:
            return placement.due
        try:
            # Somebody has put it there during the run.
            return self._store.questions.inspect([run.jobid])[0].timeline
        except RedbikeError as error:
            log.warning("%s: nobody knows when it runs next: %s", run.jobid, error)
            return None

    def _call(self, run: Run, end: End) -> None:
        try:
            result = self._ended(run, end)
            if inspect.iscoroutine(result):
                asyncio.run(result)
        except Exception as error:
            # The method is the user's own: it may raise anything.
            log.error("%s: ended() of its worker class fails: %s", run.jobid, describe(error))

    def _forget(self, field: str) -> None:
        try:
            self._store.untold.forget([field])
        except RedbikeError as error:
            # Another worker, or this one, tells it once more.
            log.warning("%s: it will be told again that this run has ended: %s", field.partition(" ")[2], error)
