"""When paused or late jobs run, by the decisions that dispatchers and workers will make."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from redbike.config.settings import Settings
from redbike.loop.catchup import JUST_BEFORE
from redbike.loop.courses import Course
from redbike.queries.blackouts import Calendar
from redbike.queries.following.budget import Budget
from redbike.queries.following.held import (
    close_runs,
    decides_late,
    find_due,
    find_held,
    follow_first,
    follow_paused,
)
from redbike.queries.following.streams import AGAIN, Stream
from redbike.schedule.clock import Clock
from redbike.schedule.kinds import Schedule
from redbike.store.coming import ComingJob
from redbike.store.inspected import JobState
from redbike.store.schedules import read_schedule
from redbike.store.store import Store

MOST_LEFT = 20  # runs that a pause leaves, which are computed one by one


class Resumed(Stream):
    """The runs of a paused job. Those that its pause leaves begin together; here they are `AGAIN` seconds apart."""

    def __init__(self, state: JobState, course: Course, firsts: Sequence[float], base: Schedule | None = None) -> None:
        super().__init__(firsts, base)
        self.state = state  # of the paused job
        numbered = enumerate(zip(course.runs, course.dues, strict=True))
        #: by the instant of a run that the pause leaves: when it really begins, and its due time
        self.left = {run: (run - AGAIN * number, due) for number, (run, due) in numbered}


def describe_left(
    schedule: Schedule, remark: Callable[[float], str], clock: Clock
) -> tuple[Callable[[float], str], Callable[[float], float]]:
    """Return two functions for `list_runs`, for instants of `foresee_paused`: the remark on one, and the instant shown.

    For a run at the end of a pause, they return its earlier due time, before `remark`, and this end.
    """
    left = schedule.left if isinstance(schedule, Resumed) else {}

    def extended(moment: float) -> str:
        start, due = left.get(moment, (moment, moment))
        return f"{f'  due at {clock.name(due)}' if due < start else ''}{remark(moment)}"

    return extended, lambda moment: left.get(moment, (moment, moment))[0]


def find_queued(schedule: Schedule, moment: float) -> float:
    """Return the due time of the run that waits in its queue, if `moment` of `foresee_paused` stands for it.

    For other instants, return `moment`.
    """
    return find_due(schedule.state, moment) if isinstance(schedule, Resumed) else moment


def follow_pauses(
    store: Store, jobs: Sequence[ComingJob], now: float, end: float, calendar: Calendar | None, budget: Budget
) -> Iterator[ComingJob]:
    """Yield the runs of jobs from `now` to `end`; those that are paused, retried, requested or late are computed.

    Computing them takes one round trip. A late job beyond the `budget` runs once.
    """
    settings = calendar.settings if calendar else Settings()
    late = {
        job.jobid
        for job in jobs
        if job.waits is not None
        and not (job.is_paused or job.is_tried)
        and decides_late(job.options, settings)
        and budget.admit(job.jobid, job.schedule, job.options, settings, due=job.waits, now=now, end=end)
    }
    decided = [job for job in jobs if job.is_paused or job.is_tried or job.jobid in late]
    yield from (job for job in jobs if not (job.is_paused or job.is_tried or job.jobid in late))
    if not decided:
        return
    for job, found in zip(decided, store.questions.inspect([job.jobid for job in decided]), strict=True):
        schedule, state = read_schedule(job.jobid, job.schedule, job.options), replace(found, now=now)
        course = follow_first(store, state, settings, calendar, end)
        if schedule is None or course is None or schedule.allows_pause:
            yield job  # it has been resumed meanwhile, or has no due times
            continue
        if job.jobid in late:
            budget.charge(course)
        after = math.inf if course.due is None else course.due - JUST_BEFORE
        if len(course.runs) > 1 or (course.runs and (schedule.runs_once or not state.pause)):
            known = close_runs(course, schedule, find_held(calendar, store, state), state)
            if (first := known.next(now - JUST_BEFORE)) is not None:
                yield job._replace(first=first, after=first, waits=None, known=known)
        elif course.runs:
            yield job._replace(first=course.runs[0], after=after, waits=None)
        elif course.due is not None:
            yield job._replace(first=course.due, after=course.due, waits=None)


def foresee_paused(store: Store, settings: Settings, jobid: str, schedule: Schedule, number: int) -> Schedule:
    """Return the runs of a paused job with this `schedule`; if the job is not paused, return `schedule`.

    `number` instants are needed. Pauses of its queue, and of everything, do not count, nor do parents of a follower,
    nor hosts.
    """
    if schedule.is_awaiting or schedule.is_for_hosts:
        return schedule
    [state] = store.questions.inspect([jobid])
    if state.pause is None:
        return schedule
    course = follow_paused(state, settings, most=min(number, MOST_LEFT))
    if course.is_continuous:
        return Stream([max(state.now, state.pause.until or 0.0, state.held or 0.0)])
    if course.due is None or schedule.runs_once:
        return Resumed(state, course, [*course.runs, *([] if course.due is None else [course.due])])
    is_all = course.due > max(course.runs, default=0.0)
    return Resumed(state, course, [*course.runs, *([course.due] if is_all else [])], schedule)
