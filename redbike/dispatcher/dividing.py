"""A thread that divides the limits of queues among shards: one that is away holds up no dispatcher."""

import logging
import queue
import threading

from redbike.errors import RedbikeError
from redbike.store.sharded.quotas import divide_anew
from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")


class Divider:
    """Divides the limits of those queues that it is told, one after the other."""

    def __init__(self, store: Store) -> None:
        self._shards = store.shards
        self._asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, name: str) -> None:
        """Have the limits of the queue `name` divided soon."""
        self._asked.put(name)

    def start(self) -> None:
        """Begin the thread."""
        self._thread = threading.Thread(target=self._run, name="redbike-divider", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, once it has done what it was told."""
        self._asked.put(None)
        if self._thread:
            self._thread.join()

    def divide_asked(self) -> None:
        """Do what it was told, in this thread."""
        while not self._asked.empty():
            self._divide(self._asked.get())

    def _run(self) -> None:
        while (name := self._asked.get()) is not None:
            self._divide(name)

    def _divide(self, name: str | None) -> None:
        if name is None:
            return
        try:
            divide_anew(self._shards, name)
        except RedbikeError as error:
            # A timer has it tried again.
            log.warning("the limits of the queue %s are not divided anew: %s", name, error)
