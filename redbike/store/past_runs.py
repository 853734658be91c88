"""Pages of ended runs and of failures. A page takes a limited amount of work, no matter how many are kept."""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from redbike.config.options import list_labels
from redbike.schedule.parser import recurs
from redbike.store.archived import read_runs
from redbike.store.catalog import has_tag
from redbike.store.cursors import FEW, MOST_SCANNED, Cursor, measure_scan
from redbike.store.entries import collect
from redbike.store.enums import Event
from redbike.store.history import PastRun
from redbike.store.journal import Journal
from redbike.store.namespace import Entry, Namespace, Ranks, split
from redbike.store.records import decode
from redbike.text.parsing import load_object

ROWS = 100  # a page with so many runs is full
NEWEST, NEWEST_BYTES = 300, 64_000  # entries of the journal, and bytes, that are read for the newest runs of all jobs
MOST, MOST_BYTES = 1000, 128_000  # up to so many entries, and bytes, the whole journal is read if few jobs have runs
PAGE_TIMEOUT = 0.04  # seconds after which a page reads no further histories
PAGE = 100  # histories, or failures, in one request
MOST_FAILED = 10_000  # so many of the newest failures, and of the oldest, are searched for dead jobs
TOGETHER = 1000  # jobs in one request of that search


@dataclass(frozen=True, slots=True)
class RunSearch:
    """A search for runs."""

    failed: bool = False
    since: float | None = None  # epoch seconds
    before: tuple[float, str] | None = None  # the start of a run, and its job id: only runs older than this one
    pattern: str | None = None  # of ids, for the server
    matches: Callable[[str], bool] = field(default=lambda jobid: True)  # does the same for an id in Python

    def fits(self, run: PastRun) -> bool:
        """Tell whether `run` fits."""
        return (
            (run.has_failed or not self.failed)
            and (self.since is None or run.started >= self.since)
            and (self.before is None or (run.started, run.jobid) < self.before)
            and self.matches(run.jobid)
        )


class RunPage(NamedTuple):
    """A page of runs, the newest first."""

    runs: list[PastRun]
    is_complete: bool  # whether these are the newest of all kept runs
    is_more: bool  # whether there are older runs among those read
    looked_at: int = 0  # how many jobs with runs were read
    total: int = 0  # how many jobs have archived runs
    following: Cursor | None = None  # where the next jobs are


class Failure(NamedTuple):
    """The last failure of a job that has not succeeded since. Damaged parts of it are missing."""

    jobid: str
    failed: float  # epoch seconds
    error: str
    attempt: int | None = None
    traceback: str = ""
    output: str = ""


@dataclass(slots=True)
class FailurePage:
    """Failures, the newest first."""

    failures: list[Failure] = field(default_factory=list)
    total: int = 0  # how many are kept
    following: Entry | None = None  # where the next ones begin


class Dead(NamedTuple):
    """Jobs that have failed for good although their schedules would go on; the last to fail comes first."""

    times: dict[str, float]  # by job id: when it failed, in epoch seconds
    failures: list[Failure]  # of the first jobs


