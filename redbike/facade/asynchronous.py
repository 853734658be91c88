"""`AsyncRedbike`: the methods of `Redbike` as coroutines. No call blocks the event loop, even while Redis is away.

A pool of `THREADS` threads runs the calls, each in one thread. Each loop, and each `events`, has a thread of its own.
Most methods are made from the method of `Redbike` with the same name, in one line.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from os import PathLike
from typing import Any, Self, TypeVar
from weakref import WeakSet

import redis

from redbike.config.settings import Settings
from redbike.connection.forks import begin_in_forks
from redbike.errors import RedbikeError
from redbike.facade.arguments import check_path, refuse_unknown, take_arguments
from redbike.facade.awaiting import awaited, paged
from redbike.facade.in_order import InOrder
from redbike.facade.override import Overridable
from redbike.facade.redbike import Redbike
from redbike.facade.results import AsyncResults, Reader, run_by, run_in_thread, run_until_cancelled, start_thread
from redbike.importers.rows import Source
from redbike.loop.lifecycle import Stay
from redbike.loop.worker_class import WorkerClass, check_worker
from redbike.schedule.moments import DurationLike, InstantLike
from redbike.store.history import PastRun
from redbike.store.log import LogEntry
from redbike.worker.current import is_in_run

THREADS = 16  # calls that run at once

T = TypeVar("T")


class AsyncRedbike(Overridable):
    """`Redbike` for asyncio. The constructor and the methods have the same arguments.

    ``async with AsyncRedbike(…) as bike`` connects, and closes at the end. Without it, the first call connects: the
    constructor sends nothing, and starts no server. A method of `Redbike` that returns an iterator returns an
    asynchronous iterator here. Cancelling `dispatch` or `work` stops the loop, and waits for its current jobs.
    Cancelling another call does not undo it. `stop` is no coroutine: it never waits.
    """

    _state = ("_bike", "_opening", "_closing", "_threads", "_in_order", "_listeners", "_is_stopped", "_is_closed")

    @take_arguments(Redbike.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse_unknown(Redbike, kwargs)
        given = inspect.signature(Redbike).bind(*args, **kwargs)
        check_worker(given.arguments["worker"])
        where = [given.arguments.get(name) for name in ("prefix", "redis_config")]
        self._prepare(lambda: Redbike(*given.args, **given.kwargs), given.arguments["worker"], where)

    @classmethod
    def from_config(cls, path: "str | PathLike[str] | None" = None, worker: WorkerClass | None = None) -> Self:
        """An AsyncRedbike with the settings and the server of the command line, see `Redbike.from_config`."""
        if worker is not None:
            check_worker(worker)
        bike = cls.__new__(cls)
        bike._prepare(partial(Redbike.from_config, check_path(path), worker), worker, [path])
        return bike

    @classmethod
    def from_settings(
        cls, worker: WorkerClass, settings: Settings, client: "redis.Redis", durable: bool = True,
        noted_as: str | None = None
    ) -> Self:  # fmt: skip
        """An AsyncRedbike from settings that are read already, and a client, see `Redbike.from_settings`."""
        check_worker(worker)
        bike, where = cls.__new__(cls), [settings.prefix, client]
        bike._prepare(lambda: Redbike.from_settings(worker, settings, client, durable, noted_as), worker, where)
        return bike

    def _prepare(self, make: Callable[[], Redbike], worker: WorkerClass | None = None, where: object = None) -> None:
        self._given = where
        super()._prepare(make)
        self._introduce(worker)

    def _assemble(self) -> None:
        self._bike: Redbike | None = None
        self._is_stopped = self._is_closed = False
        begin_in_forks(self)

    def _begin(self) -> None:
        self._opening, self._closing = threading.Lock(), threading.Lock()
        self._threads, self._in_order = ThreadPoolExecutor(THREADS, "redbike-call"), InOrder()
        self._listeners: WeakSet[Reader[Any]] = WeakSet()  # those that wait for events

    def _introduce(self, worker: WorkerClass | None) -> None:
        """Tell `Jobs` that this object sets their jobs."""
        self._is_known = worker is not None
        if note := getattr(worker, "note_bike", None):
            note(self)

    def _open(self) -> Redbike:
        """Return the `Redbike`; the first call makes it. Only threads call this, as making it blocks."""
        with self._opening:
            if self._bike is None:
                self._bike = self._make()
                self._bike._loops.make_awaited = lambda: self
                if not self._is_known:
                    self._introduce(self._bike.worker)
                if self._is_stopped:
                    self._bike.stop()
            return self._bike

    async def _call(self, action: Callable[[Redbike], T]) -> T:
        """Run `action` in a thread, and return what it returns."""
        run = self._equip(action)
        if self._is_closed:
            return await run_in_thread(run, "redbike-last-call")
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _start(self, action: Callable[[Redbike], T], name: str) -> "asyncio.Future[T]":
        """Begin a call in a thread, after earlier calls of the same `name`. It needs no await; `close` waits for it.

        The end of the event loop does not cancel it. Raises `RedbikeError` outside of one, and if this is closed.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RedbikeError("an AsyncRedbike sets jobs only in a coroutine") from None
        run = self._equip(action)
        start = partial(start_thread, name) if self._is_closed else self._threads.submit
        return run_by(partial(self._in_order.start, start, name), run, name)

    def _equip(self, action: Callable[[Redbike], T]) -> Callable[[], T]:
        """Return what a thread runs. Raises `RedbikeError` if this is closed, except for jobs that still run."""
        if self._is_closed and not is_in_run():
            raise RedbikeError("this AsyncRedbike is closed")
        return partial(copy_context().run, lambda: action(self._open()))

    async def _call_alone(self, action: Callable[[Redbike], T]) -> T:
        """`_call` in a thread of its own, for an action that may wait for long."""
        return await run_in_thread(partial(action, await self._call(lambda bike: bike)), "redbike-events")

    def _discard(self, action: Callable[[], None]) -> None:
        """Run `action` in a thread, soon."""
        with suppress(RuntimeError):  # it is closed
            self._threads.submit(action)

    async def _run_loop(self, run: Callable[[Redbike, Stay], None]) -> None:
        """Run a loop in a thread of its own until it ends; stop it when the task is cancelled."""
        bike, stay = await self._call(lambda bike: bike), Stay()

        def run_here() -> None:
            with bike._loops.calls.run(stay):
                run(bike, stay)

        # Jobs have the context variables of the program.
        await run_until_cancelled(partial(copy_context().run, run_here), stay.stop, "redbike-loop")

    async def __aenter__(self) -> Self:
        await self._call(lambda bike: bike)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    @property
    def place(self) -> object:
        """Where its jobs are, see `Redbike.place`; itself before the first call."""
        return self if self._bike is None else self._bike.place

    async def close(self) -> None:
        """Stop the loops, wait for them and for the calls, and close the connections; see `Redbike.close`.

        If this is cancelled, the closing goes on: call it again to wait.
        """
        self._is_closed = True
        await run_in_thread(partial(copy_context().run, self._close), "redbike-close")

    def _close(self) -> None:
        # Another call of `close` may wait for the job that calls this one.
        if not self._closing.acquire(blocking=not is_in_run()):
            return
        try:
            self.stop()
            for reader in list(self._listeners):
                reader.is_over = True
            for reader in list(self._listeners):
                reader.end()
            # A job that closes this may run in one of them.
            self._threads.shutdown(wait=not is_in_run())
            if self._bike is not None:
                self._bike.close()
        finally:
            self._closing.release()

    def stop(self) -> None:
        """Stop the loops of `dispatch` and `work`, each after its current jobs; see `Redbike.stop`. It never waits."""
        self._is_stopped = True
        if self._bike is not None:
            self._bike.stop()

    async def dispatch(
        self, after: InstantLike | None = None, csvfilename: Source | None = None, ping_url: str | None = None
    ) -> None:
        """Dispatch until halted, stopped, or cancelled; see `Redbike.dispatch`."""
        await self._run_loop(lambda bike, stay: bike._loops.dispatch_in(stay, after, csvfilename, ping_url))

    async def work(self, concurrency: int | None = None) -> None:
        """Run jobs until halted, stopped, or cancelled; then wait for the jobs that run. See `Redbike.work`.

        Coroutines of jobs run in the event loop that awaits this call; other jobs run in threads.
        """
        event_loop = asyncio.get_running_loop()
        await self._run_loop(lambda bike, stay: bike._loops.work_in(stay, concurrency, event_loop))

    # Entering and removing jobs

    set = awaited(Redbike.set)
    enter = awaited(Redbike.enter)
    set_many = paged(Redbike.set_many, must_be_read=True)
    group = awaited(Redbike.group)
    unset = awaited(Redbike.unset)
    unset_many = awaited(Redbike.unset_many)
    load = paged(Redbike.load, must_be_read=True)
    sync_file = paged(Redbike.sync_file, must_be_read=True)
    sync = awaited(Redbike.sync)

    # Looking

    tell = awaited(Redbike.tell)
    get_many = paged(Redbike.get_many)
    is_working = awaited(Redbike.is_working)
    get_statuses = paged(Redbike.get_statuses)
    get_schedules = paged(Redbike.get_schedules)
    get_rows = paged(Redbike.get_rows)
    jobs = paged(Redbike.jobs)
    why = awaited(Redbike.why)
    runs = awaited(Redbike.runs)
    result = awaited(Redbike.result)
    output = awaited(Redbike.output)
    failures = paged(Redbike.failures)

    async def wait(self, jobid: str, timeout: DurationLike | None = None) -> PastRun:
        """Wait until a run of `jobid` ends that is not retried, and return it; see `Redbike.wait`."""
        is_over = threading.Event()
        try:
            return await self._call_alone(lambda bike: bike._queries.wait_until(jobid, timeout, is_over.is_set))
        finally:
            is_over.set()

    def events(self) -> AsyncResults[PastRun | LogEntry]:
        """Listen from now on: yield each run that ends, and each change by a person; see `Redbike.events`."""
        reader: Reader[PastRun | LogEntry] = Reader(
            lambda bike: bike.store.events.listen(is_over=lambda: reader.is_over), size=1
        )
        self._listeners.add(reader)
        return AsyncResults(self._call_alone, self._discard, reader)

    queues = awaited(Redbike.queues)
    workers = awaited(Redbike.workers)
    health = awaited(Redbike.health)
    metrics = awaited(Redbike.metrics)
    agenda = awaited(Redbike.agenda)
    log = paged(Redbike.log)

    # Steering

    run = awaited(Redbike.run)
    run_failed = awaited(Redbike.run_failed)
    cancel = awaited(Redbike.cancel)
    backfill = awaited(Redbike.backfill)
    pause = awaited(Redbike.pause)
    resume = awaited(Redbike.resume)
    pause_queue = awaited(Redbike.pause_queue)
    resume_queue = awaited(Redbike.resume_queue)
    pause_all = awaited(Redbike.pause_all)
    resume_all = awaited(Redbike.resume_all)
    limit = awaited(Redbike.limit)
    find_queue = awaited(Redbike.find_queue)
    queue_limits = awaited(Redbike.queue_limits)

    # Keeping, single turns, control

    fsck = paged(Redbike.fsck)
    check = paged(Redbike.check)
    repair = paged(Redbike.repair)
    acknowledge = awaited(Redbike.acknowledge)
    dispatch_due = awaited(Redbike.dispatch_due)
    work_one = awaited(Redbike.work_one)
    control = awaited(Redbike.control)
    clear_control = awaited(Redbike.clear_control)
    is_halted = awaited(Redbike.is_halted)
    flush = awaited(Redbike.flush)
