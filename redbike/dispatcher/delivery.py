"""Deliver the messages of one shard to the others: jobs have ended in it that have followers there.

A dispatcher looks for messages when it begins, when the token `MAIL` wakes it, and every few seconds, as another
dispatcher may have consumed that token and died. Each receiver has a thread of its own until it has all its
messages. So a shard that is away holds up neither the dispatcher nor the other shards.
"""

import logging
import threading
import time
from collections.abc import Sequence

from redbike.errors import RedbikeError
from redbike.loop.loop import Loop
from redbike.store.enums import MAIL
from redbike.store.sharded.mail import deliver, deliver_all
from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")

LOOKS = 5.0  # seconds after which it looks for messages, whatever it was told
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds until a shard is tried again that did not answer
LAG = 1.0  # seconds that a replica may need to have what was delivered
# Seconds for which messages are delivered again and again: longer than a cluster mostly takes to replace a master.
LONGEST_LAG = 30.0
LAGS = "no replica of the master of %s has confirmed for %g s; if one takes over now, followers miss ends of parents"
FAREWELL = 0.5  # seconds for which messages are still delivered when the process is to stop


class Delivery:
    """Delivers the messages of the shard `number` of `shards`. `loop` is that of its dispatcher."""

    def __init__(self, shards: Sequence[Store], number: int, loop: Loop) -> None:
        self._shards, self._number, self._loop = shards, number, loop
        self._looked_at = float("-inf")  # by the monotonic clock
        self._threads: dict[int, threading.Thread] = {}  # by the shard that each serves
        self._waiting: set[int] = set()  # shards to which there may be more than their thread has seen
        self._changing = threading.Lock()
        self._lags: dict[int, float] = {}  # since when no replica confirms, by the shard
        self._warned: set[int] = set()  # of these, those that were logged

    def look(self) -> None:
        """Begin to deliver messages, if the token says that there are some, or the last look was long ago."""
        if self._loop.token != MAIL and time.monotonic() - self._looked_at < LOOKS:
            return
        shards = self._list_mail()
        self._loop.token, self._looked_at = "", time.monotonic()
        for shard in shards:
            self._begin(shard)

    def _begin(self, shard: int) -> None:
        with self._changing:
            self._waiting.add(shard)
            if shard not in self._threads:
                args = (shard,)
                thread = threading.Thread(target=self._serve, args=args, name="redbike-delivery", daemon=True)
                self._threads[shard] = thread
                thread.start()

    def _serve(self, shard: int) -> None:
        try:
            while self._goes_on(shard):
                self._retry(shard)
        finally:
            with self._changing:
                if self._threads.get(shard) is threading.current_thread():
                    del self._threads[shard]

    def _goes_on(self, shard: int) -> bool:
        with self._changing:
            if shard in self._waiting and not self._loop.stopping.is_set():
                self._waiting.remove(shard)
                return True
            del self._threads[shard]
            return False

    def _retry(self, shard: int) -> None:
        """Deliver all messages to a shard, as soon as it answers, and until a replica of its master has them."""
        pause, is_away = FIRST_PAUSE, False
        while not self._loop.stopping.is_set():
            try:
                is_done = self._deliver(shard)
            except RedbikeError as error:
                if not is_away:
                    log.warning("the followers in %s wait for their parents: %s", self._name(shard), error)
                is_away = True
                self._shards[shard].scripts.drop_idle_connections()
            else:
                if is_away:
                    log.warning("the followers in %s get news of their parents again", self._name(shard))
                if is_done:
                    return
                is_away = False
            self._loop.stopping.wait(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _deliver(self, shard: int) -> bool:
        """Deliver all messages to a shard; tell whether a replica has them, or none has confirmed for long."""
        if deliver(self._shards, self._number, shard, LAG):
            self._lags.pop(shard, None)
            self._warned.discard(shard)
            return True
        since = self._lags.setdefault(shard, time.monotonic())
        if time.monotonic() - since < LONGEST_LAG:
            return False
        if shard not in self._warned:
            log.warning(LAGS, self._name(shard), LONGEST_LAG)
        self._warned.add(shard)
        return deliver(self._shards, self._number, shard, 0.0)

    def _name(self, shard: int) -> str:
        return self._shards[shard].keys.prefix

    def deliver_all(self) -> None:
        """Deliver all messages in this thread."""
        deliver_all(self._shards, self._number)

    def _list_mail(self) -> list[int]:
        return [shard for shard in self._shards[self._number].links.list_mail() if shard < len(self._shards)]

    def close(self) -> None:
        """Wait a little for the threads: the loop is to stop."""
        for thread in list(self._threads.values()):
            thread.join(FAREWELL)
