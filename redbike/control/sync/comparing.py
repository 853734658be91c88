"""Compare what a row says of a job with what is stored of it."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from redbike.config.options import OptionChanges, parse_options, show_options
from redbike.control.operator import name_operator
from redbike.control.sync.changes import Change, Row, Wish
from redbike.errors import BadConfig
from redbike.schedule.kinds import Schedule, Stop
from redbike.schedule.parser import parse_stored
from redbike.store.enums import Difference
from redbike.store.log import describe_pause
from redbike.store.questions import StoredRow
from redbike.store.records import Membership, Pause


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


def compare(row: Row, schedule: Schedule, stored: StoredRow, wish: Wish, now: float) -> Comparison:
    """Return what becomes of a job that is `stored`, if its row says `schedule`."""
    pause = _make_pause(row, now) if not stored.paused else None
    if stored.schedule is None:
        return Comparison(Change(Difference.ADDED, row.jobid, schedule.text, row.line), schedule, False, True, pause)
    parts = list(_list_differences(row.changes, stored))
    is_kept, is_over = schedule.is_stored_as(stored.schedule), _has_had_its_run(schedule, stored, now)
    if is_over:
        schedule, is_kept = parse_stored(stored.schedule), True
    elif not is_kept:
        parts.insert(0, f"{stored.schedule} -> {schedule.text}")
    elif wish.after is not None and not schedule.never_runs:
        parts.insert(0, "its occurrences count from another instant")
        is_kept = False
    is_set = bool(parts)
    owner = Membership.parse(stored.membership).group
    taken_from = owner if wish.group not in (None, owner) else ""
    if taken_from:
        parts.append(f"group: {owner} -> {wish.group}")
    if pause:
        parts.append(describe_pause(pause.until, pause.to_dict()["reason"], "paused"))
    difference = Difference.CHANGED if parts else Difference.UNCHANGED
    change = Change(difference, row.jobid, "; ".join(parts), row.line, taken_from=taken_from)
    return Comparison(change, schedule, is_kept, is_set, pause)


def _make_pause(row: Row, now: float) -> Pause | None:
    """Return the pause that a row asks for; None if it asks for none, or if that is over."""
    wanted = row.pause
    if wanted is None or (wanted.until is not None and wanted.until <= now):
        return None
    since = now if wanted.since is None else min(wanted.since, now)
    note = json.dumps({"by": wanted.by or name_operator(), "reason": wanted.reason or ""})
    return Pause(None, since, wanted.until, note)


def _has_had_its_run(schedule: Schedule, stored: StoredRow, now: float) -> bool:
    """Tell whether a one-off that is stored as stopped is the one of this row, and is not to come any more."""
    is_over = stored.schedule == Stop.text and schedule.runs_once and schedule.next(now) is None
    return is_over and schedule.is_stored_as(Membership.parse(stored.membership).one_off)


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


def make_membership(stored: StoredRow, schedule: Schedule, group: str | None) -> str | None:
    """Return the record of whose row a job is; None if it is stored already."""
    known = Membership.parse(stored.membership)
    # A file that was written by "schedules" has a one-off that has had its run as STOP.
    has_ended = stored.schedule == schedule.text == Stop.text
    one_off = known.one_off if has_ended else schedule.text if schedule.runs_once else ""
    record = Membership(known.group if group is None else group, one_off).format()
    return None if record == stored.membership else record
