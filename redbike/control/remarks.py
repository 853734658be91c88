"""Remarks for users when a job is set or unset."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain

from redbike.errors import ServerError
from redbike.importers.seen import SeenIds
from redbike.loop.requests import Request
from redbike.schedule.kinds import Stop
from redbike.schedule.moments import is_same_text
from redbike.store.enums import Event
from redbike.store.inspected import JobState
from redbike.store.jobs import JobToSet, describe_waiting
from redbike.store.records import Membership
from redbike.store.store import Store

log = logging.getLogger("redbike")


def log_waiting(store: Store, group: str, unset: Mapping[str, Sequence[str]], seen: SeenIds) -> None:
    """Warn of jobs that wait for jobs of a group that were unset. `unset` maps these to their followers.

    Followers that are unset as well, because their rows were not seen, are left out.
    """
    followers = list(dict.fromkeys(chain.from_iterable(unset.values())))
    rows, kept = zip(followers, store.rows.read(followers) if followers else (), strict=True), seen.find(followers)
    left = {
        jobid
        for jobid, row in rows
        if row.schedule is not None and (jobid in kept or Membership.parse(row.membership).group != group)
    }
    for jobid, names in unset.items():
        if waiting := [each for each in names if each in left]:
            log.warning("%s", describe_waiting(jobid, waiting))


def describe_owner(jobid: str, group: str, more: int = 0) -> str:
    """Return the remark that a job which is changed by hand, and `more` others, are rows of a file or a program."""
    if more:
        return f"{jobid} and {more:,} more are rows of {group}: the next load of the group sets them again"
    return f"{jobid} is a row of {group}: the next load of the group sets it again, so change the row, too"


def is_spent(job: JobToSet, state: JobState) -> bool:
    """Tell whether a job that was just set has no run to come: it has no due time, and no occurrence of it waits."""
    # If a worker has ended the only run already, the job is stopped, but `job.due` is given.
    return job.due is None and state.has_event(Event.STP)


def log_if_spent(store: Store, requests: Mapping[str, Request], jobs: Iterable[JobToSet]) -> None:
    """Warn of jobs that were just set and never run: their time is past, or their rule has run out.

    The argument ``after`` may be the cause.
    """
    never_due = {job.jobid: job for job in jobs if job.due is None and not job.error}
    found = {jobid: job for jobid, job in never_due.items() if not requests[jobid].schedule.never_runs}
    try:
        states = store.questions.inspect(list(found)) if found else []
    except ServerError:  # the jobs are set all the same, and if the caller sets them again, they may run again
        return
    for state in states:
        if is_spent(found[state.jobid], state):
            log.warning("%s: nothing is left to run of %r", state.jobid, requests[state.jobid].schedule.text)


def log_if_due(
    job: JobToSet, before: JobState, state: JobState, is_by_timefile: bool, warn: Callable[[str], object]
) -> None:
    """Log that a job which was just set is due at once, and why."""
    if job.once:
        _log_if_past(job, before, state.now, warn)
    elif is_by_timefile:
        _log_if_due_at_once(job, before, state)


def _log_if_past(job: JobToSet, before: JobState, now: float, warn: Callable[[str], object]) -> None:
    """Log that a one-off is due at once, as its time is past. Warn if it has expired. It may have run already."""
    if not isinstance(job.due, float) or job.due > now:
        return
    when = datetime.fromtimestamp(job.due, UTC).isoformat()
    if job.expires and job.due + job.expires <= now:
        expired = datetime.fromtimestamp(job.due + job.expires, UTC).isoformat()
        warn(f"{job.jobid}: does not run: its time, {when}, is past, and it expired at {expired}")
    elif before.schedule == job.schedule and (before.run or before.timeline is not None):
        log.info("%s: keeps its place: %s", job.jobid, "it runs now" if before.run else "it is to be tried again")
    else:
        again = "; it was stopped, and runs again" if before.schedule == Stop.text else ""
        log.info("%s: due at once: its time, %s, is past%s", job.jobid, when, again)


def _log_if_due_at_once(job: JobToSet, before: JobState, state: JobState) -> None:
    """Log that a recurring job is due at once, because it came due after the time in the timefile.

    A worker may have taken it already, and may have ended its run.
    """
    if not isinstance(job.due, float) or job.due > state.now:
        return
    # With new jitter, only a job that waits in a queue keeps its place. One that has failed for good had no place.
    had_place = before.waiting or (not job.new_jitter and (before.timeline is not None or before.held is not None))
    has_place = had_place and is_same_text(job.schedule, before.schedule or "", job.anchor_span)
    is_held = state.pause or (state.timeline is not None and state.timeline <= state.now)
    if not (has_place or is_held or before.run):
        when = datetime.fromtimestamp(job.due, UTC).isoformat()
        log.info("%s: due at once: it came due at %s, after the time in the timefile", job.jobid, when)
