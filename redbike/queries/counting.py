"""Count the coming runs, minute by minute. Most jobs are computed in groups, each group only once.

A group has jobs that are first due in the same minute, and have the same schedule or the same period of whole minutes.
So a million jobs are counted in seconds.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import pairwise

from redbike.errors import BadSchedule
from redbike.queries.blackouts import Calendar, Held
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse_stored
from redbike.store.coming import ComingJob
from redbike.store.schedules import find_jitter, read_schedule

MINUTE, QUARTER = 60, 900  # seconds
SAMPLES = 3  # jobs of a schedule that are named
LISTED = 20  # jobs of a queue that are named for a quarter
MOST_GROUPS, MOST_MINUTES = 20_000, 500_000  # groups, and minutes of all groups, in memory at a time
MOST_RUNS = 10**9  # of a job in a minute
KEPT_GROUPS = 2000  # groups that are kept when there are too many
ROUNDING = 0.001  # seconds

Minutes = Counter[int]  # runs of a job in each minute, by the number of the minute from the first counted one


@dataclass(slots=True)
class Group:
    """Jobs of a queue that run in the same minutes."""

    schedule: str
    queue: str
    minutes: Minutes | None  # None: they run all the time
    jobs: int = 0
    fresh: int = 0  # jobs that are not counted yet
    seconds: float = 0.0  # the sum over the fresh jobs with a known duration, one run each
    unknown: int = 0  # fresh jobs whose duration is not known
    samples: list[str] = field(default_factory=list)
    is_frequent: bool | None = None  # whether it runs too often to be counted; None if not computed yet

    def comes_sooner(self, every: float) -> bool:
        """Tell whether these jobs mostly run more often than every `every` seconds."""
        if not every:
            return False
        found = (self.minutes or Minutes()).items()
        dues = ((minute + place / number) * MINUTE for minute, number in found for place in range(min(number, MINUTE)))
        return comes_sooner(dues, every)

    def add(self, job: ComingJob) -> None:
        self.jobs += 1
        self.fresh += 1
        if job.duration is None:
            self.unknown += 1
        else:
            self.seconds += job.duration
        if len(self.samples) < LISTED:
            self.samples.append(job.jobid)


@dataclass(slots=True)
class Load:
    """Runs of a queue in a quarter."""

    runs: int = 0
    seconds: float = 0.0
    unknown: int = 0
    jobs: dict[str, None] = field(default_factory=dict)  # ids of some of them

    def name(self, jobids: Iterable[str]) -> None:
        for jobid in jobids:
            if len(self.jobs) >= LISTED:
                break
            self.jobs[jobid] = None


def comes_sooner(dues: Iterable[float], every: float) -> bool:
    """Tell whether the median gap between different instants is clearly shorter than `every` seconds."""
    gaps = sorted(later - first for first, later in pairwise(sorted(set(dues))))
    return bool(every and gaps) and gaps[len(gaps) // 2] < 0.9 * every


class Counting:
    """Counts the runs of jobs from `start` to `end`; it is `now`. `name_queue` returns "" for an unknown queue.

    `calendar` has the blackouts, if there are any. Jobs that run more often than every `every` seconds are left out.
    """

    def __init__(
        self,
        start: float,
        end: float,
        now: float,
        name_queue: Callable[[str], str],
        calendar: Calendar | None = None,
        every: float = 0.0,
    ) -> None:
        self._every, self.hidden = every, 0
        self._start, self._end, self._now = start, end, now
        self.base = math.floor(start / QUARTER) * QUARTER  # where the first minute and the first quarter begin
        self._name_queue, self.calendar = name_queue, calendar
        self.minutes = [0] * math.ceil((end - self.base) / MINUTE)
        self.loads = dict[tuple[int, str], Load]()
        self.groups = dict[tuple[object, ...], Group]()
        self._size = 0  # of the minutes of all groups
        self.jobs = self.runs = self.continuous = 0

    def add(self, job: ComingJob) -> None:
        """Count a job. A job with a bad schedule does not run."""
        group = self.find_group(job)
        if group is None:
            return
        if self._every and self._is_frequent(group):
            self.hidden += 1
        else:
            group.add(job)

    def _is_frequent(self, group: Group) -> bool:
        if group.is_frequent is None:
            group.is_frequent = group.comes_sooner(self._every)
        return group.is_frequent

    def find_group(self, job: ComingJob) -> Group | None:
        """Return the group of a job, without counting the job; None if it does not run."""
        queue = self.name_queue(job)
        cycle = self._find_cycle(job)
        held = None
        if self.calendar and not job.known:
            held = self.calendar.find(job.jobid, queue, job.options)
        key = (queue, held, *self._find_key(job, cycle))
        group = self.groups.get(key)
        if group is None:
            schedule = job.known or read_schedule(job.jobid, job.schedule, job.options)
            if schedule is None:
                return None
            if len(self.groups) >= MOST_GROUPS or self._size > MOST_MINUTES:
                self._forget()
            minutes = self._count_minutes(job, schedule, cycle, held)
            group = self.groups[key] = Group(job.schedule if job.known else schedule.label, queue, minutes)
            self._size += len(minutes or ())
        return group

    def add_run(self, moment: float, queue: str, seconds: float | None) -> None:
        """Count one run of `seconds`; None if its duration is not known."""
        self.runs += 1
        self.minutes[self._find_minute(moment)] += 1
        load = self.loads.setdefault((self._find_minute(moment) * MINUTE // QUARTER, queue), Load())
        load.runs += 1
        load.seconds += seconds or 0.0
        load.unknown += seconds is None

    def name_queue(self, job: ComingJob) -> str:
        """Return the queue of a job; "" if it is not known."""
        return job.queue or self._name_queue(job.jobid)

    def _find_cycle(self, job: ComingJob) -> float | None:
        """Return the period of a job in seconds, if its first due time is one of its schedule; else None."""
        if job.first is None or job.first <= self._now or job.options or job.known:
            return None
        try:
            schedule = parse_stored(job.schedule)
        except BadSchedule:
            return None
        if schedule.period is None:
            return None
        distance = math.remainder(job.first - schedule.anchor, schedule.period)
        return schedule.period if abs(distance) < ROUNDING else None

    def _find_key(self, job: ComingJob, cycle: float | None) -> tuple[object, ...]:
        """Return the part of the key that is equal for jobs that run in the same minutes."""
        if job.known:
            return (job.known,)
        if find_jitter(job.options):
            return (job.jobid,)
        if cycle is None or job.first is None:
            return (job.schedule, job.first, job.after)
        if cycle % MINUTE == 0 or MINUTE % cycle == 0:
            # Their seconds do not matter, or only in the first minute.
            return (cycle, math.floor(job.first / min(cycle, MINUTE)))
        return (cycle, job.first)

    def _count_minutes(
        self, job: ComingJob, schedule: Schedule, cycle: float | None, held: Held | None
    ) -> Minutes | None:
        """Return the number of runs of a job in each minute; None if it runs all the time."""
        if schedule.allows_pause:
            return None
        found, start = Minutes(), self._start
        for window in held.windows if held else ():
            self._count_open(job, schedule, cycle, (start, min(window.start, self._end)), found)
            assert held
            first, after = job.first, job.after
            if window.has(self._now) and job.waits is not None and first in (None, self._now, window.end):
                # The window is on, and the job waits already.
                first = after = max(job.waits, window.start)
                window = window._replace(opens=window.start) if job.queue else window  # it is enqueued
                job = job._replace(first=None, after=0.0)
            number, is_among = held.count_after(window, first, after, schedule)
            if number and self._start <= window.end < self._end:
                found[self._find_minute(window.end)] += number
            start = max(self._start, math.nextafter(window.end, math.inf) if is_among else window.end)
        self._count_open(job, schedule, cycle, (start, self._end), found)
        return found

    def _count_open(
        self, job: ComingJob, schedule: Schedule, cycle: float | None, span: tuple[float, float], found: Minutes
    ) -> None:
        """Count the runs of a job that is not held in this span."""
        start, end = span
        if job.first is not None and start <= job.first < end:
            found[self._find_minute(job.first)] += 1
        after = max(job.after, math.nextafter(start, 0))
        if (schedule.runs_once and not job.known) or after >= end:
            return
        if schedule.period is not None and schedule.period < MINUTE:
            self._count_fast(schedule, after, end, found)
        elif cycle and job.first is not None:
            # By multiplication: repeated addition would sum up rounding errors.
            step = math.floor((after - job.first) / cycle) + 1
            while (due := job.first + step * cycle) < end:
                found[self._find_minute(due)] += 1
                step += 1
        else:
            while (moment := schedule.next(after)) is not None and moment < end:
                found[self._find_minute(moment)] += 1
                after = moment

    def _count_fast(self, schedule: Schedule, after: float, until: float, found: Minutes) -> None:
        """Count the occurrences of a schedule with several in each minute, without computing each of them."""
        for minute in range(self._find_minute(after), min(len(self.minutes), self._find_minute(until) + 1)):
            end = math.nextafter(min(self.base + (minute + 1) * MINUTE, until), 0)
            if number := schedule.count(after, end, MOST_RUNS):
                found[minute] += number
            after = max(after, end)

    def _find_minute(self, moment: float) -> int:
        return math.floor((moment - self.base) / MINUTE)

    def _forget(self) -> None:
        """Count what was grouped so far, and keep some large groups: they say what the densest minutes have."""
        largest = nlargest(KEPT_GROUPS, self.groups.items(), key=lambda item: item[1].jobs)
        self.finish()
        # One that repeats in most minutes says nothing of the densest ones.
        self.groups = {key: group for key, group in largest if len(group.minutes or ()) <= MOST_MINUTES / KEPT_GROUPS}
        self._size = sum(len(group.minutes or ()) for group in self.groups.values())

    def finish(self) -> None:
        """Count the jobs that are only grouped so far."""
        for group in self.groups.values():
            self._count(group)

    def _count(self, group: Group) -> None:
        """Count the jobs of a group that are not counted yet."""
        number = group.fresh
        if group.minutes is None:
            self.continuous += number
        elif number and group.minutes:
            self.jobs += number
            for minute, times in group.minutes.items():
                self.runs += number * times
                self.minutes[minute] += number * times
                load = self.loads.setdefault((minute * MINUTE // QUARTER, group.queue), Load())
                load.runs += number * times
                load.seconds += group.seconds * times
                load.unknown += group.unknown * times
                if len(load.jobs) < LISTED:
                    load.name(group.samples)
        group.fresh, group.seconds, group.unknown = 0, 0.0, 0
