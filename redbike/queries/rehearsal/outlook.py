"""What a rehearsal knows and what it finds.

It knows the state of a job, the settings, and when the queue is held. It finds what jobs will run in the next hours,
with an action and without it.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from redbike.config.settings import Settings, override
from redbike.errors import BadSchedule
from redbike.loop.occurrences import JUST_BEFORE
from redbike.queries.blackouts import Calendar
from redbike.queries.counting import QUARTER, Counting
from redbike.schedule.kinds import Schedule
from redbike.store.enums import Skip
from redbike.store.inspected import JobState
from redbike.store.next_state import NextState
from redbike.store.queue_limits import QueueLimits
from redbike.store.records import RetryState
from redbike.store.run import Run
from redbike.store.schedules import find_schedule

ACTIONS = ("resume", "pause", "run", "cancel", "unset", "set")
QUEUE_ACTIONS = ("resume", "pause")  # that are done to a queue or to everything


@dataclass(frozen=True, slots=True)
class Hold:
    """From when until when nothing is taken from a queue, or from any."""

    since: float
    until: float  # infinite if nobody knows
    ends_by_itself: bool = False

    @property
    def last(self) -> float:
        """The last instant of it."""
        return self.until - JUST_BEFORE if self.ends_by_itself else self.until


@dataclass(frozen=True, slots=True)
class Outlook:
    """A job, the settings of all jobs, and the end of what is looked at."""

    state: JobState
    settings: Settings
    end: float
    queue_holds: Sequence[Hold] = ()  # of its queue: the last one that is over, and the present one
    common_holds: Sequence[Hold] = ()  # of everything

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
        """Return the pause that a run knows which begins at `start`, as ``lua/_room.lua`` finds it."""
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
    """Return when a job is due that was placed at `now`."""
    return now if isinstance(placed.due, str) else placed.due


@dataclass(frozen=True, slots=True)
class Change:
    """What is rehearsed: an action, of `ACTIONS`, and what it says besides."""

    action: str
    until: float | None = None  # of a pause, in epoch seconds
    schedule: str = ""  # to be set, as it is typed
    tz: str | None = None
    limits: str | None = None  # the queue that it is done to, "" for everything; None for the chosen jobs


class Side(Counting):
    """What runs of the chosen jobs with the action, or without it."""

    def __init__(
        self, start: float, end: float, now: float, name_queue: Callable[[str], str], calendar: Calendar | None = None
    ) -> None:
        super().__init__(start, end, now, name_queue, calendar)
        self.at_once = 0  #: runs in the instant in which it begins
        self.skipped = Counter[Skip]()  #: occurrences that are passed over before it goes on


@dataclass(frozen=True, slots=True)
class Peak:
    """The quarter of an hour in which workers have most to do, for a queue."""

    queue: str
    start: float
    runs: int
    busy: float | None  #: how many runs go on at a time, as long as runs took so far; None if nobody knows


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the workers of a queue can do, if they work no other one."""

    processes: int = 0  #: that are alive
    at_once: int | None = 0  #: jobs that they run at once; None if one of them does not say


@dataclass(slots=True)
class Rehearsal:
    """What an action would change from `start` to `end`, in epoch seconds."""

    start: float
    end: float
    without: Side
    changed: Side
    others: Counting | None  #: of the jobs that are not chosen; None if they are too many
    jobs: int = 0  #: that were computed
    followers: int = 0  #: jobs that follow these, and are counted with them
    wrong: int = 0  #: jobs with a bad schedule, which do not run
    left_out: int = 0  #: jobs for which there was no time
    held: int = 0  #: whose queue is paused, or everything is, with the action too
    capacities: Mapping[str, Capacity] = field(default_factory=dict)  #: by queue
    queue_limits: Mapping[str, QueueLimits] = field(default_factory=dict)
    clock_changes: Sequence[tuple[float, str]] = ()  #: when clocks change, and in which zone

    def find_peaks(self, side: Side) -> list[Peak]:
        """Return the peak of each queue of the chosen jobs, others counted too; the highest first."""
        found = dict[str, Peak]()
        for queue in {queue for _, queue in [*self.without.loads, *self.changed.loads]}:
            found[queue] = max(self._list_quarters(side, queue), key=lambda peak: (peak.runs, -peak.start))
        return sorted(found.values(), key=lambda peak: (-peak.runs, peak.queue))

    def _list_quarters(self, side: Side, queue: str) -> Iterator[Peak]:
        countings = [side, *([self.others] if self.others else [])]
        for number in range(math.ceil((self.end - side.base) / QUARTER)):
            loads = [load for each in countings if (load := each.loads.get((number, queue)))]
            runs, known = sum(load.runs for load in loads), sum(load.runs - load.unknown for load in loads)
            seconds = sum(load.seconds for load in loads)
            busy = seconds / known * runs / QUARTER if known else None
            yield Peak(queue, float(side.base + number * QUARTER), runs, busy)
