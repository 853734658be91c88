"""The limits that a worker class names: set when a worker starts, and again when the server has lost its data."""

import logging
import threading

from redbike.errors import RedbikeError, ServerError, Unreachable
from redbike.loop.loop import Loop
from redbike.loop.queues import Queues, apply_limits
from redbike.loop.worker_class import WorkerClass
from redbike.store.store import Store

log = logging.getLogger("redbike.worker")

LIMITS_RETRY = 1.0  # seconds after which limits are set again while a shard is away


class LimitSetter:
    """Sets the limits that `worker` names; at most one thread retries."""

    def __init__(self, store: Store, worker: WorkerClass, queues: Queues, loop: Loop) -> None:
        self._store = store
        self._worker = worker
        self._queues = queues
        self._loop = loop
        self._lock = threading.Lock()
        self._is_due = False  # whether the thread has to set them, perhaps once more
        self._thread: threading.Thread | None = None

    def apply(self) -> None:
        """Set the limits of the worker class. While a shard is away, the stored limits still apply."""
        if len(self._store.shards) == 1:
            self._loop.retry_until_up(lambda _: self._set())
            return
        try:
            self._set()
        except Unreachable as error:
            log.warning("the limits of this worker class do not apply yet: %s", error)
            self.begin()

    def begin(self) -> None:
        """Set the limits in a thread, as soon as all shards answer."""
        with self._lock:
            self._is_due = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._retry, name="redbike-limits", daemon=True)
                self._thread.start()

    def _set(self) -> bool:
        return apply_limits(self._store, self._worker, self._queues.names(), self._queues.list_for_host())

    def _retry(self) -> None:
        while self._goes_on():
            try:
                if self._set():
                    log.warning("the limits of this worker class apply now")
            except ServerError:  # or others set limits at the same time
                self._is_due = True
                self._loop.stopping.wait(LIMITS_RETRY)
            except RedbikeError as error:
                log.error("the limits of this worker class do not apply: %s", error)

    def _goes_on(self) -> bool:
        """Tell whether the thread has to set the limits. If not, it ends, and the next `begin` starts another one."""
        with self._lock:
            goes_on = self._is_due and not self._loop.stopping.is_set()
            self._is_due = False
            if not goes_on:
                self._thread = None
            return goes_on
