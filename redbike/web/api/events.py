"""Server-sent events: each run that ends and each change by a person, as it happens, with the fields of ``tail``.

While there are clients, one thread listens to each shard for all of them. If a client reads too slowly, events are
dropped for this client alone, and it is told how many.
"""

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from redbike.errors import RedbikeError
from redbike.queries.events import Line, make_line
from redbike.store.history import PastRun
from redbike.store.log import LogEntry
from redbike.web.api.problems import dump
from redbike.web.stream import Reader

log = logging.getLogger("redbike.web")

LISTENERS, WAITING = 100, 1000  # the most listeners, and the most events that wait for one of them
RETRY = 1.0  # seconds, on average, between two attempts to reach a server
FIRST = b": what happened before is in /api/runs and /api/log\n\n"
LISTENING = b"event: listening\ndata: {}\n\n"
ALIVE = b": alive\n\n"

Listen = Callable[..., Iterable[PastRun | LogEntry]]


class Listener(Reader):
    """A client that listens to the events of the jobs for which `fits` is true."""

    def __init__(self, fits: Callable[[str], bool]) -> None:
        super().__init__()
        self.fits = fits
        self._waiting: deque[bytes] = deque()
        self._missing = 0

    def put(self, message: bytes) -> None:
        """Add a message for this client, or drop and count it if too many wait. Any thread may call this."""
        if len(self._waiting) < WAITING:
            self._waiting.append(message)
        else:
            self._missing += 1
        self.wake()

    def take(self) -> bytes:
        """Return all waiting messages, and a last one with the number of dropped ones; b"" if nothing is new."""
        found, missing = [], 0
        with suppress(IndexError):
            while True:
                found.append(self._waiting.popleft())
        missing, self._missing = self._missing, 0
        if missing:
            found.append(write("missing", {"events": missing}))
        return b"".join(found)


class Hub:
    """All listeners. `find` returns a function for each shard, which yields events until its `is_over` returns true."""

    def __init__(self, find: Callable[[], Sequence[Listen]]) -> None:
        self._find = find
        self._number = 1  # of shards
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._is_over = threading.Event()
        self._is_stopped = False
        self._states: dict[int, bytes] = {}  # for each shard, the last message that says whether it is listened to

    def join(self, fits: Callable[[str], bool]) -> Listener | None:
        """Return a new listener to the events of jobs for which `fits` is true; None if there are too many."""
        with self._lock:
            if self._is_stopped or len(self._listeners) >= LISTENERS:
                return None
            listener = Listener(fits)
            if not self._listeners:
                self._is_over = threading.Event()
                self._start(self._open, self._is_over)
            self._listeners.add(listener)
            if state := self._find_state():
                listener.put(state)
            return listener

    def leave(self, listener: Listener) -> None:
        """Remove a listener. After the last one, the threads end."""
        with self._lock:
            self._listeners.discard(listener)
            if not self._listeners:
                self._is_over.set()
                self._states.clear()

    def stop(self) -> None:
        """End all streams at once, and let no further stream begin."""
        with self._lock:
            self._is_stopped = True
            found = list(self._listeners)
        for listener in found:
            listener.wake(is_over=True)

    def _start(self, target: Callable[..., None], *given: Any) -> None:
        threading.Thread(target=target, args=given, name="redbike-api", daemon=True).start()

    def _open(self, is_over: threading.Event) -> None:
        """Find the shards, and then listen to each in its own thread."""
        listens: Sequence[Listen] = ()
        while not (listens or is_over.is_set()):
            with self._trying(0, is_over):
                listens = self._find()
        self._number = len(listens) or 1
        for number, listen in enumerate(listens):
            self._start(self._work, number, listen, is_over)

    def _work(self, number: int, listen: Listen, is_over: threading.Event) -> None:
        while not is_over.is_set():
            with self._trying(number, is_over):
                events = listen(is_over=is_over.is_set)
                self._note(number, LISTENING, is_over)
                for event in events:
                    self._tell(make_line(event), is_over)
                is_over.wait(RETRY * random.uniform(0.5, 1.5))

    @contextmanager
    def _trying(self, number: int, is_over: threading.Event) -> Iterator[None]:
        """If the block raises an error, note it for this shard, and wait."""
        try:
            yield
            return
        except RedbikeError as error:
            self._note(number, write("away", {"detail": str(error)}), is_over)
        except Exception:
            log.exception("no event is heard")
        is_over.wait(RETRY * random.uniform(0.5, 1.5))

    def _tell(self, line: Line, is_over: threading.Event) -> None:
        message = write(line.kind, asdict(line))
        with self._lock:
            # After `is_over`, other threads serve the listeners that have joined since.
            for listener in () if is_over.is_set() else self._listeners:
                if listener.fits(line.jobid):
                    listener.put(message)

    def _note(self, number: int, state: bytes, is_over: threading.Event) -> None:
        """Note whether a shard is listened to. Notify all listeners if it goes away, or if now all are back."""
        with self._lock:
            was_away = self._states.get(number, LISTENING) != LISTENING
            if is_over.is_set() or (was_away and state != LISTENING):
                return
            self._states[number] = state
            if state != LISTENING or self._find_state() == LISTENING:
                for listener in self._listeners:
                    listener.put(state)

    def _find_state(self) -> bytes:
        """Return the message for a new listener: a shard is away, or all are listened to; b"" if that is unknown."""
        away = next((state for state in self._states.values() if state != LISTENING), b"")
        return away or (LISTENING if len(self._states) == self._number else b"")


def write(kind: str, value: object) -> bytes:
    """Return an event in the format of the stream. Its JSON has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), dump(value))
