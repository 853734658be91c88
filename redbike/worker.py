"""Workers: they take due jobs from queues, run them, and say how that ended.

1. Take the next job in the order of the worker class's queues; ending one job and taking the next is one round trip.
2. Run it, with a heartbeat beside it for as long as it takes.
3. End it where its schedule, its outcome and the policies say.
4. Block when there is nothing to take.
"""

import asyncio
import contextvars
import inspect
import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, Protocol

from redbike.config import Settings
from redbike.errors import BadConfig, BadJobId, BadSchedule, Overrun, StopWork, Unreachable, UnsetJob
from redbike.heartbeat import Heartbeat
from redbike.keys import check_queue_name
from redbike.loop import Loop
from redbike.outcome import commit, describe, done, failed, failure_of
from redbike.outcome import overrun as overran
from redbike.store import LEASE, Outcome, Run, Store, new_tag

log = logging.getLogger("redbike.worker")

IDLE = 2.0  # seconds after which an idle worker looks whether it missed a wake-up
MAX_QUEUES = 10_000  # names that one round of `queue_names` may give

_current: contextvars.ContextVar[Run] = contextvars.ContextVar("redbike_run")


def current_run() -> Run:
    """The run that the calling ``work`` is in; raises `LookupError` outside of one."""
    return _current.get()


class Handler(Protocol):
    """What a worker class must have. `work` may be a coroutine function."""

    def queue_for(self, jobid: str) -> str:
        """The name of the queue for `jobid`."""
        ...

    def queue_names(self) -> Iterable[str]:
        """The queues to work, in turn; a name that stands there twice is worked twice as often."""
        ...

    def work(self, jobid: str) -> Any:
        """Do the job. The number returned with ``CONTINUE`` is a pause in seconds."""
        ...

    def timeout(self, queue_name: str) -> float | None:
        """Seconds that a job of the queue may take, or None for the default."""
        ...


class RoundRobin:
    """Works queues in turn: ``RoundRobin("A:A:B")`` takes from A twice as often as from B while both have jobs.

    The part of a job id after its last ``:`` says its queue: ``backup:A`` waits in the queue named ``work-A``.
    """

    def __init__(self, initstring: str) -> None:
        names = initstring.split(":") if isinstance(initstring, str) else [""]
        if not all(names):
            raise BadConfig(f"bad queues {initstring!r}: names with colons between them, as in 'A:A:B', are needed")
        self._names = [check_queue_name(f"work-{name}") for name in names]

    def queue_for(self, jobid: str) -> str:
        """The queue of `jobid`; raises `BadJobId` for an id that ends in ``:``."""
        name = jobid.rpartition(":")[2]
        if not name:
            raise BadJobId(f"bad job id {jobid!r}: nothing after its last ':' names a queue")
        return f"work-{name}"

    def queue_names(self) -> Iterable[str]:
        """The queues, in the order of the init string."""
        return self._names

    def work(self, jobid: str) -> Any:
        """To be overridden: do the job."""
        raise NotImplementedError(f"{type(self).__name__} has no work() of its own")

    def timeout(self, queue_name: str) -> float | None:
        """Seconds that a job may take; None is the default."""
        return None


