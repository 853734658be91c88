"""What a rehearsal finds: what jobs will run in the next hours, with an action and without it."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from redbike.loop.catchup import JUST_BEFORE
from redbike.loop.courses import Course
from redbike.loop.outlook import Outlook
from redbike.queries.blackouts import Calendar
from redbike.queries.counting import QUARTER, Counting
from redbike.queries.following.held import close_runs
from redbike.queries.following.streams import AGAIN
from redbike.store.archived import read_duration
from redbike.store.coming import ComingJob
from redbike.store.enums import Skip
from redbike.store.queue_limits import QueueLimits

ACTIONS = ("resume", "pause", "run", "cancel", "unset", "set")
QUEUE_ACTIONS = ("resume", "pause")  # that are done to a queue or to everything


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

    def enter(self, course: Course, outlook: Outlook, queue: str) -> None:
        """Count what a job runs by its course; what falls into a blackout comes when that is over."""
        state, first, known = outlook.state, course.due, None
        duration, calendar = read_duration(state.history), self.calendar if course.runs else None
        if calendar and (held := calendar.find(state.jobid, queue, state.options)):
            apart = [moment + AGAIN * number for number, moment in enumerate(course.runs)]
            known = close_runs(replace(course, runs=apart), outlook.schedule, held, state)
            first = known.next(self._now - JUST_BEFORE)
        for moment in course.runs:
            self.at_once += moment == self._now
            if known is None:
                self.add_run(moment, queue, duration)
        if course.is_continuous:
            self.continuous += 1
        elif first is not None:
            text = state.schedule or ""
            self.add(ComingJob(state.jobid, text, state.options, queue, first, first, duration, known=known))
        self.skipped.update(course.skipped)


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
    nowhere: list[str] = field(default_factory=list)  #: jobs for every host that have none on any
    held: int = 0  #: whose queue is paused, or everything is, with the action too
    capacities: Mapping[str, Capacity] = field(default_factory=dict)  #: by queue
    queue_limits: Mapping[str, QueueLimits] = field(default_factory=dict)
    clock_changes: Sequence[tuple[float, str]] = ()  #: when clocks change, and in which zone

    def list_queues(self) -> set[str]:
        """Return the queues of the chosen jobs."""
        return {queue for _, queue in [*self.without.loads, *self.changed.loads]}

    def find_peaks(self, side: Side) -> list[Peak]:
        """Return the peak of each queue of the chosen jobs, others counted too; the highest first."""
        found = dict[str, Peak]()
        for queue in self.list_queues():
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
