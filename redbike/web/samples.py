"""What the queues have done in the last hour, as far as this process has looked.

It takes a sample once a minute, also while nobody looks: so there is a chart of the last hour.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from redbike.errors import RedbikeError

HOUR = 3600.0  # seconds
STEP = 60.0  # seconds between two samples
EARLY = 1.0  # seconds by which a sample may come earlier than that
MOST = 200  # queues of which samples are kept
log = logging.getLogger("redbike.web")

STOP_TIMEOUT = 2.0  # seconds for which the end waits for a sample that is being taken


class Sample(NamedTuple):
    """A queue at one instant."""

    time: float  # epoch seconds
    waiting: int
    ended: int  # runs, since Redis began to count


@dataclass(frozen=True, slots=True)
class Point:
    """What a queue has done from `start` to `end`, epoch seconds: a minute, or longer if nobody could look."""

    start: float
    end: float
    waiting: int  # at the end
    ended: int  # runs

    @property
    def rate(self) -> float:
        """Runs a minute."""
        return self.ended * 60 / max(self.end - self.start, STEP)


class Samples:
    """Keeps a sample of each queue for each minute. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: dict[str, deque[Sample]] = {}
        self._last = float("-inf")
        self._first: float | None = None

    @property
    def since(self) -> float | None:
        """Since when this process has looked, within the last hour, in epoch seconds; None: it has not yet."""
        if self._first is None:
            return None
        return max(self._first, self._last - HOUR)

    def add(self, now: float, found: Mapping[str, tuple[int, int]]) -> None:
        """Remember how many jobs wait in each queue, and how many runs have ended, if a minute is over."""
        with self._lock:
            if 0 <= now - self._last < STEP - EARLY:
                return
            if now < self._last:
                # The clock of the server was set back.
                self._samples.clear()
                self._first = None
            self._last, self._first = now, now if self._first is None else self._first
            for queue, (waiting, ended) in found.items():
                if queue in self._samples or len(self._samples) < MOST:
                    self._samples.setdefault(queue, deque()).append(Sample(now, waiting, ended))
            for queue, samples in list(self._samples.items()):
                while samples and now - samples[0].time > HOUR:
                    samples.popleft()
                if not samples:
                    del self._samples[queue]

    def list_points(self, queue: str) -> list[Point]:
        """Return what is known of a queue, the oldest first."""
        with self._lock:
            samples = list(self._samples.get(queue, ()))
        # A counter that went back was begun anew, with another server.
        return [
            Point(before.time, now.time, now.waiting, max(0, now.ended - before.ended))
            for before, now in pairwise(samples)
        ]


@contextmanager
def sample(look: Callable[[], object], pause: float = STEP) -> Iterator[None]:
    """Call `look` at once, and again every `pause` seconds, from a thread of its own, until this ends."""
    ending = threading.Event()
    thread = threading.Thread(target=_run, args=(look, pause, ending), name="redbike-web-samples", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(STOP_TIMEOUT)


def _run(look: Callable[[], object], pause: float, ending: threading.Event) -> None:
    while True:
        try:
            look()
        except RedbikeError as error:
            # Whoever looks at a page is told so. Here it would be a line each minute.
            log.debug("no sample of the queues: %s", error)
        except Exception:
            log.exception("no sample of the queues can be taken")
        if ending.wait(pause):
            return
