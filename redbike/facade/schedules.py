"""The methods of `redbike.facade.redbike.Redbike` that set and unset jobs: single ones, or all jobs of a file."""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import TypeGuard, Unpack, cast

from redbike.config.options import JobOptions, read_changes
from redbike.config.settings import Settings, check_group
from redbike.control.groups import set_group
from redbike.control.pairs import PAIRS, Pair, read_pair
from redbike.control.setter import Setter, read_since
from redbike.control.sync.changes import Change, Changes, Row, TooManyPruned, Wish, name_group
from redbike.control.sync.editing import read_row
from redbike.control.sync.syncer import Syncer
from redbike.errors import BadJobId
from redbike.facade.results import Results
from redbike.importers.rows import Source, get_name, read_rows
from redbike.schedule.moments import InstantLike, ZoneLike, read_zone
from redbike.schedule.objects import ScheduleLike, check_schedule
from redbike.store.shell import check_own_jobid
from redbike.text.printable import quote

log = logging.getLogger("redbike")
PROGRAM = "sync"  # the group of jobs that a program syncs without naming a group


class Schedules(Setter):
    """Sets and unsets jobs. A warning says so if the results of `set_many` are not read."""

    def set_many(
        self, pairs: Iterable[Pair | tuple[str, ScheduleLike | None]],
        after: InstantLike | None = None, tz: ZoneLike | None = None
    ) -> Results[tuple[str, bool | ValueError]]:  # fmt: skip
        """Set a stream of pairs of any length, as the results are read. Each round trip sets a batch of jobs.

        A pair is (job id, schedule), or (job id, schedule, options) as with `sync`. A job keeps options and ``data``
        that are not given. A schedule of None unsets a job, in a round trip of its own. The results are (job id, True);
        for a job that was not set, the error is in place of True: `BadSchedule`, `BadJobId` or `BadConfig`. An
        unchanged job that has failed for good stays failed; `set` or `run` runs it again. Raises `TypeError` for an
        invalid pair, an unknown option, or anything that is no schedule; then no job of its batch (up to 500) is set.
        """
        return Results("set_many()", super().set_many(pairs, after, tz))

    def group(self, name: str, jobs: Iterable[Pair], then: str, **options: Unpack[JobOptions]) -> int:
        """Set `jobs` as the group `name`, and the job `then`, which is due once, when all `jobs` have ended.

        `jobs` are pairs as with `set_many`, with options and data. `options` are the options of `then`. A job has ended
        when its run and all retries have ended, well or not, or when it is unset, cancelled or stopped. Without `jobs`,
        `then` is due at once. Jobs of an earlier call with this name that have not ended count too. Return the number
        of `jobs`. Raise `BadConfig`, `BadJobId` or `BadSchedule` if one cannot be set: then `then` is not set, and not
        due. Call again to complete the group; do so also if the program was killed.
        """
        return set_group(self, name, jobs, then, read_changes(options))


