"""Make the stored jobs those of a source. What is the same is not touched.

1. A chunk of rows is compared with what is stored. Only what differs is set, by the same transition as ever, which sees
   to it that a job keeps its place if its schedule is the same.
2. Each job is recorded as a row of the group, which is mostly the path of the file. A row of another group is
   refused, unless it is to be taken over.
3. With `Wish.prune`, the jobs of the group that were not seen are unset at the end. None is unset if nobody can tell
   whose row one of the file is, or if they are too many.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from redbike.config.settings import Settings, check_zone
from redbike.control.blackouts import check_blackout, set_for_jobs
from redbike.control.setter import CHUNK, Setter
from redbike.control.sync.changes import (
    Change,
    Row,
    TooManyPruned,
    Wish,
    check_owner,
    check_share,
    compare,
    make_membership,
)
from redbike.errors import BadConfig, BadJobId, BadSchedule, RedbikeError
from redbike.importers.seen import SeenIds, open_seen
from redbike.loop.requests import Request, parse_to_set
from redbike.store.blackouts import Blackout
from redbike.store.enums import Difference
from redbike.store.jobs import JobToSet
from redbike.store.keys import check_jobid
from redbike.store.log import Tally
from redbike.store.namespace import STEP
from redbike.store.records import Membership, Pause
from redbike.store.rows import StoredRow, parse_rows
from redbike.store.scripts import Call, Reply
from redbike.store.store import QueueFor, Store

NOT_STORED = StoredRow(None, "", "")
NOTED = 1000  # jobs of which the log has what was changed of each; it has the others as a number


class _Plan(NamedTuple):
    """What is to become of a row."""

    change: Change
    request: Request | None = None
    is_set: bool = False  # else only whose row it is is recorded
    job: JobToSet | None = None  # if it is new: it is made while the server has other things to do
    pause: Pause | None = None  # if it is not new
    blackout: Blackout | None = None


class Syncer:
    """Makes the jobs of `store` those of sources."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._noting = Setter(store, settings)
        self._quiet = Setter(store.noted_as(None), settings)

    def sync(
        self, rows: Iterable[Row], wish: Wish, action: str, subject: str, reads_ahead: bool = False
    ) -> Iterator[Change]:
        """Yield what becomes of each job. The log has it as `action`, beginning with `subject`.

        With `reads_ahead` nobody waits for the next `rows`, as those of a regular file: then they are read while the
        server works.
        """
        if wish.tz is not None:
            check_zone(wish.tz)
        with self._store.log.note_when_done(action, subject) as tally, open_seen() as seen:
            for changes in self._sync_all(_Chunks(iter(rows), seen, reads_ahead), wish, seen, tally):
                counts = Counter(change.difference for change in changes if not change.is_note)
                for difference, number in counts.items():
                    is_done = difference not in (Difference.UNCHANGED, Difference.BAD)
                    tally.add(difference, is_done and not wish.dry_run, number)
                yield from changes

    def _sync_all(self, chunks: "_Chunks", wish: Wish, seen: SeenIds, tally: Tally) -> Iterator[list[Change]]:
        """Yield what becomes of the jobs of each chunk, once that is done."""
        unreadable, ready = 0, list[_Plan]()
        chunk = chunks.take()
        stored = self._read_stored(chunk)
        while chunk:
            now, following = self._quiet.read_clock(), chunks.look_ahead()
            asked = self._store.rows.pack_read(*_name_stored(following))
            queue_for = self._store.freeze_queues()
            # The server sets one chunk and reads what is stored of another one while the one between them is planned.
            # There may be only one connection for all.
            with self._commit_meanwhile(ready, wish, tally, asked) as replies:
                plans = self._plan_all(chunk, stored, wish, now, queue_for)
                chunks.read_ahead()
            unreadable = unreadable or _find_unreadable(chunk, plans)
            yield [plan.change for plan in ready]
            ready, chunk = plans, chunks.take()
            stored = _match_stored(chunk, parse_rows(replies)) if following else self._read_stored(chunk)
        with self._commit_meanwhile(ready, wish, tally):
            pass
        yield [plan.change for plan in ready]
        if chunks.error:
            raise chunks.error
        if wish.prunes and unreadable:
            why = f"no job is removed, as nobody can tell whose row line {unreadable} is"
            yield [Change(Difference.BAD, "", error=BadConfig(why))]
        elif wish.prunes and wish.group is not None:
            try:
                if not wish.prune_all:
                    self._check_share(wish.group, seen)
            except TooManyPruned as error:
                if wish.dry_run:
                    yield from self._prune(wish.group, True, seen, tally)
                yield [Change(Difference.BAD, "", error=error)]
            else:
                yield from self._prune(wish.group, wish.dry_run, seen, tally)

    def _read_stored(self, chunk: list[Row]) -> dict[str, StoredRow]:
        return _match_stored(chunk, self._store.rows.read(*_name_stored(chunk)))

    def _plan_all(
        self, chunk: list[Row], stored: dict[str, StoredRow], wish: Wish, now: float, queue_for: QueueFor
    ) -> list[_Plan]:
        since = self._quiet.start.compute(wish.after, now)
        return [self._plan(row, stored.get(row.jobid, NOT_STORED), wish, now, since, queue_for) for row in chunk]

    def _plan(self, row: Row, stored: StoredRow, wish: Wish, now: float, since: float, queue_for: QueueFor) -> _Plan:
        zone = self._settings.timezone if wish.tz is None else wish.tz
        try:
            if row.error:
                raise row.error
            check_owner(stored, wish)
            queue = queue_for(row.jobid)
            schedule = parse_to_set(row.schedule, zone, row.jobid, now, self._settings)
            blackout = row.blackout and check_blackout(*row.blackout, zone, now)
        except ValueError as error:
            return _Plan(Change(Difference.BAD, row.jobid, line=row.line, error=error))
        found = compare(row, schedule, stored, wish, now, blackout)
        request = Request(
            row.jobid, found.schedule, queue, now, since, wish.after is not None, row.changes, found.is_kept,
            membership=make_membership(stored, schedule, wish.group), known=stored.options
        )  # fmt: skip
        if found.change.difference != Difference.ADDED:
            return _Plan(found.change, request, found.is_set, pause=found.pause, blackout=found.blackout)
        request.paused = found.pause.format() if found.pause else ""
        return _Plan(found.change, request, True, request.make_job(self._settings), blackout=found.blackout)

    @contextmanager
    def _commit_meanwhile(
        self, plans: list[_Plan], wish: Wish, tally: Tally, asked: Iterable[Call] = ()
    ) -> Iterator[list[Reply]]:
        """Carry plans out while the caller's block goes on; what was `asked` is answered in the list after it."""
        if wish.dry_run:
            plans = []
        tally.tried |= bool(plans)
        new: dict[str, Request] = {}
        jobs: dict[str, JobToSet] = {}
        changed: dict[str, Request] = {}
        memberships: dict[str, str] = {}
        pauses: dict[Pause, list[str]] = {}
        blackouts: dict[Blackout, list[str]] = {}
        for change, request, is_set, job, pause, blackout in plans:
            if pause:
                pauses.setdefault(pause, []).append(change.jobid)
            if blackout:
                blackouts.setdefault(blackout, []).append(change.jobid)
            if not request:
                if wish.mark_bad and isinstance(change.error, BadSchedule):
                    self._store.jobs.reject(change.jobid, Membership(wish.group or "", "").format())
            elif job:
                new[job.jobid], jobs[job.jobid] = request, job
            elif is_set:
                changed[change.jobid] = request
            elif request.membership is not None:
                memberships[change.jobid] = request.membership
        from_now = all(plan.request.since == plan.request.now for plan in plans if plan.request)
        with self._quiet.set_meanwhile(new, jobs, from_now, also=asked) as replies:
            yield replies
        asked_for, done = {**new, **changed}, list(jobs.values())
        setter, step = (self._noting, 1) if _is_noted(tally) and self._store.who else (self._quiet, STEP)
        done += setter.set_requests(changed, from_now, step).values()
        if again := {job.jobid: asked_for[job.jobid] for job in done if job.error}:
            # A row behind them may have ended the cycle.
            done = list(setter.set_requests(again, from_now, step).values())
        _mark_refused(plans, {job.jobid: job.error for job in done if job.error})
        self._store.jobs.set_groups(memberships)
        for pause, jobids in pauses.items():
            given = pause.to_dict()
            by, reason = given["by"] or "", given["reason"] or ""
            setter.store.pauses.pause(jobids, given["until"], by, reason, given["since"])
        for blackout, jobids in blackouts.items():
            set_for_jobs(setter.store, jobids, blackout)

    def _check_share(self, group: str, seen: SeenIds) -> None:
        """Raise `TooManyPruned` if so many rows of `group` were not seen that the source is likely not whole."""
        rows, gone, total = self._store.rows.list_of(group), 0, 0
        while page := list(dict.fromkeys(islice(rows, CHUNK))):
            total += len(page)
            gone += len(page) - len(seen.find(page))
        if gone:
            check_share(gone, total, group)

    def _prune(self, group: str, dry_run: bool, seen: SeenIds, tally: Tally) -> Iterator[list[Change]]:
        """Unset the rows of `group` that were not seen."""
        rows = self._store.rows.list_of(group)
        while page := list(islice(rows, CHUNK)):
            # A scan may come upon one twice.
            found = seen.find(page)
            gone = [jobid for jobid in dict.fromkeys(page) if jobid not in found]
            texts = dict(zip(gone, self._store.rows.read(gone), strict=True))
            if not dry_run:
                jobs = self._store.jobs if _is_noted(tally) else self._quiet.store.jobs
                gone = jobs.unset_rows(gone, group)
            seen.add(gone)
            yield [Change(Difference.REMOVED, jobid, texts[jobid].schedule or "") for jobid in gone]


