"""What ran, runs and will run in a span of time: in a lane for each queue, or for each job.

Runs are those that are kept, see ``history``. What is to come is counted by the minute, as the forecast counts it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import nsmallest

from redbike.config.settings import Settings
from redbike.queries.blackouts import Calendar
from redbike.queries.counting import MINUTE, Counting
from redbike.queries.forecast import list_coming
from redbike.queries.incident import read_changes
from redbike.schedule.clock import Clock, format_length
from redbike.schedule.windows import join_windows
from redbike.store.blackouts import EVERYTHING, OF_JOB, OF_QUEUE
from redbike.store.coming import ComingJob
from redbike.store.history import PastRun, get_end
from redbike.store.log import localize
from redbike.store.records import Pause
from redbike.store.store import Store

LANES = 30  # that are drawn
LISTED = 100  # events that are listed
MOST_MARKS = 200
MOST_IN_FLIGHT = 1000
PATIENCE = 2.0  # seconds for which changes are read
KEPT = 20  # times as many are held as are kept, while they are chosen


class Kind(StrEnum):
    """What an event is, in one word."""

    FAILED = "failed"
    RUNNING = "running"
    OK = "ok"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class Event:
    """A run, or runs that are planned for one minute. Times are epoch seconds."""

    start: float
    end: float
    kind: Kind
    jobid: str
    due: float
    number: int = 1
    run: PastRun | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Band:
    """A time in which a lane is held, with what people say of it."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A change, or the loss of a process."""

    time: float
    text: str
    jobid: str = ""
    is_loss: bool = False


