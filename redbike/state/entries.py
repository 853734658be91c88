r"""Entries of the journal: ended runs on their way to the histories of their jobs.

To rewrite the history of a job at the end of each run would cost the server more than half of what a short job costs.
So `end` appends one entry for all runs that end together. A dispatcher archives them later, all those of a job at once,
see archiving.py. Who reads puts both together. An entry begins with a letter:

====== ==============================================================================================================
letter what follows
====== ==============================================================================================================
``R``  runs that were taken together: the number of their queues (2 bytes), and of each the size of its name (2) and
       its name; the size of the name of their worker (1) and that name; and of each run how many are kept of its job
       (1, `NOT_BEGUN` if it is none), the number of its queue from 0 (2), the size of the id of its job (2), the id,
       and the run as in history.py
``P``  a mark for each run of an ``R`` that stands behind the line feed: ``1`` it counts, ``u`` it counts and its job
       was unset, ``0`` it has not ended like that
``F``  the id of a job that was unset: what stands before that is forgotten
====== ==============================================================================================================

The lowest byte of a number goes first. The counts have these fields, where QUEUE is empty for those queues for which
there was no more room:

- ``runs:OUTCOME:QUEUE``: ended runs,
- ``took:SECONDS:QUEUE``: those that took at most so long, and longer than the next lower one of `BUCKETS`,
- ``microseconds::QUEUE``: that they took together,
- ``archived``: entries of the journal that were ever archived,
- ``archiver``: ``TIME TOKEN`` of who is archiving,
- ``recent``: JSON ``{QUEUE: {PART: ended runs}}``, for those parts of `PART` seconds that are less than `RECENT` ago.
"""

import json
import logging
import math
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from redbike.state.history import PastRun, add_runs, check_run, pack_worker, read_facts, read_run, read_runs
from redbike.state.records import decode, encode
from redbike.words import Outcome

log = logging.getLogger("redbike")

BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0, 7200.0)  # seconds
PART, RECENT = 10, 60  # seconds
MOST_RECENT = 5000  # parts of queues
NOT_BEGUN = 255  # in place of how many runs are kept: this one had not begun, and counts as skipped

_SIZE, _RUN = struct.Struct("<H"), struct.Struct("<BHH")
_BAD = (IndexError, ValueError, struct.error)


class EntryRun(NamedTuple):
    """A run in an entry of the journal."""

    jobid: str
    queue: str
    kept: int  # so many are kept of its job
    packed: bytes
    worker: bytes


@dataclass(slots=True)
class Pending:
    """What the journal has of a job."""

    runs: list[tuple[bytes, bytes]] = field(default_factory=list)  # packed, and the worker; the oldest first
    kept: int = NOT_BEGUN  # so many are kept of it
    replaces: bool = False  # whether nothing is kept of what was before these

    def add(self, run: EntryRun) -> None:
        """Add the next run."""
        self.kept = min(run.kept, self.kept + 1)
        if run.kept:
            self.runs.append((run.packed, run.worker))
        else:
            self.forget()

    def forget(self) -> None:
        """Forget all that was before."""
        self.runs.clear()
        self.kept, self.replaces = 0, True

    def add_to(self, value: bytes) -> bytes:
        """Return the value that the job is to have in ``-history``, from the one that it has; b"" is none."""
        before = b"" if self.replaces else value
        return add_runs(before, self.runs, self.kept) if self.runs else before

    def read(self, jobid: str, value: bytes) -> list[PastRun]:
        """Return the runs of a job with this value, the newest first. The value may have some of these already."""
        newer = [read_run(jobid, *run) for run in reversed(self.runs)]
        older = [] if self.replaces else read_runs(jobid, value) or []
        return list(dict.fromkeys(newer + older))[: self.kept]


def pack_entry(worker: str, runs: Sequence[tuple[str, str, int, bytes]]) -> bytes:
    """Return an entry for runs of one worker; of each the id of its job, its queue, how many are kept, and the run."""
    numbers = {queue: number for number, queue in enumerate(dict.fromkeys(queue for _, queue, _, _ in runs))}
    name = pack_worker(worker)
    parts = [b"R", _SIZE.pack(len(numbers))]
    for encoded in map(encode, numbers):
        parts += _SIZE.pack(len(encoded)), encoded
    parts += bytes((len(name),)), name
    for jobid, queue, kept, packed in runs:
        encoded = encode(jobid)
        parts += _RUN.pack(kept, numbers[queue], len(encoded)), encoded, packed
    return b"".join(parts)


