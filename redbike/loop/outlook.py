"""What is known of a job to predict its runs: its state, the settings, and when its queue is held."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from redbike.config.settings import Settings, override
from redbike.errors import BadSchedule
from redbike.loop.catchup import JUST_BEFORE
from redbike.schedule.kinds import Schedule
from redbike.store.inspected import JobState
from redbike.store.next_state import NextState
from redbike.store.queue_limits import Pause
from redbike.store.records import RetryState
from redbike.store.run import Run
from redbike.store.schedules import find_schedule


@dataclass(frozen=True, slots=True)
class Hold:
    """A time in which no job is taken from a queue, or from any. Times are epoch seconds."""

    since: float
    until: float  # infinite if nobody knows
    ends_by_itself: bool = False

    @property
    def last(self) -> float:
        """The last instant of the hold."""
        return self.until - JUST_BEFORE if self.ends_by_itself else self.until


@dataclass(frozen=True, slots=True)
class Outlook:
    """A job, the settings of all jobs, and the end of the time to predict."""

    state: JobState
    settings: Settings
    end: float
    queue_holds: Sequence[Hold] = ()  # of its queue: the last one that is over, and the present one
    common_holds: Sequence[Hold] = ()  # of everything
    most: float = math.inf  # runs that are predicted one by one

    @property
    def dispatched_from(self) -> float:
        """From when on jobs are enqueued again; it may be past."""
        return self.common_holds[-1].until if self.common_holds else -math.inf

    @property
    def taken_from(self) -> float:
        """From when on it is taken from its queue again; it may be past."""
        return max(self.dispatched_from, self.queue_holds[-1].until if self.queue_holds else -math.inf)

    @property
    def start(self) -> float:
        """When what waits now is taken from its queue."""
        return max(self.state.now, self.taken_from)

    @property
    def is_held(self) -> bool:
        """Whether its queue is paused, or everything is."""
        return self.taken_from > self.state.now

    def find_last_hold(self, start: float) -> Hold | None:
        """Return the pause that ended last before a run that begins at `start`, as ``lua/_room.lua`` finds it."""
        ended = (_find_last(holds, start) for holds in (self.queue_holds, self.common_holds))
        # `max` returns the first one of those that have ended at the same time.
        return max((hold for hold in ended if hold), key=lambda hold: hold.until, default=None)

    @property
    def own(self) -> Settings:
        """The settings with the options of the job."""
        return override(self.settings, self.state.options)

    @property
    def schedule(self) -> Schedule:
        """The schedule of the job. Raise `BadSchedule`."""
        return find_schedule(self.state.jobid, self.state.schedule or "", self.state.options)


def list_holds(pauses: Mapping[str, tuple[Pause | None, Pause | None]]) -> dict[str, list[Hold]]:
    """Return the holds of queues by name, and those of everything under ""."""
    return {
        name: [
            Hold(pause.since, find_end(pause.until), ends_by_itself)
            for pause, ends_by_itself in ((last, False), (present, True))
            if pause
        ]
        for name, (last, present) in pauses.items()
    }


def find_queue_pause(holds: Iterable[Hold], now: float) -> tuple[float, float] | None:
    """Return the first and the last instant, up to `now`, of the pause that is on, or else of the last one.

    Of two with the same end, it is the one that began first.
    """
    begun = [hold for hold in holds if hold.since <= now]
    found = max(begun, key=lambda hold: (hold.until, -hold.since), default=None)
    return (found.since, min(found.last, now)) if found else None


def find_end(until: float | None) -> float:
    """Return when a pause ends; infinite if it does not end by itself."""
    return math.inf if until is None else until


def find_zone(outlook: Outlook) -> str | None:
    """Return the zone of the schedule of a job; None for none."""
    try:
        schedule = outlook.schedule
    except BadSchedule:
        return None
    return schedule.timezone


def _find_last(holds: Sequence[Hold], start: float) -> Hold | None:
    return next((hold for hold in reversed(holds) if hold.until <= start), None)


def make_run(outlook: Outlook, due: float, retry_state: RetryState, start: float) -> Run:
    """Return a run of a job that was taken at `start` when it was due at `due`."""
    state = outlook.state
    occurrence = due if retry_state.due is None else retry_state.due
    run = Run(state.jobid, occurrence, "", start, start, 0, 0, state.schedule or "", "", options=state.options)
    run.tries, run.after, run.alone = retry_state.tries, retry_state.after, retry_state.alone
    if hold := outlook.find_last_hold(start):
        run.queue_pause = hold.since, hold.last
    return run


def read_due(placed: NextState, now: float) -> float | None:
    """Return the due time of a job that was placed at `now`; None if nothing is left."""
    return now if isinstance(placed.due, str) else placed.due
