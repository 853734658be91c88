"""What happens, as lines with the same fields for the end of a run and for what somebody has changed."""

from dataclasses import dataclass

from redbike.store.history import PastRun
from redbike.store.log import LogEntry


@dataclass(frozen=True, slots=True)
class Line:
    """An event as it is printed. Times are epoch seconds, durations seconds; None stands for what there is not."""

    time: float
    kind: str  # "run" for one that has ended, "change" for what somebody has changed, "output" for a printed line
    jobid: str  # "" for what was done to a queue, or to everything
    event: str  # how the run has ended, or what was done
    due: float | None
    took: float | None
    attempt: int | None
    detail: str  # what went wrong, or more about a change
    who: str  # the worker, or who has changed it


FIELDS = tuple(Line.__dataclass_fields__)


def make_line(event: PastRun | LogEntry) -> Line:
    """Return an event as a line."""
    if isinstance(event, LogEntry):
        return Line(event.time, "change", event.jobid, event.action, None, None, None, event.detail, event.who)
    ended = event.started + event.took
    return Line(
        ended, "run", event.jobid, event.outcome, event.due, event.took, event.attempt, event.error, event.worker
    )
