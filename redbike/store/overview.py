"""The jobs as an operator sees them: where each is, when it runs next, and how its last run ended.

They are listed as a whole, or page by page. A page takes a limited amount of work, no matter how many jobs there are
and how few of them fit. It ends with a `Cursor`, at which the next page begins.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple

from redbike.config.options import find_all_of
from redbike.schedule.moments import AWAITED
from redbike.store.archived import read_newest
from redbike.store.catalog import Catalog, has_tag
from redbike.store.cursors import Cursor, Fields, RankPage, Source, Step, read_ranks, walk_hash, walk_ranks
from redbike.store.enums import Event
from redbike.store.every_host import Hosts, is_base, name_job
from redbike.store.history import PastRun
from redbike.store.job import EVERYTHING, Job, JobPage, JobSearch
from redbike.store.journal import Journal
from redbike.store.namespace import DATA_PAGE, PAGE, RANKS_PAGE, Entry, Namespace, Part, Ranks, read_time, split
from redbike.store.queue_limits import Pause as QueuePause
from redbike.store.queue_limits import QueueLimiter
from redbike.store.records import Pause, RunRecord, Status, Waiting, decode, encode
from redbike.store.timeline import PUT_OFF, find_put_off
from redbike.text.parsing import load_json

ROWS = 50  # a page with so many jobs is full
MOST = 20_000  # entries that a page reads
PAGE_TIMEOUT = 0.04  # seconds after which a page reads no further entries
SETTLED = tuple(f"{event}:".encode() for event in Event if event not in (Event.ENQ, Event.WRK))
BEGINNING = Cursor()
Order = Literal["ascending", "descending"]
Newest = Mapping[str, PastRun | None]  # a result of `Journal.read_newest`


class JobLister(Part):
    """Lists jobs. Its memory does not grow with their number."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__(namespace)
        self._journal, self._limits, self._catalog = Journal(namespace), QueueLimiter(namespace), Catalog(namespace)

    def list_jobs(
        self,
        search: JobSearch = EVERYTHING,
        jobids: Iterable[str] | None = None,
        report: Callable[[int, int], None] | None = None,
        with_data: bool = False,
    ) -> Iterator[Job]:
        """Yield the jobs that fit, of all or of `jobids`, in no order; `with_data` or without.

        If many have to be read, `report` is called with the number of jobs read so far, and the number of all.
        """
        # The journal first: a run that is archived meanwhile is read twice, but not missed.
        newest, pauses, done, number = self._journal.read_newest(), self._list_pauses(), 0, 0
        if report and jobids is None and not (search.overdue or search.paused):
            number = sum(map(self._count, self._list_sources(search)))
        wanted = self._list_candidates(search) if jobids is None else self._catalog.keep_tagged(jobids, search.tags)
        for page in split(wanted, PAGE):
            found = filter(search.fits, self._read(page, newest, pauses))
            yield from self._add_data(list(found)) if with_data else found
            done += len(page)
            if report and number:
                report(done, max(done, number))

    def _list_candidates(self, search: JobSearch) -> Iterator[str]:
        """Yield the ids of the jobs that may fit: from an index if there is one, else all."""
        search = replace(search, queue=None)
        for source in self._list_sources(search):
            if source.kind == "hash":
                for page in split(self._namespace.scan_bytes(source.key), PAGE):
                    yield from self._select(dict(page), source, search)
            else:
                for step in self._walk(source, BEGINNING, search):
                    yield from step.names

    def read_named(self, jobids: Sequence[str], newest: Newest | None = None) -> list[Job]:
        """Return those of `jobids` that exist, in their order. It reads nothing of other jobs.

        `newest` is a recent result of `Journal.read_newest`; without it, the journal is read for these jobs alone.
        """
        if not jobids:
            return []
        known = self._journal.read_newest(jobids) if newest is None else newest
        return list(self._read(jobids, known, self._list_pauses()))

    def read_page(
        self,
        search: JobSearch,
        cursor: Cursor = BEGINNING,
        newest: Newest | None = None,
        rows: int = ROWS,
        most: int = MOST,
        patience: float = PAGE_TIMEOUT,
    ) -> JobPage:
        """Return a page that begins at `cursor`. It ends after `rows` jobs, `most` entries, or `patience` seconds.

        It makes at least one request, and all fitting jobs of a request are on the page, perhaps more than `rows`. Runs
        in the journal are in `newest`, a recent result of `Journal.read_newest`. Without it, a search for jobs that
        never ran does not know these runs: they are read for the jobs of the page alone.
        """
        until, sources = time.monotonic() + patience, self._list_sources(search)
        counts = list(map(self._count, sources))
        steps = self._walk_all(sources, counts, search, cursor)
        found, last = fill(steps, lambda names: self.read_named(names, newest or {}), search, rows, most, until)
        found, total = add_last_runs(found, newest, self._journal.read_newest), sum(counts)
        if last is None:
            return JobPage(found, total, total, None)
        return JobPage(found, min(last.done, total), total, last.following)

    def _walk_all(
        self, sources: Sequence[Source], counts: Sequence[int], search: JobSearch, cursor: Cursor
    ) -> Iterator[Step]:
        """Yield the steps of a walk along all sources from `cursor` on; `done` counts the entries of all sources."""
        for number in range(cursor.source, len(sources)):
            if number > 0 and not counts[number]:
                continue
            start = cursor if number == cursor.source else Cursor(number)
            for step in self._walk(sources[number], start, search):
                following = step.following or (Cursor(number + 1) if any(counts[number + 1 :]) else None)
                yield step._replace(done=sum(counts[:number]) + step.done, following=following)

    def find_order(self, search: JobSearch) -> Order | None:
        """Return the order of the first source of a search; None for a hash, whose order differs in each shard."""
        kind = self._list_sources(search)[0].kind
        return None if kind == "hash" else "descending" if kind == "failures" else "ascending"

    def count_sources(self, search: JobSearch) -> list[int]:
        """Return the number of entries in each source of a search. The source with an order, if any, is the first."""
        return list(map(self._count, self._list_sources(search)))

    def read_ranks(self, search: JobSearch, last: Entry | None, page: int) -> RankPage:
        """Return a page of entries behind `last` of a search with an order, whether or not their jobs fit."""
        return next(self._read_ranks(self._list_sources(search)[0], last, page), RankPage(0, [], True))

    def _list_sources(self, search: JobSearch) -> list[Source]:
        """Return the keys in which fitting jobs may be: small indexes, if there are any for this search."""
        keys, only = self._namespace.keys, f"{search.status}:" if search.status else ""
        rest, bases = partial(Source, "hash", keys.statuses), Source("hash", keys.hosts)
        indexes = (
            (search.planned, Source("planned", keys.timeline), bases),
            (search.by_next, Source("next", keys.timeline), rest(only, keys.timeline)),
            (search.paused, Source("hash", keys.pauses)),
            (search.overdue, Source("due", keys.timeline), Source("hash", keys.queued), bases),
            (search.failed, Source("failures", keys.failure_times), rest(f"{Event.DIE}:", keys.failure_times)),
            (search.status == Event.WRK, Source("hash", keys.running)),
            (search.status == Event.ENQ, Source("hash", keys.queued), Source("hash", keys.pauses)),
            (bool(search.tags), Source("hash", keys.options)),
        )
        return next((sources for is_needed, *sources in indexes if is_needed), [rest(only)])

    def _count(self, source: Source) -> int:
        number = int(self._namespace.ask("hlen" if source.kind == "hash" else "zcard", source.key))
        # Jobs that are also in another source are read there.
        return max(0, number - int(self._namespace.ask("zcard", source.without))) if source.without else number

    def _walk(self, source: Source, cursor: Cursor, search: JobSearch) -> Iterator[Step]:
        if source.kind == "hash":
            select = partial(self._select, source=source, search=search)
            yield from walk_hash(self._namespace, source.key, cursor, search.pattern, select)
            return
        for step in walk_ranks(self._read_ranks(source, cursor.entry), cursor):
            names = self._catalog.keep_tagged(filter(search.matches, step.names), search.tags)
            yield step._replace(names=list(names))

    def _read_ranks(self, source: Source, last: Entry | None, page: int = RANKS_PAGE) -> Iterator[RankPage]:
        # A follower that waits has no due time yet.
        end = math.nextafter(AWAITED, 0.0) if source.kind == "planned" else math.inf
        until = self._namespace.read_clock() + PUT_OFF if source.kind == "due" else end
        return read_ranks(Ranks(self._namespace, source.key), last, until, source.kind == "failures", page)

    def _select(self, found: Fields, source: Source, search: JobSearch) -> list[str]:
        """Return the ids that may fit. It makes only cheap checks."""
        if search.tags and source.key == self._namespace.keys.options:
            return [decode(name) for name, value in found.items() if has_tag(value, search.tags)]
        names = [name for name, value in found.items() if value.startswith(source.only.encode())]
        if source.key == self._namespace.keys.pauses and not search.paused:
            names = [name for name in names if not found[name].startswith(b"-")]  # without those that hold nothing
        if source.without and names:
            scores = self._namespace.ask("zmscore", source.without, names)
            names = [name for name, score in zip(names, scores, strict=True) if score is None]
        if search.queue is None or source.key != self._namespace.keys.statuses:
            return list(self._catalog.keep_tagged(map(decode, names), search.tags))
        # Those that wait or run may be in any queue.
        return [
            jobid
            for jobid, value in ((decode(name), found[name]) for name in names)
            if not value.startswith(SETTLED) or self._namespace.find_queue(jobid) == search.queue
        ]

    def _list_pauses(self) -> dict[str, QueuePause]:
        """Return the pauses of queues, by name; the name "" is everything."""
        return {limits.queue: limits.pause for limits in self._limits.list_all() if limits.pause}

    def _read(self, jobids: Sequence[str], newest: Newest, pauses: dict[str, QueuePause]) -> Iterator[Job]:
        """Yield those of `jobids` that exist, all as of one instant."""
        keys, names = self._namespace.keys, [encode(jobid) for jobid in jobids]
        hashes = keys.statuses, keys.schedules, keys.queued, keys.running, keys.pauses, keys.history
        asked = *(("hmget", key) for key in hashes), ("zmscore", keys.timeline), ("zmscore", keys.failure_times)
        *columns, clock = self._namespace.ask_all(*((*each, names) for each in asked), ("time",))
        now, firsts = self._namespace.now or read_time(clock), self._find_firsts(list(filter(is_base, jobids)))
        firsts |= find_put_off(self._namespace, dict(zip(jobids, columns[len(hashes)], strict=True)), now)
        for jobid, *values in zip(jobids, *columns, strict=True):
            stored = _Stored(*values)
            if jobid in firsts:
                stored = stored._replace(due=firsts[jobid])
            # A job that was unset since it was found has neither.
            if stored.status is not None or stored.schedule is not None:
                last = newest[jobid] if jobid in newest else read_newest(jobid, stored.history or b"")
                yield self._make_job(jobid, stored, last, now, pauses)

    def _find_firsts(self, bases: Sequence[str]) -> dict[str, float]:
        """Return by base the earliest due time of its jobs; bases without a due job are missing."""
        if not bases:
            return {}
        keys = self._namespace.keys
        texts = self._namespace.ask("hmget", keys.hosts, list(map(encode, bases)))
        known = zip(bases, map(decode, texts), strict=True)
        pairs = [(base, encode(name_job(base, host))) for base, text in known for host in Hosts.parse(text).seen]
        if not pairs:
            return {}
        names, firsts = [name for _, name in pairs], dict[str, float]()
        options, dues = self._namespace.ask_all(("hmget", keys.options, names), ("zmscore", keys.timeline, names))
        for (base, _), own, due in zip(pairs, options, dues, strict=True):
            # A user may have set a job with this id.
            if due is not None and find_all_of(decode(own))[0] == base:
                firsts[base] = min(due, firsts.get(base, due))
        return firsts

    def _add_data(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """Yield `jobs` with their data, read in one round trip."""
        pages = split([encode(job.jobid) for job in jobs], DATA_PAGE)
        found = self._namespace.ask_all(*(("hmget", self._namespace.keys.data, page) for page in pages), at_once=False)
        for job, text in zip(jobs, chain.from_iterable(found), strict=True):
            yield job if text is None else replace(job, data=load_json(decode(text), decode(text)))

    def _make_job(
        self, jobid: str, stored: "_Stored", last: PastRun | None, now: float, pauses: dict[str, QueuePause]
    ) -> Job:
        waiting, run = Waiting.parse(decode(stored.queued)), RunRecord.parse(decode(stored.running))
        status, pause = Status.parse(decode(stored.status)), Pause.parse(decode(stored.pause))
        is_due = waiting is not None or (stored.due is not None and stored.due <= now)
        queue = run.queue if run else waiting.queue if waiting else self._namespace.find_queue(jobid)
        is_closed = any(name in pauses and pauses[name].holds(now) for name in (queue, ""))
        return Job(
            jobid=jobid,
            queue=queue,
            status=status.event if status else None,
            since=int(status.time) if status else None,
            next_run=None if stored.due is None or stored.due >= AWAITED else stored.due,
            paused=pause.since if pause else None,
            last_started=last.started if last else None,
            last_outcome=last.outcome if last else None,
            schedule=None if stored.schedule is None else decode(stored.schedule),
            has_failed=stored.failed_at is not None or (status is not None and status.event == Event.DIE),
            is_overdue=is_due and run is None and not is_closed,  # what is held of a paused job is in no such place
            is_running=run is not None,
            paused_until=pause.until if pause else None,
        )


class _Stored(NamedTuple):
    """The stored values of a job, in the order in which they are read."""

    status: bytes | None
    schedule: bytes | None
    queued: bytes | None
    running: bytes | None
    pause: bytes | None
    history: bytes | None
    due: float | None
    failed_at: float | None


def fill(
    steps: Iterable[Step], read: Callable[[list[str]], list[Job]], search: JobSearch, rows: int, most: int, until: float
) -> tuple[list[Job], Step | None]:
    """Return the jobs of a page, and its last step; None if nothing is left after it. See `JobLister.read_page`."""
    found, scanned = list[Job](), 0
    for step in steps:
        found += filter(search.fits, read(step.names))
        scanned += step.scanned
        if step.following and (len(found) >= rows or scanned >= most or time.monotonic() >= until):
            return found, step
    return found, None


def add_last_runs(jobs: list[Job], newest: Newest | None, read_newest: Callable[[Sequence[str]], Newest]) -> list[Job]:
    """Return jobs with their last runs in the journal. If `newest` is given, the jobs have these already."""
    known = read_newest([job.jobid for job in jobs]) if jobs and newest is None else {}
    told = {jobid: (run.started, run.outcome) if run else (None, None) for jobid, run in known.items()}
    lasts = (told.get(job.jobid, (job.last_started, job.last_outcome)) for job in jobs)
    return [replace(job, last_started=last, last_outcome=how) for job, (last, how) in zip(jobs, lasts, strict=True)]
