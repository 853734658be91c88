"""The ended runs that are kept: in the histories of their jobs, and in the journal, which is archived later.

Archiving moves runs from the journal to the histories, and adds them to the counts. To write the history of a job costs
the server most. So many entries are archived together, and each history is written once for all of them. This takes
several steps. Between two steps another process may archive too, or this process may die. So:

1. The process that archives takes a token with its first step. For some seconds, the scripts refuse the steps of all
   other processes. They also refuse a process whose token another process has replaced.
2. Each step has the number of entries that were ever archived. It is refused if another process has archived these
   entries meanwhile. It also has the newest of these entries. If that is not in its place, the server was killed, or a
   replica has replaced it, and its last writes are lost. Then these runs may be gone, with others in their place.
3. The last step removes the entries from the journal. Until then, a run may be in both places. Whoever reads the runs,
   or archives them again, counts equal runs as one.
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
MOST_ENTRIES = 10 * PAGE  # entries that are read where the time is limited
READ_STEP, WRITE_STEP = 50, 200  # entries that one step of archiving reads, and jobs that one step writes
MOST_ARCHIVED, MOST_BYTES = 4000, 4_000_000  # entries that are archived together, and their size


class Journal(Part):
    """Reads the runs that are kept."""

    def list_runs(self, jobids: Iterable[str] | None = None) -> Iterator[PastRun]:
        """Yield the ended runs that are kept of these jobs, or of all, in no order."""
        # The journal first: an entry that is archived meanwhile is read twice, but not missed.
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

        Yield [] for each other job, so that a reader can stop after some time. The jobs of `first` come first, then
        jobs with runs in the journal, then the others in no order. Of the journal, the last `MOST_ENTRIES` are read.
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
        """Return by job the newest run in the journal, or only for `jobids`; jobs without runs there are missing.

        The run is None for a job of which no runs are kept.
        """
        entries = self._read_entries()
        if jobids is not None:
            # A job may have run a thousand times since: only its last run matters here.
            entries = list_last_naming(entries, jobids)
        pending = collect(entries, jobids)
        return {jobid: next(iter(own.read(jobid, b"")), None) for jobid, own in pending.items()}

    def find_last(self, jobid: str) -> PastRun | None:
        """Return the newest run of a job in the journal, even if the job keeps no runs; None if there is none."""
        for entry in list_last_naming(self._read_entries(), [jobid]):
            for run in reversed(read_entry(entry, {encode(jobid)}) or ()):
                return None if isinstance(run, str) else read_run(jobid, run.packed, run.worker)
        return None

    def count_recent(self, now: float) -> Counter[str]:
        """Return by queue how many runs have ended in the last minute and up to `PART` seconds more."""
        kept = parse_recent(decode(self._namespace.ask("hget", self._namespace.keys.counts, "recent")))
        ended: Counter[str] = Counter()
        # Runs that are archived between the two requests are not counted; the next call counts them.
        for (part, queue), number in (kept + count_recent(self._read_entries())).items():
            if 0 <= now - part * PART < RECENT + PART:
                ended[queue] += number
        return ended

    def count_hour(self, now: float) -> dict[str, list[int]]:
        """Return by queue how many runs have ended in each minute of the last hour, the oldest first.

        The last minute is not over yet. A queue without ended runs is missing.
        """
        kept = parse_recent(decode(self._namespace.ask("hget", self._namespace.keys.counts, "hour")))
        found, last = dict[str, list[int]](), int(now // MINUTE)
        for (minute, queue), number in (kept + sum_minutes(count_recent(self._read_entries()))).items():
            if 0 <= last - minute < HOUR // MINUTE:
                found.setdefault(queue, [0] * (HOUR // MINUTE))[minute - last - 1] += number
        return found

    def list_bad(self) -> Iterator[tuple[str, bytes, str]]:
        """Yield for each damaged entry or field: the key, the entry or field, and in words what is wrong."""
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
        """Yield for each of `jobids` all runs that are kept, the newest first; `pending` has those in the journal."""
        nothing = Pending()
        for page in split(jobids, PAGE):
            for jobid, value in zip(page, read_values(self._namespace, page), strict=True):
                yield pending.get(jobid, nothing).read(jobid, value)

    def _read_entries(self, most: int | None = None) -> list[bytes]:
        """Return all entries, the oldest first. Some may be there twice if others were added meanwhile.

        With `most`, return only so many pages of the newest entries.
        """
        pages: list[list[bytes]] = []
        # From the end: archiving removes entries at the beginning.
        while not pages or (len(pages[-1]) == PAGE and len(pages) != most):
            last = -1 - PAGE * len(pages)
            pages.append(self._namespace.ask("lrange", self._namespace.keys.journal, last - PAGE + 1, last))
        return [entry for page in reversed(pages) for entry in page]


def read_values(namespace: Namespace, jobids: Sequence[str]) -> list[bytes]:
    """Return the stored history of each job, b"" for none."""
    if not jobids:
        return []
    return [value or b"" for value in namespace.ask("hmget", namespace.keys.history, jobids)]


@dataclass(slots=True)
class _Read:
    """The entries to archive."""

    done: str  # how many entries were ever archived before these
    recent: Counter[tuple[int, str]]  # archived runs that ended in the last minute
    hour: Counter[tuple[int, str]]  # archived runs that ended in the last hour
    pending: dict[str, Pending] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # what these entries add to the counts
    ended: Counter[tuple[int, str]] = field(default_factory=Counter)  # what they add to `recent` and `hour`
    entries: int = 0
    size: int = 0  # bytes
    newest: bytes = b""  # the last entry

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
        """Archive all entries, or the oldest ones if there are many, in short steps; yield after each step."""
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
        """Return the entries to archive; None if there are none, or if others are in the place of those read."""
        keys = self._namespace.keys
        # Before the first page, so that the scripts detect that others have archived entries meanwhile.
        done, recent, hour = self._namespace.ask("hmget", keys.counts, ("archived", "recent", "hour"))
        read = _Read(decode(done), parse_recent(decode(recent)), parse_recent(decode(hour)))
        while True:
            # From the newest entry that was read: if it is in its place, all of these are still there.
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
