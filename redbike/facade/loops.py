"""The methods of `redbike.facade.redbike.Redbike` that run jobs and loops, stop them, and close what was opened."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import redis

from redbike.config.ping_urls import check_dispatcher_url
from redbike.config.settings import Settings
from redbike.connection.check import describe_address
from redbike.connection.forks import begin_in_forks
from redbike.connection.line import retire
from redbike.dispatcher.sharded import Dispatchers
from redbike.errors import BadConfig, ServerError
from redbike.facade.part import Part, Whole
from redbike.facade.results import Results
from redbike.importers.rows import Source, get_name
from redbike.loop.lifecycle import OwnLoops, Stay
from redbike.loop.naming import NoWorker, open_store
from redbike.loop.worker_class import check_concurrency, read_concurrency
from redbike.process.signals import StopFlag
from redbike.schedule.moments import InstantLike, read_instant
from redbike.store import rights
from redbike.store.store import Store
from redbike.worker.current import is_in_loop, is_in_run
from redbike.worker.worker import Worker

log = logging.getLogger("redbike")


W = TypeVar("W", bound=Worker)


class Awaited(Protocol):
    """The object that coroutines of jobs call in place of a Redbike."""

    _threads: ThreadPoolExecutor
    _is_known: bool

    def _prepare(self, make: Callable[[], Any]) -> None: ...
    def _open(self) -> Any: ...


class Loops(Part):
    """Runs dispatchers and workers for the jobs of `store`, and closes what was opened.

    `given_prefix` is the prefix that the user gave. `load` reads the CSV file of a dispatcher. `make_awaited` returns
    the object that coroutines of jobs call.
    """

    def __init__(
        self,
        bike: Whole,
        settings: Settings,
        client: "redis.Redis",
        *,
        is_own: bool,
        given_prefix: str,
        load: Callable[..., Results[tuple[int, str, bool | ValueError]]],
        make_awaited: Callable[[], "Awaited"],
    ) -> None:
        super().__init__(bike)
        self.settings, self.client = settings, client
        self._is_own = is_own  # whether `client` was made for this
        self._given_prefix, self._load = given_prefix, load
        self.make_awaited = make_awaited
        self.calls = OwnLoops(self._release)
        begin_in_forks(self)

    def _begin(self) -> None:
        self.one: Worker | None = None
        self.passes: Dispatchers | None = None
        self._passing = threading.Lock()  # only one thread may use a dispatcher at once
        self._making = threading.Lock()  # of `one`
        self._awaiting = threading.Lock()
        self._awaited: Awaited | None = None  # the object that coroutines call
        self.calls.forget_all()

    @property
    def is_closing(self) -> bool:
        """Tell whether `close` was called."""
        return self.calls.is_closing

    def close(self) -> None:
        """Stop the loops, wait for them, and close the connections. A second call does no harm.

        Later calls of methods raise `RedbikeError`, except calls by jobs that still run. If a job, or a signal handler
        in the thread of a loop, calls `close`, it does not wait: the loop that ends last closes the connections. Other
        calls in flight complete, and `events` ends within about a second. A client that you have passed stays open, and
        the embedded server keeps running.
        """
        self.calls.close(waits=not is_in_run())

    def stop(self) -> None:
        """Stop the loops of `dispatch` and `work` of this object in all threads, each after its current jobs.

        This returns at once. Signal handlers, other threads and jobs may call it, even twice. It is permanent: later
        calls of `dispatch` and `work` return at once.
        """
        self.calls.stop()

    def dispatch(
        self, after: InstantLike | None = None, csvfilename: Source | None = None, ping_url: str | None = None
    ) -> None:
        """Run the dispatcher until it is halted or stopped. First set the rows of `csvfilename`, and log bad rows.

        The first pass moves all jobs that are due by `after`. `ping_url` is called once a minute while the dispatcher
        runs. Raises `BadConfig` for a bad URL.
        """
        with self.calls.run() as stay:
            self.dispatch_in(stay, after, csvfilename, ping_url)

    def dispatch_in(
        self, stay: Stay, after: InstantLike | None, csvfilename: Source | None, ping_url: str | None
    ) -> None:
        """`dispatch`, inside of a ``with`` of `calls.run` with this `stay`."""
        since = read_instant("after", after)
        if ping_url is not None:
            check_dispatcher_url(ping_url)
        if stay.is_stopped or self._is_simulated(stay):
            return
        self._check_rights("dispatcher", f"{rights.DISPATCHER} {rights.ALERTING if self.settings.alert else ''}")
        with self._open_store() as store:
            store.agreement.note()
            dispatcher = Dispatchers(store, self.settings, ping_url)
            stay.attach(dispatcher.stopping)
            self._introduce_dispatcher()
            if csvfilename is not None:
                for line, jobid, result in self._load(csvfilename, since, mark_bad=True):
                    if result is not True:
                        log.error("%s line %d: %s: %s", get_name(csvfilename), line, jobid, result)
            dispatcher.dispatch(since)

    def _introduce_dispatcher(self) -> None:
        log.info("dispatches the prefix %r, on %s", self.settings.prefix, describe_address(self.client))
        if self.settings.prefix != self._given_prefix:
            log.info("in a cluster all keys must be in one slot: the prefix is %r", self.settings.prefix)

    def dispatch_due(self, now: InstantLike | None = None) -> int:
        """Run one pass of the dispatcher: move jobs due by `now` (default: Redis' clock). Return how many were moved.

        It also ends lost runs at once. During an outage of the server, no worker can send a heartbeat. Only `dispatch`
        notices an outage, and gives workers 4 s after it. So wait 4 s after an outage before you call this.
        """
        moment = read_instant("now", now)
        with self.calls.run(), self._passing:
            passes = self.passes = self.passes or Dispatchers(self.store, self.settings)
            try:
                return passes.dispatch_due(moment)
            finally:
                passes.rest()

    def work_one(self) -> str | None:
        """Run at most one waiting job, without waiting for one. Return its id, or None if every queue was empty.

        Raises `BadConfig` if there is no worker.
        """
        self._check_worker()
        with self.calls.run():
            with self._making:
                one = self.one = self.one or self.equip(Worker(self.store, self.worker, self.settings))
            return one.work_one()

    def work(self, concurrency: int | None = None) -> None:
        """Run jobs until halted or stopped, up to `concurrency` at once (default: that of the worker class, or else 1).

        Raises `BadConfig` if `concurrency` is not 1 to 1000, and if there is no worker.
        """
        with self.calls.run() as stay:
            self.work_in(stay, concurrency)

    def work_in(self, stay: Stay, concurrency: int | None, event_loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`work`, inside of a ``with`` of `calls.run` with this `stay`. Coroutines run in `event_loop`, if given."""
        self._check_worker()
        concurrency = read_concurrency(self.worker) if concurrency is None else check_concurrency(concurrency)
        if stay.is_stopped or self._is_simulated(stay):
            return
        more = rights.SHARDED if self.settings.shards > 1 else ""
        self._check_rights("worker", f"{rights.WORKER} {rights.ALERTING if self.settings.alert else ''} {more}")
        with self._open_store() as store:
            store.agreement.note()
            worker = self.equip(Worker(store, self.worker, self.settings, concurrency, event_loop))
            stay.attach(worker.loop.stopping)
            worker.work()

    def equip(self, worker: W) -> W:
        """Give this Redbike to the runs of `worker`; return `worker`."""
        worker.runner.find_bike = self._find_bike
        return worker

    def _find_bike(self) -> object:
        if not is_in_loop():
            return self._bike
        with self._awaiting:
            self._awaited = self._awaited or self.make_awaited()
        return self._awaited

    def end_calls(self) -> None:
        """End the threads in which coroutines of jobs have called this Redbike."""
        if self._awaited is not None:
            self._awaited._threads.shutdown(wait=False)

    def _is_simulated(self, stay: Stay) -> bool:
        """Tell whether a test has stopped the clock. If so, wait until `stay` is stopped; raise in the main thread."""
        if self.store.stopped_at is None:
            return False
        if threading.current_thread() is threading.main_thread():
            raise BadConfig("the clock of a test stands still: call run_due() of its fixture in place of loops")
        stopping = StopFlag()
        stay.attach(stopping)
        while not stopping.wait(60):
            pass
        return True

    @contextmanager
    def _open_store(self) -> Iterator[Store]:
        """Open a store for one loop only: when this loop is stopped, calls of other loops are not cut short."""
        store = open_store(self.client, self.settings, self.worker)
        try:
            yield store
        finally:
            store.scripts.close()

    def _check_worker(self) -> None:
        if isinstance(self.worker, NoWorker):
            raise BadConfig("no worker: the config names none, so give from_config() one to work jobs")

    def _check_rights(self, role: str, needed: str) -> None:
        """Raise `ServerError` if the user of Redis lacks a right: a run would be lost when the loop needs it."""
        if missing := self.store.questions.list_missing_rights(needed.split()):
            user = self.client.connection_pool.connection_kwargs.get("username") or "default"
            raise ServerError(rights.describe_missing(user, role, missing))
        if self.store.questions.list_missing_rights([rights.PUBLISHING]):
            channels = f"'&{self.settings.prefix}-*'"
            log.warning("Redis does not let this %s publish to %s: redbike tail cannot show its runs", role, channels)

    def _release(self) -> None:
        """Close the worker of `work_one`, the dispatcher of `dispatch_due`, threads and connections."""
        one, passes = self.one, self.passes
        self.one = self.passes = None
        if one is not None:
            one.close()
        if passes is not None:
            passes.close()
        self.end_calls()
        self.store.scripts.close()
        self.store.scripts.drop_idle_connections()
        if self._is_own:
            retire(self.client)
