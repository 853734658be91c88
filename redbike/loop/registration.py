"""Presence: a dispatcher or worker is registered, and is seen every few seconds, idle or busy.

1. It registers when it starts. It does so again if what is known of it has changed, and if Redis does not know it any
   more: after a flush, on a new server, after a day of suspension.
2. A dispatcher is seen by its turns, an idle worker by the takes that wait for a job. A busy worker is seen by a thread
   of its own.
3. A process that ends in order is removed. One that fails counts as lost, like one that was killed.

Nothing of this holds up a job: what Redis refuses is logged once, and what it does not answer is tried again.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from types import TracebackType
from typing import Any, Literal, Protocol

from redbike.config.settings import Settings, describe_shared
from redbike.errors import OtherProtocol, RedbikeError, Unreachable
from redbike.loop.loop import FAREWELL, Loop
from redbike.process import watchdog
from redbike.schedule.zones import find_release
from redbike.store.agreed import Naming
from redbike.store.keys import NOTIFIES
from redbike.store.namespace import make_owner, make_tag
from redbike.store.processes import CUT, ZONES, ProcessRecord, compute_checksum
from redbike.store.sharded.steering import note_end
from redbike.store.store import Store
from redbike.store.workers import INTERVAL, REFRESH
from redbike.text import __version__
from redbike.text.printable import name_host

log = logging.getLogger("redbike")

LATENESS = 0.5  # seconds by which a turn or a take may be late or early
RETRY = 1.0  # seconds
LAST_WORD = 2.0  # seconds for which a process that ends waits for its own thread, if the server has answered lately
MOST_QUEUES, MAX_QUEUES = 50, 2000  # names of queues in an entry, and their characters
MOST_CHECKSUMS = 5000  # of the other queues


class Listener(Protocol):
    """Notifies of ended runs."""

    @property
    def is_wanted(self) -> bool:
        """Tell whether there is anybody to notify."""
        ...

    def hear(self) -> None:
        """Note that the outbox may have runs of other workers."""
        ...

    def poll(self) -> None:
        """Log a call that has gone on for long; called every few seconds."""
        ...


class Presence:
    """Keeps one process registered while the ``with`` lasts.

    `describe` returns what a worker says of itself: fields of a `ProcessRecord`, by name. `describe_naming` returns how
    it names queues. `settings` are those by which the process decides on next states.
    """

    def __init__(
        self,
        loop: Loop,
        kind: Literal["dispatcher", "worker"],
        settings: Settings,
        listener: Listener | None = None,
        describe: Callable[[], dict[str, Any]] = dict,
        describe_naming: Callable[[], Naming | None] = lambda: None,
        owner: str = "",
    ) -> None:
        self.listener = listener
        self.owner = owner or make_owner()
        self.when_forgotten: Callable[[], None] = lambda: None  # called when the server had lost it, and knows it again
        self.has_left = False  # whether it has ended in order, and the server knows
        self._loop = loop
        self._kind = kind
        self._settings = tuple((describe_shared(settings) | {ZONES: find_release()}).items())
        self._host = settings.host or name_host()
        self._describe = describe
        self._describe_naming = describe_naming
        self._pid = 0  # of the process that has begun; a child that a job has forked must not sign for its parent
        self._entry = self._since = ""  # as it is registered
        self._registered_at = self._seen_at = float("-inf")  # when that was last, by the monotonic clock
        self._complaint = ""
        self._over = False
        self._is_forgotten = False  # until a reply has come to its new registration
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def _listener(self) -> Listener | None:
        return self.listener if self.listener and self.listener.is_wanted else None

    def make_tag(self) -> str:
        """Return a new tag, by which the process can be found, and which says whether its runs go into the outbox."""
        return make_tag(self.owner) + (NOTIFIES if self._listener else "")

    def __enter__(self) -> "Presence":
        self._pid = os.getpid()
        self._loop.retry_until_up(lambda _: self._update())
        if self._kind == "worker":
            self._loop.when_stopping = self._changed.set
            self._thread = threading.Thread(target=self._keep_up, name="redbike-presence", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._changed.set()
        if os.getpid() != self._pid:
            return
        if isinstance(error, Exception):
            # It has failed, and may leave runs behind: its entry must say whose they are.
            return
        is_away = self._loop.is_settling(0.0)
        if self._thread is not None:
            # It may be about to say that this process stops.
            self._thread.join(FAREWELL if is_away else LAST_WORD)
            if self._thread.is_alive() and len(self._loop.store.shards) == 1:
                # It waits for a server that does not answer.
                return
        patience = 0.0 if is_away else FAREWELL
        try:
            self._loop.retry_until_up(lambda _: self._loop.store.workers.unregister(self.owner), patience)
            self.has_left = True
        except RedbikeError as problem:
            log.debug("the end of this process is not noted: %s", problem)

    def unregister(self, store: Store | None = None) -> None:
        """Unregister this process, which ends before its loop; `store` may have another connection."""
        self._over = True
        with contextlib.suppress(RedbikeError):
            (store or self._loop.store).workers.unregister(self.owner)

    def note_end(self, heard: Sequence[Store]) -> None:
        """Note the end of this process in the shards `heard`, which know it, for the others."""
        if 0 < len(heard) < len(self._loop.store.whole.shards):
            note_end(heard, self.owner)

    def hurry(self) -> None:
        """Register again soon: what is known of this process has changed."""
        self._changed.set()

    @property
    def idle_owner(self) -> str:
        """The owner that signs the take of an idle worker; "" if it is not registered at all."""
        return self.owner if self._pid and not self._over else ""

    def renew(self) -> None:
        """Renew the registration, unless it was renewed just now. Raise `Unreachable`."""
        if time.monotonic() - self._seen_at >= INTERVAL - LATENESS:
            self._update()

    def goes_on(self) -> bool:
        """Renew the registration between parts of a long task; tell whether the loop goes on. Raise `Unreachable`."""
        watchdog.feed()
        self.renew()
        return self._loop.goes_on()

    def note(self, word: str) -> None:
        """Note what the server has answered to the signature of a take: ``seen``, ``unknown`` or ""."""
        if word == "seen" and self._is_current():
            self._seen_at = time.monotonic()
        elif word:
            self._entry = "" if word == "unknown" else self._entry
            self._seen_at = float("-inf")
            self._changed.set()

    def check(self) -> None:
        """Register again soon if what is known of the process has changed."""
        if not self._is_current():
            self._seen_at = float("-inf")
            self._changed.set()

    def _is_current(self) -> bool:
        return self._entry == self.format_entry() and time.monotonic() - self._registered_at < REFRESH

    def _keep_up(self) -> None:
        pause = 0.0
        while not self._over:
            self._changed.wait(max(pause, self._seen_at + INTERVAL + LATENESS - time.monotonic()))
            self._changed.clear()
            pause = 0.0
            if self._listener:
                self._listener.poll()
            if time.monotonic() - self._seen_at >= INTERVAL or not self._is_current():
                try:
                    self._update()
                    # Where one job runs at once, nobody else looks for a HALT meanwhile.
                    self._loop.goes_on()
                except RedbikeError:
                    pause = RETRY

    def _update(self) -> None:
        if self._over or os.getpid() != self._pid:
            return
        workers, asked, complaint = self._loop.store.workers, time.monotonic(), ""
        try:
            # The server may have forgotten it just when it has something new to say. One that stops need not know.
            is_asked = self._is_current() or (self._since and not self._loop.stopping.is_set())
            self._is_forgotten |= bool(is_asked) and not self._renew()
            if self._is_forgotten or not self._is_current():
                entry = self.format_entry()
                # One that stops takes no job any more: another may have its functions in other queues already.
                naming = None if self._loop.stopping.is_set() else self._describe_naming()
                self._since = workers.register(self.owner, entry, self._since, naming)
                self._entry, self._registered_at = entry, asked
                if self._is_forgotten:
                    self.when_forgotten()
                    self._is_forgotten = False
        except Unreachable:
            raise
        except OtherProtocol as error:
            if self._registered_at == float("-inf"):
                raise
            # It was suspended, and counted as dead.
            complaint = str(error)
            self._loop.stopping.set()
            log.error("this process ends: %s", complaint)
        except RedbikeError as error:
            complaint = str(error)
            if complaint != self._complaint:
                log.error("this process cannot be registered: %s", complaint)
        self._complaint, self._seen_at = complaint, asked

    def _renew(self) -> bool:
        is_known, is_any_left = self._loop.store.workers.renew(self.owner, self._listener is not None)
        self.hear(is_any_left)
        return is_known

    def hear(self, is_any_left: bool) -> None:
        """Notify the listener if the outbox may have runs."""
        if self._listener and is_any_left:
            self._listener.hear()

    def format_entry(self) -> str:
        """Return what is registered: the entry of a `ProcessRecord`."""
        known = {"queues": (), "host": self._host, "pid": os.getpid(), "version": __version__, **self._describe()}
        is_stopping = self._loop.stopping.is_set()
        record = ProcessRecord(0.0, self._kind, is_stopping=is_stopping, settings=self._settings, **known)
        return record.format_entry()


def shorten(names: Sequence[str]) -> tuple[str, ...]:
    """Return the first names; and if they are too many, ``…+N`` for the other ones."""
    told = names[: _count_told(names)]
    left = len(names) - len(told)
    return (*(name if name.isprintable() else repr(name) for name in told), *([f"{CUT}+{left}"] if left else []))


@lru_cache(1)
def sum_others(names: tuple[str, ...]) -> frozenset[str] | None:
    """Return the checksums of the names that `shorten` does not show as they are; None for none, and for too many."""
    first = _count_told(names)
    others = [*(name for name in names[:first] if not name.isprintable()), *names[first:]]
    return frozenset(map(compute_checksum, others)) if 0 < len(others) <= MOST_CHECKSUMS else None


def _count_told(names: Sequence[str]) -> int:
    sizes = accumulate(len(name) for name in names[:MOST_QUEUES])
    return sum(1 for size in sizes if size <= MAX_QUEUES)
