"""The ended runs of a job as they are archived, in its value in ``-history``.

The value begins with the number of runs. The runs follow, the newest first. The name of a worker is written only once:
later runs have `NAMED` plus the number of that name (from 0) in place of its length.
"""

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from redbike.store.history import BAD, HEAD, NAME_LENGTH, PastRun, find_end, read_facts, read_run, read_took

T = TypeVar("T")

NAMED, MOST_NAMES = 128, 127
FEW = 3  # runs that make an average


def add_runs(value: bytes, runs: Sequence[tuple[bytes, bytes]], most: int) -> bytes:
    """Return the value of a job with further `runs`, the last one the newest. It keeps the newest `most` runs.

    A run that the value has already is not added again: it was archived before, but its entry was still in the journal.
    Each of `runs` is a packed run and the name of its worker. A damaged value counts as empty.
    """
    kept = join_runs(runs[::-1], _split(value) or ())[:most]
    parts, numbers = [bytes((len(kept),))], dict[bytes, int]()
    for packed, worker in kept:
        number = numbers.get(worker)
        if number is None:
            if len(numbers) < MOST_NAMES:
                numbers[worker] = len(numbers)
            size, length, name = packed[0] + len(worker), len(worker), worker
        else:
            size, length, name = packed[0], NAMED + number, b""
        parts.append(b"%c%b%c%b%b" % (size, packed[1:NAME_LENGTH], length, name, packed[HEAD.size :]))
    return b"".join(parts)


def join_runs(newer: Sequence[T], older: Iterable[T]) -> list[T]:
    """Return the newer runs, and then those older runs that are not among them.

    Two of the newer runs may be equal: the start of a very late run is stored in whole seconds.
    """
    found = list(newer)
    if not older:
        return found
    left = Counter(newer)
    for run in older:
        if left[run]:
            left[run] -= 1
        else:
            found.append(run)
    return found


def read_runs(jobid: str, value: bytes) -> list[PastRun] | None:
    """Return the runs in the value of a job, the newest first; None if it is damaged."""
    found = _split(value)
    return None if found is None else [read_run(jobid, packed, worker) for packed, worker in found]


def read_newest(jobid: str, value: bytes) -> PastRun | None:
    """Return the newest run in the value of a job; None if there is none, or it is damaged."""
    try:
        return next((read_run(jobid, packed, worker) for packed, worker in _cut_apart(value)), None)
    except BAD:
        return None


def read_last_end(value: bytes) -> float:
    """Return when the newest run in the value of a job ended, in epoch seconds; -inf if there is none.

    It reads only that run. For a damaged value the result is undefined.
    """
    try:
        return read_facts(value, 1, 1 + value[1])[2]
    except BAD:
        return -math.inf


def read_duration(value: bytes) -> float | None:
    """Return the mean duration in seconds of the `FEW` newest runs in the value of a job; None if there are none.

    It reads only those runs, as a forecast calls it for each job. For a damaged value the result is undefined.
    """
    position, found = 1, list[float]()
    try:
        for _ in range(min(value[0], FEW) if value else 0):
            found.append(read_took(value, position))
            position = find_end(value, position)
    except (IndexError, struct.error):
        return None
    mean = sum(found) / len(found) if found else math.nan
    return mean if 0 <= mean < math.inf else None


def _split(value: bytes) -> list[tuple[bytes, bytes]] | None:
    try:
        return list(_cut_apart(value))
    except BAD:
        return None


def _cut_apart(value: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each run without the name of its worker, and that name. Raise an error for a damaged value."""
    if not value:
        return
    position, names = 1, list[bytes]()
    for _ in range(value[0]):
        size, length = value[position], value[position + NAME_LENGTH]
        name, end = position + HEAD.size, find_end(value, position)
        own = length if length < NAMED else 0
        if length < NAMED:
            names.append(value[name : name + own])
        worker, rest = names[-1 if length < NAMED else length - NAMED], value[name + own : end]
        if len(rest) != end - name - own or size - own < HEAD.size:
            raise ValueError
        packed = b"%c%b\0%b" % (size - own, value[position + 1 : name - 1], rest)
        read_facts(packed, 0, len(packed))
        yield packed, worker
        position = end
    if position != len(value):
        raise ValueError