class Rotation:
    """The order in which to look into queues: each turn goes on behind the queue that was served last.

    With A:A:B and jobs in all, the turns begin at A, A, B, A, …; where a queue is empty the next in line is served, so
    the weights are exact while there are jobs, and no turn is lost while any queue has one.
    """

    def __init__(self, handler: Handler, default_timeout: float) -> None:
        self._handler = handler
        self._default = default_timeout
        self._names: list[str] = []
        self._orders: list[list[tuple[str, float]]] = []
        self._position = 0

    def order(self) -> list[tuple[str, float]]:
        """Queue names with their timeouts in seconds, the one whose turn it is first."""
        if self._position == 0:
            self._read()
        return self._orders[self._position]

    def served(self, name: str) -> None:
        """A job of the queue `name` was taken."""
        count = len(self._names)
        steps = next(step for step in range(count) if self._names[(self._position + step) % count] == name)
        self._position = (self._position + steps + 1) % count

    def _read(self) -> None:
        names = list(islice(self._handler.queue_names(), MAX_QUEUES))
        if names == self._names:
            return
        if not names:
            raise BadConfig("queue_names() gives no queue to work")
        timeouts = {check_queue_name(name): self._timeout(name) for name in names}
        # dict.fromkeys keeps the first of each name: looking twice into an empty queue is of no use.
        turns = [dict.fromkeys(names[start:] + names[:start]) for start in range(len(names))]
        self._orders = [[(name, timeouts[name]) for name in turn] for turn in turns]
        self._names = names

    def _timeout(self, name: str) -> float:
        seconds = self._handler.timeout(name)
        if seconds is None:
            return self._default
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.001 <= seconds <= 1e9:
            raise BadConfig(f"bad timeout {seconds!r} for queue {name!r}: 0.001 to 1e9 seconds, or None, are allowed")
        return float(seconds)


