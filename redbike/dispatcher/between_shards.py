"""What dispatchers do between shards, in a thread of its own: a shard that is away holds up none of them."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial

from redbike.errors import RedbikeError
from redbike.store.sharded.quotas import divide_anew
from redbike.store.sharded.steering import catch_up
from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")

Errand = Callable[[], None]

CATCH_UP = 60.0  # seconds after which shards are compared: whoever told them may have died in between, or been cut off


class BetweenShards:
    """Divides limits of queues, and tells shards that were away what they have missed; one after the other.

    `fail` hears of an error that nobody expects.
    """

    def __init__(self, store: Store, fail: Callable[[BaseException], None]) -> None:
        self._shards, self._agreement, self._fail = store.shards, store.agreement, fail
        self._asked: queue.SimpleQueue[Errand | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="redbike-between-shards", daemon=True)

    def divide(self, name: str) -> None:
        """Have the limits of the queue `name` divided soon."""
        self._asked.put(partial(divide_anew, self._shards, name))

    def catch_up(self) -> None:
        """Have all shards told soon what they have missed."""
        self._asked.put(self._catch_up)

    def note_number(self) -> None:
        """Have the number of shards noted again soon: a server has lost it."""
        self._asked.put(partial(self._agreement.note, is_gone=True))

    def start(self) -> None:
        """Begin the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, once it has done what it was asked."""
        self._asked.put(None)
        self._thread.join()

    def do_asked(self) -> None:
        """Do in this thread what it was asked."""
        while not self._asked.empty():
            if errand := self._asked.get():
                _do(errand)

    def _run(self) -> None:
        try:
            again = time.monotonic() + CATCH_UP
            while errand := self._get(again):
                if time.monotonic() >= again:
                    _do(self._catch_up)
                    again = time.monotonic() + CATCH_UP
                _do(errand)
        except BaseException as error:
            self._fail(error)

    def _get(self, until: float) -> Errand | None:
        """Return what it is asked next, or at that instant of the monotonic clock nothing to do."""
        try:
            return self._asked.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return lambda: None

    def _catch_up(self) -> None:
        for each in catch_up(self._shards):
            log.warning("the shard %s answers again, and gets what it missed", each)


def _do(errand: Errand) -> None:
    try:
        errand()
    except RedbikeError as error:
        # A timer has limits divided again, and a shard that is back is told again.
        log.warning("cannot notify other shards: %s", error)
