r"""Entries of the journal: ended runs on their way to the histories of their jobs.

To rewrite the history of a job at the end of each run would cost the server more than half of what a short job costs.
So `end` appends one entry for all runs that end together. A dispatcher archives them later, all those of a job at once,
see journal.py. Who reads puts both together. An entry begins with a letter:

====== ==============================================================================================================
letter what follows
====== ==============================================================================================================
``R``  runs that were taken together: the number of their queues (2 bytes), and of each the size of its name (2) and
       its name; the size of the name of their worker (1) and that name; and of each run how many are kept of its job
       (1, `NOT_BEGUN` if it is none), the number of its queue from 0 (2), the size of the id of its job (2), the id,
       and the run as in history.py, with its result
``P``  a mark for each run of an ``R`` that stands behind the line feed: ``1`` it counts, ``u`` it counts and its job
       was unset, ``0`` it has not ended like that
``F``  the id of a job that was unset: what stands before that is forgotten
====== ==============================================================================================================

The lowest byte of a number goes first.
"""

import logging
import struct
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from redbike.store.archived import add_runs, join_runs, read_runs
from redbike.store.history import BAD, NAME_LENGTH, PastRun, find_end, pack_worker, read_facts, read_run
from redbike.store.records import decode, encode

log = logging.getLogger("redbike")

NOT_BEGUN = 255  # in place of how many runs are kept: this one had not begun, and counts as skipped
FEW = 20  # jobs for which it is quicker to look for the bytes of each in an entry than to walk through that

_SIZE, _RUN = struct.Struct("<H"), struct.Struct("<BHH")


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
        return join_runs(newer, older)[: self.kept]


def pack_entry(worker: str, runs: Sequence[tuple[str, str, int, bytes]]) -> bytes:
    """Return an entry for runs of one worker; of each the id of its job, its queue, how many are kept, and the run."""
    numbers = {queue: number for number, queue in enumerate(dict.fromkeys([queue for _, queue, _, _ in runs]))}
    name = pack_worker(worker)
    parts = [b"R", _SIZE.pack(len(numbers))]
    for encoded in map(encode, numbers):
        parts += _SIZE.pack(len(encoded)), encoded
    parts += bytes((len(name),)), name
    for jobid, queue, kept, packed in runs:
        encoded = encode(jobid)
        parts += _RUN.pack(kept, numbers[queue], len(encoded)), encoded, packed
    return b"".join(parts)


def list_naming(entries: Sequence[bytes], jobids: Sequence[str]) -> Sequence[bytes]:
    """Return those of `entries` that may name one of a few `jobids`: so that few are read as a whole; all for many."""
    if len(jobids) > FEW:
        return entries
    marks = [_mark(jobid) for jobid in jobids]
    return [entry for entry in entries if any(own in entry or entry == gone for own, gone in marks)]


def list_last_naming(entries: Sequence[bytes], jobids: Sequence[str]) -> list[bytes]:
    """Return of `entries` for each of `jobids` the last one that tells of it, in their order. Skip damaged ones."""
    left, found = set(map(encode, jobids)), list[bytes]()
    for entry in reversed(list_naming(entries, jobids)):
        named = {encode(run if isinstance(run, str) else run.jobid) for run in read_entry(entry, left) or ()}
        if named:
            found.append(entry)
            left -= named
        if not left:
            break
    return found[::-1]


def _mark(jobid: str) -> tuple[bytes, bytes]:
    """Return what stands in an entry with a run of a job, and the entry that says that it was unset."""
    name = encode(jobid)
    # With its size before it, an id is hardly the end of another one.
    return _SIZE.pack(min(len(name), 2**16 - 1)) + name, b"F" + name


@dataclass(slots=True)
class Batch:
    """Runs that have ended together: an entry that is read as far as their places in it."""

    queues: list[str]
    worker: bytes
    text: bytes  # the entry, without marks
    marks: bytes
    start: int  # of the first run

    @classmethod
    def open(cls, entry: bytes) -> "Batch":
        """Read an entry up to its first run. Raise one of `BAD` for what is no ``R``, with or without marks."""
        marks, _, text = entry[1:].partition(b"\n") if entry[:1] == b"P" else (b"", b"", entry)
        if text[:1] != b"R":
            raise ValueError
        (count,) = _SIZE.unpack_from(text, 1)
        position, queues = 1 + _SIZE.size, []
        for _ in range(count):
            (size,) = _SIZE.unpack_from(text, position)
            name = position + _SIZE.size
            position = name + size
            queues.append(decode(text[name:position]))
        name = position + 1
        position = name + text[position]
        return cls(queues, text[name:position], text, marks, position)

    def walk(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the places of all runs that count. Raise one of `BAD`, perhaps not at once, if the entry is damaged.

        Of each: how many are kept of its job, the number of its queue, where its id begins, and where the run begins
        and ends.
        """
        text, marks, position, number = self.text, self.marks, self.start, 0
        while position < len(text):
            kept, queue, size = _RUN.unpack_from(text, position)
            name = position + _RUN.size
            start = name + size
            position = find_end(text, start)
            mark = marks[number : number + 1]
            number += 1
            if kept != NOT_BEGUN and mark != b"0":
                kept = 0 if mark == b"u" else kept
                yield kept, queue, name, start, position
        if position != len(text) or len(marks) not in (0, number):
            raise ValueError


def mark_of_backfill(packed: bytes) -> bytes:
    """Mark a packed run of a backfill: it was not late. In an entry, the name of the worker does not stand there."""
    return b"%b\1%b" % (packed[:NAME_LENGTH], packed[NAME_LENGTH + 1 :])


def is_of_backfill(text: bytes, start: int) -> bool:
    """Tell whether a run that begins there in an entry is marked so."""
    return text[start + NAME_LENGTH] != 0


def read_entry(entry: bytes, names: Container[bytes] | None = None) -> list[EntryRun | str] | None:
    """Return the runs of an entry that count, or the id of the job that was unset; None for a damaged entry.

    With the `names` of jobs in bytes, return only what it has of these: that is quicker.
    """
    try:
        if entry[:1] == b"F":
            return [decode(entry[1:])] if names is None or entry[1:] in names else []
        return list(_read_runs(Batch.open(entry), names))
    except BAD:
        return None


def _read_runs(batch: Batch, names: Container[bytes] | None) -> Iterator[EntryRun]:
    text = batch.text
    for kept, queue, name, start, end in batch.walk():
        if names is None or text[name:start] in names:
            read_facts(text, start, end)
            yield EntryRun(decode(text[name:start]), batch.queues[queue], kept, text[start:end], batch.worker)


def collect(
    entries: Iterable[bytes], jobids: Iterable[str] | None = None, pending: dict[str, Pending] | None = None
) -> dict[str, Pending]:
    """Return what some entries have of each job, or of each of `jobids`; add it to what is `pending`."""
    names = None if jobids is None else frozenset(map(encode, jobids))
    pending = {} if pending is None else pending
    for entry in entries:
        found = read_entry(entry, names)
        if found is None:
            log.error("an entry of the journal of ended runs is damaged, so Redbike skips it: %.80r", entry)
        for run in found or ():
            if isinstance(run, str):
                pending.setdefault(run, Pending()).forget()
            else:
                pending.setdefault(run.jobid, Pending()).add(run)
    return pending
