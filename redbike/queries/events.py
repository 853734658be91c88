"""Events as lines to print, with the same fields for the end of a run and for a change by a person."""

from dataclasses import dataclass

from redbike.store.history import PastRun
from redbike.store.log import LogEntry


@dataclass(frozen=True, slots=True)
class Line:
    """An event as it is printed. Times are epoch seconds, durations seconds. None means that there is no value."""

    time: float
    kind: str  # "run" for an ended run, "change" for a change by a person, "output" for a printed line
    jobid: str  # "" for a change of a queue, or of everything
    event: str  # the outcome of the run, or the kind of change
    due: float | None
    took: float | None
    attempt: int | None
    detail: str  # the error, or more about a change
    who: str  # the worker, or the person


FIELDS = tuple(Line.__dataclass_fields__)


def make_line(event: PastRun | LogEntry) -> Line:
    """Return an event as a line."""
    if isinstance(event, LogEntry):
        return Line(event.time, "change", event.jobid, event.action, None, None, None, event.detail, event.who)
    ended = event.started + event.took
    return Line(
        ended, "run", event.jobid, event.outcome, event.due, event.took, event.attempt, event.error, event.worker
    )
