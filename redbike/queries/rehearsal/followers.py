"""The coming runs of followers, and the effect of an action on the followers of the chosen jobs.

A parent ends as soon as it runs. Ends while a follower cannot run make it due once, and once more for the latest end.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from redbike.errors import BadSchedule
from redbike.loop.catchup import JUST_BEFORE
from redbike.loop.courses import Course, follow
from redbike.loop.outlook import Outlook, find_zone
from redbike.queries.blackouts import Calendar
from redbike.queries.following.family import Family, find_after
from redbike.queries.following.held import gather, keeps_run
from redbike.queries.following.streams import AGAIN, NEVER, Stream
from redbike.queries.rehearsal.outlook import Change, Rehearsal, Side
from redbike.schedule.after import After
from redbike.schedule.kinds import Schedule
from redbike.store.archived import read_duration
from redbike.store.coming import ComingJob, find_moments
from redbike.store.inspected import JobState
from redbike.store.jobs import JobToSet, explain_cycle
from redbike.store.sharded.linking import preview_cycles
from redbike.store.store import Store
from redbike.text.group_names import is_group, is_jobid


@dataclass(frozen=True, slots=True)
class Plan:
    """The coming runs of a job on one side of a rehearsal; for a follower, also until when it is `paused`."""

    course: Course
    outlook: Outlook
    paused: float = -math.inf  # epoch seconds; infinite if a person must resume it, or if it is unset


class Line(Family):
    """One side of a rehearsal: the jobs of `family`, each with its `plan`. `parents` has the parents of changed jobs.

    Groups do not wait for jobs that are `gone`.
    """

    def __init__(
        self,
        store: Store,
        family: Family,
        plan: Callable[[JobState], Plan],
        parents: dict[str, tuple[str, ...]],
        gone: Collection[str] = (),
    ) -> None:
        super().__init__(store)
        self.states, self.groups = family.states, family.groups
        self._plan, self._parents, self._gone = plan, parents, gone
        self.plans: dict[str, tuple[Plan, Stream | None]] = {}  # with the runs of a follower

    def list_parents(self, jobid: str) -> tuple[str, ...]:
        """Return the parents of a job on this side."""
        if is_group(jobid):
            return tuple(each for each in super().list_parents(jobid) if each not in self._gone)
        return self._parents[jobid] if jobid in self._parents else super().list_parents(jobid)

    def make_own_stream(self, state: JobState) -> Schedule:
        """Return when a job, whose parents are known, ends occurrences."""
        plan = self._plan(state)
        after = find_after(plan.outlook.state.schedule)
        firsts = [moment + AGAIN * number for number, moment in enumerate(plan.course.runs)]
        if after is not None:
            stream = Stream(*self._wait(plan, after, firsts))
            self.plans[state.jobid] = plan, stream
            return stream
        self.plans[state.jobid] = plan, None
        course = plan.course
        if course.is_continuous:
            return plan.outlook.schedule
        if course.due is not None:
            return Stream([*firsts, course.due], plan.outlook.schedule, course.due)
        return Stream(firsts) if firsts else NEVER

    def _wait(self, plan: Plan, after: After, firsts: list[float]) -> tuple[list[float], Schedule | None, float]:
        """Return the first runs of a follower, the due times by its parents, and when these begin to count."""
        outlook = plan.outlook
        now, end = outlook.state.now, max(plan.paused, outlook.taken_from)
        if end == math.inf:
            return firsts, None, 0.0
        base = self.follow(after, outlook.state)
        is_paused = end > now and plan.paused >= outlook.taken_from
        is_held = is_paused and not keeps_run(outlook.state, firsts, end)
        firsts, start = gather(base, firsts, now, end, is_held, is_held and outlook.own.catchup == "none")
        return firsts, base, start


def follow_if_good(outlook: Outlook) -> Course:
    """Return the runs of a job if nobody changes anything; none if its schedule is bad."""
    try:
        return follow(outlook)
    except BadSchedule:
        return Course()


class Means(NamedTuple):
    """The functions and data with which a rehearsal computes each job."""

    store: Store
    calendar: Calendar  # the blackouts
    change: Change
    set_after: After | None  # the schedule to set, if it is one of a follower
    look: Callable[[JobState, bool], Outlook]  # without the action, or with the action on its queue
    apply: Callable[[Outlook, str], tuple[Course, Outlook]]  # the action
    find_queue: Callable[[JobState], str]


class LinkedJobs:
    """The chosen jobs that have parents or followers. It is `now`, and the rehearsal ends at `end`."""

    def __init__(self, means: Means, chosen: dict[str, JobState], now: float, end: float) -> None:
        self._means, self._chosen, self._now, self._end = means, chosen, now, end

    def add(self, rehearsal: Rehearsal, zones: set[str]) -> set[str]:
        """Add these jobs and their followers; return the followers, and add the time zones of all to `zones`.

        Raise `BadSchedule` for a job that would wait for itself.
        """
        new = self._means.set_after.parents if self._means.set_after else ()
        family = self._read_family(new)
        if self._means.set_after:
            _check_cycles(self._means.store, self._chosen, self._means.set_after)
        affected = set(_list_affected(family, self._chosen))
        parents = dict.fromkeys(self._chosen, new) if self._means.change.action == "set" else {}
        without = Line(self._means.store, family, partial(self._plan_unchanged, is_changed=False), {})
        gone = self._chosen if self._means.change.action == "unset" else ()
        changed = Line(self._means.store, family, self._plan, parents, gone)
        without.calendar = changed.calendar = self._means.calendar
        for jobid in (*self._chosen, *affected):
            for side, line in ((rehearsal.without, without), (rehearsal.changed, changed)):
                line.find_stream(jobid)
                if jobid in line.plans:
                    plan, stream = line.plans[jobid]
                    self._enter(side, plan, stream and line.close(plan.outlook.state, stream), zones)
            if jobid in self._chosen and all(jobid in line.plans for line in (without, changed)):
                rehearsal.held += all(line.plans[jobid][0].outlook.is_held for line in (without, changed))
        rehearsal.jobs += len(self._chosen)
        rehearsal.followers = len(affected)
        return affected

    def _read_family(self, others: Iterable[str]) -> Family:
        """Read the chosen jobs, their followers, the parents of all of these, and the parents in the new schedule."""
        family = Family(self._means.store)
        family.add(self._chosen.values())
        family.read_followers(list(family.states))
        family.read_parents([*family.states, *others])
        family.states = {jobid: state and replace(state, now=self._now) for jobid, state in family.states.items()}
        return family

    def _plan_unchanged(self, state: JobState, is_changed: bool) -> Plan:
        outlook = self._means.look(state, is_changed)
        return Plan(follow_if_good(outlook), outlook, _find_end_of_pause(state))

    def _plan(self, state: JobState) -> Plan:
        """Return the plan of a job with the action."""
        change = self._means.change
        if state.jobid not in self._chosen or change.limits is not None:
            return self._plan_unchanged(state, is_changed=True)
        applied = self._means.apply(self._means.look(state, False), self._means.find_queue(state))
        plan = Plan(*applied, _find_end_of_pause(applied[1].state))
        if change.action == "unset":
            return replace(plan, paused=math.inf)
        if change.action == ("resume" if state.pause else "run"):
            return replace(plan, paused=-math.inf)
        if change.action == "pause" and (state.pause is None or state.pause.is_of_blackout):
            return replace(plan, paused=max(plan.paused, math.inf if change.until is None else change.until))
        return plan

    def _enter(self, side: Side, plan: Plan, stream: Schedule | None, zones: set[str]) -> None:
        state, queue = plan.outlook.state, self._means.find_queue(plan.outlook.state)
        course = plan.course if stream is None else replace(plan.course, runs=[])
        side.enter(course, plan.outlook, queue)
        if zone := find_zone(plan.outlook):
            zones.add(zone)
        first = stream.next(self._now - JUST_BEFORE) if stream else None
        if first is not None and first < self._end:
            duration, text = read_duration(state.history), state.schedule or ""
            side.add(ComingJob(state.jobid, text, state.options, queue, first, first, duration, known=stream))
            side.at_once += first == self._now


def _check_cycles(store: Store, jobids: Iterable[str], after: After) -> None:
    """Raise `BadSchedule` if one of these jobs would wait for itself with this schedule."""
    jobs = [JobToSet(jobid, after.text, None, False, "", follows=after.find_parents()) for jobid in jobids]
    for job, _, path in preview_cycles(store, jobs, {}):
        raise explain_cycle(job, path)


def _find_end_of_pause(state: JobState) -> float:
    """Return the end of the pause of a job: minus infinity without a pause, infinity if a person must end it."""
    if state.pause is None:
        has_place = find_moments(state.now, state.timeline, state.queued, state.running, state.paused)
        return math.inf if has_place is None else -math.inf
    return math.inf if state.pause.until is None else state.pause.until


def _list_affected(family: Family, chosen: Iterable[str]) -> Iterator[str]:
    """Yield the followers of the chosen jobs, on all levels, that are not chosen themselves."""
    waiting = list(chosen)
    seen = set(waiting)
    while waiting:
        for follower in family.list_followers(waiting.pop()):
            if follower not in seen:
                seen.add(follower)
                waiting.append(follower)
                if is_jobid(follower):
                    yield follower
