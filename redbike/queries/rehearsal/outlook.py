"""The result of a rehearsal: the runs of jobs in the next hours, with an action and without it."""

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
QUEUE_ACTIONS = ("resume", "pause")  # on a queue or on everything


@dataclass(frozen=True, slots=True)
class Change:
    """The action to rehearse, one of `ACTIONS`, and its arguments."""

    action: str
    until: float | None = None  # of a pause, in epoch seconds
    schedule: str = ""  # to set, as it is typed
    tz: str | None = None
    limits: str | None = None  # the queue to act on, "" for everything; None to act on the chosen jobs


class Side(Counting):
    """The runs of the chosen jobs with the action, or without it."""

    def __init__(
        self, start: float, end: float, now: float, name_queue: Callable[[str], str], calendar: Calendar | None = None
    ) -> None:
        super().__init__(start, end, now, name_queue, calendar)
        self.at_once = 0  #: runs at the instant at which it begins
        self.skipped = Counter[Skip]()  #: occurrences that are skipped before the schedules go on

    def enter(self, course: Course, outlook: Outlook, queue: str) -> None:
        """Count the runs of a job by its course. Runs that are due in a blackout come when it is over."""
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
    """The quarter of an hour with the most runs in a queue."""

    queue: str
    start: float
    runs: int
    busy: float | None  #: average number of runs at a time, by past durations; None if unknown


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of the workers of a queue, if they work no other one."""

    processes: int = 0  #: workers that are alive
    at_once: int | None = 0  #: jobs that they run at once in all; None if it is not known of one


@dataclass(slots=True)
class Rehearsal:
    """The effect of an action from `start` to `end`, in epoch seconds."""

    start: float
    end: float
    without: Side
    changed: Side
    others: Counting | None  #: of jobs that are not chosen; None if they are too many
    jobs: int = 0  #: that were computed
    followers: int = 0  #: followers of these jobs, which are counted with them
    wrong: int = 0  #: jobs with a bad schedule, which do not run
    left_out: int = 0  #: jobs that were not computed, as the time was over
    nowhere: list[str] = field(default_factory=list)  #: jobs for every host that have no job on any host
    held: int = 0  #: jobs that a pause of their queue or of everything holds, even with the action
    capacities: Mapping[str, Capacity] = field(default_factory=dict)  #: by queue
    queue_limits: Mapping[str, QueueLimits] = field(default_factory=dict)
    clock_changes: Sequence[tuple[float, str]] = ()  #: (epoch seconds, zone) of each change of clocks

    def list_queues(self) -> set[str]:
        """Return the queues of the chosen jobs."""
        return {queue for _, queue in [*self.without.loads, *self.changed.loads]}

    def find_peaks(self, side: Side) -> list[Peak]:
        """Return the peak of each queue of the chosen jobs, the highest first. Other jobs count, too."""
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
