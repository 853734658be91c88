"""What the queues have done in the last hour, as far as this process has looked."""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

HOUR = 3600.0  # seconds
STEP = 60.0  # seconds between two samples
MOST = 200  # queues of which samples are kept


class Sample(NamedTuple):
    """A queue at one instant."""

    time: float  # epoch seconds
    waiting: int
    ended: int  # runs, since Redis began to count


@dataclass(frozen=True, slots=True)
class Point:
    """A minute of a queue."""

    time: float
    waiting: int
    ended: int  # runs in that minute


class Samples:
    """Keeps a sample of each queue for each minute. It is for one thread."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[Sample]] = {}
        self._last = float("-inf")

    def add(self, now: float, found: dict[str, tuple[int, int]]) -> None:
        """Remember how many jobs wait in each queue, and how many runs have ended, if a minute is over."""
        if 0 <= now - self._last < STEP:
            return
        self._last = now
        for queue, (waiting, ended) in found.items():
            if queue in self._samples or len(self._samples) < MOST:
                self._samples.setdefault(queue, deque()).append(Sample(now, waiting, ended))
        for queue, samples in list(self._samples.items()):
            while samples and not 0 <= now - samples[0].time <= HOUR:
                samples.popleft()
            if not samples:
                del self._samples[queue]

    def list_points(self, queue: str) -> list[Point]:
        """Return the minutes of a queue that are known, the oldest first."""
        samples = list(self._samples.get(queue, ()))
        # A counter that went back was begun anew, with another server.
        return [Point(now.time, now.waiting, max(0, now.ended - before.ended)) for before, now in pairwise(samples)]
