"""A line in the log for each step of a job's life, at level ``debug``: it was set, enqueued, started.

A caller asks first whether the level is on: a process that does not log these lines makes no text for them. The line
of an ended run, at level ``info``, has the same fields; see `redbike.worker.log_lines`. The line of a lost run has them
too, at a higher level.
"""

import logging
from collections.abc import Iterable
from typing import Literal

from redbike.schedule.moments import AWAITED
from redbike.store.jobs import JobToSet
from redbike.store.next_state import NextState
from redbike.store.run import Run, format_key
from redbike.store.runs import measure
from redbike.store.timeline import DueJob

Step = Literal["set", "enqueued", "started", "ended"]


def list_fields(step: Step, jobid: str, queue: str, worker: str, key: str) -> dict[str, object]:
    """Return what every line of a step has; `worker` and `key` are "" where nobody knows them."""
    return {"event": step, "job": jobid, "queue": queue, "worker": worker, "key": key}


def log_set(log: logging.Logger, jobs: Iterable[JobToSet]) -> None:
    """Log that jobs were set. The key is that of the first run, if its due time is known."""
    for job in jobs:
        if not job.error:
            key = format_key(job.jobid, job.due) if isinstance(job.due, float) and job.due < AWAITED else ""
            _log(log, list_fields("set", job.jobid, job.queue, "", key))


def log_enqueued(log: logging.Logger, jobs: Iterable[DueJob]) -> None:
    """Log that jobs went from the timeline to their queues. The key has the instant that they had on the timeline."""
    for jobid, due, queue in jobs:
        _log(log, list_fields("enqueued", jobid, queue, "", format_key(jobid, float(due))))


def log_started(log: logging.Logger, run: Run) -> None:
    """Log that a run has begun."""
    _log(log, list_fields("started", run.jobid, run.queue, run.worker, run.key) | {"attempt": run.attempt})


def list_ended_fields(run: Run, next_state: NextState, late: float, took: float, runs: int = 1) -> dict[str, object]:
    """Return what the line of a run has that has ended, or that of some `runs` of a job, of which it is the last."""
    return list_fields("ended", run.jobid, run.queue, run.worker, run.key) | {
        "due": run.due,
        "late": round(late, 6),
        "took": round(took, 6),
        "outcome": next_state.outcome,
        "attempt": run.attempt,
        "runs": runs,
    }


def log_lost(log: logging.Logger, run: Run, next_state: NextState, is_suspect: bool, place: str) -> None:
    """Log that a run was lost: an error, or a warning if it is tried again. The job is at `place` now.

    If it `is_suspect`, it was taken with others, and nobody knows which of them had begun.
    """
    count = "which was one of several" if is_suspect else f"loss {run.losses + 1} in a row"
    level = logging.ERROR if next_state.failure else logging.WARNING
    fields = list_ended_fields(run, next_state, *measure(run))
    log.log(level, "%s: run %s was lost, %s; now %s", run.jobid, run.tag, count, place, extra={"fields": fields})


def _log(log: logging.Logger, fields: dict[str, object]) -> None:
    log.debug("%s: %s", fields["job"], fields["event"], extra={"fields": fields})
