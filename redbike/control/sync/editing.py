"""Rows of jobs that a person has edited in a file: find and apply the changes.

A row is compared with the exported row, not with the stored job. So an unchanged row changes nothing, and a change of
the job by somebody else is found. An unchanged cell is not parsed again: a schedule without a zone is in UTC if it was
exported, but in the zone of this host if a person writes it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redbike.config.options import ALL_COLUMNS, BLACKOUT, COLUMNS, NO_CHANGES, PAUSED, SCHEDULE
from redbike.config.settings import Settings
from redbike.control.blackouts import end_for_jobs
from redbike.control.jobs import resume_jobs
from redbike.control.setter import Setter
from redbike.control.sync.changes import Change, Row, Wish
from redbike.control.sync.syncer import Syncer
from redbike.errors import BadConfig
from redbike.importers.rows import Row as FileRow
from redbike.importers.rows import read_entry, read_rows
from redbike.schedule.kinds import Stop
from redbike.schedule.parser import is_one_off, parse_stored
from redbike.store.enums import Difference
from redbike.store.records import Membership
from redbike.store.store import Store
from redbike.text.parsing import load_object

Cells = tuple[str, ...]  # of a job, in the order of `ALL_COLUMNS`
_PAUSE_STAYS = "edit cannot change a pause: empty the cell to resume the job, or leave it as it was"


@dataclass(frozen=True, slots=True)
class Edited:
    """The changes that a person wants to jobs."""

    rows: list[Row] = field(default_factory=list)  # that are new or changed
    removed: list[str] = field(default_factory=list)  # jobs whose rows are gone
    resumed: list[str] = field(default_factory=list)  # jobs whose pause was taken out
    opened: list[str] = field(default_factory=list)  # jobs whose blackout was taken out

    @property
    def jobids(self) -> list[str]:
        """The jobs with new, changed or removed rows."""
        return list(dict.fromkeys([*(row.jobid for row in self.rows), *self.removed]))

    def leave_out(self, jobids: Iterable[str]) -> "Edited":
        """Return the changes without these jobs."""
        gone = set(jobids)
        kept = ([each for each in names if each not in gone] for names in (self.removed, self.resumed, self.opened))
        return Edited([row for row in self.rows if row.jobid not in gone], *kept)


def read_edited(path: Path, exported: Mapping[str, Cells]) -> Edited:
    """Return the changes in a file that had the rows `exported`. If a row is bad, it has an error.

    Raise `BadConfig` for a file that cannot be read, or has no header.
    """
    edited, seen, new = Edited(), set[str](), dict[str, FileRow]()
    if not path.read_bytes()[:50].lstrip(b"\xef\xbb\xbf").startswith(",".join(COLUMNS[:2]).encode()):
        raise BadConfig("its first line must be the header, which begins with jobid,schedule")
    for line, found in read_rows(path, known=exported):
        if isinstance(found, BadConfig):
            edited.rows.append(Row(line, "", "", NO_CHANGES, error=found))
        elif found.jobid in seen:
            error = BadConfig("another row before this one has the same job id")
            edited.rows.append(Row(line, found.jobid, found.schedule, NO_CHANGES, error=error))
        else:
            seen.add(found.jobid)
            if found.jobid not in exported:
                new[found.jobid] = found
            _compare(line, found, exported.get(found.jobid), edited)
    edited.removed.extend(jobid for jobid in exported if jobid not in seen)
    _keep_renamed(edited, new, exported)
    return edited


def _keep_renamed(edited: Edited, new: Mapping[str, FileRow], exported: Mapping[str, Cells]) -> None:
    """Keep the schedules unchanged in rows that differ from a removed row only in the job id."""
    gone = [dict(zip(ALL_COLUMNS, exported[jobid], strict=True)) for jobid in edited.removed]
    columns = list(next(iter(new.values())).columns) if new else []
    known = {(was[SCHEDULE], *(was[name] for name in columns)) for was in gone}
    for number, row in enumerate(edited.rows):
        found = new.get(row.jobid)
        if found and (found.schedule, *(found.columns[name] for name in columns)) in known:
            edited.rows[number] = row._replace(complete=frozenset({SCHEDULE, BLACKOUT}))


def _compare(line: int, found: FileRow, before: Cells | None, edited: Edited) -> None:
    """Add a row to `edited`, if it differs from the exported one."""
    was = dict(zip(ALL_COLUMNS, before, strict=True)) if before else dict.fromkeys(ALL_COLUMNS, "")
    cells = dict(zip(COLUMNS, (found.jobid, found.schedule), strict=False)) | dict(found.columns)
    differs = {name for name, text in cells.items() if text != was[name]}
    if before and not differs:
        return
    row = read_row(line, found)
    if before:
        row = _keep_stored(row, was, differs)
    if PAUSED in differs and was[PAUSED]:
        if cells[PAUSED]:
            row = row._replace(error=row.error or BadConfig(_PAUSE_STAYS))
        edited.resumed.append(found.jobid)
    if BLACKOUT in differs and not cells[BLACKOUT]:
        edited.opened.append(found.jobid)
    edited.rows.append(row)


def _keep_stored(row: Row, was: Mapping[str, str], differs: set[str]) -> Row:
    """Return the row, but keep the stored schedules whose cells are unchanged."""
    complete = {SCHEDULE} - differs
    if PAUSED not in differs:
        row = row._replace(pause=None)
    if BLACKOUT not in differs:
        return row._replace(blackout=None, complete=frozenset(complete))
    before = load_object(was[BLACKOUT])
    if row.blackout and before and row.blackout.every == before.get("every"):
        complete.add(BLACKOUT)
    return row._replace(complete=frozenset(complete))


def read_row(line: int, found: FileRow | BadConfig) -> Row:
    """Parse a row of a file. If it is bad, the result has the error."""
    try:
        return Row(line, *read_entry(found))
    except BadConfig as error:
        jobid, schedule = (found.jobid, found.schedule) if isinstance(found, FileRow) else ("", "")
        return Row(line, jobid, schedule, NO_CHANGES, error=error)


class Editing:
    """Applies the edited rows to the jobs of `store`. `exported` are the rows before the edit."""

    def __init__(self, store: Store, settings: Settings, exported: Mapping[str, Cells]) -> None:
        self._store, self._settings, self._exported = store, settings, exported

    def find_conflicts(self, edited: Edited) -> dict[str, str]:
        """Return the jobs that must not be changed, each with the reason: mostly, somebody else has changed it."""
        now = {cells[0]: cells for cells in self._store.rows.list_all(filter(None, edited.jobids))}
        clock, rows = self._store.timeline.read_clock(), {row.jobid: row for row in edited.rows}
        changed = [
            jobid
            for jobid in filter(None, edited.jobids)
            if _has_changed(rows.get(jobid), self._exported.get(jobid), now.get(jobid), clock)
        ]
        found = {jobid: _explain_change(self._exported.get(jobid), now.get(jobid)) for jobid in changed}
        if found.keys() - self._exported.keys():
            # A removed row and a new row may be the same job with a new id.
            found = dict.fromkeys(edited.removed, "somebody has set the job of a new row meanwhile") | found
        return found

    def find_owners(self, edited: Edited) -> dict[str, str]:
        """Return the group (a file or a program) of each job that belongs to one."""
        jobids = [jobid for jobid in edited.jobids if jobid]
        found = zip(jobids, self._store.rows.read(jobids), strict=True)
        owners = {jobid: Membership.parse(row.membership).group for jobid, row in found}
        return {jobid: owner for jobid, owner in owners.items() if owner}

    def preview(self, edited: Edited) -> list[Change]:
        """Return the change that each job would have; nothing is changed."""
        return self._sync(edited, dry_run=True)

    def apply(self, edited: Edited) -> list[Change]:
        """Change the jobs, and return the change of each. If a row is refused after all, no job is removed."""
        changes = self._sync(edited, dry_run=False)
        if refused := [change.jobid for change in changes if change.difference == Difference.BAD]:
            # A removed row and a refused row may be the same job with a new id.
            edited = edited.leave_out([*refused, *edited.removed])
            changes = [change for change in changes if change.difference != Difference.REMOVED]
        if edited.resumed:
            resume_jobs(self._store, edited.resumed, self._settings)
        if edited.opened:
            end_for_jobs(self._store, edited.opened, self._settings)
        setter = Setter(self._store, self._settings)
        for jobid in edited.removed:
            setter.unset(jobid)
        return changes

    def _sync(self, edited: Edited, dry_run: bool) -> list[Change]:
        wish = Wish(None, dry_run=dry_run)
        changes = [
            _add_detail(change, edited)
            for change in Syncer(self._store, self._settings).sync(edited.rows, wish, "edit", "")
        ]
        gone = (Change(Difference.REMOVED, jobid, self._exported[jobid][1]) for jobid in edited.removed)
        return [*(each for each in changes if each.difference != Difference.UNCHANGED), *gone]


def _has_changed(row: Row | None, exported: Cells | None, now: Cells | None, clock: float) -> bool:
    """Tell whether somebody else has changed a job. `row` is its edited row; None if it is to be removed."""
    if exported is None or now is None:
        return exported != now
    # Cells that nobody has edited, or only emptied.
    kept = {SCHEDULE: row is not None and SCHEDULE in row.complete, PAUSED: not row or not row.pause}
    kept[BLACKOUT] = not row or not row.blackout
    return any(
        before != after and not (kept.get(name) and _changes_itself(name, before, after, clock))
        for name, before, after in zip(ALL_COLUMNS, exported, now, strict=True)
    )


def _explain_change(exported: Cells | None, now: Cells | None) -> str:
    """Return what has become of a job that has changed: one that is gone may have been forgotten."""
    if exported is None or now is not None or not (exported[1] == Stop.text or is_one_off(exported[1])):
        return "somebody has changed it meanwhile"
    return "it is gone: forget-after has removed it, or somebody has unset it"


def _changes_itself(name: str, before: str, after: str, now: float) -> bool:
    """Tell whether a cell differs although nobody changed it: by a run, the end of a pause, or a blackout."""
    if name == SCHEDULE:
        return after == Stop.text and is_one_off(before)
    was, found = (load_object(text) or {} for text in (before, after))
    if name == BLACKOUT:
        return not found and parse_stored(was["every"]).next(now) is None
    is_over = was.get("until") is not None and was["until"] <= now
    return _find_pauser(was) == _find_pauser(found) or (is_over and _find_pauser(found) is None)


def _find_pauser(pause: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return who has paused a job, when and why; None for nobody, and for a blackout."""
    return None if not pause or "every" in pause else (pause["since"], pause["by"], pause["reason"])


def _add_detail(change: Change, edited: Edited) -> Change:
    """Return a change that also says which pauses end."""
    words = [("resumed", edited.resumed), ("its blackout ended", edited.opened)]
    said = [word for word, jobids in words if change.jobid in jobids]
    if not said or change.difference == Difference.BAD:
        return change
    detail = "; ".join(filter(None, [change.detail, *said]))
    return change._replace(difference=Difference.CHANGED, detail=detail)
