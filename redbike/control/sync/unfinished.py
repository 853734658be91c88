"""Jobs of a group that have no row any more. A job stays if its last occurrence is due, but has not ended.

The row of a one-off, or of a rule that has run out, may be missing only because its time is past: ``import ics`` writes
no row for such an event. This does not withdraw the occurrence. A ``NOW`` has no such time: its row was deleted.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from redbike.control.setter import CHUNK
from redbike.control.sync.changes import TooManyPruned, is_too_many
from redbike.importers.seen import SeenIds
from redbike.loop.host_jobs import find_own
from redbike.schedule.kinds import Now
from redbike.schedule.parser import find_inner
from redbike.store.every_host import is_base
from redbike.store.inspected import JobState
from redbike.store.records import Membership
from redbike.store.rows import StoredRow
from redbike.store.schedules import read_schedule
from redbike.store.store import Store
from redbike.text.printable import name_some

_MOST_NAMED = 5


def list_gone(store: Store, group: str, seen: SeenIds) -> Iterator[tuple[int, list[str]]]:
    """Yield, a page at a time, the number of jobs of `group`, and those of them without a row."""
    rows = store.rows.list_of(group)
    while page := list(dict.fromkeys(islice(rows, CHUNK))):
        found = seen.find(page)
        yield len(page), [jobid for jobid in page if jobid not in found]


def check_gone(store: Store, group: str, seen: SeenIds, joining: int, now: float) -> None:
    """Raise `TooManyPruned` if so many jobs of `group` have no row that the source is probably incomplete.

    In a dry run, `joining` more jobs would belong to the group by now. Unfinished jobs do not count: they stay.
    """
    gone, total, staying = 0, joining, 0
    for number, jobids in list_gone(store, group, seen):
        gone, total = gone + len(jobids), total + number
    if is_too_many(gone, total):
        for _, jobids in list_gone(store, group, seen):
            staying += len(find_unfinished(store, dict(zip(jobids, store.rows.read(jobids), strict=True)), now))
        gone, total = gone - staying, total - staying
    if is_too_many(gone, total):
        raise TooManyPruned(
            f"no job is removed: {gone} of the {total} jobs of the group {group!r} have no row here;"
            " --prune-all (prune_all=True) removes them anyway"
        )


def find_unfinished(store: Store, rows: Mapping[str, StoredRow], now: float) -> list[str]:
    """Return the jobs of `rows` whose last occurrence is due, but has not ended.

    The occurrence of a job for every host has ended when it has ended on every host.
    """
    over = [jobid for jobid, row in rows.items() if _is_over(jobid, row, now)]
    own = {jobid: find_own(store, jobid) if is_base(jobid) else [jobid] for jobid in over}
    jobids = [each for found in own.values() for each in found]
    states = store.questions.inspect(jobids) if jobids else ()
    left = {state.jobid for state in states if _is_unfinished(state)}
    return [jobid for jobid, found in own.items() if not left.isdisjoint(found)]


def describe_unfinished(jobids: list[str]) -> str:
    """Return the remark that these jobs without a row are not removed, and why."""
    some = name_some(jobids, _MOST_NAMED)
    return f"not removed, as the last occurrence has not ended: {some}; unset what is not needed"


def _is_over(jobid: str, row: StoredRow, now: float) -> bool:
    """Tell whether a job has no occurrence to come, by its schedule."""
    # Without its options: an occurrence counts as due even if jitter delays its run.
    schedule = find_inner(row.schedule) or read_schedule(jobid, row.schedule, "")
    if schedule is None or schedule.is_awaiting or schedule.is_immediate:
        return False
    if Membership.parse(row.membership).asked == Now.text:
        return False  # NOW for every host is stored as an instant
    return schedule.next(now) is None


def _is_unfinished(state: JobState) -> bool:
    return bool(state.queued or state.running or state.timeline is not None or state.held is not None)
