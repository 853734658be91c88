"""When a job runs next, in its current state: for the API, its page, and the commands next and show."""

from collections.abc import Iterator, Mapping
from typing import Any

from redbike.config.settings import Settings
from redbike.loop.catchup import JUST_BEFORE
from redbike.queries.following.family import Family, list_due_times
from redbike.queries.following.held import find_due
from redbike.queries.hosts import find_timed
from redbike.queries.paused import find_queued, foresee_paused
from redbike.schedule.clock import list_due_of_job
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import END_OF_TIME
from redbike.store.every_host import is_base
from redbike.store.store import Store


def find_times(
    store: Store, settings: Settings, jobid: str, job: Mapping[str, Any], count: int
) -> tuple[str, Schedule, Schedule]:
    """Return the id and schedule of `find_timed`, and this schedule with the runs that a pause leaves.

    `job` is the answer of `Redbike.tell`; `count` instants are needed. Raise `BadSchedule`.
    """
    runs_as, schedule = find_timed(jobid, job)
    if "paused" in job or runs_as != jobid:
        return runs_as, schedule, foresee_paused(store, settings, runs_as, schedule, count)
    return runs_as, schedule, schedule


def list_next_due(
    store: Store, settings: Settings, jobid: str, job: Mapping[str, Any], now: float, count: int,
    after: float | None = None, family: Family | None = None
) -> Iterator[float]:  # fmt: skip
    """Yield the due times of a job from `now` on, or after `after` if this is later; `count` are needed.

    A follower has the due times of its parents; it has none if one of these runs all the time. The parents are in
    `family`, or they are read. Raise `BadSchedule`.
    """
    runs_as, schedule, times = find_times(store, settings, jobid, job, count)
    if schedule.is_awaiting:
        yield from _list_parent_times(store, jobid, now, after, family)
    elif runs_as != jobid or not is_base(jobid):
        start = now if after is None else max(after, now)
        for due in list_due_of_job(times, start, now, job["next_run"]):
            yield find_queued(times, due)


def _list_parent_times(
    store: Store, jobid: str, now: float, after: float | None, family: Family | None
) -> Iterator[float]:
    if family is None:
        family = Family(store, presumes_success=False)
        family.read_parents([jobid])
    state = family.states.get(jobid)
    if state is None or (times := list_due_times(family, state)).allows_pause:
        return
    # An occurrence that is due already is at the very instant at which the parents were read.
    start = state.now - JUST_BEFORE if after is None or after <= now else after
    yield from (find_due(state, each) for each in times.list_due(start, END_OF_TIME))
