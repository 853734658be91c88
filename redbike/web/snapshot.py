"""What all viewers see of the whole: it is read once for all of them, however many look."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

FRESH = 1.0  # seconds
SHARE = 20  # what takes long to read is kept for so many times that


class Snapshot(Generic[T]):
    """The last answer of `read`, which is asked again when that is older than `fresh` seconds, or than it is worth.

    Whoever comes while it is read waits for that answer.
    """

    def __init__(self, read: Callable[[], T], fresh: float = FRESH) -> None:
        self._read = read
        self._fresh = fresh
        self._reading = threading.Lock()
        self._found: tuple[float, T] | None = None  # until when it is fresh (monotonic), and the answer

    def get(self) -> T:
        """Return it. Raise what `read` raises."""
        with self._reading:
            if self._found is None or time.monotonic() > self._found[0]:
                began = time.monotonic()
                answer = self._read()
                now = time.monotonic()
                self._found = now + max(self._fresh, SHARE * (now - began)), answer
            return self._found[1]

    def drop(self) -> None:
        """Forget the answer, so that it is read again by whoever comes next."""
        with self._reading:
            self._found = None