class Sync:
    """Makes the jobs of a store match files and programs."""

    def __init__(self, syncer: Syncer, settings: Settings) -> None:
        self._syncer, self.settings = syncer, settings

    def load(
        self, csvfilename: Source | Iterable[Pair], after: InstantLike | None = None, tz: ZoneLike | None = None, *,
        group: str | None = None, prune: bool = False, prune_all: bool = False, take: bool = False,
        mark_bad: bool = False
    ) -> Results[tuple[int, str, bool | ValueError]]:  # fmt: skip
        """Set the jobs of a CSV file, as the results are read; yield (line, job id, True or the error) of each row.

        A row is JOBID,SCHEDULE. A header that begins with ``jobid,schedule`` may add columns: options, ``data``,
        ``paused`` and ``blackout``. A row with more or fewer columns results in a `BadConfig`, and so does a row with
        the id of an earlier row. A job that matches its row already is not touched. `csvfilename` is the name of a
        file, or an open text or binary file, which is read once and stays open; or pairs as with `sync`.
        `group`, `prune`, `prune_all` and `take` are as with `sync`. If `sync` would raise at the end, the last result
        is an error without an id. The default of `group` is the full path of the named file; if the setting ``group``
        is given, it comes before the path, with a colon. With `mark_bad`, a bad schedule of a job that does not exist
        leaves the status ``BAD``, as at the start of a dispatcher. Raises `BadConfig` for a file that cannot be read,
        or has an unknown column.
        """
        make_wish = partial(Wish, prune=prune, prune_all=prune_all, take=take, mark_bad=mark_bad)
        changes = self._sync_file(csvfilename, after, tz, group, make_wish)
        return Results(
            "load()", ((each.line, each.jobid, each.error or True) for each in changes if each.line or each.error)
        )

    def sync_file(
        self, csvfilename: Source | Iterable[Pair], after: InstantLike | None = None, tz: ZoneLike | None = None, *,
        group: str | None = None, prune: bool = False, prune_all: bool = False, take: bool = False,
        mark_bad: bool = False, dry_run: bool = False, report: Callable[[int, int], None] | None = None
    ) -> Results[Change]:  # fmt: skip
        """`load`, but yield a `Change` for each job; changes of removed jobs come at the end.

        With `dry_run`, yield what would change, and change nothing. If the file is given by its name, `report` is
        called from time to time with the number of bytes read so far, and of all bytes.
        """
        make_wish = partial(Wish, prune=prune, prune_all=prune_all, take=take, mark_bad=mark_bad, dry_run=dry_run)
        return Results("sync_file()", self._sync_file(csvfilename, after, tz, group, make_wish, report))

    def _sync_file(
        self, source: Source | Iterable[Pair], after: InstantLike | None, tz: ZoneLike | None, group: str | None,
        make_wish: Callable[..., Wish], report: Callable[[int, int], None] | None = None
    ) -> Iterator[Change]:  # fmt: skip
        zone = read_zone(tz)
        if _are_pairs(source):
            owner, subject, rows, is_file = None, "a program", _read_pairs(source, zone), False
        else:
            file = cast(Source, source)
            owner, subject, rows = name_group(file), get_name(file), starmap(read_row, read_rows(file, report))
            is_file = owner is not None
        own = f"{self.settings.group}:{owner}" if self.settings.group and owner else owner
        name = own if group is None else check_group(group)
        wish = make_wish(name, after=read_since(after, zone), tz=zone)
        return self._syncer.sync(rows, wish, "load", f"{subject}: ", is_file)

    def sync(
        self, pairs: Iterable[Pair], prune: bool = False, *, group: str = PROGRAM, dry_run: bool = False,
        after: InstantLike | None = None, tz: ZoneLike | None = None, prune_all: bool = False, take: bool = False
    ) -> Changes:  # fmt: skip
        """Set the jobs of `pairs`, and return the `Changes`. A job that matches its pair already is not touched.

        A pair is (job id, schedule), or (job id, schedule, options), with options and ``data`` by the names of the
        arguments of `set`. A job keeps options that are not given. A pair is refused if its schedule, id or options are
        bad, if an earlier pair has its id, or if its job belongs to another group, unless `take` takes the job over.
        The log says why. `prune` unsets the jobs that an earlier call with this `group` has set, and that are not in
        `pairs`. It keeps jobs of other groups, jobs without a group, and a job whose last occurrence is due, but has
        not ended. If one of `pairs` has a bad id, it unsets nothing. Programs under one prefix that give no `group`
        share one group, and unset each other's jobs: so give each program its own. With `dry_run` nothing is changed,
        and `removed` has all jobs that would be unset. Raises `TypeError` for an invalid pair, `BadConfig` for a bad
        group. Raises `BadConfig` also if `prune` would unset all jobs of the group, or more than five jobs that are
        more than a tenth of it: then `pairs` are set, but nothing is unset. `prune_all` has no such limit.
        """
        zone = read_zone(tz)
        wish = Wish(check_group(group), prune, dry_run, read_since(after, zone), zone, prune_all, take)
        changes = Changes()
        for change in self._syncer.sync(_read_pairs(pairs, wish.tz), wish, "sync", f"{group}: "):
            if isinstance(change.error, TooManyPruned) and not dry_run:
                raise change.error
            if change.error:
                log.warning("%s: %s%s", group, f"{change.jobid!r}: " if change.jobid else "", change.error)
            changes.add(change)
        return changes


def _are_pairs(source: Source | Iterable[Pair]) -> TypeGuard[Iterable[Pair]]:
    is_file = isinstance(source, str | Path | bytes) or hasattr(source, "read")
    return isinstance(source, Iterable) and not is_file


def _read_pairs(pairs: Iterable[Pair], tz: str | None) -> Iterator[Row]:
    for number, pair in enumerate(pairs, 1):
        jobid, schedule, changes, error = read_pair(pair)
        if not isinstance(jobid, str):
            raise TypeError(f"bad pair {quote(pair)}: {PAIRS} is needed")
        check_schedule(schedule, tz)
        if schedule is None:
            raise TypeError(f"bad pair {quote(pair)}: a schedule is needed; prune unsets a job that is left out")
        row = Row(number, jobid, schedule, changes, error=error)
        try:
            check_own_jobid(jobid)
        except BadJobId as bad:
            row = row._replace(error=bad)
        yield row