@dataclass(slots=True)
class Lane:
    """The events of a queue or of a job; `name` is "" for jobs whose queue nobody knows."""

    name: str
    counts: Counter[Kind] = field(default_factory=Counter)
    events: list[Event] = field(default_factory=list)  #: of a job
    parts: dict[Kind, Counter[int]] = field(default_factory=dict)  #: of a queue: how many go on in each part
    bands: list[Band] = field(default_factory=list)

    @property
    def rank(self) -> tuple[bool, bool, str]:
        """Where it stands: first what has failed, then what runs, then by name."""
        return not self.counts[Kind.FAILED], not self.counts[Kind.RUNNING], self.name


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for: the time from `since` to `until`, in epoch seconds, and which jobs."""

    since: float
    until: float
    by_job: bool = False
    queue: str = ""
    fits: Callable[[str], bool] = field(default=lambda jobid: True, compare=False)
    every: float = 0.0  #: jobs that run more often than each so many seconds are left out

    def has(self, jobid: str, queue: str) -> bool:
        """Tell whether a job of this queue is asked for."""
        return self.queue in ("", queue) and self.fits(jobid)

    def is_in(self, start: float, end: float) -> bool:
        """Tell whether a part of [`start`, `end`] is in it."""
        return end >= self.since and start < self.until


@dataclass(slots=True)
class Lanes:
    """What was found; it was `now`."""

    question: Question
    now: float
    parts: int  #: into which the time is divided for queues
    lanes: list[Lane] = field(default_factory=list)
    more: int = 0  #: lanes that are not among these
    counts: Counter[Kind] = field(default_factory=Counter)  #: of all lanes
    listed: list[Event] = field(default_factory=list)  #: by time; what failed is left out last
    marks: list[Mark] = field(default_factory=list)  #: by time
    hidden: set[str] = field(default_factory=set)  #: jobs that run too often
    continuous: int = 0  #: jobs that will run again as soon as they have run
    cuts: list[str] = field(default_factory=list)

    @property
    def events(self) -> int:
        """How many there are in all."""
        return self.counts.total()


def find_lanes(
    store: Store,
    question: Question,
    now: float,
    settings: Settings,
    parts: int,
    report: Callable[[int, int], None] = lambda done, number: None,
) -> Lanes:
    """Look at all jobs; `report` hears how much of how much is done."""
    found = Lanes(question, now, parts)
    collector = _Collector(found, store)
    number, done = store.journal.count_jobs() + sum(store.coming.count(question.until)), 0
    running = _list_running(store, found)
    for runs in store.journal.list_since(question.since):
        if runs:
            jobid = runs[0].jobid
            collector.add(jobid, [*map(_make_event, runs), *running.pop(jobid, ())])
        done += 1
        report(done, max(done, number))
    for jobid, events in running.items():
        collector.add(jobid, events)
    if question.until > now:
        for page in _list_planned(store, found, settings):
            for jobid, queue, events in page:
                collector.add(jobid, events, queue)
            done += len(page)
            report(done, max(done, number))
    collector.finish()
    _add_bands(store, found)
    _add_marks(store, found, settings.timezone)
    return found


class _Collector:
    """Puts events into lanes, of which it holds a limited number."""

    def __init__(self, found: Lanes, store: Store) -> None:
        self._found, self._store = found, store
        self._lanes: dict[str, Lane] = {}
        self._names: set[str] = set()
        self._size = (found.question.until - found.question.since) / found.parts

    def add(self, jobid: str, events: Sequence[Event], queue: str = "") -> None:
        """Add those events of a job that are asked for."""
        question, found = self._found.question, self._found
        queue = queue or self._store.name_queue(jobid)
        events = [event for event in events if question.is_in(event.start, event.end)]
        if not events or not question.has(jobid, queue) or jobid in found.hidden:
            return
        if _comes_more_often(events, question.every):
            found.hidden.add(jobid)
            return
        for event in events:
            found.counts[event.kind] += event.number
        found.listed += events
        if len(found.listed) > KEPT * LISTED:
            self._choose_listed()
        self._place(jobid if question.by_job else queue, events)

    def _place(self, name: str, events: Sequence[Event]) -> None:
        if name in self._names and name not in self._lanes:
            return  # others come before it, whatever else it has
        self._names.add(name)
        lane = self._lanes.setdefault(name, Lane(name))
        for event in events:
            lane.counts[event.kind] += event.number
            if not self._found.question.by_job:
                self._spread(lane, event)
        if self._found.question.by_job:
            lane.events += events
            if len(self._lanes) > KEPT * LANES:
                self._choose_lanes()

    def _spread(self, lane: Lane, event: Event) -> None:
        """Count an event in each part of the time in which it goes on."""
        since = self._found.question.since
        first = max(0, int((event.start - since) // self._size))
        last = min(self._found.parts - 1, int((event.end - since) // self._size))
        kind = lane.parts.setdefault(event.kind, Counter())
        for part in range(first, max(first, last) + 1):
            kind[part] += event.number

    def _choose_lanes(self) -> None:
        best = nsmallest(LANES, self._lanes.values(), key=lambda lane: lane.rank)
        self._lanes = {lane.name: lane for lane in best}

    def _choose_listed(self) -> None:
        best = nsmallest(LISTED, self._found.listed, key=lambda event: (event.kind != Kind.FAILED, event.start))
        self._found.listed = sorted(best, key=lambda event: (event.start, event.jobid))

    def finish(self) -> None:
        """Choose what is shown."""
        self._choose_listed()
        number = len(self._names)
        if self._found.question.by_job:
            self._choose_lanes()
            self._found.lanes = list(self._lanes.values())
        else:
            self._found.lanes = sorted(self._lanes.values(), key=lambda lane: (not lane.name, lane.name))[:LANES]
        self._found.more = number - len(self._found.lanes)


def _comes_more_often(events: Sequence[Event], every: float) -> bool:
    """Tell whether what is due comes more often than every so many seconds; tries of one occurrence are one."""
    dues = {event.due for event in events}
    number = max(len(dues), sum(event.number for event in events if event.kind is Kind.PLANNED))
    return bool(every) and number > 1 and (max(dues) - min(dues)) / (number - 1) < every


def _make_event(run: PastRun) -> Event:
    kind = Kind.FAILED if run.has_failed else Kind.OK
    return Event(run.started, get_end(run), kind, run.jobid, run.due, run=run)


def _list_running(store: Store, found: Lanes) -> dict[str, list[Event]]:
    """Return the runs in flight, by job."""
    flights, number = store.questions.list_in_flight(MOST_IN_FLIGHT)
    if number > len(flights):
        found.cuts.append(f"of {number:,} runs in flight, {len(flights):,} were read")
    return {
        each.jobid: [Event(each.run.start, max(found.now, each.run.start), Kind.RUNNING, each.jobid, each.run.due)]
        for each in flights
    }


def _list_planned(store: Store, found: Lanes, settings: Settings) -> Iterator[list[tuple[str, str, list[Event]]]]:
    """Yield pages of the jobs that have something to run, with their queues and what they run."""
    question, now = found.question, found.now
    start = max(question.since, now)
    calendar = Calendar(store.blackouts.list_all(), settings, now, question.until)
    counting = Counting(start, question.until, now, store.name_queue, calendar)
    following = store.coming.count(question.until)[2]
    for page in list_coming(store, calendar, now, question.until, None, following):
        planned = []
        for job in page:
            group = counting.find_group(job)
            if group is not None and group.minutes is None:
                found.continuous += question.has(job.jobid, group.queue)
            if group is not None and group.minutes:
                planned.append((job.jobid, group.queue, list(_list_events(job, group.minutes, counting.base, start))))
        yield planned


def _list_events(job: ComingJob, minutes: Counter[int], base: float, start: float) -> Iterator[Event]:
    for minute, number in sorted(minutes.items()):
        moment = max(base + minute * MINUTE, start)
        yield Event(moment, moment + (job.duration or 0.0), Kind.PLANNED, job.jobid, base + minute * MINUTE, number)


def _add_bands(store: Store, found: Lanes) -> None:
    """Add the pauses and blackouts of each lane: of the job itself, of its queue, and of everything."""
    by_job = found.question.by_job
    states = store.questions.inspect([lane.name for lane in found.lanes]) if by_job else []
    pauses = {state.jobid: pause for state in states if (pause := Pause.parse(state.paused))}
    queue_pauses = {limits.queue: limits.pause for limits in store.queue_limits.list_all() if limits.pause}
    blackouts = store.blackouts.list_all()
    for lane in found.lanes:
        queue = store.name_queue(lane.name) if by_job else lane.name
        names = [*([f"{OF_JOB}{lane.name}"] if by_job else []), f"{OF_QUEUE}{queue}", EVERYTHING]
        for name in dict.fromkeys(names):
            blackout = blackouts.get(name)
            windows = blackout.list_between(found.question.since, found.question.until) if blackout else ()
            for window in join_windows(list(windows)):
                assert blackout
                if window.end > blackout.since:
                    said = f"blackout of {format_length(blackout.seconds)}"
                    lane.bands.append(_make_band(max(window.start, blackout.since), window.end, said, blackout.reason))
        for each in dict.fromkeys((queue, "")):
            if limits := queue_pauses.get(each):
                what = f"queue {each} paused" if each else "all queues paused"
                lane.bands.append(_make_band(limits.since, limits.until, what, limits.reason))
        if pause := pauses.get(lane.name):
            details = pause.to_dict()
            lane.bands.append(_make_band(details["since"], details["until"], "paused", details["reason"] or ""))
        lane.bands = [band for band in lane.bands if found.question.is_in(band.start, band.end)]


def _make_band(start: float, end: float | None, what: str, reason: str) -> Band:
    return Band(start, float("inf") if end is None else end, f"{what}: {reason}" if reason else what)


def _add_marks(store: Store, found: Lanes, zone: str) -> None:
    """Add changes, and processes that were lost."""
    question, name = found.question, Clock(found.now, zone).name
    changes, is_cut = read_changes(store, question.since, question.until, time.monotonic() + PATIENCE)
    shown = [each for each in changes if not each.jobid or question.has(each.jobid, store.name_queue(each.jobid))]
    if is_cut or len(shown) > MOST_MARKS:
        found.cuts.append("not all changes are shown")
    for each in shown[:MOST_MARKS]:
        found.marks.append(Mark(each.time, f"{each.who}: {each.action} {localize(each.detail, name)}", each.jobid))
    for process in store.workers.list_all():
        if process.state == "lost" and question.is_in(process.seen, process.seen):
            found.marks.append(Mark(process.seen, f"the {process.kind} {process.id} was lost", is_loss=True))
    found.marks.sort(key=lambda mark: mark.time)
