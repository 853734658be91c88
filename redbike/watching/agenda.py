"""The agenda: what will run when, in the next hours, and where too much comes together.

Of most jobs nothing is computed but once for all with the same schedule: jobs that are due first in the same minute,
by the same fields of cron or after the same period of whole minutes, stay together. So a million of them are counted
in seconds.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import nlargest
from itertools import pairwise

from redbike.errors import BadSchedule, RedbikeError
from redbike.running.schedules import find_schedule, find_spread
from redbike.schedule.kinds import At, Every, Schedule
from redbike.schedule.moments import parse_duration
from redbike.state.coming import ComingJob
from redbike.state.store import Store

MINUTE, QUARTER = 60, 900  # seconds
MOST_HOURS = 168
DENSEST = 5  # minutes that are told of
SAMPLES = 3  # jobs of a schedule that are named
MANY = 10  # jobs with the same schedule for which it is worth spreading them
SHARES = 3  # schedules of a minute that are told
MOST_GROUPS, MOST_MINUTES = 20_000, 500_000  # of all groups, that are held at a time
MOST_RUNS = 10**9  # of a job in a minute
KEPT_GROUPS = 2000  # of them, when they are too many
HOUR = 60  # minutes
WORTH_IT = 0.9  # how much of the densest minute may be left when its jobs are spread
ROUNDING = 0.001  # seconds

# The minute of cron as one number, and what is before and behind it.
_FIELDS = re.compile(r"(CRON_TZ=\S+ )?\d+ (\S+ \S+ \S+ \S+)")

Minutes = Counter[int]  # how often a job runs in each minute, by its number from the first one of the agenda on


@dataclass(frozen=True, slots=True)
class Quarter:
    """What a queue has to run in a quarter of an hour."""

    start: float  # epoch seconds
    queue: str  # "" if nobody knows
    runs: int
    busy: float | None  # how many workers are busy with that, on average, as runs took so far; None if nobody knows


@dataclass(frozen=True, slots=True)
class Share:
    """Jobs with the same schedule that run in a minute."""

    schedule: str
    jobs: int
    samples: tuple[str, ...]  # ids of some of them


@dataclass(frozen=True, slots=True)
class Minute:
    """A minute in which much is due."""

    start: float
    runs: int
    shares: tuple[Share, ...]  # the largest ones; if there are very many schedules, not all are known


@dataclass(frozen=True, slots=True)
class Relief:
    """What the densest minute would be if the jobs with one schedule were spread."""

    share: Share
    seconds: int  # over which they would be
    runs: int  # that would be left in the minute
    most: int  # in the densest minute then
    hashed: str  # the schedule with H in place of its minute; "" if that cannot be


@dataclass(frozen=True, slots=True)
class Agenda:
    """What will run in [`start`, `end`), epoch seconds. As an iterable, its quarters."""

    start: float
    end: float
    quarters: tuple[Quarter, ...]  # by time and queue; those in which nothing runs are left out
    densest: tuple[Minute, ...]
    relief: Relief | None
    jobs: int  # that run
    runs: int
    continuous: int  # jobs that run again as soon as they have run, which are not counted
    paused: int  # jobs of all that are paused; only those are counted whose pause ends by itself

    def __iter__(self) -> Iterator[Quarter]:
        return iter(self.quarters)


def make_agenda(
    store: Store,
    start: float,
    hours: float,
    now: float,
    jobids: Iterable[str] | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Agenda:
    """Look at all jobs, or at `jobids`: what do they run from `start` on, until a quarter ends?

    `report` hears how many jobs of how many were looked at.
    """
    end = math.ceil((start + hours * 3600) / QUARTER) * QUARTER
    number, paused = store.coming.count(end)
    counting, done = _Counting(start, end, now, store.queue_for), 0
    for page in store.coming.list_pages(now, end, jobids):
        for job in page:
            counting.add(job)
        done += len(page)
        if report:
            report(done, max(number, done))
    return counting.finish(paused)


@dataclass(slots=True)
class _Group:
    """Jobs of a queue that run in the same minutes."""

    schedule: str
    queue: str
    minutes: Minutes | None  # None: they run all the time
    jobs: int = 0
    fresh: int = 0  # jobs that are not counted yet
    seconds: float = 0.0  # that one run of each of these takes, if that is known
    unknown: int = 0  # those of which it is not
    samples: list[str] = field(default_factory=list)

    def add(self, job: ComingJob) -> None:
        self.jobs += 1
        self.fresh += 1
        if job.duration is None:
            self.unknown += 1
        else:
            self.seconds += job.duration
        if len(self.samples) < SAMPLES:
            self.samples.append(job.jobid)


@dataclass(slots=True)
class _Load:
    """Runs of a queue in a quarter."""

    runs: int = 0
    seconds: float = 0.0
    unknown: int = 0


class _Counting:
    """Counts the runs of jobs from `start` to `end`; it is `now`."""

    def __init__(self, start: float, end: float, now: float, queue_for: Callable[[str], str]) -> None:
        self._start, self._end, self._now = start, end, now
        self._base = math.floor(start / QUARTER) * QUARTER  # where the first minute and the first quarter begin
        self._queue_for = queue_for
        self._minutes = [0] * math.ceil((end - self._base) / MINUTE)
        self._loads = dict[tuple[int, str], _Load]()
        self._groups = dict[tuple[object, ...], _Group]()
        self._size = 0  # of the minutes of all groups
        self._jobs = self._runs = self._continuous = 0

    def add(self, job: ComingJob) -> None:
        """Count a job. One with a bad schedule does not run."""
        queue = job.queue or self._name_queue(job.jobid)
        cycle = self._find_cycle(job)
        key = (queue, *self._find_key(job, cycle))
        group = self._groups.get(key)
        if group is None:
            try:
                minutes = self._count_minutes(job, cycle)
            except BadSchedule:
                return
            group = self._groups[key] = _Group(_shorten(job.schedule), queue, minutes)
            self._size += len(minutes or ())
        group.add(job)
        if len(self._groups) > MOST_GROUPS or self._size > MOST_MINUTES:
            self._forget()

    def _name_queue(self, jobid: str) -> str:
        try:
            return self._queue_for(jobid)
        except RedbikeError:
            # A worker class may refuse the id: then nobody takes the job, but it is due.
            return ""

    def _find_cycle(self, job: ComingJob) -> float | None:
        """Return the period of EVERY in seconds, if the job is due first where its schedule has it; else None."""
        if job.first is None or job.first <= self._now or job.options or not job.schedule.startswith(Every.keyword):
            return None
        try:
            period = _find_period(_strip(job.schedule))
            distance = job.first - float(job.schedule.partition("@")[2])
        except (BadSchedule, ValueError):
            return None
        return period if abs(math.remainder(distance, period)) < ROUNDING else None

    def _find_key(self, job: ComingJob, cycle: float | None) -> tuple[object, ...]:
        """Return what all jobs have in common that run in the same minutes."""
        if find_spread(job.options):
            return (job.jobid,)
        if cycle is None or job.first is None:
            return (job.schedule, job.first, job.after)
        if cycle % MINUTE == 0 or MINUTE % cycle == 0:
            # Their seconds do not matter, or but for the first minute.
            return (cycle, math.floor(job.first / min(cycle, MINUTE)))
        return (cycle, job.first)

    def _count_minutes(self, job: ComingJob, cycle: float | None) -> Minutes | None:
        """Return how often a job runs in each minute; None for one that runs all the time."""
        schedule = find_schedule(job.jobid, job.schedule, job.options)
        if schedule.allows_pause:
            return None
        found = Minutes()
        if job.first is not None and self._start <= job.first < self._end:
            found[self._find_minute(job.first)] = 1
        if schedule.runs_once:
            return found
        after = max(job.after, math.nextafter(self._start, 0))
        if job.schedule.startswith(Every.keyword) and _find_period(_strip(job.schedule)) < MINUTE:
            self._count_fast(schedule, after, found)
        elif cycle and job.first is not None:
            # By their numbers, not by addition, which would sum up what is lost by rounding.
            step = math.floor((after - job.first) / cycle) + 1
            while (due := job.first + step * cycle) < self._end:
                found[self._find_minute(due)] += 1
                step += 1
        else:
            while (moment := schedule.next(after)) is not None and moment < self._end:
                found[self._find_minute(moment)] += 1
                after = moment
        return found

    def _count_fast(self, schedule: Schedule, after: float, found: Minutes) -> None:
        """Count the occurrences of a schedule that has several in each minute, without looking at each of them."""
        for minute in range(self._find_minute(after), len(self._minutes)):
            end = math.nextafter(min(self._base + (minute + 1) * MINUTE, self._end), 0)
            if number := schedule.count(after, end, MOST_RUNS):
                found[minute] += number
            after = max(after, end)

    def _find_minute(self, moment: float) -> int:
        return math.floor((moment - self._base) / MINUTE)

    def _forget(self) -> None:
        """Count what was grouped so far, and keep some large groups: they say what the densest minutes have."""
        largest = nlargest(KEPT_GROUPS, self._groups.items(), key=lambda item: item[1].jobs)
        for group in self._groups.values():
            self._count(group)
        # One that repeats in most minutes says nothing of the densest ones.
        self._groups = {key: group for key, group in largest if len(group.minutes or ()) <= MOST_MINUTES / KEPT_GROUPS}
        self._size = sum(len(group.minutes or ()) for group in self._groups.values())

    def _count(self, group: _Group) -> None:
        """Count the jobs of a group that are not counted yet."""
        number = group.fresh
        if group.minutes is None:
            self._continuous += number
        elif number and group.minutes:
            self._jobs += number
            for minute, times in group.minutes.items():
                self._runs += number * times
                self._minutes[minute] += number * times
                load = self._loads.setdefault((minute * MINUTE // QUARTER, group.queue), _Load())
                load.runs += number * times
                load.seconds += group.seconds * times
                load.unknown += group.unknown * times
        group.fresh, group.seconds, group.unknown = 0, 0.0, 0

    def finish(self, paused: int) -> Agenda:
        """Return what was counted."""
        for group in self._groups.values():
            self._count(group)
        numbers = nlargest(DENSEST, range(len(self._minutes)), key=lambda minute: (self._minutes[minute], -minute))
        densest = tuple(self._describe(minute) for minute in numbers if self._minutes[minute])
        return Agenda(
            start=self._start,
            end=self._end,
            quarters=tuple(self._list_quarters()),
            densest=densest,
            relief=self._find_relief(numbers[0], densest[0]) if densest else None,
            jobs=self._jobs,
            runs=self._runs,
            continuous=self._continuous,
            paused=paused,
        )

    def _list_quarters(self) -> Iterator[Quarter]:
        known = dict[str, _Load]()
        for (_, queue), load in self._loads.items():
            total = known.setdefault(queue, _Load())
            total.runs += load.runs - load.unknown
            total.seconds += load.seconds
        for (number, queue), load in sorted(self._loads.items()):
            total = known[queue]
            # Of runs of which nothing is known, as much as the others of their queue take on average.
            mean = total.seconds / total.runs if total.runs else None
            busy = None if mean is None else (load.seconds + load.unknown * mean) / QUARTER
            yield Quarter(float(self._base + number * QUARTER), queue, load.runs, busy)

    def _describe(self, minute: int) -> Minute:
        largest = nlargest(SHARES, self._find_shares(minute).values(), key=lambda share: share.jobs)
        return Minute(float(self._base + minute * MINUTE), self._minutes[minute], tuple(largest))

    def _find_shares(self, minute: int) -> dict[str, Share]:
        """Return the jobs that run in a minute, by their schedules."""
        found = dict[str, Share]()
        for group in self._groups.values():
            if minute in (group.minutes or ()):
                share = found.get(group.schedule, Share(group.schedule, 0, ()))
                samples = (*share.samples, *group.samples)[:SAMPLES]
                found[group.schedule] = Share(group.schedule, share.jobs + group.jobs, samples)
        return found

    def _find_relief(self, number: int, minute: Minute) -> Relief | None:
        """Return what it would be if the most jobs of a minute that have the same schedule were spread."""
        share = minute.shares[0] if minute.shares else None
        if share is None or share.jobs < MANY:
            return None
        groups = [group for group in self._groups.values() if group.schedule == share.schedule]
        # Not longer than from one occurrence to the next: it would come after that.
        gaps = [second - first for group in groups for first, second in pairwise(sorted(group.minutes or ()))]
        width = min([HOUR, *gaps])
        if width < 2:
            return None
        spread = list[float](self._minutes)
        for group in groups:
            for first, times in (group.minutes or {}).items():
                spread[first] -= group.jobs * times
                for later in range(first, min(first + width, len(spread))):
                    spread[later] += group.jobs * times / width
        most = math.ceil(max(spread))
        if most > minute.runs * WORTH_IT:
            return None
        return Relief(share, width * MINUTE, math.ceil(spread[number]), most, _hash_minute(share.schedule))


@lru_cache(4096)
def _find_period(text: str) -> float:
    return parse_duration(text)


def _strip(schedule: str) -> str:
    """Return the period of EVERY as a text."""
    return schedule.partition("@")[0].removeprefix(Every.keyword)


def _shorten(schedule: str) -> str:
    """Return a schedule without the instants that make it that of one job."""
    if schedule.startswith(Every.keyword):
        return schedule.partition("@")[0]
    return At.keyword if schedule.startswith(At.keyword) else schedule.rpartition("\n")[2]


def _hash_minute(schedule: str) -> str:
    """Return five fields of cron with H in place of the minute; "" for another schedule."""
    found = _FIELDS.fullmatch(schedule)
    return f"{found[1] or ''}H {found[2]}" if found else ""