def _mark_refused(plans: list[_Plan], errors: Mapping[str, BadSchedule]) -> None:
    """Say of jobs that were not set after all why; the rows of the others stay as they are."""
    for number, plan in enumerate(plans if errors else ()):
        if error := errors.get(plan.change.jobid):
            plans[number] = _Plan(Change(Difference.BAD, plan.change.jobid, line=plan.change.line, error=error))


class _Chunks:
    """The rows of a source, checked, a chunk at a time. An error of the source ends them."""

    def __init__(self, rows: Iterator[Row], seen: SeenIds, reads_ahead: bool) -> None:
        self._rows = rows
        self._seen = seen
        self._reads_ahead = reads_ahead
        self._ahead: deque[list[Row]] = deque()
        self.error: RedbikeError | None = None  # it comes after what stands before it

    def take(self) -> list[Row]:
        """Return the next chunk; [] at the end."""
        return self._ahead.popleft() if self._ahead else self._read()

    def look_ahead(self) -> list[Row]:
        """Return the chunk that `take` returns next; [] if that is not to be read yet."""
        if not self._ahead:
            self.read_ahead()
        return self._ahead[0] if self._ahead else []

    def read_ahead(self) -> None:
        """Read one more chunk, if that makes nobody wait, and does not need much memory."""
        if self._reads_ahead:
            self._ahead.append(self._read())
            self._reads_ahead = not _has_data(self._ahead[-1])

    def _read(self) -> list[Row]:
        try:
            return [] if self.error else _check(list(islice(self._rows, CHUNK)), self._seen)
        except RedbikeError as error:
            self.error = error
            return []


def _name_stored(chunk: list[Row]) -> tuple[list[str], bool]:
    """Return of which jobs it matters what is stored, and whether their data does."""
    return [row.jobid for row in chunk if not row.error], _has_data(chunk)


def _match_stored(chunk: list[Row], found: list[StoredRow]) -> dict[str, StoredRow]:
    return dict(zip(_name_stored(chunk)[0], found, strict=True))


def _has_data(chunk: list[Row]) -> bool:
    return any(row.changes.data is not None or row.pause or row.blackout for row in chunk)


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
            if row.jobid or not error:
                check_jobid(row.jobid)
                if not is_new:
                    error = BadConfig("another row before this one has the same job id")
        except BadJobId as bad:
            error = bad
        checked.append(row if error is row.error else row._replace(error=error))
    return checked
