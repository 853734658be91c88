"""What a source says of jobs, how the stored jobs are to be made the same, and what becomes of them."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from redbike.config.options import OptionChanges
from redbike.errors import BadConfig
from redbike.importers.pauses import WantedPause
from redbike.importers.rows import Source
from redbike.schedule.objects.schedules import ScheduleLike
from redbike.store.enums import Difference
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
    error: ValueError | None = None  # why it is refused


class Change(NamedTuple):
    """What became of one job, or would become of it."""

    difference: Difference
    jobid: str  #: "" for a row whose id cannot be read
    detail: str = ""  #: the schedule of a job that was added or removed, or what was changed
    line: int = 0  #: of its row in the file, or the number of its pair, from 1; 0 for a job that was removed
    error: ValueError | None = None  #: why its row was refused
    taken_from: str = ""  #: the group of which it was a row before, if that is another one

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


def check_share(gone: int, total: int, group: str) -> None:
    """Raise `TooManyPruned` if `gone` of the `total` jobs of a group are too many to unset them unasked."""
    if gone == total or (gone > HANDFUL and gone * SHARE > total):
        raise TooManyPruned(
            f"no job is removed: {gone} of the {total} jobs of the group {group!r} have no row here;"
            " --prune-all (prune_all=True) removes them all the same"
        )


def describe_counts(counts: Counter[str]) -> str:
    """Return how many jobs are what, in words."""
    return ", ".join(f"{counts[word]} {word}" for word in Difference if counts[word]) or "no jobs"


def name_group(source: Source) -> str | None:
    """Return the group of the rows of a file: its full path; None for what is no regular file, such as a pipe."""
    if not isinstance(source, str | Path) or not os.path.isfile(source):
        return None
    return escape(os.fsencode(os.path.abspath(source)))
