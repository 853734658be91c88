"""Rehearse an action: what jobs will run in the next hours with it and without it, before anybody does it.

Nothing is changed. What is presumed is in `redbike.watching.courses`: runs take no time and succeed. Jobs that are not
chosen are counted too, where they are few.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from redbike.config import Settings, check_zone
from redbike.errors import BadConfig, BadSchedule, RedbikeError
from redbike.running.requests import Request
from redbike.schedule.kinds import Schedule
from redbike.setter import Setter
from redbike.state.coming import ComingJob
from redbike.state.gates import Gate
from redbike.state.history import read_duration
from redbike.state.inspected import JobState
from redbike.state.namespace import PAGE
from redbike.state.records import Streak
from redbike.state.store import Store
from redbike.state.workers import Process
from redbike.steering.cancelling import compute
from redbike.watching.counting import MINUTE, QUARTER, Counting
from redbike.watching.courses import Course, Hold, Outlook, follow, is_same, move, pause, resume, run_now, walk
from redbike.words import Skip

ACTIONS = ("resume", "pause", "run", "cancel", "unset", "set")
MOST_HOURS, MOST_JOBS, MOST_OTHERS = 24, 10_000, 5_000


@dataclass(frozen=True, slots=True)
class Change:
    """What is rehearsed: an action, of `ACTIONS`, and what it says besides."""

    action: str
    until: float | None = None  # of a pause, in epoch seconds
    schedule: str = ""  # to be set, as it is typed
    tz: str | None = None


@dataclass(slots=True)
class Side:
    """What runs with the action, or without it."""

    counting: Counting
    at_once: int = 0  #: runs in the instant in which it begins
    skipped: Counter[Skip] = field(default_factory=Counter)  #: occurrences that are passed over before it goes on

    @property
    def minutes(self) -> Sequence[int]:
        """Runs of the chosen jobs in each minute from the beginning of its first quarter on."""
        return self.counting.minutes

    @property
    def runs(self) -> int:
        """All of them."""
        return self.counting.runs

    @property
    def continuous(self) -> int:
        """Return how many jobs run again as soon as they have run; their runs are not counted."""
        return self.counting.continuous


@dataclass(frozen=True, slots=True)
class Peak:
    """The quarter of an hour in which workers have most to do, for a queue."""

    queue: str
    start: float
    runs: int
    busy: float | None  #: how many runs go on at a time, as long as runs took so far; None if nobody knows


@dataclass(slots=True)
class Rehearsal:
    """What an action would change from `start` to `end`, in epoch seconds."""

    start: float
    end: float
    without: Side
    changed: Side
    others: Counting | None  #: of the jobs that are not chosen; None if they are too many
    jobs: int = 0  #: that were computed
    wrong: int = 0  #: jobs with a bad schedule, which do not run
    left_out: int = 0  #: jobs for which there was no time
    held: int = 0  #: whose queue is paused, or everything is
    workers: Mapping[str, int] = field(default_factory=dict)  #: processes that are alive, by queue
    gates: Mapping[str, Gate] = field(default_factory=dict)
    clock_changes: Sequence[tuple[float, str]] = ()  #: when clocks change, and in which zone

    def find_peaks(self, side: Side) -> list[Peak]:
        """Return the peak of each queue of the chosen jobs, others counted too; the highest first."""
        found = dict[str, Peak]()
        for queue in {queue for _, queue in [*self.without.counting.loads, *self.changed.counting.loads]}:
            found[queue] = max(self._list_quarters(side, queue), key=lambda peak: (peak.runs, -peak.start))
        return sorted(found.values(), key=lambda peak: (-peak.runs, peak.queue))

    def _list_quarters(self, side: Side, queue: str) -> Iterator[Peak]:
        countings = [side.counting, *([self.others] if self.others else [])]
        for number in range(math.ceil((self.end - side.counting.base) / QUARTER)):
            loads = [load for each in countings if (load := each.loads.get((number, queue)))]
            runs, known = sum(load.runs for load in loads), sum(load.runs - load.unknown for load in loads)
            seconds = sum(load.seconds for load in loads)
            busy = seconds / known * runs / QUARTER if known else None
            yield Peak(queue, float(side.counting.base + number * QUARTER), runs, busy)


class Rehearser:
    """Rehearses `change` on the jobs of `store`, for `hours` hours from now on."""

    def __init__(self, store: Store, settings: Settings, change: Change, hours: float) -> None:
        if change.action not in ACTIONS:
            raise BadConfig(f"bad action {change.action!r:.40}: {', '.join(ACTIONS)} are allowed")
        if not 0 < hours <= MOST_HOURS:
            raise BadConfig(f"bad hours {hours!r:.40}: a number up to {MOST_HOURS} is needed")
        self._store, self._settings, self._change = store, settings, change
        self._zone = settings.timezone if change.tz is None else check_zone(change.tz)
        self._setter = Setter(store, settings)
        self._now = store.timeline.read_clock()
        self._end = self._now + hours * 3600
        self._gates = {gate.queue: gate for gate in store.gates.list_all()}

    def run(self, jobids: Sequence[str], patience: float) -> Rehearsal:
        """Compute the jobs one after the other, for about `patience` seconds. Raise `BadSchedule` and `BadConfig`."""
        if len(jobids) > MOST_JOBS:
            raise BadConfig(f"bad selection: it has {len(jobids):,} jobs, {MOST_JOBS:,} can be rehearsed")
        deadline = time.monotonic() + patience
        rehearsal = Rehearsal(self._now, self._end, Side(self._count()), Side(self._count()), None, gates=self._gates)
        zones = {self._settings.timezone}
        for first in range(0, len(jobids), PAGE):
            if first and time.monotonic() > deadline:
                rehearsal.left_out = len(jobids) - first
                break
            for state in self._store.questions.inspect(jobids[first : first + PAGE]):
                self._add(rehearsal, replace(state, now=self._now), zones)
        for side in (rehearsal.without, rehearsal.changed):
            side.counting.finish()
        rehearsal.others = self._count_others(set(jobids))
        rehearsal.workers = count_workers(self._store.workers.list_all())
        rehearsal.clock_changes = list(list_clock_changes(self._now, self._end, sorted(zones)))
        return rehearsal

    def _count(self) -> Counting:
        return Counting(self._now, self._end, self._now, self._store.queue_for)

    def _add(self, rehearsal: Rehearsal, state: JobState, zones: set[str]) -> None:
        queue = self._find_queue(state)
        outlook = self._look(state, queue)
        rehearsal.held += outlook.hold is not None
        rehearsal.jobs += 1
        try:
            before = follow(outlook)
        except BadSchedule:
            rehearsal.wrong += 1
            before = Course()
        self._enter(rehearsal.without, before, outlook, queue)
        course, changed = self._apply(outlook, queue)
        self._enter(rehearsal.changed, course, changed, queue)
        for each in (outlook, changed):
            if zone := find_zone(each):
                zones.add(zone)

    def _find_queue(self, state: JobState) -> str:
        if state.waiting:
            return state.waiting.queue
        try:
            return self._store.queue_for(state.jobid)
        except RedbikeError:
            return ""

    def _look(self, state: JobState, queue: str) -> Outlook:
        holds = {
            name: Hold(gate.pause.since, gate.pause.until if gate.pause.until is not None else math.inf)
            for name in ("", queue)
            if (gate := self._gates.get(name)) and gate.pause and gate.pause.holds(self._now)
        }
        hold = max(holds.values(), key=lambda each: each.until, default=None)
        return Outlook(state, self._settings, self._end, hold, holds_all=hold is not None and holds.get("") == hold)

    def _enter(self, side: Side, course: Course, outlook: Outlook, queue: str) -> None:
        state = outlook.state
        duration = read_duration(state.history)
        for moment in course.runs:
            side.counting.add_run(moment, queue, duration)
            side.at_once += moment == self._now
        if course.is_continuous:
            side.counting.continuous += 1
        elif course.due is not None:
            text = state.schedule or ""
            job = ComingJob(state.jobid, text, state.options, queue, course.due, course.due, duration)
            side.counting.add(job)
        side.skipped.update(course.skipped)

    def _apply(self, outlook: Outlook, queue: str) -> tuple[Course, Outlook]:
        """Return what a job runs with the action, and how it is then."""
        if self._change.action == "set":
            return self._set(outlook, queue)
        verbs: dict[str, Callable[[Outlook], Course]] = {
            "resume": lambda each: resume(each) if each.state.pause else follow(each),
            "pause": lambda each: pause(each, self._change.until),
            "run": run_now,
            "cancel": self._cancel,
            "unset": lambda each: Course(),
        }
        try:
            return verbs[self._change.action](outlook), outlook
        except BadSchedule:
            return Course(), outlook

    def _cancel(self, outlook: Outlook) -> Course:
        state = outlook.state
        if state.run:
            return follow(outlook)
        plan = compute(state, outlook.own)
        if isinstance(plan, str):
            return follow(outlook)
        course = follow(replace(outlook, state=move(state, plan.due)))
        course.skipped.update({Skip(name): number for name, number in plan.skipped.items()})
        course.skipped[Skip.CANCELLED] += 1
        return course

    def _set(self, outlook: Outlook, queue: str) -> tuple[Course, Outlook]:
        state, zone = outlook.state, self._zone
        parsed = self._setter.parse(self._change.schedule, zone, state.jobid, self._now)
        since = self._setter.compute_start(None, self._now)
        request = Request(state.jobid, parsed, queue, self._now, since, False, wants_run=True, known=state.options)
        job = request.make_job(self._settings)
        if is_same(job, state.schedule) and (state.timeline is not None or state.waiting or state.held is not None):
            return follow(outlook), outlook
        due = self._now if job.due == "now" else job.due
        changed = replace(outlook, state=replace(move(state, due), schedule=job.schedule))
        try:
            if state.run:
                return walk(changed, due, Streak(), self._now), changed
            return follow(changed), changed
        except BadSchedule:
            return Course(), changed

    def _count_others(self, chosen: set[str]) -> Counting | None:
        if self._store.coming.count(self._end)[0] - len(chosen) > MOST_OTHERS:
            return None
        counting = self._count()
        for page in self._store.coming.list_pages(self._now, self._end):
            for job in page:
                if job.jobid not in chosen:
                    counting.add(job)
        counting.finish()
        return counting


def find_zone(outlook: Outlook) -> str | None:
    """Return the zone of the schedule of a job; None for none."""
    try:
        schedule: Schedule = outlook.schedule
    except BadSchedule:
        return None
    return schedule.timezone


def count_workers(processes: Sequence[Process]) -> dict[str, int]:
    """Return how many worker processes are alive, by queue. One that works very many queues is not listed for all."""
    alive = (each for each in processes if each.kind == "worker" and each.state == "alive")
    return Counter(queue for each in alive for queue in each.queues)


def list_clock_changes(start: float, end: float, zones: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Yield when the clocks of zones change from `start` to `end`, to the minute."""
    for zone in zones:
        place = ZoneInfo(zone)

        def find_offset(minute: int, place: ZoneInfo = place) -> object:
            return datetime.fromtimestamp(minute * MINUTE, UTC).astimezone(place).utcoffset()

        first, last = math.floor(start / MINUTE), math.floor(end / MINUTE)
        if find_offset(first) == find_offset(last):
            continue
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (middle, last) if find_offset(middle) == find_offset(first) else (first, middle)
        yield float(last * MINUTE), zone
