"""What ran and when: written by workers to memory that the suite reads, so that it costs them next to nothing.

Each process maps a file of its own, which holds pairs of (number of the job + 1, `time.monotonic_ns`), each number 8
bytes; zeros follow, or the end of the file. All contenders' jobs do the same: they call `ran`, and nothing else. Needs
only the standard library.
"""

import mmap
import os
import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable
from itertools import count
from pathlib import Path

FOLDER = "BENCH_FOLDER"  # the environment variable that says where the files are
ROOM = 2**22  # runs in a file, which takes space on disk only for those that there are
PAIR = 16  # bytes

Runs = list[tuple[int, int]]  # (number of the job, monotonic nanoseconds) of one process, in order

_lock = threading.Lock()
_write: Callable[[int], None] | None = None


def ran(number: int) -> None:
    """The job `number` runs now."""
    if _write is None:
        _begin()
    assert _write is not None
    _write(number)


def _begin() -> None:
    # At the first run, not before: it may be in a fork of the process that imported this.
    global _write
    with _lock:
        if _write is None:
            _write = _writer(Path(os.environ[FOLDER]) / f"{os.getpid()}.runs")


def _writer(path: Path) -> Callable[[int], None]:
    with open(path, "w+b") as file:
        file.truncate(ROOM * PAIR)
        cells = memoryview(mmap.mmap(file.fileno(), ROOM * PAIR)).cast("q")
    # One call of a counter gives each thread a place of its own.
    place, clock = count(0, 2).__next__, time.monotonic_ns

    def write(number: int) -> None:
        now = clock()
        at = place()
        cells[at + 1] = now
        cells[at] = number + 1

    return write


def total(folder: Path) -> int:
    """How many runs there were in all processes so far."""
    return sum(len(_Places(path)) for path in folder.glob("*.runs"))


def read(folder: Path) -> list[Runs]:
    """The runs of each process that had any."""
    found = [_Places(path).runs() for path in sorted(folder.glob("*.runs"))]
    return [runs for runs in found if runs]


class _Places:
    """The places of one file; those that are taken come first."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""

    def __len__(self) -> int:
        cells = memoryview(self._map).cast("q")
        return bisect_left(range(len(cells) // 2), True, key=lambda place: cells[2 * place] == 0)

    def runs(self) -> Runs:
        cells = array("q", self._map[: len(self) * PAIR])
        return [(number - 1, moment) for number, moment in zip(cells[::2], cells[1::2], strict=True)]
