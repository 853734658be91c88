"""Compare each row of a source with the stored job, and describe the change."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from redbike.config.options import OptionChanges, parse_options, show_options
from redbike.control.blackouts import describe_blackout
from redbike.control.operator import name_operator
from redbike.errors import BadConfig
from redbike.importers.rows import Source, WantedBlackout, WantedPause
from redbike.schedule.after import Group
from redbike.schedule.kinds import Schedule, Stop
from redbike.schedule.objects import ScheduleLike
from redbike.schedule.parser import find_inner, parse_stored
from redbike.store.blackouts import Blackout
from redbike.store.enums import Difference
from redbike.store.log import describe_pause
from redbike.store.records import Membership, Pause, make_note
from redbike.store.rows import StoredRow
from redbike.store.schedules import read_schedule
from redbike.text.printable import escape

HANDFUL = 5  # jobs that may be pruned whatever their share of the group is: so few are easy to check
SHARE = 10  # if more jobs are pruned, they may be one tenth of the group


class TooManyPruned(BadConfig):
    """Too many jobs of a group have no row to unset them without `Wish.prune_all`: none of them was unset."""


class Row(NamedTuple):
    """One row of a file, or one pair of a program: a job as it is wanted."""

    line: int  # in the file, or the number of the pair from 1
    jobid: str  # "" if it cannot be read
    schedule: ScheduleLike
    changes: OptionChanges
    pause: WantedPause | None = None
    blackout: WantedBlackout | None = None
    error: ValueError | None = None  # why it is refused
    complete: frozenset[str] = frozenset()  # columns with schedules in their stored form, without the zone of this host


class Change(NamedTuple):
    """The change of one job that a sync has made, or would make."""

    difference: Difference
    jobid: str  #: "" for a row whose id cannot be read
    detail: str = ""  #: the schedule of a job that was added or removed, or what was changed
    line: int = 0  #: of its row in the file, or the number of its pair, from 1; 0 for a job that was removed
    error: ValueError | None = None  #: why its row was refused
    taken_from: str = ""  #: the group that it belonged to before, if this is another one
    row_of: str = ""  #: the group that it still belongs to, if rows without a group have changed it

    @property
    def is_note(self) -> bool:
        """Whether this belongs to no row, but says why no job was removed."""
        return self.difference == Difference.BAD and not self.line


@dataclass(slots=True)
class Changes:
    """All changes that a sync of a program has made, or would make: job ids by kind of change."""

    added: list[str] = field(default_factory=list)
    changed: dict[str, str] = field(default_factory=dict)  #: job id → its changes, such as ``NOW -> EVERY:1h@0``
    unchanged: int = 0
    removed: list[str] = field(default_factory=list)
    bad: dict[str, ValueError] = field(default_factory=dict)  #: job id → why it was refused
    taken: dict[str, str] = field(default_factory=dict)  #: job id → the group that it belonged to before

    def add(self, change: Change) -> None:
        """Add a change."""
        if change.taken_from:
            self.taken[change.jobid] = change.taken_from
        match change.difference:
            case Difference.ADDED:
                self.added.append(change.jobid)
            case Difference.CHANGED:
                self.changed[change.jobid] = change.detail
            case Difference.UNCHANGED:
                self.unchanged += 1
            case Difference.REMOVED:
                self.removed.append(change.jobid)
            case _ if not change.is_note:
                self.bad[change.jobid] = change.error or BadConfig(change.detail)

    def __str__(self) -> str:
        counts = len(self.added), len(self.changed), self.unchanged, len(self.removed), len(self.bad)
        return describe_counts(Counter(dict(zip(Difference, counts, strict=True))))


@dataclass(frozen=True, slots=True)
class Wish:
    """How to sync the stored jobs with a source."""

    group: str | None  # that the jobs belong to; None leaves their groups as they are
    prune: bool = False
    dry_run: bool = False  # nothing is changed
    after: float | None = None  # the instant from which occurrences count, in epoch seconds
    tz: str | None = None
    prune_all: bool = False  # prune, however many jobs this unsets
    take: bool = False  # take over jobs of other groups
    mark_bad: bool = False  # a row with a bad schedule leaves the status BAD, if its job does not exist

    @property
    def prunes(self) -> bool:
        """Whether jobs of the group without a row are unset."""
        return self.prune or self.prune_all

    def __post_init__(self) -> None:
        if self.prunes and self.group is None:
            raise BadConfig(
                "nothing can be pruned without a group: the rows come from no file with a name, so name one (--group)"
            )


def is_too_many(gone: int, total: int) -> bool:
    """Tell whether `gone` of the `total` jobs of a group are too many to unset them without `prune_all`."""
    return 0 < gone == total or (gone > HANDFUL and gone * SHARE > total)


def describe_counts(counts: Counter[str]) -> str:
    """Return the number of jobs of each kind of change, in words."""
    return ", ".join(f"{counts[word]} {word}" for word in Difference if counts[word]) or "no jobs"


def name_group(source: Source) -> str | None:
    """Return the group of the rows of a file: its full path. None if it is no regular file, such as a pipe."""
    if not isinstance(source, str | Path) or not os.path.isfile(source):
        return None
    return escape(os.fsencode(os.path.abspath(source)))


def check_owner(stored: StoredRow, wish: Wish) -> None:
    """Raise `BadConfig` for a job that belongs to another group, unless `wish` takes such jobs over."""
    owner = Membership.parse(stored.membership).group
    if stored.schedule is not None and owner and wish.group not in (None, owner) and not wish.take:
        raise BadConfig(f"it is a row of the group {owner!r}, not of {wish.group!r}: --take (take=True) takes it over")


class Comparison(NamedTuple):
    """The change of a job, and what is to be stored for it."""

    change: Change
    schedule: Schedule  # to set
    is_kept: bool  # the job has this schedule already, and keeps its place
    is_set: bool  # whether anything but the group of the job is to be set
    pause: Pause | None = None  # to set
    blackout: Blackout | None = None  # to set, if the job has no such blackout yet


def compare(
    row: Row, schedule: Schedule, stored: StoredRow, wish: Wish, now: float, blackout: Blackout | None = None
) -> Comparison:
    """Compare a `stored` job with its row, which has this `schedule` and this `blackout`."""
    pause = _make_pause(row, now) if not stored.paused else None
    if blackout and blackout.is_like(Blackout.parse(stored.blackout)):
        blackout = None
    if stored.schedule is None:
        added = Change(Difference.ADDED, row.jobid, schedule.text, row.line)
        return Comparison(added, schedule, False, True, pause, blackout)
    parts = list(_list_differences(row.changes, stored))
    is_kept = schedule.is_stored_as(stored.schedule) and _has_same_duration(schedule, stored)
    is_over = _has_had_its_run(schedule, stored, now)
    if is_over:
        schedule, is_kept = parse_stored(stored.schedule), True
    elif not is_kept:
        parts.insert(0, f"{stored.schedule} -> {schedule.text}")
    elif wish.after is not None and not (schedule.never_runs or schedule.is_awaiting):
        parts.insert(0, "its occurrences count from another instant")
        is_kept = False
    elif parts and schedule.anchor_span:
        schedule = read_schedule(row.jobid, stored.schedule, "") or schedule
    is_set = bool(parts)
    owner = Membership.parse(stored.membership).group
    taken_from = owner if wish.group not in (None, owner) else ""
    if taken_from:
        parts.append(f"group: {owner} -> {wish.group}")
    if pause:
        parts.append(describe_pause(pause.until, pause.to_dict()["reason"] or "", "paused"))
    if blackout:
        parts.append(f"paused {describe_blackout(blackout)}")
    difference = Difference.CHANGED if parts else Difference.UNCHANGED
    row_of = owner if wish.group is None and parts else ""
    change = Change(difference, row.jobid, "; ".join(parts), row.line, taken_from=taken_from, row_of=row_of)
    return Comparison(change, schedule, is_kept, is_set, pause, blackout)


def _make_pause(row: Row, now: float) -> Pause | None:
    """Return the pause of a row; None if the row has none, or if the pause is over."""
    wanted = row.pause
    if wanted is None or (wanted.until is not None and wanted.until <= now):
        return None
    since = now if wanted.since is None else min(wanted.since, now)
    note = make_note(wanted.by or name_operator(), wanted.reason or "", wanted.every, own_end=wanted.own_end)
    return Pause(None, since, wanted.until, note)


def _has_had_its_run(schedule: Schedule, stored: StoredRow, now: float) -> bool:
    """Tell whether the one-off of this row is stored as stopped, and does not come any more.

    A one-off for every host is never stopped: only its jobs on the hosts are.
    """
    one_off, text = Membership.parse(stored.membership).one_off, stored.schedule or ""
    if not (schedule.runs_once or schedule.asked) or not schedule.is_stored_as(one_off):
        return False
    if not _has_same_duration(schedule, stored):
        return False
    if text == Stop.text:
        text = one_off  # for IN, its instant when the row was first loaded
    elif not (schedule.is_for_hosts and schedule.is_stored_as(text)):
        return False
    return (find_inner(text) or parse_stored(text)).next(now) is None


def _has_same_duration(schedule: Schedule, stored: StoredRow) -> bool:
    """Tell whether a row of IN, or of NOW for every host, has not changed since the last load; True for others."""
    return not schedule.asked or schedule.asked == Membership.parse(stored.membership).asked


def _list_differences(changes: OptionChanges, stored: StoredRow) -> Iterator[str]:
    """Yield the differences of options and data in words, without secrets."""
    if not changes.options and changes.data is None:
        return
    wanted = changes.apply(stored.options) if changes.options else stored.options
    before, after = parse_options(stored.options), parse_options(wanted)
    shown, show = show_options(stored.options), show_options(wanted)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name}: {shown.get(name, 'default')} -> {show.get(name, 'default')}"
    if changes.data is not None and changes.data != stored.data:
        yield "data changed" if stored.data and changes.data else "data added" if changes.data else "data removed"


def put_groups_last(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of jobs that wait for a group after all others, as these rows close the group."""
    last = []
    for row in rows:
        if isinstance(row.schedule, str) and row.schedule[:50].lstrip().upper().startswith(Group.keyword):
            last.append(row)
        else:
            yield row
    yield from last


def make_membership(stored: StoredRow, found: Comparison, group: str | None) -> str | None:
    """Return the record of the group that a job belongs to; None if it is stored already."""
    known, schedule = Membership.parse(stored.membership), found.schedule
    if group is None:
        group = known.group
    if stored.schedule == schedule.text == Stop.text:
        # In a file that "schedules" has written, a one-off that has run is STOP.
        record = known._replace(group=group)
    elif schedule.runs_once or schedule.asked or (found.is_kept and known.asked):
        text, asked = (stored.schedule or "", known.asked) if found.is_kept else (schedule.text, schedule.asked)
        record = Membership(group, text, asked)
    else:
        record = Membership(group)
    return None if record.format() == stored.membership else record.format()
