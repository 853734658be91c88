"""What a source says of jobs, and what becomes of them: each row is compared with what is stored of its job."""

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
SHARE = 10  # of more jobs, one in so many of the group may be pruned


class TooManyPruned(BadConfig):
    """More jobs of a group have no row than are unset without `Wish.prune_all`: none of them was unset."""


class Row(NamedTuple):
    """What a file or a program says of a job."""

    line: int  # in the file, or the number of the pair from 1
    jobid: str  # "" if it cannot be read
    schedule: ScheduleLike
    changes: OptionChanges
    pause: WantedPause | None = None
    blackout: WantedBlackout | None = None
    error: ValueError | None = None  # why it is refused
    complete: frozenset[str] = frozenset()  # columns whose schedules are as they are stored: in no zone of this host


class Change(NamedTuple):
    """What became of one job, or would become of it."""

    difference: Difference
    jobid: str  #: "" for a row whose id cannot be read
    detail: str = ""  #: the schedule of a job that was added or removed, or what was changed
    line: int = 0  #: of its row in the file, or the number of its pair, from 1; 0 for a job that was removed
    error: ValueError | None = None  #: why its row was refused
    taken_from: str = ""  #: the group of which it was a row before, if that is another one
    row_of: str = ""  #: the group of which it stays a row, if it was changed by rows of no group

    @property
    def is_note(self) -> bool:
        """Whether this is about no row: it says why none was removed."""
        return self.difference == Difference.BAD and not self.line


@dataclass(slots=True)
class Changes:
    """What became of the jobs that a program wants, or would become of them."""

    added: list[str] = field(default_factory=list)
    changed: dict[str, str] = field(default_factory=dict)  #: job id → what, such as ``NOW -> EVERY:1h@0``
    unchanged: int = 0
    removed: list[str] = field(default_factory=list)
    bad: dict[str, ValueError] = field(default_factory=dict)  #: job id → why it was refused
    taken: dict[str, str] = field(default_factory=dict)  #: job id → the group whose job it was before

    def add(self, change: Change) -> None:
        """Count a change in."""
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
    """How the stored jobs are to be made those of a source."""

    group: str | None  # of which they are rows; None leaves that as it is
    prune: bool = False
    dry_run: bool = False  # nothing is changed
    after: float | None = None  # from when occurrences count
    tz: str | None = None
    prune_all: bool = False  # however many jobs that unsets
    take: bool = False  # also jobs of other groups
    mark_bad: bool = False  # a row that is refused for its schedule leaves the status BAD, if there is no such job

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
    """Tell whether `gone` of the `total` jobs of a group are too many to unset them unasked."""
    return 0 < gone == total or (gone > HANDFUL and gone * SHARE > total)


def describe_counts(counts: Counter[str]) -> str:
    """Return how many jobs are what, in words."""
    return ", ".join(f"{counts[word]} {word}" for word in Difference if counts[word]) or "no jobs"


def name_group(source: Source) -> str | None:
    """Return the group of the rows of a file: its full path; None for what is no regular file, such as a pipe."""
    if not isinstance(source, str | Path) or not os.path.isfile(source):
        return None
    return escape(os.fsencode(os.path.abspath(source)))


def check_owner(stored: StoredRow, wish: Wish) -> None:
    """Raise `BadConfig` for a job that is a row of another group, unless that may be taken over."""
    owner = Membership.parse(stored.membership).group
    if stored.schedule is not None and owner and wish.group not in (None, owner) and not wish.take:
        raise BadConfig(f"it is a row of the group {owner!r}, not of {wish.group!r}: --take (take=True) takes it over")


class Comparison(NamedTuple):
    """What becomes of a job, and what that takes."""

    change: Change
    schedule: Schedule  # to set
    is_kept: bool  # the job has that already, and stays where it is
    is_set: bool  # whether anything of the job is to be set, besides whose row it is
    pause: Pause | None = None  # that it is to have
    blackout: Blackout | None = None  # the same, if it has another one


def compare(
    row: Row, schedule: Schedule, stored: StoredRow, wish: Wish, now: float, blackout: Blackout | None = None
) -> Comparison:
    """Return what becomes of a job that is `stored`, if its row says `schedule`, and has this `blackout`."""
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
    """Return the pause that a row asks for; None if it asks for none, or if that is over."""
    wanted = row.pause
    if wanted is None or (wanted.until is not None and wanted.until <= now):
        return None
    since = now if wanted.since is None else min(wanted.since, now)
    note = make_note(wanted.by or name_operator(), wanted.reason or "", wanted.every, own_end=wanted.own_end)
    return Pause(None, since, wanted.until, note)


def _has_had_its_run(schedule: Schedule, stored: StoredRow, now: float) -> bool:
    """Tell whether a one-off that is stored as stopped is the one of this row, and is not to come any more.

    One for every host is never stopped: only its jobs are.
    """
    one_off, text = Membership.parse(stored.membership).one_off, stored.schedule or ""
    if not (schedule.runs_once or schedule.asked) or not schedule.is_stored_as(one_off):
        return False
    if not _has_same_duration(schedule, stored):
        return False
    if text == Stop.text:
        text = one_off  # of IN the instant that it was when the row was loaded first
    elif not (schedule.is_for_hosts and schedule.is_stored_as(text)):
        return False
    return (find_inner(text) or parse_stored(text)).next(now) is None


def _has_same_duration(schedule: Schedule, stored: StoredRow) -> bool:
    """Tell whether a row of IN, or NOW for every host, if it is one, is what it was when it was loaded before."""
    return not schedule.asked or schedule.asked == Membership.parse(stored.membership).asked


def _list_differences(changes: OptionChanges, stored: StoredRow) -> Iterator[str]:
    """Yield what differs of options and data, without what is secret of them."""
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
    """Yield the rows of jobs that wait for a group behind all others: that closes the group."""
    last = []
    for row in rows:
        if isinstance(row.schedule, str) and row.schedule[:50].lstrip().upper().startswith(Group.keyword):
            last.append(row)
        else:
            yield row
    yield from last


def make_membership(stored: StoredRow, found: Comparison, group: str | None) -> str | None:
    """Return the record of whose row a job is; None if it is stored already."""
    known, schedule = Membership.parse(stored.membership), found.schedule
    if group is None:
        group = known.group
    if stored.schedule == schedule.text == Stop.text:
        # A file that was written by "schedules" has a one-off that has had its run as STOP.
        record = known._replace(group=group)
    elif schedule.runs_once or schedule.asked or (found.is_kept and known.asked):
        text, asked = (stored.schedule or "", known.asked) if found.is_kept else (schedule.text, schedule.asked)
        record = Membership(group, text, asked)
    else:
        record = Membership(group)
    return None if record.format() == stored.membership else record.format()
