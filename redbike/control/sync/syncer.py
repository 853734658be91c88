"""Set the jobs of a source. Jobs that match their rows already are not touched.

1. A chunk of rows is compared with the stored jobs. Only jobs that differ are set, by the usual transition: a job keeps
   its place if its schedule is the same.
2. Each job is recorded as a member of the group, which is mostly the path of the file. A row whose job belongs to
   another group is refused, unless it is to be taken over.
3. With `Wish.prune`, the jobs of the group without a row are unset at the end, except those of `find_unfinished`.
   None is unset if the job id of a row is unreadable, or if they are too many.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from redbike.config.options import BLACKOUT, SCHEDULE
from redbike.config.settings import Settings, check_zone
from redbike.control.blackouts import make_row_blackout, set_for_jobs
from redbike.control.remarks import log_if_spent, log_waiting
from redbike.control.setter import Setter
from redbike.control.sync.changes import (
    Change,
    Row,
    TooManyPruned,
    Wish,
    check_owner,
    compare,
    make_membership,
    put_groups_last,
)
from redbike.control.sync.chunks import Chunks, match_stored, name_stored
from redbike.control.sync.unfinished import check_gone, describe_unfinished, find_unfinished, list_gone
from redbike.errors import BadConfig, BadJobId, BadSchedule
from redbike.importers.seen import SeenIds, open_seen
from redbike.loop.every_host import EveryHost
from redbike.loop.host_jobs import list_others
from redbike.loop.requests import Request, check_base, parse_to_set
from redbike.schedule.after import After, Group
from redbike.schedule.parser import parse_stored
from redbike.store.backfill import check_stored
from redbike.store.blackouts import Blackout
from redbike.store.enums import Difference
from redbike.store.every_host import is_base
from redbike.store.jobs import JobToSet, closes_group, explain_cycle
from redbike.store.log import Tally
from redbike.store.namespace import STEP
from redbike.store.records import Membership, Pause
from redbike.store.rows import StoredRow, parse_rows
from redbike.store.scripts import Call, Reply
from redbike.store.sharded.linking import preview_cycles
from redbike.store.store import QueueFor, Store

log = logging.getLogger("redbike")

NOT_STORED = StoredRow(None, "", "")
NOTED = 1000  # jobs whose changes are entries of the log; further ones are only counted


class _Plan(NamedTuple):
    """The planned change of one row."""

    change: Change
    request: Request | None = None
    is_set: bool = False  # if False, only the group of the job is recorded
    job: JobToSet | None = None  # only for a new job: it is made while the server works
    pause: Pause | None = None  # only for a job that is not new
    blackout: Blackout | None = None
    has_schedule: bool = False  # for a refused row: whether its schedule is good


class Syncer:
    """Sets the jobs of sources in `store`."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._noting = Setter(store, settings)
        self._quiet = Setter(store.noted_as(None), settings)

    def sync(
        self, rows: Iterable[Row], wish: Wish, action: str, subject: str, reads_ahead: bool = False
    ) -> Iterator[Change]:
        """Yield the change of each job. The log has an entry for `action`, which begins with `subject`.

        With `reads_ahead`, the next `rows` are read while the server works. Use it if reading does not block, as for a
        regular file.
        """
        if wish.tz is not None:
            check_zone(wish.tz)
        with self._store.log.note_when_done(action, subject) as tally, open_seen() as seen:
            for changes in self._sync_all(Chunks(put_groups_last(rows), seen, reads_ahead), wish, seen, tally):
                counts = Counter(change.difference for change in changes if not change.is_note)
                for difference, number in counts.items():
                    is_done = difference not in (Difference.UNCHANGED, Difference.BAD)
                    tally.add(difference, is_done and not wish.dry_run, number)
                yield from changes

    def _sync_all(self, chunks: Chunks, wish: Wish, seen: SeenIds, tally: Tally) -> Iterator[list[Change]]:
        """Yield the changes of each chunk, after they are made."""
        unreadable, joining, ready, known = 0, 0, list[_Plan](), dict[str, list[str]]()
        chunk = chunks.take()
        stored = self._read_stored(chunk)
        while chunk:
            now, following = self._quiet.read_clock(), chunks.look_ahead()
            asked = self._store.rows.pack_read(*name_stored(following))
            queue_for = self._store.freeze_queues()
            # While this plans one chunk, the server sets the chunk before it, and reads the stored rows of the next.
            # There may be only one connection for both.
            with self._commit_meanwhile(ready, wish, tally, asked) as replies:
                plans = self._plan_all(chunk, stored, wish, now, queue_for)
                chunks.read_ahead()
            if wish.dry_run:
                self._preview_cycles(plans, stored, known)
                joining += _count_joining(plans, stored, wish.group)
            unreadable = unreadable or _find_unreadable(chunk, plans)
            yield [plan.change for plan in ready]
            ready, chunk = plans, chunks.take()
            stored = match_stored(chunk, parse_rows(replies)) if following else self._read_stored(chunk)
        with self._commit_meanwhile(ready, wish, tally):
            pass
        yield [plan.change for plan in ready]
        if chunks.error:
            raise chunks.error
        if wish.prunes and unreadable:
            why = f"no job is removed, because line {unreadable} is unreadable and may be the row of one"
            yield [Change(Difference.BAD, "", error=BadConfig(why))]
        elif wish.prunes and wish.group is not None:
            try:
                if not wish.prune_all:
                    check_gone(self._store, wish.group, seen, joining, self._quiet.read_clock())
            except TooManyPruned as error:
                if wish.dry_run:
                    yield from self._prune(wish.group, True, seen, tally)
                yield [Change(Difference.BAD, "", error=error)]
            else:
                yield from self._prune(wish.group, wish.dry_run, seen, tally)

    def _read_stored(self, chunk: list[Row]) -> dict[str, StoredRow]:
        return match_stored(chunk, self._store.rows.read(*name_stored(chunk)))

    def _plan_all(
        self, chunk: list[Row], stored: dict[str, StoredRow], wish: Wish, now: float, queue_for: QueueFor
    ) -> list[_Plan]:
        since = self._quiet.start.compute(wish.after, now)
        return [self._plan(row, stored.get(row.jobid, NOT_STORED), wish, now, since, queue_for) for row in chunk]

    def _plan(self, row: Row, stored: StoredRow, wish: Wish, now: float, since: float, queue_for: QueueFor) -> _Plan:
        zone, schedule = self._settings.timezone if wish.tz is None else wish.tz, None
        try:
            if row.error:
                raise row.error
            check_owner(stored, wish)
            check_stored(row.jobid, stored.options)
            queue = queue_for(row.jobid)
            check_base(row.jobid, queue, row.changes)
            if SCHEDULE in row.complete and stored.schedule is not None:
                schedule = parse_stored(stored.schedule)
            else:
                own = "UTC" if SCHEDULE in row.complete else zone
                schedule = parse_to_set(row.schedule, own, row.jobid, now, self._settings)
            own = "UTC" if BLACKOUT in row.complete else zone
            names_zone = BLACKOUT not in row.complete and zone == "UTC" != self._settings.timezone  # as `parse_to_set`
            blackout = make_row_blackout(row.blackout, own, now, stored, names_zone)
        except ValueError as error:
            change = Change(Difference.BAD, row.jobid, line=row.line, error=error)
            return _Plan(change, has_schedule=schedule is not None)
        found = compare(row, schedule, stored, wish, now, blackout)
        request = Request(
            row.jobid, found.schedule, queue, now, since, wish.after is not None, row.changes, found.is_kept,
            membership=make_membership(stored, found, wish.group), known=stored.options
        )  # fmt: skip
        if found.change.difference != Difference.ADDED:
            return _Plan(found.change, request, found.is_set, pause=found.pause, blackout=found.blackout)
        request.paused = found.pause.format() if found.pause else ""
        return _Plan(found.change, request, True, request.make_job(self._settings), blackout=found.blackout)

    def _preview_cycles(self, plans: list[_Plan], stored: dict[str, StoredRow], known: dict[str, list[str]]) -> None:
        """Refuse, in a dry run, rows whose jobs would wait for themselves; see `preview_cycles`."""
        new, changed = list[JobToSet](), list[JobToSet]()
        for plan in plans:
            if plan.request and plan.is_set:
                job = plan.job or plan.request.make_job(self._settings)
                before = stored.get(job.jobid, NOT_STORED).schedule or ""
                if job.follows or before.startswith((After.keyword, Group.keyword)):
                    (new if plan.job else changed).append(job)
        if new or changed:
            again = [each.job for jobs in (new, changed) for each in preview_cycles(self._store, jobs, known)]
            refused = preview_cycles(self._store, again, known)
            _mark_refused(plans, {each.job.jobid: explain_cycle(each.job, each.detail) for each in refused})

    @contextmanager
    def _commit_meanwhile(
        self, plans: list[_Plan], wish: Wish, tally: Tally, asked: Iterable[Call] = ()
    ) -> Iterator[list[Reply]]:
        """Carry out plans while the caller's ``with`` block runs. After it, the list has the replies to `asked`."""
        if wish.dry_run:
            plans = []
        tally.tried |= bool(plans)
        asked_for = {plan.change.jobid: plan.request for plan in plans if plan.request and plan.is_set}
        # A group is closed only after all of its jobs are set, also those that exist already.
        jobs = {plan.job.jobid: plan.job for plan in plans if plan.job and not closes_group(plan.job)}
        new = {jobid: asked_for[jobid] for jobid in jobs}
        changed = {jobid: request for jobid, request in asked_for.items() if jobid not in jobs}
        if wish.mark_bad:
            self._mark_bad(plans, wish)
        from_now = all(plan.request.since == plan.request.now for plan in plans if plan.request)
        with self._quiet.set_meanwhile(new, jobs, from_now, also=asked) as replies:
            yield replies
        done = list(jobs.values())
        setter, step = (self._noting, 1) if _is_noted(tally) and self._store.who else (self._quiet, STEP)
        done += setter.set_requests(changed, from_now, step).values()
        if again := {job.jobid: asked_for[job.jobid] for job in done if job.error}:
            # A later row may have ended the cycle.
            done = list(setter.set_requests(again, from_now, step).values())
        _mark_refused(plans, {job.jobid: job.error for job in done if isinstance(job.error, ValueError)})
        log_if_spent(self._store, asked_for, done)
        _change_besides(plans, self._store, setter.store, self._settings)

    def _mark_bad(self, plans: list[_Plan], wish: Wish) -> None:
        """Store the status BAD for each row with a bad schedule, if its job does not exist."""
        for plan in plans:
            if isinstance(plan.change.error, BadSchedule) and not plan.has_schedule:
                self._store.jobs.reject(plan.change.jobid, Membership(wish.group or "", "").format())

    def _prune(self, group: str, dry_run: bool, seen: SeenIds, tally: Tally) -> Iterator[list[Change]]:
        """Unset the jobs of `group` without a row, except those of `find_unfinished`."""
        bases = list[str]()
        for _, gone in list_gone(self._store, group, seen):
            seen.add(gone)  # a scan may return a job twice
            stored = dict(zip(gone, self._store.rows.read(gone), strict=True))
            if left := find_unfinished(self._store, stored, self._quiet.read_clock()):
                log.warning("%s", describe_unfinished(left))
                gone = [jobid for jobid in gone if jobid not in left]
            if not dry_run:
                jobs = self._store.jobs if _is_noted(tally) else self._quiet.store.jobs
                unset = jobs.unset_rows(gone, group)
                gone = list(unset)
                log_waiting(self._store, group, unset, seen)
                bases += filter(is_base, gone)
            yield [Change(Difference.REMOVED, jobid, stored[jobid].schedule or "") for jobid in gone]
        EveryHost(self._store, self._settings).spread(bases)


