"""The methods of `redbike.facade.redbike.Redbike` that run jobs and loops, stop them, and close what was opened."""

import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Self, TypeVar

import redis

from redbike.config.settings import Settings
from redbike.connection.line import retire
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.errors import BadConfig, RedbikeError, ServerError
from redbike.loop.lifecycle import OwnLoops, Stay
from redbike.loop.naming import NoWorker, open_store
from redbike.loop.worker_class import WorkerClass, check_concurrency, read_concurrency
from redbike.schedule.objects.instants import InstantLike, read_instant
from redbike.store import rights
from redbike.store.store import Store
from redbike.worker.runner import is_in_run
from redbike.worker.worker import Worker

log = logging.getLogger("redbike")

T = TypeVar("T")


OPEN = ("stop", "close")  # what may be called of a closed one

B = TypeVar("B", bound="Running")


def refuse_when_closed(kind: type[B]) -> type[B]:
    """Let the public methods of a class raise `RedbikeError` once an object is closed; its jobs may still call them."""
    for name in dir(kind):
        method = getattr(kind, name)
        # A property is no function here, and neither is a class method.
        if inspect.isfunction(method) and name not in OPEN and (name == "__enter__" or not name.startswith("_")):
            setattr(kind, name, _refuse(method))
    return kind


def _refuse(method: Callable[..., T]) -> Callable[..., T]:
    @wraps(method)
    def call(self: "Running", /, *args: Any, **kwargs: Any) -> T:
        if self._loops.is_closing and not is_in_run():
            raise RedbikeError("this Redbike is closed")
        return method(self, *args, **kwargs)

    return call


class Running:
    """Runs dispatchers and workers for the jobs of `store`."""

    store: Store
    settings: Settings
    worker: WorkerClass
    client: "redis.Redis"
    _is_own: bool  # whether `client` was made here

    def _prepare(self) -> None:
        self._one: Worker | None = None
        self._passes: Dispatcher | None = None
        self._passing = threading.Lock()  # a dispatcher is for one thread
        self._loops = OwnLoops(self._release)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the loops, wait for them, and close the connections; twice does no harm.

        Further calls raise `RedbikeError`, but for those of jobs that still run.
        A job, and a signal handler in the thread of a loop, do not wait: the loop that ends last closes them. Other
        calls that are in flight complete, and `events` ends within a second or so. A client that you have passed stays
        open, and the embedded server goes on.
        """
        self._loops.close(waits=not is_in_run())

    def stop(self) -> None:
        """Stop what `dispatch` and `work` of this object run, in any thread, each after its current job.

        It returns at once. Signal handlers, other threads and jobs may call it, also twice. It is for good: `dispatch`
        and `work` that are called later return at once.
        """
        self._loops.stop()

    def dispatch_due(self, now: InstantLike | None = None) -> int:
        """One pass of the dispatcher: move everything due by `now` (default: Redis' clock); how many jobs moved."""
        moment = read_instant("now", now)
        with self._loops.run(), self._passing:
            passes = self._passes = self._passes or Dispatcher(self.store, self.settings)
            try:
                return passes.dispatch_due(moment)
            finally:
                passes.rest()

    def work_one(self) -> str | None:
        """Take and work at most one job, without waiting; its id, or None when every queue was empty."""
        with self._loops.run():
            one = self._one = self._one or Worker(self.store, self.worker, self.settings)
            return one.work_one()

    def work(self, concurrency: int | None = None) -> None:
        """Work until halted or stopped, `concurrency` jobs at once; None is what the worker class says, or else one.

        Raises `BadConfig` for another number than 1 to 1000.
        """
        with self._loops.run() as stay:
            self._work(stay, concurrency)

    def _work(self, stay: Stay, concurrency: int | None) -> None:
        if isinstance(self.worker, NoWorker):
            raise BadConfig("no worker: the config names none, so give from_config() one to work jobs")
        concurrency = read_concurrency(self.worker) if concurrency is None else check_concurrency(concurrency)
        if stay.is_stopped:
            return
        self._check_rights("worker", rights.WORKER)
        with self._open_store() as store:
            worker = Worker(store, self.worker, self.settings, concurrency)
            stay.attach(worker.loop.stopping)
            worker.work()

    @contextmanager
    def _open_store(self) -> Iterator[Store]:
        """Give a loop a store of its own: what stops it must not hurry the others."""
        store = self._make_store()
        try:
            yield store
        finally:
            store.scripts.close()

    def _make_store(self) -> Store:
        return open_store(self.client, self.settings, self.worker)

    def _check_rights(self, role: str, needed: str) -> None:
        """Raise `ServerError` if the user lacks rights: a run would get lost when the first of them is needed."""
        if missing := self.store.questions.list_missing_rights(needed.split()):
            user = self.client.connection_pool.connection_kwargs.get("username") or "default"
            raise ServerError(rights.describe_missing(user, role, missing))
        if self.store.questions.list_missing_rights([rights.PUBLISHING]):
            channels = f"'&{self.settings.prefix}-*'"
            log.warning("Redis does not let this %s publish to %s: nobody can listen to its runs", role, channels)

    def _release(self) -> None:
        """Close what was opened."""
        one, passes = self._one, self._passes
        self._one = self._passes = None
        if one is not None:
            one.close()
        if passes is not None:
            passes.close()
        self.store.scripts.close()
        self.store.scripts.drop_idle_connections()
        if self._is_own:
            retire(self.client)
