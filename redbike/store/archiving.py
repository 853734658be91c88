"""Archiving: it moves ended runs from the journal to the histories of their jobs, and adds them to the counts.

What costs the server most is to write the history of a job. So many entries are archived together, and each job is
written once for all that they have of it. That takes several steps, and between them others may archive too, or the
process may die. So:

1. Who archives takes a token with the first step. The scripts refuse the steps of all others for some seconds, and
   those of a holder whose token another one has taken since.
2. Each step names how many entries were ever archived. Once others have archived these, it is refused too. It also
   names the newest of these entries. If that is not where it was, the server has lost what it had last: it was killed,
   or a replica has taken its place. Then these runs may never have been, and others may stand in their place.
3. The entries leave the journal with the last step. Until then the runs may be in both places, and who reads them, or
   archives them again, takes those that are the same for one.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha1
from typing import Any

from redbike.store.entries import Digest
from redbike.store.journal import read_values, translate_journal_errors
from redbike.store.namespace import Namespace, make_tag
from redbike.store.records import decode, encode
from redbike.store.tally import count, count_recent, format_recent, parse_recent

PAGE = 50  # entries that are read in one step
STEP = 200  # jobs that are written in one
MOST_ENTRIES, MOST_BYTES = 4000, 4_000_000  # that are archived together


@dataclass(slots=True)
class _Read:
    """What is to be archived."""

    done: str  # how many entries were ever archived before these
    recent: Counter[tuple[int, str]]  # runs that are known to have ended in the last minute
    digest: Digest = field(default_factory=Digest)
    counts: Counter[str] = field(default_factory=Counter)  # what these add
    ended: Counter[tuple[int, str]] = field(default_factory=Counter)  # and to `recent`
    entries: int = 0
    size: int = 0  # bytes
    newest: bytes = b""  # the last of them

    def add(self, page: Sequence[bytes]) -> None:
        """Add the next entries."""
        self.digest.add(page)
        self.counts.update(count(page))
        self.ended.update(count_recent(page))
        self.entries += len(page)
        self.size += sum(map(len, page))
        self.newest = page[-1] if page else self.newest


class Archiver:
    """Archives the oldest entries of the journal."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def archive(self) -> Iterator[None]:
        """Archive the entries that there are, or the oldest of many, in short steps; yield between them."""
        read = yield from self._read()
        if read is None:
            return
        digest = read.digest
        given = {"token": make_tag(), "done": read.done, "entries": read.entries}
        given["newest"] = sha1(read.newest, usedforsecurity=False).hexdigest()
        last = {"fields": list(read.counts), "numbers": list(read.counts.values())}
        last["recent"] = format_recent(read.recent, read.ended)
        jobs = self._list_jobs(digest)
        pages = [jobs[first : first + STEP] for first in range(0, len(jobs), STEP)] or [[]]
        for number, page in enumerate(pages, 1):
            further = last if number == len(pages) else {}
            if self._write(page, digest, **given, first=number == 1, **further) != "ok":
                return
            yield

    def _read(self) -> Generator[None, None, _Read | None]:
        """Return what is to be archived; None if there is nothing, or others stand in the place of what was read."""
        client: Any = self._namespace.client  # its types allow for decoded replies, which Redbike never asks for
        keys = self._namespace.keys
        with translate_journal_errors(self._namespace):
            # Before the first page: the scripts find out if others archive entries in between.
            done, recent = client.hmget(keys.counts, "archived", "recent")
        read = _Read(decode(done), parse_recent(decode(recent)))
        while True:
            with translate_journal_errors(self._namespace):
                # From the newest that was read, which shows that all of these are still there.
                known = min(read.entries, 1)
                page = client.lrange(keys.journal, read.entries - known, read.entries + PAGE - 1)
            if page[:known] != [read.newest][:known]:
                return None
            page = page[known:]
            read.add(page)
            if len(page) < PAGE or read.entries >= MOST_ENTRIES or read.size >= MOST_BYTES:
                return read if read.entries else None
            yield

    def _list_jobs(self, digest: Digest) -> list[str]:
        """Return the jobs whose histories may change."""
        client, key = self._namespace.client, self._namespace.keys.history
        with translate_journal_errors(self._namespace):
            is_any_kept = client.hlen(key) > 0
        return [jobid for jobid, own in digest.pending.items() if own.runs or is_any_kept]

    def _write(self, jobids: Sequence[str], digest: Digest, **given: Any) -> str:
        before = read_values(self._namespace, jobids)
        after = [digest.pending[jobid].add_to(value) for jobid, value in zip(jobids, before, strict=True)]
        changed = [(jobid, value) for jobid, old, value in zip(jobids, before, after, strict=True) if value != old]
        gone = [jobid for jobid, value in changed if not value]
        kept = [each for jobid, value in changed if value for each in (encode(jobid), value)]
        call = self._namespace.pack("archive", gone=gone, **given)
        return str(self._namespace.scripts.run(replace(call, packed=tuple(kept)))[0])

    def count_entries(self) -> int:
        """Return how many entries the journal has."""
        client, key = self._namespace.client, self._namespace.keys.journal
        with translate_journal_errors(self._namespace):
            return int(client.llen(key))
