"""Find what a clock of the server that was ahead has put too late: jobs, and leases.

When the clock was ahead, jobs ran early and got their next place from there. Then it is right again, and nothing but
the status tells: it is from an instant that is to come. A job whose schedule really begins late has got its place at an
instant that is past.
"""

from redbike.errors import RedbikeError
from redbike.schedule.clock import Clock, format_length
from redbike.store.inspected import JobState
from redbike.store.records import Status, Streak
from redbike.store.run import AHEAD
from redbike.store.schedules import find_schedule


def find_place(state: JobState) -> float | None:
    """Return when a job is due by its schedule that a clock has put too late; None for any other job."""
    status = Status.parse(state.status)
    if not is_of_clock(status, state.now) or state.running or state.waiting:
        return None
    due = state.timeline if state.timeline is not None else state.held
    if due is None or due <= state.now:
        return None
    try:
        schedule = find_schedule(state.jobid, state.schedule or "", state.options)
    except RedbikeError:
        return None
    if schedule.allows_pause or Streak.parse(state.streak).due is not None:
        # A pause, or another try of the same occurrence: it began when the clock was ahead.
        return state.now
    following = None if schedule.runs_once else schedule.next(state.now)
    return following if following is not None and following < due else None


def is_of_clock(status: Status | None, now: float) -> bool:
    """Tell whether a status is from an instant that is to come."""
    return status is not None and status.time > now + AHEAD


def describe(state: JobState) -> str:
    """Return what is wrong with a job that `find_place` has a place for; "" for any other one."""
    place, due = find_place(state), state.timeline if state.timeline is not None else state.held
    if place is None or due is None:
        return ""
    late, clock = format_length(due - state.now), Clock(state.now, "UTC")
    return f"it is due in {late}, by a clock that was ahead; by its schedule it is due at {clock.name(place)}"
