"""The ended runs that are kept: in the histories of their jobs, and in the journal, which is archived later.

Archiving moves runs from the journal to the histories, and adds them to the counts. What costs the server most is to
write the history of a job. So many entries are archived together, and each job is written once for all that they have
of it. That takes several steps, and between them others may archive too, or the process may die. So:

1. Who archives takes a token with the first step. The scripts refuse the steps of all others for some seconds, and
   those of a holder whose token another one has taken since.
2. Each step names how many entries were ever archived. Once others have archived these, it is refused too. It also
   names the newest of these entries. If that is not where it was, the server has lost what it had last: it was killed,
   or a replica has taken its place. Then these runs may never have been, and others may stand in their place.
3. The entries leave the journal with the last step. Until then the runs may be in both places, and who reads them, or
   archives them again, takes those that are the same for one.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha1
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.store.archived import read_last_end, read_runs
from redbike.store.entries import Pending, collect, list_last_naming, list_naming, read_entry
from redbike.store.enums import Skip
from redbike.store.history import PastRun, get_end, read_run
from redbike.store.namespace import PAGE, Namespace, Part, make_tag, split
from redbike.store.records import COUNT, decode, encode
from redbike.store.tally import (
    HOUR,
    MINUTE,
    PART,
    RECENT,
    count_all,
    count_recent,
    format_recent,
    parse_recent,
    sum_minutes,
)

TEXTS = (b"archiver", b"recent", b"hour")  # fields of the counts that are no numbers
MOST_ENTRIES = 10 * PAGE  # that are read where the time is bounded
READ_STEP, WRITE_STEP = 50, 200  # entries that are read, and jobs that are written, in one step of archiving
MOST_ARCHIVED, MOST_BYTES = 4000, 4_000_000  # entries that are archived together, and their size


class Journal(Part):
    """Reads the runs that are kept."""

    def list_runs(self, jobids: Iterable[str] | None = None) -> Iterator[PastRun]:
        """Yield the ended runs that are kept of these jobs, or of all, in no order."""
        # First what may be archived meanwhile: then it is read twice, and not missed.
        entries = self._read_entries()
        if jobids is not None:
            named = list(jobids)
            for runs in self._read_named(named, collect(list_naming(entries, named), named)):
                yield from runs
            return
        pending, nothing = collect(entries), Pending()
        for jobid, text in self._namespace.scan(self._namespace.keys.history):
            yield from pending.pop(jobid, nothing).read(jobid, encode(text))
        for jobid, own in pending.items():
            yield from own.read(jobid, b"")

    def list_since(self, since: float, first: Sequence[str] = ()) -> Iterator[list[PastRun]]:
        """Yield for each job all runs that are kept, the newest first, if one of them ended at `since` or later.

        Yield [] for each other job: so a reader can stop after some time. The jobs of `first` come first, then those
        that ran last, then the others in no order. Of what is not archived yet, only the last entries are read.
        """
        pending = collect(self._read_entries(MOST_ENTRIES // PAGE))
        named = list(dict.fromkeys([*first, *pending]))
        known = set(map(encode, named))
        for runs in self._read_named(named, pending):
            yield runs if runs and get_end(runs[0]) >= since else []
        for name, value in self._namespace.scan_bytes(self._namespace.keys.history):
            if name not in known:
                yield (read_runs(decode(name), value) or []) if read_last_end(value) >= since else []

    def count_jobs(self) -> int:
        """Return how many jobs have archived runs."""
        return int(self._namespace.ask("hlen", self._namespace.keys.history))

    def read_newest(self, jobids: Sequence[str] | None = None) -> dict[str, PastRun | None]:
        """Return the newest run of each job of which runs have ended and are not archived yet; or only of `jobids`.

        It is None for a job of which nothing is kept.
        """
        entries = self._read_entries()
        if jobids is not None:
            # A job may have run a thousand times since: only its last run matters here.
            entries = list_last_naming(entries, jobids)
        pending = collect(entries, jobids)
        return {jobid: next(iter(own.read(jobid, b"")), None) for jobid, own in pending.items()}

    def find_last(self, jobid: str) -> PastRun | None:
        """Return the newest run of a job that has ended and is not archived yet, also if none is kept of it."""
        for entry in list_last_naming(self._read_entries(), [jobid]):
            for run in reversed(read_entry(entry, {encode(jobid)}) or ()):
                return None if isinstance(run, str) else read_run(jobid, run.packed, run.worker)
        return None

    def count_recent(self, now: float) -> Counter[str]:
        """Return by queue how many runs have ended in the last minute, or up to `PART` seconds before that."""
        kept = parse_recent(decode(self._namespace.ask("hget", self._namespace.keys.counts, "recent")))
        ended: Counter[str] = Counter()
        # What is archived in between is not counted; at the next look it is.
        for (part, queue), number in (kept + count_recent(self._read_entries())).items():
            if 0 <= now - part * PART < RECENT + PART:
                ended[queue] += number
        return ended

    def count_hour(self, now: float) -> dict[str, list[int]]:
        """Return by queue how many runs have ended in each minute of the last hour, the oldest first.

        The last minute goes on. A queue without any is missing.
        """
        kept = parse_recent(decode(self._namespace.ask("hget", self._namespace.keys.counts, "hour")))
        found, last = dict[str, list[int]](), int(now // MINUTE)
        for (minute, queue), number in (kept + sum_minutes(count_recent(self._read_entries()))).items():
            if 0 <= last - minute < HOUR // MINUTE:
                found.setdefault(queue, [0] * (HOUR // MINUTE))[minute - last - 1] += number
        return found

    def list_bad(self) -> Iterator[tuple[str, bytes, str]]:
        """Yield what is damaged: the key, the entry or the field, and in words what is wrong with it."""
        client, keys = self._namespace.client, self._namespace.keys
        for entry in dict.fromkeys(self._read_entries()):
            if read_entry(entry) is None:
                yield keys.journal, entry, f"holds {decode(entry[:80])!r}, which is no entry of the journal"
        totals = {f"{reason}:" for reason in Skip}
        with translate_errors():
            for key in (keys.counts, keys.skipped):
                for name, number in client.hscan_iter(key, count=PAGE):
                    is_count = name not in TEXTS if key == keys.counts else decode(name) in totals
                    if is_count and not COUNT.fullmatch(decode(number)):
                        yield key, name, f"counts {decode(name)!r} as {decode(number[:80])!r}, which is no number"

    def _read_named(self, jobids: Sequence[str], pending: Mapping[str, Pending]) -> Iterator[list[PastRun]]:
        """Yield all runs that are kept of each of these jobs, the newest first; `pending` are not archived yet."""
        nothing = Pending()
        for page in split(jobids, PAGE):
            for jobid, value in zip(page, read_values(self._namespace, page), strict=True):
                yield pending.get(jobid, nothing).read(jobid, value)

    def _read_entries(self, most: int | None = None) -> list[bytes]:
        """Return all entries, the oldest first; some of them twice if others were added meanwhile.

        With `most`, return only so many pages of the newest.
        """
        pages: list[list[bytes]] = []
        # From the end, as others are removed at the beginning.
        while not pages or (len(pages[-1]) == PAGE and len(pages) != most):
            last = -1 - PAGE * len(pages)
            pages.append(self._namespace.ask("lrange", self._namespace.keys.journal, last - PAGE + 1, last))
        return [entry for page in reversed(pages) for entry in page]


def read_values(namespace: Namespace, jobids: Sequence[str]) -> list[bytes]:
    """Return the history of each job as it is stored, b"" for none."""
    if not jobids:
        return []
    return [value or b"" for value in namespace.ask("hmget", namespace.keys.history, jobids)]


@dataclass(slots=True)
class _Read:
    """What is to be archived."""

    done: str  # how many entries were ever archived before these
    recent: Counter[tuple[int, str]]  # runs that are known to have ended in the last minute
    hour: Counter[tuple[int, str]]  # and in the last hour
    pending: dict[str, Pending] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # what these add
    ended: Counter[tuple[int, str]] = field(default_factory=Counter)  # and to `recent` and `hour`
    entries: int = 0
    size: int = 0  # bytes
    newest: bytes = b""  # the last of them

    def add(self, page: Sequence[bytes]) -> None:
        """Add the next entries."""
        collect(page, pending=self.pending)
        counts, ended = count_all(page)
        self.counts.update(counts)
        self.ended.update(ended)
        self.entries += len(page)
        self.size += sum(map(len, page))
        self.newest = page[-1] if page else self.newest


class Archiver(Part):
    """Archives the oldest entries of the journal."""

    def archive(self) -> Iterator[None]:
        """Archive the entries that there are, or the oldest of many, in short steps; yield between them."""
        read = yield from self._read()
        if read is None:
            return
        given = {"token": make_tag(), "done": read.done, "entries": read.entries}
        given["newest"] = sha1(read.newest, usedforsecurity=False).hexdigest()
        last = {"fields": list(read.counts), "numbers": list(read.counts.values())}
        last["recent"] = format_recent(read.recent, read.ended)
        last["hour"] = format_recent(read.hour, sum_minutes(read.ended), HOUR // MINUTE)
        jobs = self._list_jobs(read.pending)
        pages = list(split(jobs, WRITE_STEP)) or [[]]
        for number, page in enumerate(pages, 1):
            further = last if number == len(pages) else {}
            if self._write(page, read.pending, **given, first=number == 1, **further) != "ok":
                return
            yield

    def _read(self) -> Generator[None, None, _Read | None]:
        """Return what is to be archived; None if there is nothing, or others stand in the place of what was read."""
        keys = self._namespace.keys
        # Before the first page: the scripts find out if others archive entries in between.
        done, recent, hour = self._namespace.ask("hmget", keys.counts, ("archived", "recent", "hour"))
        read = _Read(decode(done), parse_recent(decode(recent)), parse_recent(decode(hour)))
        while True:
            # From the newest that was read, which shows that all of these are still there.
            known = min(read.entries, 1)
            page = self._namespace.ask("lrange", keys.journal, read.entries - known, read.entries + READ_STEP - 1)
            if page[:known] != [read.newest][:known]:
                return None
            page = page[known:]
            read.add(page)
            if len(page) < READ_STEP or read.entries >= MOST_ARCHIVED or read.size >= MOST_BYTES:
                return read if read.entries else None
            yield

    def _list_jobs(self, pending: Mapping[str, Pending]) -> list[str]:
        """Return the jobs whose histories may change."""
        is_any_kept = self._namespace.ask("hlen", self._namespace.keys.history) > 0
        return [jobid for jobid, own in pending.items() if own.runs or is_any_kept]

    def _write(self, jobids: Sequence[str], pending: Mapping[str, Pending], **given: Any) -> str:
        before = read_values(self._namespace, jobids)
        after = [pending[jobid].add_to(value) for jobid, value in zip(jobids, before, strict=True)]
        changed = [(jobid, value) for jobid, old, value in zip(jobids, before, after, strict=True) if value != old]
        gone = [jobid for jobid, value in changed if not value]
        kept = [each for jobid, value in changed if value for each in (encode(jobid), value)]
        call = self._namespace.pack("archive", gone=gone, **given)
        return str(self._namespace.scripts.run(replace(call, packed=tuple(kept)))[0])

    def count_entries(self) -> int:
        """Return how many entries the journal has."""
        return int(self._namespace.ask("llen", self._namespace.keys.journal))
