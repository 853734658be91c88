"""Dispatchers of all shards of a prefix, each in a thread of its own: one whose master is away holds up no other."""

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

from redbike.config.settings import Settings
from redbike.dispatcher.delivery import Delivery
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.errors import RedbikeError, Unreachable
from redbike.loop.timefile import Timefile
from redbike.process.signals import StopFlag
from redbike.store.namespace import make_owner
from redbike.store.sharded.missing import name_if_silent
from redbike.store.sharded.quotas import divide_anew, divide_missed
from redbike.store.sharded.steering import catch_up
from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")

Errand = Callable[[], None]

CATCH_UP = 60.0  # seconds after which shards are compared: a process may have died, or been cut off, between two


class BetweenShards:
    """Divides limits of queues, and copies to shards that were away what they have missed; one task after the other.

    It has a thread of its own: a shard that is away holds up no dispatcher. `fail` is called with an unexpected error.
    """

    def __init__(self, store: Store, fail: Callable[[BaseException], None]) -> None:
        self._shards, self._agreement, self._fail = store.shards, store.agreement, fail
        self._asked: queue.SimpleQueue[Errand | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="redbike-between-shards", daemon=True)

    def divide(self, name: str) -> None:
        """Have the limits of the queue `name` divided soon."""
        self._asked.put(partial(divide_anew, self._shards, name))

    def catch_up(self) -> None:
        """Copy to all shards soon what they have missed."""
        self._asked.put(self._catch_up)

    def hear_of_loss(self, prefix: str) -> None:
        """Note the number of shards again soon, and copy to the shard `prefix`, which has lost data, what it lacks."""
        self._asked.put(partial(self._agreement.note, is_gone=True))
        self._asked.put(partial(self._catch_up, [prefix]))

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
        """Return the next errand; if there is none until that instant (monotonic), one that does nothing."""
        try:
            return self._asked.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return lambda: None

    def _catch_up(self, emptied: Collection[str] = ()) -> None:
        for each in catch_up(self._shards):
            log.warning("the shard %s answers again, and gets what it missed", each)
        divide_missed(self._shards, emptied)


def _do(errand: Errand) -> None:
    try:
        errand()
    except RedbikeError as error:
        # A timer starts the division again, and a shard that is back gets what it lacks.
        log.warning("cannot notify other shards: %s", error)


class _Part(Timefile):
    """The timefile for the dispatcher of one shard. It holds the earliest of the instants of all shards."""

    def __init__(self, file: Timefile, instants: list[float], number: int, writing: threading.Lock) -> None:
        self._file, self._instants, self._number, self._writing = file, instants, number, writing

    def read(self, now: float) -> float | None:
        """Return the instant in the file."""
        return self._file.read(now)

    def write(self, until: float) -> bool:
        """Write the earliest instant, once each shard has one."""
        self._instants[self._number] = until
        with self._writing:
            first = min(self._instants)
            return math.isinf(first) or self._file.write(first)


def share_timefile(path: str | None, number: int) -> Sequence[Timefile | None]:
    """Return the timefile for each of several shards; None: the dispatcher uses that of its settings, if any."""
    if path is None or number == 1:
        return [None] * number
    file, instants, writing = Timefile(path), [-math.inf] * number, threading.Lock()
    return [_Part(file, instants, each, writing) for each in range(number)]


class Dispatchers:
    """Dispatches the jobs of all shards of `store`; `ping_url` is called as long as all of them go on."""

    def __init__(self, store: Store, settings: Settings, ping_url: str | None = None) -> None:
        owner, files = make_owner(), share_timefile(settings.timefile, len(store.shards))
        self._all = [
            Dispatcher(shard, settings, ping_url, timefile, owner, number, len(files))
            for number, (shard, timefile) in enumerate(zip(store.shards, files, strict=True))
        ]
        self._between, self._deliveries = BetweenShards(store, self._fail), list[Delivery]()
        for number, each in enumerate(self._all if len(files) > 1 else ()):
            delivery = Delivery(store.shards, number, each.loop)
            self._deliveries.append(delivery)
            each.before_turn, each.divide = delivery.look, self._between.divide
            each.timekeeper.when_rewound = partial(self._between.hear_of_loss, store.shards[number].keys.prefix)
            each.switch = self._all[0].switch
            each.alerting.peers = [one.alerting for one in self._all]
            each.loop.when_back = self._between.catch_up
        self._error: BaseException | None = None

    @property
    def stopping(self) -> StopFlag:
        """What stops the first one, and so all of them."""
        return self._all[0].loop.stopping

    def dispatch(self, after: float | None = None) -> None:
        """Dispatch until halted. If one of them fails, all stop, and its error is raised."""
        first, *others = self._all
        threads = [threading.Thread(target=self._run, args=(each, after), name="redbike-dispatcher") for each in others]
        for thread in threads:
            thread.start()
        if threads:
            self._between.start()
            self._between.catch_up()
        try:
            first.dispatch(after)
        except BaseException as error:
            self._error = self._error or error
            raise
        finally:
            self._stop()
            for thread in threads:
                thread.join()
            if threads:
                self._between.stop()
            for delivery in self._deliveries:
                delivery.close()
            # One that has never reached its shard has not failed.
            if self._error is None or isinstance(self._error, Unreachable):
                first.presence.note_end([each.store for each in self._all if each.presence.has_left])
        if self._error is not None:
            raise self._error

    def _run(self, dispatcher: Dispatcher, after: float | None) -> None:
        try:
            dispatcher.dispatch(after)
        except BaseException as error:
            log.error("the dispatcher of %s fails: %s", dispatcher.store.keys.prefix, error)
            self._fail(error)
        finally:
            self._stop()

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._stop()

    def _stop(self) -> None:
        for each in self._all:
            each.loop.stopping.set()

    def dispatch_due(self, now: float | None = None) -> int:
        """Move all that is due by `now` in all shards; return how many jobs moved."""
        for delivery in self._deliveries:
            delivery.deliver_all()
        moved = 0
        for each in self._all:
            with name_if_silent(each.store):
                moved += each.dispatch_due(now)
        self._between.do_asked()
        return moved

    def close(self) -> None:
        """Release the connections, and end the threads."""
        for each in self._all:
            each.close()

    def rest(self) -> None:
        """Release the connections until the next pass."""
        for each in self._all:
            each.rest()
