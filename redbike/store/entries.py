r"""Entries of the journal: ended runs on their way to the histories of their jobs.

To rewrite the history of a job at the end of each run would cost the server more than half of what a short job costs.
So the script `end` appends one entry for all runs that end together. A dispatcher archives the entries later, all runs
of a job at once, see journal.py. A reader merges journal and histories. An entry begins with a letter:

====== ==============================================================================================================
letter what follows
====== ==============================================================================================================
``R``  runs that were taken together: the number of their queues (2 bytes); for each queue, the size of its name (2) and
       its name; the size of the name of their worker (1) and this name; for each run, how many runs of its job are kept
       (1, `NOT_BEGUN` if it had not begun), the number of its queue from 0 (2), the size of the id of its job (2), the
       id, and the run as in history.py, with its result
``P``  a mark for each run, a line feed, and an ``R``. The marks: ``1`` the run counts, ``u`` it counts and its job was
       unset, ``0`` the script did not end this run
``F``  the id of a job that was unset: its runs in earlier entries are forgotten
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

NOT_BEGUN = 255  # in place of how many runs are kept: the run had not begun, and counts as skipped
FEW = 20  # up to so many jobs, to search an entry for the bytes of each is quicker than to walk through the entry

_SIZE, _RUN = struct.Struct("<H"), struct.Struct("<BHH")


class EntryRun(NamedTuple):
    """A run in an entry of the journal."""

    jobid: str
    queue: str
    kept: int  # how many runs of its job are kept
    packed: bytes
    worker: bytes


@dataclass(slots=True)
class Pending:
    """What the journal has of a job."""

    runs: list[tuple[bytes, bytes]] = field(default_factory=list)  # packed, and the worker; the oldest first
    kept: int = NOT_BEGUN  # how many runs of it are kept
    replaces: bool = False  # whether all older runs are forgotten

    def add(self, run: EntryRun) -> None:
        """Add the next run."""
        self.kept = min(run.kept, self.kept + 1)
        if run.kept:
            self.runs.append((run.packed, run.worker))
        else:
            self.forget()

    def forget(self) -> None:
        """Forget all runs up to here."""
        self.runs.clear()
        self.kept, self.replaces = 0, True

    def add_to(self, value: bytes) -> bytes:
        """Return the new value of the job in ``-history``, from its old one; b"" for none."""
        before = b"" if self.replaces else value
        return add_runs(before, self.runs, self.kept) if self.runs else before

    def read(self, jobid: str, value: bytes) -> list[PastRun]:
        """Return the runs of a job with this value in ``-history``, the newest first, each once."""
        newer = [read_run(jobid, *run) for run in reversed(self.runs)]
        older = [] if self.replaces else read_runs(jobid, value) or []
        return join_runs(newer, older)[: self.kept]


def pack_entry(worker: str, runs: Sequence[tuple[str, str, int, bytes]]) -> bytes:
    """Return an entry for runs of one worker. `runs` has of each: job id, queue, how many are kept, the packed run."""
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
    """Return those of `entries` that may name one of `jobids`, so that fewer are parsed; all entries for many jobs."""
    if len(jobids) > FEW:
        return entries
    marks = [_mark(jobid) for jobid in jobids]
    return [entry for entry in entries if any(own in entry or entry == gone for own, gone in marks)]


def list_last_naming(entries: Sequence[bytes], jobids: Sequence[str]) -> list[bytes]:
    """Return for each of `jobids` the last of `entries` that names it, in their order. Skip damaged entries."""
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
    """Return the bytes that an entry with a run of a job contains, and the entry for a job that was unset."""
    name = encode(jobid)
    # With the size before it, an id is rarely found as the end of another id.
    return _SIZE.pack(min(len(name), 2**16 - 1)) + name, b"F" + name


@dataclass(slots=True)
class Batch:
    """Runs that have ended together: an entry that is parsed up to its first run."""

    queues: list[str]
    worker: bytes
    text: bytes  # the entry, without marks
    marks: bytes
    start: int  # of the first run

    @classmethod
    def open(cls, entry: bytes) -> "Batch":
        """Read an entry up to its first run. Raise one of `BAD` for anything but an ``R``, with or without marks."""
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
        """Yield the places of all runs that count. Raise one of `BAD`, perhaps after some runs, for a damaged entry.

        A place is: how many runs of the job are kept, the number of its queue, and the offsets at which the id begins,
        and the run begins and ends.
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
    """Return a packed run of a backfill with a mark: it was not late. The mark uses the byte of the worker's name."""
    return b"%b\1%b" % (packed[:NAME_LENGTH], packed[NAME_LENGTH + 1 :])


def is_of_backfill(text: bytes, start: int) -> bool:
    """Tell whether the run that begins at `start` in an entry has the mark of a backfill."""
    return text[start + NAME_LENGTH] != 0


def read_entry(entry: bytes, names: Container[bytes] | None = None) -> list[EntryRun | str] | None:
    """Return the runs of an entry that count, or the id of the job that was unset; None for a damaged entry.

    With the `names` of jobs in bytes, return only what it has of these jobs, which is quicker.
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
    """Return by job what `entries` have of it, or only of `jobids`, added to `pending`."""
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
