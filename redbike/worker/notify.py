"""Notification: the method ``ended`` of a worker class is called for each run that ended, however it ended.

1. The script that ends runs also keeps them in the outbox, in the same step, if their tag says so.
2. The worker that had them calls ``ended``, and then removes them.
3. If this worker dies in between, or if a dispatcher ended the runs because their worker was lost, another worker of
   their queues does so. It claims the runs first, for some seconds. After three claims, no worker does: ``ended`` may
   be what kills the workers.

So ``ended`` is called at least once for each run. It is called again only if a worker dies meanwhile, or if one call
takes very long.

A worker calls it in a thread of its own. So ``ended`` may take long: meanwhile leases are renewed, and the ends of runs
are stored. The worker takes no further job while it is behind with notifications.
"""

import asyncio
import inspect
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redbike.errors import RedbikeError
from redbike.loop.worker_class import check_result
from redbike.process import leaving, watchdog
from redbike.process.leaving import leave_fork
from redbike.process.signals import interrupts_caller
from redbike.schedule.moments import AWAITED
from redbike.store.entries import EntryRun
from redbike.store.enums import Outcome
from redbike.store.history import PastRun, is_tried_again, read_run
from redbike.store.inspected import JobState
from redbike.store.next_state import Answer, NextState
from redbike.store.outbox import RENEWED, Claim, find_field
from redbike.store.records import RetryState
from redbike.store.run import Run
from redbike.store.store import Store
from redbike.text.printable import describe

log = logging.getLogger("redbike.worker")

