"""Whether a job is well again: if its alert does not last any more, it may have been stopped, or never have run."""

import json

from redbike.store.alerts import JOB, Change, Told
from redbike.store.enums import Alert, Outcome
from redbike.store.history import get_end, read_newest
from redbike.store.store import Store


def drop_untrue(store: Store, change: Change) -> Change:
    """Return a change without the line that a job has recovered, unless it has begun since, or has run well."""
    jobid = change.field.removeprefix(JOB)
    if not change.field.startswith(JOB) or not any(map(_is_recovered, change.lines)):
        return change
    if _has_run_well(store, jobid, min(Told.parse(change.was or "").active.values(), default=0.0)):
        return change
    return change._replace(lines=[line for line in change.lines if not _is_recovered(line)])


def _is_recovered(line: str) -> bool:
    return bool(json.loads(line)["alert"] == Alert.RECOVERED)


def _has_run_well(store: Store, jobid: str, since: float) -> bool:
    [state] = store.questions.inspect([jobid])
    if state.run and state.run.start >= since - 1.0:
        return True  # it was to begin, and has
    run = store.journal.read_newest([jobid]).get(jobid) or read_newest(jobid, state.history)
    return run is not None and run.outcome is Outcome.OK and get_end(run) >= since - 1.0