class Worker:
    """Works jobs with `handler`, `concurrency` at once."""

    def __init__(self, store: Store, handler: Handler, settings: Settings, concurrency: int = 1) -> None:
        self.store = store
        self.handler = handler
        self.settings = settings
        self.loop = Loop(store)
        self.rotation = Rotation(handler, settings.default_timeout)
        self.heartbeat = Heartbeat(store, self._overrun)
        self._free = threading.Semaphore(concurrency)
        self._concurrency = concurrency
        self._coroutines: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def work(self) -> None:
        """Work until halted."""
        self.rotation.order()
        if self._concurrency == 1:
            self.loop.run(self._turn)
        else:
            with ThreadPoolExecutor(self._concurrency, thread_name_prefix="redbike") as pool:
                self.loop.run(lambda: self._hand_out(pool))
        self.heartbeat.stop()

    def work_one(self, now: float | None = None) -> str | None:
        """Take and work at most one job without waiting; its id, or None when every queue was empty."""
        run = self.store.take(self.rotation.order(), new_tag(), self.loop.seen, now=now)
        if isinstance(run, str):
            return None
        self.rotation.served(run.queue)
        outcome = self._perform(run, now)
        self.loop.insist(lambda _: self._finish(run, outcome, now), patience=LEASE)
        return run.jobid

    def _turn(self) -> None:
        """One job after the other, then one wait."""
        run = self._take()
        while run is not None:
            outcome = self._perform(run)
            run = self._finish_and_take(run, outcome)
        self._idle()

    def _hand_out(self, pool: ThreadPoolExecutor) -> None:
        """Take a job as soon as a thread is free for it."""
        while not self._free.acquire(timeout=1.0):
            if self.loop.stopping.is_set():
                return
            self.loop.heed(self.store.control())
        run = None
        try:
            run = None if self.loop.stopping.is_set() else self._take()
        finally:
            if run is None:
                self._free.release()
        if run is None:
            self._idle()
        else:
            pool.submit(self._work_through, run)

    def _work_through(self, run: Run) -> None:
        try:
            outcome = self._perform(run)
            self.loop.insist(lambda _: self._finish(run, outcome))
        except Unreachable as error:
            log.error("%s: its end could not be told, it will count as lost: %s", run.jobid, error)
        except Exception:
            log.exception("%s: its end could not be told, it will count as lost", run.jobid)
            self.loop.stopping.set()
        finally:
            self._free.release()

    def _take(self) -> Run | None:
        tag, order = new_tag(), self.rotation.order()
        return self._received(self.loop.insist(lambda again: self.store.take(order, tag, self.loop.seen, again)))

    def _received(self, taken: Run | Literal["empty", "halted"]) -> Run | None:
        if isinstance(taken, Run):
            self.rotation.served(taken.queue)
            return taken
        if taken == "halted":
            self.loop.heed(self.store.control())
        return None

    def _finish_and_take(self, run: Run, outcome: Outcome) -> Run | None:
        """End `run` and take the next one, in one round trip."""
        if self.loop.stopping.is_set():
            self.loop.insist(lambda _: self._finish(run, outcome))
            return None
        tag, order = new_tag(), self.rotation.order()
        told = False

        def both(repeated: bool) -> Run | Literal["empty", "halted"]:
            nonlocal told
            calls = [self.store.take_call(order, tag, self.loop.seen, repeated)]
            if not told:
                calls.insert(0, self.store.end_call(run, outcome))
            replies = self.store.scripts.run_all(calls)
            if not told:
                self._ended(run, outcome, *self.store.ended(replies[0]))
                told = True
            return self.store.taken(replies[-1], tag)

        return self._received(self.loop.insist(both))

    def _finish(self, run: Run, outcome: Outcome, now: float | None = None) -> None:
        self._ended(run, outcome, *self.store.end(run, outcome, now), now=now)

    def _ended(self, run: Run, outcome: Outcome, word: str, detail: str, now: float | None = None) -> None:
        if word in ("changed", "overrun"):
            clock = run.now if now is None else lambda: now
            word, detail = commit(self.store, run, outcome, self.settings, clock, now, (word, detail))
        if word == "ok":
            log.debug("%s: run %s ended, now %s", run.jobid, run.tag, detail)
        else:
            log.warning("%s: run %s is no longer this worker's (%s); its end changes nothing", run.jobid, run.tag, word)

    def _overrun(self, run: Run) -> None:
        """The heartbeat found that `run` has outlived its deadline."""
        log.error("%s: overran its timeout of %g s", run.jobid, run.deadline - run.start)
        commit(self.store, run, overran(run, self.settings, run.now()), self.settings, run.now)

    def _perform(self, run: Run, now: float | None = None) -> Outcome:
        """Run the job; where it goes then."""
        self.heartbeat.add(run)
        token = _current.set(run)
        try:
            result = self.handler.work(run.jobid)
            if inspect.isawaitable(result):
                result = self._await(result)
            return done(run, result, self.settings, run.now() if now is None else now)
        except StopWork as reason:
            log.info("%s: stopped by its worker: %s", run.jobid, reason)
            return Outcome("stop")
        except UnsetJob as reason:
            log.info("%s: unset by its worker: %s", run.jobid, reason)
            return Outcome("unset")
        except Overrun as error:
            log.error("%s: gave up when its time was over: %s", run.jobid, error)
            return self._given_up(run, error)
        except BadSchedule as error:
            log.error("%s: %s", run.jobid, error)
            return Outcome("die", failure=failure_of(run, describe(error), "", run.now()))
        except (Exception, SystemExit, GeneratorExit, asyncio.CancelledError) as error:
            log.exception("%s: %s", run.jobid, describe(error))
            return failed(run, error, self.settings, run.now() if now is None else now)
        finally:
            _current.reset(token)
            self.heartbeat.remove(run)

    def _given_up(self, run: Run, error: Overrun) -> Outcome:
        # By on-timeout, but before the deadline: so it ends like a run that is in time.
        outcome = replace(overran(run, self.settings, run.now()), why="")
        failure = None if outcome.failure is None else failure_of(run, describe(error), "", run.now())
        return replace(outcome, failure=failure)

    def _await(self, awaitable: Any) -> Any:
        async def to_the_end() -> Any:
            return await awaitable

        with self._starting:
            if self._coroutines is None:
                self._coroutines = asyncio.new_event_loop()
                threading.Thread(target=self._coroutines.run_forever, name="redbike-async", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(to_the_end(), self._coroutines).result()

    def _idle(self) -> None:
        """Block until a queue of ours may have something."""
        if self.loop.stopping.is_set():
            return
        names = sorted({name for name, _ in self.rotation.order()})
        wakes = [self.store.keys.wake(name) for name in names]
        until = time.monotonic() + IDLE
        while not self.loop.wait(wakes, until - time.monotonic()):
            if self.loop.stopping.is_set():
                return
            if time.monotonic() >= until:
                found, control = self.store.waiting(names)
                self.loop.heed(control)
                if found or self.loop.stopping.is_set():
                    return
                until = time.monotonic() + IDLE