def _change_besides(plans: list[_Plan], store: Store, noted: Store, settings: Settings) -> None:
    """Change groups, pauses and blackouts of jobs that have been set. `noted` logs pauses and blackouts."""
    groups = {
        plan.change.jobid: plan.request.membership
        for plan in plans
        if plan.request and not plan.is_set and plan.request.membership is not None
    }
    pauses, blackouts = defaultdict[Pause, list[str]](list), defaultdict[Blackout, list[str]](list)
    for plan in plans:
        if plan.pause:
            pauses[plan.pause].append(plan.change.jobid)
        if plan.blackout:
            blackouts[plan.blackout].append(plan.change.jobid)
    store.jobs.set_groups(groups)
    for pause, jobids in pauses.items():
        noted.pauses.pause([*jobids, *list_others(store, jobids)], **pause.to_row())
    for blackout, jobids in blackouts.items():
        set_for_jobs(noted, jobids, blackout, settings)


def _count_joining(plans: list[_Plan], stored: dict[str, StoredRow], group: str | None) -> int:
    """Return how many jobs would join a group; a dry run has not added them."""
    known = (stored[plan.change.jobid].membership for plan in plans if plan.request)
    return sum(Membership.parse(each).group != group for each in known)


def _mark_refused(plans: list[_Plan], errors: Mapping[str, ValueError]) -> None:
    """Replace the plans of jobs that the server refused by their errors; the other plans stay."""
    for number, plan in enumerate(plans if errors else ()):
        if error := errors.get(plan.change.jobid):
            plans[number] = _Plan(Change(Difference.BAD, plan.change.jobid, line=plan.change.line, error=error))


def _is_noted(tally: Tally) -> bool:
    """Tell whether further changes get an entry of their own in the log: so far there are few."""
    return tally.counts[Difference.CHANGED] + tally.counts[Difference.REMOVED] < NOTED


def _find_unreadable(chunk: list[Row], plans: list[_Plan]) -> int:
    """Return the line of the first row that may belong to any job; 0 if there is none.

    Its id is bad, or it is a bad row of several lines: an extra quotation mark makes one row of several.
    """
    for row, plan in zip(chunk, plans, strict=True):
        error = plan.change.error
        if error and (not row.jobid or isinstance(error, BadJobId) or "\n" in str(row.schedule)):
            return row.line
    return 0