class PastRuns:
    """Reads ended runs and failures, a page at a time."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._journal = Journal(namespace)

    def read_runs(self, search: RunSearch, jobids: Sequence[str] | None = None, rows: int = ROWS) -> RunPage:
        """Return a page of the newest runs: of few `jobids`, or of all jobs.

        If very many jobs have runs, or very many runs have just ended, the page has only runs that ended last;
        `read_runs_of_many` returns the others as soon as they are archived.
        """
        if jobids is None and (self._journal.count_jobs() > FEW or self._has_many()):
            found = filter(search.fits, self._list_newest())
            newest = heapq.nlargest(rows, found, key=_order)
            return RunPage(newest, False, False, 0, self._journal.count_jobs(), Cursor())
        found = filter(search.fits, self._journal.list_runs(jobids))
        newest = heapq.nlargest(rows + 1, found, key=_order)
        return RunPage(newest[:rows], True, len(newest) > rows)

    def read_runs_of_many(
        self, search: RunSearch, cursor: Cursor, rows: int = ROWS, patience: float = PAGE_TIMEOUT
    ) -> RunPage:
        """Return a page: the archived runs of some of many jobs, from `cursor` on, in the server's order of jobs."""
        scan, until, total = cursor.scan, time.monotonic() + patience, self._journal.count_jobs()
        found, count = list[PastRun](), PAGE // 10
        while len(found) < rows:
            scan, page = self._namespace.scan_page(self._namespace.keys.history, scan, search.pattern, count)
            for name, value in page.items():
                found += filter(search.fits, read_runs(decode(name), value) or ())
            if not scan or time.monotonic() >= until:
                break
            # Each history may have some kilobytes; those that a pattern leaves out cost nothing.
            count = min(MOST_SCANNED if search.pattern else PAGE, count * 2)
        looked_at = round(measure_scan(scan) * total) if scan else total
        following = Cursor(0, scan) if scan else None
        return RunPage(sorted(found, key=_order, reverse=True), False, False, looked_at, total, following)

    def read_failures(self, last: Entry | None, rows: int, patience: float = PAGE_TIMEOUT) -> FailurePage:
        """Return the newest kept failures older than `last`; fewer than `rows` if reading takes `patience` seconds."""
        ranks, until = Ranks(self._namespace, self._namespace.keys.failure_times), time.monotonic() + patience
        found = FailurePage(total=ranks.count())
        for _, page in ranks.list_before(last, min(rows, PAGE)):
            found.failures += self._fetch_failures(page)
            if len(found.failures) >= rows or time.monotonic() >= until:
                found.following = page[-1]
                break
        return found

    def list_failures(
        self, matches: Callable[[str], bool] = lambda jobid: True, tags: Set[str] = frozenset()
    ) -> Iterator[dict[str, Any]]:
        """Yield the kept failures, the oldest first, each with the labels of its job.

        Only jobs count whose id `matches`, and that have one of `tags`, if any is given.
        """
        keys = self._namespace.keys
        names = [name for name in self._namespace.ask("zrange", keys.failure_times, 0, -1) if matches(decode(name))]
        for page in split(names, PAGE):
            records = self._namespace.ask("hmget", keys.options, page)
            for found, record in zip(self._read_kept(page), records, strict=True):
                if found is not None and (not tags or has_tag(record, tags)):
                    yield found | list_labels(decode(record))

    def list_failures_between(self, since: float, until: float, most: int) -> list[dict[str, Any]]:
        """Return the last failures of jobs from `since` to `until` (epoch seconds): the oldest `most`, in order."""
        key, scores = self._namespace.keys.failure_times, {"byscore": True, "offset": 0, "num": most}
        return self._list_readable(self._namespace.ask("zrange", key, since, until, **scores))

    def find_dead(self, rows: int) -> Dead:
        """Return the dead jobs among the newest and the oldest failures, with the failures of the first `rows`.

        The failure of a dead job is kept, no matter how many newer failures there are: so it may be among the oldest.
        """
        key = self._namespace.keys.failure_times
        failed = self._namespace.ask("zrange", key, -MOST_FAILED, -1, withscores=True)[::-1]
        if len(failed) == MOST_FAILED:
            failed += self._namespace.ask("zrange", key, 0, MOST_FAILED - 1, withscores=True)[::-1]
        names = dict(failed)
        dead = [(float(names[name]), name) for page in split(names, TOGETHER) for name in self._keep_dead(page)]
        return Dead({decode(name): score for score, name in dead}, self._fetch_failures(dead[:rows]))

    def _keep_dead(self, names: Sequence[bytes]) -> Iterator[bytes]:
        """Yield those of `names` that have failed for good although their schedules would go on."""
        hashes = self._namespace.keys.statuses, self._namespace.keys.schedules
        statuses, schedules = self._namespace.ask_all(*(("hmget", key, names) for key in hashes))
        for name, status, text in zip(names, statuses, schedules, strict=True):
            if (status or b"").startswith(f"{Event.DIE}:".encode()) and recurs(decode(text)):
                yield name

    def _has_many(self) -> bool:
        """Tell whether very many runs are not archived yet."""
        entries = self._read_last(MOST + 1)
        return len(entries) > MOST or sum(map(len, entries)) > MOST_BYTES

    def _list_newest(self) -> Iterable[PastRun]:
        """Yield the runs in the newest entries of the journal."""
        entries = self._read_last(NEWEST)
        # An entry may have very many runs.
        sizes = accumulate(map(len, reversed(entries)))
        number = sum(size <= NEWEST_BYTES for size in sizes) or 1
        for jobid, own in collect(entries[-number:]).items():
            yield from own.read(jobid, b"")

    def _read_last(self, most: int) -> list[bytes]:
        """Return the newest entries of the journal."""
        return list(self._namespace.ask("lrange", self._namespace.keys.journal, -most, -1))

    def _fetch_failures(self, page: Sequence[Entry]) -> list[Failure]:
        pairs = zip(page, self._read_kept([member for _, member in page]), strict=True)
        return [read_failure(decode(member), failed, kept) for (failed, member), kept in pairs]

    def _list_readable(self, names: Sequence[bytes]) -> list[dict[str, Any]]:
        return [failure for failure in self._read_kept(names) if failure is not None]

    def _read_kept(self, names: Sequence[bytes]) -> list[dict[str, Any] | None]:
        """Return the failure of each job as it is kept; None for a damaged one."""
        texts = self._namespace.ask("hmget", self._namespace.keys.failures, names) if names else []
        return [load_object(decode(text)) for text in texts]


def read_failure(jobid: str, failed: float, kept: "dict[str, Any] | None") -> Failure:
    """Return a stored failure; of a damaged one, what can be read."""
    texts = {name: kept.get(name) if kept else "" for name in ("error", "traceback", "output")}
    error, trace, output = (text if isinstance(text, str) else "" for text in texts.values())
    attempt = kept.get("attempt") if kept else None
    known = attempt if isinstance(attempt, int) else None
    return Failure(jobid, failed, error if kept else "what is kept of it is damaged", known, trace, output)


def _order(run: PastRun) -> tuple[float, str]:
    return run.started, run.jobid