LONG = 30.0  # seconds after which a call that still runs is logged
REST = 2.0  # seconds at least between two polls of the outbox
STOP_TIMEOUT = 10.0  # seconds that a worker that stops waits for a call
ON_FAILURE = "redbike-on-failure of "  # the beginning of the names of threads for it, before the id of a job


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended."""

    event: Outcome
    error: str  #: what went wrong, in one line, or ""
    seconds: float  #: for which it ran; if it overran or was lost, until that was found
    next_run: float | None  #: when its job is due next, perhaps already, in epoch seconds; None: it is not due again
    is_tried_again: bool = False  #: whether the same occurrence is tried again


@dataclass(frozen=True, slots=True)
class _News:
    """Runs that are kept together in the outbox, each with a function that returns how it ended."""

    claim: Claim
    ends: Sequence[tuple[Run, Callable[[], End]]]


class Notifier:
    """Calls ``ended`` of `worker`, if it has this method, for runs of the queues that `list_queues` returns.

    From `start` to `stop`, a thread of its own does so; otherwise, the thread that notifies does so at once.
    """

    def __init__(self, store: Store, worker: object, list_queues: Callable[[], Iterable[str]] = list) -> None:
        self._store = store
        self._list_queues = list_queues
        self._worker = worker
        self._news: deque[_News] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._started = self._stopped = False
        self._others = self.is_wanted  # whether the outbox may have runs of other workers
        self._polled = float("-inf")  # when it polled the outbox last, by the monotonic clock
        self._called: tuple[str, float] | None = None  # the job of the running call, and since when
        self._mentioned: tuple[str, float] | None = None  # the last call that was logged as long
        self._calls = 0

    @property
    def is_wanted(self) -> bool:
        """Tell whether the worker class has ``ended``; it may have it later."""
        return self._ended is not None

    @property
    def _ended(self) -> Any:
        ended = getattr(self._worker, "ended", None)
        # A class may have something else of that name.
        return ended if callable(ended) else None

    @property
    def is_behind(self) -> bool:
        """Tell whether runs wait for a call, besides the running one."""
        return bool(self._news)

    def start(self) -> None:
        """Notify in a thread of its own from now on."""
        self._started = True
        self._start_thread()

    def _start_thread(self) -> None:
        with self._changed:
            if self._started and not self._stopped and self._thread is None and self.is_wanted:
                self._thread = threading.Thread(target=self._run, name="redbike-ended", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Notify of the remaining runs, and end the thread; what takes too long is left to other workers."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT)
            if self._thread.is_alive():
                log.warning("ended() takes too long: other workers will call it for the runs that are left")

    def wait(self, goes_on: Callable[[], bool]) -> None:
        """Wait until no run waits for a call, or until `goes_on`, which is called once a second, returns False."""
        calls = self._calls
        while self.is_behind and goes_on():
            with self._changed:
                self._changed.wait_for(lambda: not self.is_behind, 1.0)
            leaving.cover(time.monotonic())
            if self._calls != calls:
                calls = self._calls
                watchdog.feed()

    def hear(self) -> None:
        """Note that the outbox may have runs of other workers."""
        self._start_thread()
        if time.monotonic() - self._polled >= REST:
            with self._changed:
                self._others = True
                self._changed.notify_all()

    def poll(self) -> None:
        """Log, once, that a call has been running for `LONG` seconds."""
        called = self._called
        if called and called != self._mentioned and time.monotonic() - called[1] >= LONG:
            self._mentioned = called
            log.warning("%s: ended() of its worker class has gone on for %g s, others wait for it", called[0], LONG)

    def notify(self, ended: Sequence[tuple[Run, NextState]], answers: Sequence[Answer]) -> None:
        """Notify of runs of this worker that one request has ended; `answers` are the replies to it."""
        name = find_field(ended, answers) if self.is_wanted else None
        if name is None:
            return
        self._start_thread()
        ends = [
            (run, self._make_end(run, next_state, answer))
            for (run, next_state), answer in zip(ended, answers, strict=True)
            if answer.ends(next_state)
        ]
        news = _News(Claim(name), ends)
        if self._thread is None:
            self._deliver(news)
            return
        with self._changed:
            self._news.append(news)
            self._changed.notify_all()

    def notify_others(self) -> None:
        """Notify of the runs of workers that are gone."""
        if not self._others:
            return
        self._others, self._polled = False, time.monotonic()
        try:
            for claim in self._store.outbox.claim_all(set(self._list_queues())):
                tag = claim.name.partition(" ")[0]
                self._deliver(_News(claim, [self._read_other(tag, run) for run in claim.runs]))
        except RedbikeError as error:
            # The server soon reports again that there are some.
            log.error("cannot call ended() for the runs of lost workers: %s", error)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._news or self._others)
                news = self._news.popleft() if self._news else None
                self._changed.notify_all()
            if news is not None:
                self._deliver(news)
            elif self._stopped:
                return
            else:
                self.notify_others()

    def _make_end(self, run: Run, next_state: NextState, answer: Answer) -> Callable[[], End]:
        outcome, next_run = next_state.outcome or Outcome.OK, self._find_next(run, next_state, answer)
        # The function of an overrun still runs, and nobody waits for it.
        seconds = max(0.0, (run.over or time.monotonic()) - run.began) if run.began else 0.0
        goes_on = next_state.is_tried_again and answer.detail != "unset"
        return lambda: End(outcome, next_state.error, seconds, next_run, goes_on)

    def _find_next(self, run: Run, next_state: NextState, answer: Answer) -> float | None:
        if answer.detail not in ("timeline", "queue", "held"):
            return None
        if isinstance(next_state.due, str):
            return run.now() + float(next_state.due)
        if next_state.due is not None:
            return next_state.due if next_state.due < AWAITED else None
        try:
            # Somebody has put it there during the run.
            return self._store.questions.inspect([run.jobid])[0].due
        except RedbikeError as error:
            log.warning("%s: its next run is unknown: %s", run.jobid, error)
            return None

    def _read_other(self, tag: str, packed: EntryRun) -> tuple[Run, Callable[[], End]]:
        past = read_run(packed.jobid, packed.packed, packed.worker)
        [state] = self._store.questions.inspect([packed.jobid], with_data=True)
        over = past.started + past.took
        run = Run(packed.jobid, past.due, tag, past.started, over, 0, 0, state.schedule or "", packed.queue)
        run.tries, run.options, run.stored_data, run.worker = past.attempt - 1, state.options, state.data, past.worker
        goes_on = self._is_tried_again(past, state)
        return run, lambda: End(past.outcome, past.error, past.took, _find_due(state), goes_on)

    def _is_tried_again(self, past: PastRun, state: JobState) -> bool:
        failure = state.failure or {}
        has_failed = (failure.get("due"), failure.get("attempt")) == (past.due, past.attempt)
        # The journal is read only if the record of the failure does not answer this.
        kept = () if has_failed else self._store.journal.list_runs([past.jobid])
        return is_tried_again(past, RetryState.parse(state.retry_state), kept)

    def _deliver(self, news: _News) -> None:
        """Notify of the runs, and then remove them from the outbox. Stop if another worker has claimed them."""
        claim = news.claim
        for run, make_end in news.ends:
            if time.monotonic() - claim.since > RENEWED:
                renewed = self._renew(claim)
                if renewed is None:
                    return
                claim = renewed
            self._call(run, make_end())
        try:
            self._store.outbox.forget([claim.name])
        except RedbikeError as error:
            # Another worker, or this one, calls it once more.
            jobid = claim.name.partition(" ")[2]
            log.warning("%s: ended() will be called again for this run: %s", jobid, error)

    def _renew(self, claim: Claim) -> Claim | None:
        """Renew a claim; return None if another worker has claimed its runs."""
        try:
            return self._store.outbox.renew(claim)
        except RedbikeError as error:
            log.warning("ended() may be called twice for the same run: %s", error)
            return claim

    def _call(self, run: Run, end: End) -> None:
        process, self._called = os.getpid(), (run.jobid, time.monotonic())
        try:
            result = self._ended(run, end)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
            check_result("ended", result)
        except BaseException as error:
            if os.getpid() != process:
                leave_fork(run.jobid, error)
            if interrupts_caller(error):
                raise
            # The method is the user's own: it may raise anything.
            log.error("%s: ended() of its worker class fails: %s", run.jobid, describe(error))
        finally:
            self._called, self._calls = None, self._calls + 1
        if os.getpid() != process:
            leave_fork(run.jobid, None)


def _find_due(state: JobState) -> float | None:
    """Return when a job is due next, or since when it is due and waits, runs or is held."""
    waiting, run = state.waiting, state.run
    return waiting.due if waiting else run.due if run else state.held if state.due is None else state.due
