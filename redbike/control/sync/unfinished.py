"""Jobs that have no row any more, but stay, as their last occurrence has come due and has not ended.

The row of a one-off, or of a rule that has run out, may be gone only because its time is past: ``import ics`` writes no
row for such an event. That does not withdraw the occurrence. A ``NOW`` has no time that passes: its row was deleted.
"""

from collections.abc import Mapping

from redbike.store.inspected import JobState
from redbike.store.rows import StoredRow
from redbike.store.schedules import read_schedule
from redbike.store.store import Store
from redbike.text.printable import name_some

_MOST_NAMED = 5


def find_unfinished(store: Store, rows: Mapping[str, StoredRow], now: float) -> list[str]:
    """Return those of some jobs whose last occurrence has come due, but has not ended."""
    over = [jobid for jobid, row in rows.items() if _is_over(jobid, row, now)]
    return [state.jobid for state in store.questions.inspect(over) if _is_unfinished(state)] if over else []


def describe_unfinished(jobids: list[str]) -> str:
    """Return that jobs without a row are not removed, and why."""
    some = name_some(jobids, _MOST_NAMED)
    return f"not removed, as the last occurrence has not ended: {some}; unset what is not needed"


def _is_over(jobid: str, row: StoredRow, now: float) -> bool:
    """Tell whether a job has no occurrence to come, by its schedule."""
    schedule = read_schedule(jobid, row.schedule, row.options)
    if schedule is None or schedule.is_awaiting or schedule.is_immediate or schedule.is_for_hosts:
        return False
    return schedule.next(now) is None


def _is_unfinished(state: JobState) -> bool:
    return bool(state.queued or state.running or state.timeline is not None or state.held is not None)
