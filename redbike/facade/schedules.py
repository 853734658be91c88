"""The methods of `redbike.facade.redbike.Redbike` that set and unset jobs: one by one, or all those of a file."""

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
PROGRAM = "sync"  # the group of the jobs of a program that names none


class Schedules(Setter):
    """Sets and unsets jobs, and says so if the results of `set_many` are not read."""

    def set_many(
        self, pairs: Iterable[Pair | tuple[str, ScheduleLike | None]],
        after: InstantLike | None = None, tz: ZoneLike | None = None
    ) -> Results[tuple[str, bool | ValueError]]:  # fmt: skip
        """`set` for a stream of pairs of any length, a batch in each round trip; None as a schedule unsets one by one.

        A pair is (job id, schedule), or (job id, schedule, options) as `sync` takes it: of its options and ``data``, a
        job keeps those that are not given. It happens as the results are read: (job id, True), or in place of True the
        `BadSchedule`, `BadJobId` or `BadConfig` because of which it was not set. An unchanged job that has failed for
        good stays so; `set` lets it run again, and so does `run`. Raises `TypeError` for what is no pair or no
        schedule, and for an unknown option; then no job of its batch, up to 500, is set.
        """
        return Results("set_many()", super().set_many(pairs, after, tz))

    def group(self, name: str, jobs: Iterable[Pair], then: str, **options: Unpack[JobOptions]) -> int:
        """Set `jobs` as the group `name`, and `then`, which is due once, when the last of them has ended.

        `jobs` are pairs as `set_many` takes them, with options and data. `options` are those of `then`. A job has ended
        when its run has, with all retries, well or not, and also when it is unset, cancelled or stopped. Without any
        jobs `then` is due at once. Jobs of an earlier call with this name that have not ended count too. Return how
        many jobs there are. Raise `BadConfig`, `BadJobId` or `BadSchedule` for what cannot be set: then `then` is not
        set, and is not due, before it is called again. Whoever was killed calls again, too.
        """
        return set_group(self, name, jobs, then, read_changes(options))


class Sync:
    """Makes the jobs of a store those of files and programs."""

    def __init__(self, syncer: Syncer, settings: Settings) -> None:
        self._syncer, self.settings = syncer, settings

    def load(
        self, csvfilename: Source | Iterable[Pair], after: InstantLike | None = None, tz: ZoneLike | None = None, *,
        group: str | None = None, prune: bool = False, prune_all: bool = False, take: bool = False,
        mark_bad: bool = False
    ) -> Results[tuple[int, str, bool | ValueError]]:  # fmt: skip
        """Make the stored jobs those of a CSV file; yield (line, job id, True or why not) of each row, streamed.

        A row is JOBID,SCHEDULE. Under a header that begins with ``jobid,schedule`` it has a column for each of the
        header's, which are options, ``data`` and ``paused``. A row with more or fewer columns gives a `BadConfig`, and
        so does one with the id of an earlier row. A job that is the same already is not touched.
        `csvfilename` is a file's name, or an open text or binary file, which is read once and stays open; or pairs, as
        `sync` takes them. `group`, `prune`, `prune_all` and `take` are as with `sync`, but where that would raise at
        the end, there is a last result without an id. Without `group`, that is the full path of a file that is given
        by its name, after the setting of this name and a colon, if that is given. With `mark_bad`, a bad schedule of a
        job that is not there leaves the status ``BAD``, as at the start of a dispatcher. Raises `BadConfig` for a file
        that cannot be read, or has an unknown column.
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
        """`load`, but yield what becomes of each job: also of those that are removed, at the end.

        With `dry_run` nothing is changed: that is what would become of them. `report` hears now and then how many bytes
        of how many were read of a file that is given by its name.
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
        """Make the stored jobs those of `pairs`, and return what became of each; what is the same is not touched.

        A pair is (job id, schedule), or (job id, schedule, options) with options and ``data`` by the names that `set`
        has for them; of its options a job keeps those that are not given. A job with a bad schedule, id or option is
        left as it is, and so is one that comes twice, and one that another group has: `take` takes it over. The log
        says why. With `prune`, the jobs of this `group` that are not in `pairs` are unset: those that an earlier call
        with this group has set. Jobs of other groups stay, and so do jobs that were set by themselves, and a job whose
        last occurrence has come due, but has not ended. If one of `pairs` has a bad id, all stay. Without `group`, all
        programs under a prefix share one, and unset each other's jobs: so give each program a group of its own. With
        `dry_run` nothing is changed, and `removed` has all that would be unset. Raises `TypeError` for what is no pair,
        and `BadConfig` for a bad group. It raises `BadConfig` too, once all `pairs` are set, if `prune` would unset all
        jobs of the group, or more than five that are more than a tenth of it: then it unsets none; `prune_all` does.
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
