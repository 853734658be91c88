"""Server-sent events: each run that ends and each change by somebody, as it happens, with the fields of ``tail``.

One thread listens for all who look, while there are any. What somebody does not read in time is dropped for that one
alone, who is told how much.
"""

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict

from redbike.errors import RedbikeError
from redbike.queries.events import Line, make_line
from redbike.store.history import PastRun
from redbike.store.log import LogEntry
from redbike.web.api.problems import dump
from redbike.web.stream import Reader

log = logging.getLogger("redbike.web")

LISTENERS, WAITING = 100, 1000  # at most: who listens, and events that wait for one of them
RETRY = 1.0  # seconds, about, after which a server that is away is tried again
FIRST = b": what happened before is in /api/runs and /api/log\n\n"
ALIVE = b": alive\n\n"

Listen = Callable[[Callable[[], bool]], Iterable[PastRun | LogEntry]]


class Listener(Reader):
    """One who listens."""

    def __init__(self, fits: Callable[[str], bool]) -> None:
        super().__init__()
        self.fits = fits
        self._waiting: deque[bytes] = deque()
        self._missing = 0

    def put(self, message: bytes) -> None:
        """Let it have a message, from any thread."""
        if len(self._waiting) < WAITING:
            self._waiting.append(message)
        else:
            self._missing += 1
        self.wake()

    def take(self) -> bytes:
        """Return all that waits, and how much is missing behind that; nothing if nothing is new."""
        found, missing = [], 0
        with suppress(IndexError):
            while True:
                found.append(self._waiting.popleft())
        missing, self._missing = self._missing, 0
        if missing:
            found.append(write("missing", {"events": missing}))
        return b"".join(found)


class Hub:
    """All who listen. `listen` yields events until what it is given says that it is over."""

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._is_over = threading.Event()
        self._is_stopped = False
        self._state = b""  # the last message on whether somebody listens to the server

    def join(self, fits: Callable[[str], bool]) -> Listener | None:
        """Return one more listener, to events of those jobs that fit; None if there are too many."""
        with self._lock:
            if self._is_stopped or len(self._listeners) >= LISTENERS:
                return None
            listener = Listener(fits)
            if not self._listeners:
                self._is_over = threading.Event()
                threading.Thread(target=self._work, args=[self._is_over], name="redbike-api", daemon=True).start()
            self._listeners.add(listener)
            if self._state:
                listener.put(self._state)
            return listener

    def leave(self, listener: Listener) -> None:
        """Forget a listener."""
        with self._lock:
            self._listeners.discard(listener)
            if not self._listeners:
                self._is_over.set()
                self._state = b""

    def stop(self) -> None:
        """End all streams at once; none begins any more."""
        with self._lock:
            self._is_stopped = True
            found = list(self._listeners)
        for listener in found:
            listener.wake(is_over=True)

    def _work(self, is_over: threading.Event) -> None:
        is_away = False
        while not is_over.is_set():
            try:
                events = self._listen(is_over.is_set)
                self._send(write("listening", {}), is_over)
                is_away = False
                for event in events:
                    self._tell(make_line(event), is_over)
            except RedbikeError as error:
                if not is_away:
                    self._send(write("away", {"detail": str(error)}), is_over)
                is_away = True
            except Exception:
                log.exception("no event is heard")
            is_over.wait(RETRY * random.uniform(0.5, 1.5))

    def _tell(self, line: Line, is_over: threading.Event) -> None:
        message = write(line.kind, asdict(line))
        with self._lock:
            # Those who came since then have a thread of their own.
            for listener in () if is_over.is_set() else self._listeners:
                if listener.fits(line.jobid):
                    listener.put(message)

    def _send(self, message: bytes, is_over: threading.Event) -> None:
        with self._lock:
            if not is_over.is_set():
                self._state = message
                for listener in self._listeners:
                    listener.put(message)


def write(kind: str, value: object) -> bytes:
    """Return an event as the stream has it. JSON has no line break in it."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), dump(value))
