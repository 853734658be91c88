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
    """What coroutines call in place of a Redbike."""

    _threads: ThreadPoolExecutor
    _is_known: bool

    def _prepare(self, make: Callable[[], Any]) -> None: ...
    def _open(self) -> Any: ...


class Loops(Part):
    """Runs dispatchers and workers for the jobs of `store`, and closes what was opened.

    `given_prefix` is the prefix that the user gave; `load` reads the file that a dispatcher is given; `make_awaited`
    returns what coroutines of jobs call.
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
        self._passing = threading.Lock()  # a dispatcher is for one thread
        self._making = threading.Lock()  # of `one`
        self._awaiting = threading.Lock()
        self._awaited: Awaited | None = None  # what coroutines call
        self.calls.forget_all()

    @property
    def is_closing(self) -> bool:
        """Tell whether `close` was called."""
        return self.calls.is_closing

    def close(self) -> None:
        """Stop the loops, wait for them, and close the connections; twice does no harm.

        Further calls raise `RedbikeError`, but for those of jobs that still run.
        A job, and a signal handler in the thread of a loop, do not wait: the loop that ends last closes them. Other
        calls that are in flight complete, and `events` ends within a second or so. A client that you have passed stays
        open, and the embedded server goes on.
        """
        self.calls.close(waits=not is_in_run())

    def stop(self) -> None:
        """Stop what `dispatch` and `work` of this object run, in any thread, each after its current job.

        It returns at once. Signal handlers, other threads and jobs may call it, also twice. It is for good: `dispatch`
        and `work` that are called later return at once.
        """
        self.calls.stop()

    def dispatch(
        self, after: InstantLike | None = None, csvfilename: Source | None = None, ping_url: str | None = None
    ) -> None:
        """Dispatch until halted or stopped; the rows of `csvfilename` are set first, a bad one is logged.

        The first pass moves what is due by `after`. `ping_url` is called once a minute while the dispatcher runs.
        Raises `BadConfig` for a bad one.
        """
        with self.calls.run() as stay:
            self.dispatch_in(stay, after, csvfilename, ping_url)

    def dispatch_in(
        self, stay: Stay, after: InstantLike | None, csvfilename: Source | None, ping_url: str | None
    ) -> None:
        """`dispatch`, in a call that is counted already."""
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
        """One pass of the dispatcher: move everything due by `now` (default: Redis' clock); how many jobs moved.

        It also ends lost runs, at once: only `dispatch` knows of an outage of the server, in which no worker can send a
        heartbeat, and gives them 4 s after it. So after an outage, wait as long until you call this.
        """
        moment = read_instant("now", now)
        with self.calls.run(), self._passing:
            passes = self.passes = self.passes or Dispatchers(self.store, self.settings)
            try:
                return passes.dispatch_due(moment)
            finally:
                passes.rest()

    def work_one(self) -> str | None:
        """Take and work at most one job, without waiting; its id, or None when every queue was empty.

        Raises `BadConfig` if there is no worker.
        """
        self._check_worker()
        with self.calls.run():
            with self._making:
                one = self.one = self.one or self.equip(Worker(self.store, self.worker, self.settings))
            return one.work_one()

    def work(self, concurrency: int | None = None) -> None:
        """Work until halted or stopped, `concurrency` jobs at once; None is what the worker class says, or else one.

        Raises `BadConfig` for another number than 1 to 1000, and if there is no worker.
        """
        with self.calls.run() as stay:
            self.work_in(stay, concurrency)

    def work_in(self, stay: Stay, concurrency: int | None, event_loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`work`, in a call that is counted already; coroutines run in `event_loop`, if it is given."""
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
        """Let the runs of `worker` have this Redbike, and return it."""
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
        """Tell whether a test has stopped the clock; then wait first until the loop is stopped, as nothing is due."""
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
        """Give a loop a store of its own: what stops it must not hurry the others."""
        store = open_store(self.client, self.settings, self.worker)
        try:
            yield store
        finally:
            store.scripts.close()

    def _check_worker(self) -> None:
        if isinstance(self.worker, NoWorker):
            raise BadConfig("no worker: the config names none, so give from_config() one to work jobs")

    def _check_rights(self, role: str, needed: str) -> None:
        """Raise `ServerError` if the user lacks rights: a run would get lost when the first of them is needed."""
        if missing := self.store.questions.list_missing_rights(needed.split()):
            user = self.client.connection_pool.connection_kwargs.get("username") or "default"
            raise ServerError(rights.describe_missing(user, role, missing))
        if self.store.questions.list_missing_rights([rights.PUBLISHING]):
            channels = f"'&{self.settings.prefix}-*'"
            log.warning("Redis does not let this %s publish to %s: redbike tail cannot show its runs", role, channels)

    def _release(self) -> None:
        """Close what was opened."""
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
