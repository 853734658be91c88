"""Lists of jobs: as a whole, or page by page.

A page takes a limited amount of work, however many jobs there are, and however few of them fit. Where it ends, there is
a `Cursor` from which the next one goes on. Jobs may come and go between two pages: one that is there all the time is
on one of them, perhaps on two.

1. A hash of few jobs is read as a whole, and its jobs are sorted by their ids. The cursor has an id.
2. A larger one is read in the order in which the server has it, by HSCAN. The cursor has that of the server.
3. A sorted set is read in its order. The cursor has an entry of it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar

from redbike.store.cursors import Cursor, measure_scan
from redbike.store.enums import Event
from redbike.store.history import PastRun
from redbike.store.namespace import PAGE, Namespace, Ranks
from redbike.store.overview import Job, JobReader, Wanted
from redbike.store.records import decode, encode
from redbike.store.timeline import Timeline

ROWS = 50  # jobs from which on a page is full
FEW = 1000  # entries of a hash that is read as a whole
MOST = 20_000  # entries that a page looks at
PAGE_TIMEOUT = 0.04  # seconds after which it looks at no further ones
LEAST_SCANNED, MOST_SCANNED, SLOW = 50, 1000, 0.005  # entries of one request, which become more while it is quick
SETTLED = tuple(f"{event}:".encode() for event in Event if event not in (Event.ENQ, Event.WRK))

BEGINNING = Cursor()

Kind = Literal["hash", "due", "next", "failures"]
T = TypeVar("T")


class Source(NamedTuple):
    """Where jobs may be that fit."""

    kind: Kind
    key: str
    only: str = ""  # what the value in a hash begins with, of those that may fit
    without: str = ""  # a sorted set that has jobs of another source


@dataclass(frozen=True, slots=True)
class Search:
    """Which jobs are looked for. A `pattern` is for the server, and `matches` tells the same of an id."""

    wanted: Wanted = field(default_factory=Wanted)
    pattern: str | None = None
    matches: Callable[[str], bool] = field(default=lambda jobid: True)
    by_next: bool = False  # those on the timeline alone, in the order in which they are due


class JobPage(NamedTuple):
    """A page of jobs."""

    jobs: list[Job]
    looked_at: int  # entries, on this page and those before it; about, as the server has no exact number
    total: int  # entries that there are
    following: Cursor | None  # where the next page begins; None: nothing is left


class _Step(NamedTuple):
    jobids: list[str]  # those that may fit
    scanned: int  # entries
    done: int  # of the source, from its beginning
    following: Cursor | None  # None: nothing is left of the source


class JobLister(JobReader):
    """Lists jobs. What it holds at a time does not grow with their number."""

    def __init__(self, namespace: Namespace, queue_for: Callable[[str], str]) -> None:
        super().__init__(namespace, queue_for)
        self._read_now = Timeline(namespace).read_clock

    def list_jobs(
        self,
        wanted: Wanted,
        jobids: Iterable[str] | None = None,
        report: Callable[[int, int], None] | None = None,
        with_data: bool = False,
    ) -> Iterator[Job]:
        """Yield the jobs that are `wanted`, in no order: of all, or of `jobids`; `with_data` or without.

        Where many have to be read, `report` hears how many jobs were looked at, and how many there are.
        """
        # First what may be archived meanwhile: then it is read twice, and not missed.
        newest, done, number = self._journal.read_newest(), 0, 0
        pauses = self._list_pauses()
        if report and jobids is None and not (wanted.overdue or wanted.paused):
            number = sum(map(self._count, self._list_sources(Search(wanted))))
        for page in _split(self._list_candidates(wanted) if jobids is None else jobids):
            found = filter(wanted.fits, self._read(page, newest, pauses))
            yield from self._add_data(list(found)) if with_data else found
            done += len(page)
            if report and number:
                report(done, max(done, number))

    def _list_candidates(self, wanted: Wanted) -> Iterator[str]:
        """Yield the ids of all jobs, or of those that may be `wanted` where an index has them."""
        search = Search(replace(wanted, queue=None))
        for source in self._list_sources(search):
            if source.kind == "hash":
                for page in _split(self._namespace.scan_bytes(source.key)):
                    yield from self._select(dict(page), source, search.wanted)
            else:
                for step in self._walk_ranks(source, 0, BEGINNING, search):
                    yield from step.jobids

    def read_page(
        self,
        search: Search,
        cursor: Cursor = BEGINNING,
        newest: Mapping[str, PastRun | None] | None = None,
        rows: int = ROWS,
        most: int = MOST,
        patience: float = PAGE_TIMEOUT,
    ) -> JobPage:
        """Return a page that begins at `cursor`: until there are `rows` jobs, or `most` entries were looked at.

        Or until `patience` seconds have passed. At least one request is made, and its jobs are all on the page, so
        there may be more of them. Whether a job never ran is told with `newest`, which is what `Journal.read_newest`
        has told of late; without it, that is read for the jobs of the page alone.
        """
        until, sources = time.monotonic() + patience, self._list_sources(search)
        found, scanned, done = list[Job](), 0, 0
        total = sum(map(self._count, sources))
        for number, source in enumerate(sources):
            if number < cursor.source:
                done += self._count(source)
                continue
            start = cursor if number == cursor.source else Cursor(number)
            for step in self._walk(source, number, start, search):
                found += filter(search.wanted.fits, self.read_named(step.jobids, newest or {}))
                scanned += step.scanned
                following = step.following or (Cursor(number + 1) if number + 1 < len(sources) else None)
                if following and (len(found) >= rows or scanned >= most or time.monotonic() >= until):
                    return JobPage(self._add_last_runs(found, newest), min(done + step.done, total), total, following)
            done += self._count(source)
        return JobPage(self._add_last_runs(found, newest), total, total, None)

    def _add_last_runs(self, jobs: list[Job], newest: Mapping[str, PastRun | None] | None) -> list[Job]:
        """Return jobs with those of their last runs that are not archived yet."""
        if newest is not None:
            return jobs
        known = self._journal.read_newest([job.jobid for job in jobs]) if jobs else {}
        return [_add_last_run(job, known[job.jobid]) if job.jobid in known else job for job in jobs]

    def _list_sources(self, search: Search) -> list[Source]:
        """Return where those may be that are wanted: a small index, if there is one."""
        keys, wanted = self._namespace.keys, search.wanted
        timeline, statuses, failures = keys.timeline, keys.statuses, keys.failure_times
        if search.by_next:
            return [Source("next", timeline)]
        if wanted.paused:
            return [Source("hash", keys.pauses)]
        if wanted.overdue:
            return [Source("due", timeline), Source("hash", keys.queued)]
        if wanted.failed:
            return [Source("failures", failures), Source("hash", statuses, f"{Event.DIE}:", failures)]
        if wanted.status == Event.WRK:
            return [Source("hash", keys.running)]
        if wanted.status == Event.ENQ:
            return [Source("hash", keys.queued)]
        return [Source("hash", statuses, f"{wanted.status}:" if wanted.status else "")]

    def _count(self, source: Source) -> int:
        if source.kind != "hash":
            return Ranks(self._namespace, source.key).count()
        with self._namespace.translate((source.key, "hash")):
            return int(self._namespace.client.hlen(source.key))

    def _walk(self, source: Source, number: int, cursor: Cursor, search: Search) -> Iterator[_Step]:
        if source.kind != "hash":
            yield from self._walk_ranks(source, number, cursor, search)
        elif cursor.scan == 0 and self._count(source) <= FEW:
            yield from self._walk_few(source, number, cursor, search)
        else:
            yield from self._walk_many(source, number, cursor, search)

    def _walk_ranks(self, source: Source, number: int, cursor: Cursor, search: Search) -> Iterator[_Step]:
        """Walk along a sorted set: the timeline from its beginning, failures from the newest one."""
        ranks = Ranks(self._namespace, source.key)
        now = self._read_now() if source.kind == "due" else float("inf")
        pages = ranks.list_before(cursor.entry) if source.kind == "failures" else ranks.list_after(cursor.entry)
        total = ranks.count()
        for done, page in pages:
            entries = [entry for entry in page if entry[0] <= now]
            is_over = len(entries) < len(page) or done + len(page) >= total
            for first in range(0, len(entries), ROWS):
                part = entries[first : first + ROWS]
                jobids = filter(search.matches, (decode(member) for _, member in part))
                following = None if is_over and first + ROWS >= len(entries) else Cursor(number, entry=part[-1])
                yield _Step(list(jobids), len(part), done + first + len(part), following)
            if is_over:
                return

    def _walk_few(self, source: Source, number: int, cursor: Cursor, search: Search) -> Iterator[_Step]:
        """Read a hash as a whole, and yield what fits in the order of the ids."""
        scan, fields = self._scan(source.key, 0, search.pattern, FEW)
        while scan:
            scan, found = self._scan(source.key, scan, search.pattern, FEW)
            fields |= found
        behind = cursor.entry[1] if cursor.entry else b""
        left = {name: value for name, value in fields.items() if name > behind}
        jobids, total = sorted(self._select(left, source, search.wanted), key=encode), self._count(source)
        for first in range(0, len(jobids), ROWS):
            page = jobids[first : first + ROWS]
            following = Cursor(number, 0, (0.0, encode(page[-1]))) if first + ROWS < len(jobids) else None
            yield _Step(page, len(page), total, following)

    def _walk_many(self, source: Source, number: int, cursor: Cursor, search: Search) -> Iterator[_Step]:
        """Scan a hash in the order in which the server has it."""
        scan, count, total = cursor.scan, LEAST_SCANNED, self._count(source)
        behind = cursor.entry[1] if cursor.entry else b""
        while True:
            began = time.monotonic()
            scan, found = self._scan(source.key, scan, search.pattern, count)
            left = {name: value for name, value in found.items() if name > behind}
            done = round(measure_scan(scan) * total) if scan else total
            following = Cursor(number, scan, cursor.entry) if scan else None
            yield _Step(self._select(left, source, search.wanted), count, done, following)
            if not scan:
                return
            count = min(MOST_SCANNED, count * 2) if time.monotonic() - began < SLOW else LEAST_SCANNED

    def _select(self, found: Mapping[bytes, bytes], source: Source, wanted: Wanted) -> list[str]:
        """Return those that may be wanted, as far as that can be told at little cost."""
        names = [name for name, value in found.items() if value.startswith(source.only.encode())]
        if source.without and names:
            client: Any = self._namespace.client
            with self._namespace.translate((source.without, "zset")):
                scores = client.zmscore(source.without, names)
            names = [name for name, score in zip(names, scores, strict=True) if score is None]
        if wanted.queue is None or source.key != self._namespace.keys.statuses:
            return list(map(decode, names))
        # Those that wait or run may be in any queue.
        return [
            jobid
            for jobid, value in ((decode(name), found[name]) for name in names)
            if not value.startswith(SETTLED) or self.name_queue(jobid) == wanted.queue
        ]

    def _scan(self, key: str, scan: int, pattern: str | None, count: int) -> tuple[int, dict[bytes, bytes]]:
        client: Any = self._namespace.client  # its types allow for decoded replies, which Redbike never asks for
        match = None if pattern is None else encode(pattern)
        with self._namespace.translate((key, "hash")):
            following, found = client.hscan(key, scan, match=match, count=count)
        return int(following), found


def _add_last_run(job: Job, run: PastRun | None) -> Job:
    return replace(job, last_started=run.started if run else None, last_outcome=run.outcome if run else None)


def _split(rest: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(rest)
    while page := list(islice(rest, PAGE)):
        yield page
