"""Find the past, current and coming runs, in a lane for each queue, or for each job.

Past runs are those that are kept, see ``history``. Coming runs are counted by the minute, as in the forecast.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nsmallest
from operator import itemgetter

from redbike.config.settings import Settings
from redbike.queries.blackouts import read_calendar
from redbike.queries.counting import Counting, comes_sooner
from redbike.queries.forecast import list_coming
from redbike.queries.lanes.model import EACH, LISTED, Event, Kind, Lane, Lanes, Plan, Question
from redbike.queries.lanes.remarks import Horizon, add_bands, add_marks, list_held
from redbike.store.coming import ComingJob
from redbike.store.history import PastRun, get_end
from redbike.store.store import Store

LANES = 30  # that are drawn
MOST_IN_FLIGHT = 1000
PAGE = 100  # jobs between two reports
KEPT = 20  # while lanes are chosen, so many times more are in memory


def find_lanes(
    store: Store,
    question: Question,
    now: float,
    settings: Settings,
    parts: int,
    report: Callable[[int, int], None] = lambda done, number: None,
) -> Lanes:
    """Return the lanes for `question`, from all jobs. `report` is called with the jobs done so far, and of all."""
    found = Lanes(question, now, parts)
    collector = _Collector(found, store)
    number, done = store.journal.count_jobs() + sum(store.coming.count(question.until)), 0
    running, horizon = _list_running(store, found), Horizon(store, question, settings.history)
    for runs in store.journal.list_since(question.since):
        if runs:
            jobid = runs[0].jobid
            horizon.add(runs)
            collector.add(jobid, [*map(_make_event, runs), *running.pop(jobid, ())])
        done += 1
        if done % PAGE == 0:
            report(done, max(done, number))
    for jobid, events in running.items():
        collector.add(jobid, events)
    if question.until > now:
        for page in _list_planned(store, found, settings):
            for job, plan in page:
                collector.add_planned(job, plan)
            done += len(page)
            report(done, max(done, number))
    collector.finish()
    begins = horizon.finish()
    for lane in found.lanes:
        lane.kept_from = begins.get(lane.name)
    add_bands(store, found)
    add_marks(store, found, settings.timezone)
    return found


class _Collector:
    """Puts events into lanes, of which it holds a limited number."""

    def __init__(self, found: Lanes, store: Store) -> None:
        self._found, self._store = found, store
        self._lanes: dict[str, Lane] = {}
        self._names: set[str] = set()
        self._plans: dict[int, Plan] = {}
        self._listed: list[tuple[tuple[bool, bool, float], Event]] = []
        self._size = (found.question.until - found.question.since) / found.parts

    def add(self, jobid: str, events: Sequence[Event]) -> None:
        """Add the runs of a job that belong to the question."""
        question, found, queue = self._found.question, self._found, self._store.name_queue(jobid)
        events = [event for event in events if question.is_in(event.start, event.end)]
        if not events or not question.has(jobid, queue):
            return
        if comes_sooner((event.due for event in events), question.every):
            found.hidden.add(jobid)
            events = [event for event in events if event.kind is Kind.FAILED]
        if not events:
            return
        found.counts.update(event.kind for event in events)
        self._list(events)
        lane = self._find_lane(jobid if question.by_job else queue)
        if lane is None:
            return
        lane.counts.update(event.kind for event in events)
        if question.by_job:
            lane.events += events
        else:
            for event in events:
                self._spread(lane, event)

    def add_planned(self, job: ComingJob, plan: Plan) -> None:
        """Add the coming runs of a job. `finish` adds runs that several jobs have in common."""
        question, found = self._found.question, self._found
        if not question.has(job.jobid, plan.queue) or job.jobid in found.hidden:
            return
        if plan.is_frequent:
            found.hidden.add(job.jobid)
            return
        plan.add(job)
        self._plans[id(plan)] = plan
        lane = self._find_lane(job.jobid) if question.by_job else None
        if lane is not None:
            lane.counts[Kind.PLANNED] += plan.minutes.total()
            lane.coming = job, plan

    def _find_lane(self, name: str) -> Lane | None:
        """Return a lane; None if it was left out already, as others come before it."""
        if name in self._names and name not in self._lanes:
            return None
        self._names.add(name)
        if len(self._lanes) >= KEPT * LANES and self._found.question.by_job:
            self._choose_lanes()
        return self._lanes.setdefault(name, Lane(name))

    def _spread(self, lane: Lane, event: Event) -> None:
        """Count an event in each part of the time that it covers."""
        since = self._found.question.since
        first = max(0, int((event.start - since) // self._size))
        last = min(self._found.parts - 1, int((event.end - since) // self._size))
        kind = lane.parts.setdefault(event.kind, Counter())
        for part in range(first, max(first, last) + 1):
            kind[part] += event.number

    def _choose_lanes(self) -> None:
        best = nsmallest(LANES, self._lanes.values(), key=lambda lane: lane.rank)
        self._lanes = {lane.name: lane for lane in best}

    def _list(self, events: Iterable[Event]) -> None:
        """Add events of a job to the list: first failures, then a few events of each job, then all others.

        Among these, events near the middle of the time come first.
        """
        question = self._found.question
        middle = (question.since + question.until) / 2
        ranked = sorted(
            ((event.kind is not Kind.FAILED, abs(event.start - middle), event) for event in events),
            key=itemgetter(0, 1),
        )
        for place, (is_well, distance, event) in enumerate(ranked[:LISTED]):
            self._listed.append(((is_well, place >= EACH, distance), event))
        if len(self._listed) > KEPT * LISTED:
            self._choose_listed()

    def _choose_listed(self) -> None:
        self._listed = nsmallest(LISTED, self._listed, key=itemgetter(0))

    def finish(self) -> None:
        """Add coming runs, and choose the events and lanes to show."""
        found = self._found
        for plan in self._plans.values():
            found.counts[Kind.PLANNED] += plan.minutes.total() * plan.jobs
            for job in plan.samples:
                self._list(plan.list_events(job.jobid, job.duration or 0.0))
            if not found.question.by_job and (lane := self._find_lane(plan.queue)):
                lane.counts[Kind.PLANNED] += plan.minutes.total() * plan.jobs
                for event in plan.list_events("", plan.seconds / plan.jobs):
                    self._spread(lane, replace(event, number=event.number * plan.jobs))
        self._choose_listed()
        found.listed = sorted((event for _, event in self._listed), key=lambda event: (event.start, event.jobid))
        if found.question.by_job:
            self._choose_lanes()
        else:
            for name in list_held(self._store, found.question):
                self._find_lane(name)
        lanes = sorted(
            self._lanes.values(), key=lambda lane: lane.rank if found.question.by_job else (not lane.name, lane.name)
        )
        found.lanes = lanes[:LANES]
        found.more = len(self._names) - len(found.lanes)
        for lane in found.lanes:
            if lane.coming:
                job, plan = lane.coming
                lane.events += plan.list_events(job.jobid, job.duration or 0.0)


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


def _list_planned(store: Store, found: Lanes, settings: Settings) -> Iterator[list[tuple[ComingJob, Plan]]]:
    """Yield pages of the jobs with coming runs, each with its plan."""
    question, now, plans = found.question, found.now, dict[int, Plan]()
    start = max(question.since, now)
    calendar = read_calendar(store, settings, start, question.until)
    counting = Counting(start, question.until, now, store.name_queue, calendar)
    following = store.coming.count(question.until)[2]
    groups = []  # kept in memory, so that no two have the same `id`
    for page in list_coming(store, calendar, now, question.until, None, following):
        planned = []
        for job in page:
            group = counting.find_group(job)
            if group is not None and group.minutes is None:
                found.continuous += question.has(job.jobid, group.queue)
            elif group is not None and group.minutes:
                if id(group) not in plans:
                    groups.append(group)
                    is_frequent = group.comes_sooner(question.every)
                    plans[id(group)] = Plan(group.queue, group.minutes, counting.base, start, is_frequent)
                planned.append((job, plans[id(group)]))
        yield planned
