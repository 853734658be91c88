"""Make the stored jobs those of a source. What is the same is not touched.

1. A chunk of rows is compared with what is stored. Only what differs is set, by the same transition as ever, which sees
   to it that a job keeps its place if its schedule is the same.
2. Each job is recorded as a row of the group, which is mostly the path of the file. It is one of the last group that
   has it.
3. With `Wish.prune`, the jobs of the group that were not seen are unset at the end. None is unset if nobody can tell
   whose row one of the file is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from redbike.config import Settings, check_zone
from redbike.errors import BadConfig, BadJobId, BadSchedule
from redbike.moving.seen import SeenIds, open_seen
from redbike.running.requests import Request
from redbike.setter import CHUNK, Setter
from redbike.state.keys import check_jobid
from redbike.state.log import Tally
from redbike.state.namespace import STEP
from redbike.state.questions import StoredRow
from redbike.state.records import Membership
from redbike.state.store import Store
from redbike.syncing.changes import Change, Row, Wish
from redbike.syncing.comparing import compare, make_membership
from redbike.words import Difference

NOT_STORED = StoredRow(None, "", "")
NOTED = 1000  # jobs of which the log has what was changed of each; it has the others as a number


class _Plan(NamedTuple):
    """What is to become of a row."""

    change: Change
    request: Request | None = None
    is_set: bool = False  # else only whose row it is is recorded


class Syncer:
    """Makes the jobs of `store` those of sources."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._noting = Setter(store, settings)
        self._quiet = Setter(store.noted_as(None), settings)

    def sync(self, rows: Iterable[Row], wish: Wish, action: str, subject: str) -> Iterator[Change]:
        """Yield what becomes of each job. The log has it as `action`, beginning with `subject`."""
        if wish.tz is not None:
            check_zone(wish.tz)
        with self._store.log.note_when_done(action, subject) as tally, open_seen() as seen:
            for changes in self._sync_all(iter(rows), wish, seen, tally):
                counts = Counter(change.difference for change in changes if not change.is_note)
                for difference, number in counts.items():
                    is_done = difference not in (Difference.UNCHANGED, Difference.BAD)
                    tally.add(difference, is_done and not wish.dry_run, number)
                yield from changes

    def _sync_all(self, rows: Iterator[Row], wish: Wish, seen: SeenIds, tally: Tally) -> Iterator[list[Change]]:
        """Yield what becomes of the jobs of each chunk, once that is done."""
        unreadable, ready = 0, list[_Plan]()
        while chunk := _check(list(islice(rows, CHUNK)), seen):
            stored, now = self._read_stored(chunk), self._quiet.read_clock()
            # The server sets a chunk while the next one is planned. There may be only one connection for all.
            with self._commit_meanwhile(ready, wish, tally):
                plans = self._plan_all(chunk, stored, wish, now)
            unreadable = unreadable or _find_unreadable(chunk, plans)
            yield [plan.change for plan in ready]
            ready = plans
        with self._commit_meanwhile(ready, wish, tally):
            pass
        yield [plan.change for plan in ready]
        if wish.prune and unreadable:
            why = f"no job is removed, as nobody can tell whose row line {unreadable} is"
            yield [Change(Difference.BAD, "", error=BadConfig(why))]
        elif wish.prune and wish.group is not None:
            yield from self._prune(wish.group, wish.dry_run, seen, tally)

    def _read_stored(self, chunk: list[Row]) -> dict[str, StoredRow]:
        jobids = [row.jobid for row in chunk if not row.error]
        with_data = any(row.changes.data is not None for row in chunk)
        return dict(zip(jobids, self._store.questions.read_rows(jobids, with_data), strict=True))

    def _plan_all(self, chunk: list[Row], stored: dict[str, StoredRow], wish: Wish, now: float) -> list[_Plan]:
        since = self._quiet.compute_start(wish.after, now)
        return [self._plan(row, stored.get(row.jobid, NOT_STORED), wish, now, since) for row in chunk]

    def _plan(self, row: Row, stored: StoredRow, wish: Wish, now: float, since: float) -> _Plan:
        zone = self._settings.timezone if wish.tz is None else wish.tz
        try:
            if row.error:
                raise row.error
            queue = self._store.queue_for(row.jobid)
            schedule = self._quiet.parse(row.schedule, zone, row.jobid, now)
        except ValueError as error:
            return _Plan(Change(Difference.BAD, row.jobid, line=row.line, error=error))
        found = compare(row, schedule, stored, wish, now)
        request = Request(
            row.jobid, found.schedule, queue, now, since, wish.after is not None, row.changes, found.is_kept,
            membership=make_membership(stored, schedule, wish.group), known=stored.options
        )  # fmt: skip
        return _Plan(found.change, request, found.is_set)

    @contextmanager
    def _commit_meanwhile(self, plans: list[_Plan], wish: Wish, tally: Tally) -> Iterator[None]:
        """Carry plans out while the caller's block goes on."""
        if wish.dry_run or not plans:
            yield
            return
        tally.tried = True
        new: dict[str, Request] = {}
        changed: dict[str, Request] = {}
        memberships: dict[str, str] = {}
        for change, request, is_set in plans:
            if not request:
                if isinstance(change.error, BadSchedule):
                    self._store.jobs.reject(change.jobid, Membership(wish.group or "", "").format())
            elif is_set:
                (new if change.difference == Difference.ADDED else changed)[change.jobid] = request
            elif request.membership is not None:
                memberships[change.jobid] = request.membership
        from_now = all(request.since == request.now for _, request, _ in plans if request)
        with self._quiet.set_meanwhile(new, from_now):
            yield
        setter, step = (self._noting, 1) if _is_noted(tally) and self._store.who else (self._quiet, STEP)
        setter.set_requests(changed, from_now, step)
        self._store.jobs.own(memberships)

    def _prune(self, group: str, dry_run: bool, seen: SeenIds, tally: Tally) -> Iterator[list[Change]]:
        """Unset the rows of `group` that were not seen."""
        rows = self._store.questions.list_rows_of(group)
        while page := list(islice(rows, CHUNK)):
            # A scan may come upon one twice.
            found = seen.find(page)
            gone = [jobid for jobid in dict.fromkeys(page) if jobid not in found]
            texts = dict(zip(gone, self._store.questions.read_rows(gone), strict=True))
            if not dry_run:
                jobs = self._store.jobs if _is_noted(tally) else self._quiet.store.jobs
                gone = jobs.unset_rows(gone, group)
            seen.add(gone)
            yield [Change(Difference.REMOVED, jobid, texts[jobid].schedule or "") for jobid in gone]


def _is_noted(tally: Tally) -> bool:
    """Tell whether the log has what is changed of each further job, as it is not very much yet."""
    return tally.counts[Difference.CHANGED] + tally.counts[Difference.REMOVED] < NOTED


def _find_unreadable(chunk: list[Row], plans: list[_Plan]) -> int:
    """Return the line of the first row that may be that of any job; 0 if there is none.

    Its id is wrong, or it is bad and has several lines: a quotation mark too many makes one row of some.
    """
    for row, plan in zip(chunk, plans, strict=True):
        error = plan.change.error
        if error and (not row.jobid or isinstance(error, BadJobId) or "\n" in str(row.schedule)):
            return row.line
    return 0


def _check(chunk: list[Row], seen: SeenIds) -> list[Row]:
    """Refuse each row with a bad id, or one that was there before; remember the ids."""
    checked = []
    for row, is_new in zip(chunk, seen.add([row.jobid for row in chunk]), strict=True):
        error = row.error
        try:
            if row.jobid:
                check_jobid(row.jobid)
                if not is_new:
                    error = BadConfig("another row before this one has the same job id")
        except BadJobId as bad:
            error = bad
        checked.append(row if error is row.error else row._replace(error=error))
    return checked