def read_entry(entry: bytes) -> list[EntryRun | str] | None:
    """Return the runs of an entry that count, or the id of the job that was unset; None for a damaged entry."""
    try:
        return [decode(entry[1:])] if entry[:1] == b"F" else list(_read_runs(entry))
    except _BAD:
        return None


def _read_runs(entry: bytes) -> Iterator[EntryRun]:
    marks = b""
    if entry[:1] == b"P":
        marks, _, entry = entry[1:].partition(b"\n")
    if entry[:1] != b"R":
        raise ValueError
    (count,) = _SIZE.unpack_from(entry, 1)
    position, queues, number = 1 + _SIZE.size, [], 0
    for _ in range(count):
        (size,) = _SIZE.unpack_from(entry, position)
        name = position + _SIZE.size
        position = name + size
        queues.append(decode(entry[name:position]))
    name = position + 1
    position = name + entry[position]
    worker = entry[name:position]
    while position < len(entry):
        kept, queue, size = _RUN.unpack_from(entry, position)
        name = position + _RUN.size
        start = name + size
        position = start + entry[start]
        check_run(entry[start:position])
        mark = marks[number : number + 1]
        number += 1
        if kept != NOT_BEGUN and mark != b"0":
            kept = 0 if mark == b"u" else kept
            yield EntryRun(decode(entry[name:start]), queues[queue], kept, entry[start:position], worker)
    if position != len(entry) or len(marks) not in (0, number):
        raise ValueError


class Digest:
    """What some entries have of each job, and what they add to the counts."""

    def __init__(self, entries: Iterable[bytes] = ()) -> None:
        self.pending: dict[str, Pending] = {}
        self.counts: Counter[str] = Counter()
        self.recent: Counter[tuple[int, str]] = Counter()  # ended runs, by part and queue
        self.add(entries)

    def add(self, entries: Iterable[bytes]) -> None:
        """Add what the next entries have."""
        for entry in entries:
            found = read_entry(entry)
            if found is None:
                log.error("an entry of the journal of ended runs is damaged, and passed over: %.80r", entry)
            for run in found or ():
                if isinstance(run, str):
                    self.pending.setdefault(run, Pending()).forget()
                else:
                    self.pending.setdefault(run.jobid, Pending()).add(run)
                    self._count(run)

    def _count(self, run: EntryRun) -> None:
        counts, (outcome, took, ended) = self.counts, read_facts(run.packed)
        took = round(took, 6)  # a float that is kept in four bytes may be a little more
        counts[f"runs:{outcome}:{run.queue}"] += 1
        if outcome != Outcome.LOST:
            # Nobody knows how long the others took.
            bucket = bisect_left(BUCKETS, took)
            counts[f"took:{BUCKETS[bucket] if bucket < len(BUCKETS) else math.inf:g}:{run.queue}"] += 1
            counts[f"microseconds::{run.queue}"] += round(took * 1_000_000)
        self.recent[int(ended // PART), run.queue] += 1


def format_recent(kept_before: Counter[tuple[int, str]], added: Counter[tuple[int, str]]) -> str:
    """Return ended runs by part and queue as they are to be kept; those that are too old for that are left out.

    So are those to come: the clock was ahead when they ended.
    """
    newest = max((part for part, _ in added), default=0)
    kept: dict[str, dict[str, int]] = {}
    for (part, queue), number in (kept_before + added).most_common(MOST_RECENT):
        if abs(newest - part) <= RECENT // PART:
            kept.setdefault(queue, {})[str(part)] = number
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def parse_recent(text: str) -> Counter[tuple[int, str]]:
    """Read what `format_recent` has made; none for anything else."""
    found: Counter[tuple[int, str]] = Counter()
    with suppress(ValueError, TypeError, AttributeError, RecursionError):
        for queue, parts in json.loads(text).items():
            for part, number in parts.items():
                found[int(part), queue] += int(number)
    return found
