"""Rehearse an action: compute the coming runs of jobs with it and without it, before anybody does it.

Nothing is changed. Runs are taken to need no time, and to succeed, see `redbike.loop.courses`. If they are few, jobs
that are not chosen are counted, too. A job for every host is replaced by its jobs on the hosts.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from redbike.config.settings import Settings, check_zone
from redbike.errors import BadConfig, BadSchedule
from redbike.loop.courses import Course, follow, is_same, move, pause, resume, run_now, set_due
from redbike.loop.host_jobs import find_own, find_to_set
from redbike.loop.outlook import Hold, Outlook, find_end, find_queue_pause, find_zone, list_holds
from redbike.loop.requests import Request, Start, compute_cancellation, parse_to_set
from redbike.queries.blackouts import Calendar
from redbike.queries.counting import MINUTE, Counting
from redbike.queries.following.family import list_all_followers
from redbike.queries.rehearsal.followers import LinkedJobs, Means, follow_if_good
from redbike.queries.rehearsal.outlook import ACTIONS, QUEUE_ACTIONS, Capacity, Change, Rehearsal, Side
from redbike.schedule.after import After
from redbike.schedule.parser import find_inner, is_follower
from redbike.store.enums import Skip
from redbike.store.every_host import is_base
from redbike.store.inspected import JobState
from redbike.store.namespace import PAGE
from redbike.store.processes import Process
from redbike.store.store import Store

MOST_HOURS, MOST_JOBS, MOST_OTHERS = 24, 10_000, 5_000


class Rehearser:
    """Rehearses `change` on the jobs of `store`, for `hours` from now on."""

    def __init__(self, store: Store, settings: Settings, change: Change, hours: float) -> None:
        allowed = ACTIONS if change.limits is None else QUEUE_ACTIONS
        if change.action not in allowed:
            raise BadConfig(f"bad action {change.action!r:.40}: {', '.join(allowed)} are allowed")
        if not 0 < hours <= MOST_HOURS:
            raise BadConfig(f"bad hours {hours!r:.40}: a number up to {MOST_HOURS} is needed")
        self._store, self._settings, self._change = store, settings, change
        self._zone = settings.timezone if change.tz is None else check_zone(change.tz)
        self._start = Start(settings)
        self._now = store.timeline.read_clock()
        self._end = self._now + hours * 3600
        calendar = Calendar(store.blackouts.list_all(), settings, self._now, self._end)
        self._span = self._now, self._end, self._now, store.name_queue, calendar  # the arguments of each `Side`
        self._limits = {limits.queue: limits for limits in store.queue_limits.list_all()}
        self._holds = list_holds(store.queue_limits.list_pauses())
        self._changed_holds = self._change_holds()
        self._set_after: After | None = None  # the schedule to set, if it is one of a follower
        self._bases: dict[str, str] = {}  # chosen bases, by the ids of their jobs on hosts

    def find_jobs(self, queue: str, limit: int, patience: float) -> tuple[list[str], bool]:
        """Return up to `limit` jobs of a queue, or of all (""), that are due in these hours; and whether more may be.

        There may be more beyond `limit`, or if the search took about `patience` seconds.
        """
        deadline = time.monotonic() + patience
        found: dict[str, None] = {}
        for page in self._store.coming.list_jobids(self._end):
            found |= dict.fromkeys(self._choose(page, queue))
            if len(found) > limit or time.monotonic() > deadline:
                return list(found)[:limit], True
        return list(found), False

    def run(self, jobids: Sequence[str], patience: float) -> Rehearsal:
        """Compute the jobs one after the other, for about `patience` seconds. Raise `BadSchedule` and `BadConfig`."""
        if len(jobids) > MOST_JOBS:
            raise BadConfig(f"bad selection: it has {len(jobids):,} jobs, {MOST_JOBS:,} can be rehearsed")
        deadline = time.monotonic() + patience
        self._set_after = self._find_set_after()
        sides = Side(*self._span), Side(*self._span)
        rehearsal = Rehearsal(self._now, self._end, *sides, None, queue_limits=self._limits)
        if self._change.limits is None:
            jobids = self._replace_bases(jobids, rehearsal)
        zones, linked = {self._settings.timezone}, dict[str, JobState]()
        for first in range(0, len(jobids), PAGE):
            if first and time.monotonic() > deadline:
                rehearsal.left_out = len(jobids) - first
                break
            for state in self._store.questions.inspect(jobids[first : first + PAGE]):
                if state.followers or is_follower(state.schedule) or self._set_after:
                    linked[state.jobid] = replace(state, now=self._now)
                else:
                    self._add(rehearsal, replace(state, now=self._now), zones)
        affected = self._add_linked(rehearsal, linked, zones) if linked else set()
        for side in (rehearsal.without, rehearsal.changed):
            side.finish()
        rehearsal.others = self._count_others({*jobids, *affected})
        rehearsal.capacities = find_capacities(self._store.workers.list_all(), rehearsal.list_queues())
        rehearsal.clock_changes = list(list_clock_changes(self._now, self._end, sorted(zones)))
        return rehearsal

    def _replace_bases(self, jobids: Sequence[str], rehearsal: Rehearsal) -> list[str]:
        """Return the jobs, each once. A job for every host is replaced by its jobs on the hosts."""
        find = find_to_set if self._change.action == "set" else find_own
        found = dict.fromkeys(jobids)
        for base in list(filter(is_base, found)):
            del found[base]
            if own := find(self._store, base):
                self._bases |= dict.fromkeys(own, base)
            else:
                rehearsal.nowhere.append(base)
        return list(found | dict.fromkeys(self._bases))

    def _choose(self, jobids: list[str], queue: str) -> list[str]:
        """Return those of `jobids` that belong to `queue`; "" returns all."""
        if not queue:
            return jobids
        return [state.jobid for state in self._store.questions.inspect(jobids) if self._find_queue(state) == queue]

    def _add(self, rehearsal: Rehearsal, state: JobState, zones: set[str]) -> None:
        queue = self._find_queue(state)
        outlook = self._make_outlook(state, queue, self._holds)
        rehearsal.jobs += 1
        try:
            before = follow(outlook)
        except BadSchedule:
            rehearsal.wrong += 1
            before = Course()
        rehearsal.without.enter(before, outlook, queue)
        course, changed = self._apply(outlook, queue)
        rehearsal.changed.enter(course, changed, queue)
        rehearsal.held += outlook.is_held and changed.is_held
        for each in (outlook, changed):
            if zone := find_zone(each):
                zones.add(zone)

    def _find_set_after(self) -> After | None:
        """Return the schedule to set, if it is one of a follower; else None. Raise `BadSchedule`."""
        if self._change.action != "set" or not is_follower(self._change.schedule.strip()):
            return None
        parsed = parse_to_set(self._change.schedule, self._zone, "", self._now, self._settings)
        return parsed if isinstance(parsed, After) else None

    def _add_linked(self, rehearsal: Rehearsal, chosen: dict[str, JobState], zones: set[str]) -> set[str]:
        """Add chosen jobs that have parents or followers; return their followers that are not chosen."""

        def look(state: JobState, is_changed: bool) -> Outlook:
            return self._make_outlook(
                state, self._find_queue(state), self._changed_holds if is_changed else self._holds
            )

        means = Means(self._store, self._span[-1], self._change, self._set_after, look, self._apply, self._find_queue)
        return LinkedJobs(means, chosen, self._now, self._end).add(rehearsal, zones)

    def _find_queue(self, state: JobState) -> str:
        return state.waiting.queue if state.waiting else self._store.name_queue(state.jobid)

    def _change_holds(self) -> dict[str, list[Hold]]:
        """Return the pauses of queues with the action, if it acts on a queue or on everything."""
        name = self._change.limits
        if name is None:
            return self._holds
        holds, until = self._holds.get(name, []), find_end(self._change.until)
        is_held, is_pause = bool(holds) and holds[-1].until > self._now, self._change.action == "pause"
        pause = self._limits[name].pause if name in self._limits else None
        if is_held and is_pause and pause and pause.is_of_blackout and until > holds[-1].until:
            return {**self._holds, name: [*holds[:-1], replace(holds[-1], until=until)]}
        if is_held == is_pause:
            # To pause a paused queue changes nothing, and neither does to resume one that is not paused.
            return self._holds
        if is_held:
            # The pause is not removed, but ends now: it decides on occurrences that came due during it.
            return {**self._holds, name: [*holds[:-1], replace(holds[-1], until=self._now, ends_by_itself=False)]}
        return {**self._holds, name: [*holds, Hold(self._now, until, ends_by_itself=True)]}

    def _make_outlook(self, state: JobState, queue: str, holds: Mapping[str, Sequence[Hold]]) -> Outlook:
        return Outlook(state, self._settings, self._end, holds.get(queue, ()), holds.get("", ()))

    def _apply(self, outlook: Outlook, queue: str) -> tuple[Course, Outlook]:
        """Return the runs of a job with the action, and its outlook after it."""
        if self._change.limits is not None:
            changed = self._make_outlook(outlook.state, queue, self._changed_holds)
            return follow_if_good(changed), changed
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
            course = follow(outlook)
            # The worker gets the request to stop the run, and may do so.
            course.skipped[Skip.CANCELLED] += not state.run.cancelled
            return course
        pause = find_queue_pause([*outlook.queue_holds, *outlook.common_holds], state.now)
        plan = compute_cancellation(state, outlook.own, lambda job: pause)
        if isinstance(plan, str):
            return follow(outlook)
        course = follow(replace(outlook, state=move(state, plan.due)))
        course.skipped.update({Skip(name): number for name, number in plan.skipped.items()})
        course.skipped[Skip.CANCELLED] += 1
        return course

    def _set(self, outlook: Outlook, queue: str) -> tuple[Course, Outlook]:
        state, zone = outlook.state, self._zone
        base = self._bases.get(state.jobid, state.jobid)
        parsed = parse_to_set(self._change.schedule, zone, base, self._now, self._settings)
        if parsed.is_for_hosts:
            parsed = find_inner(parsed.text) or parsed
        since = self._start.compute(None, self._now)
        request = Request(state.jobid, parsed, queue, self._now, since, False, wants_run=True, known=state.options)
        job = request.make_job(self._settings)
        has_place = state.run or state.waiting or state.timeline is not None or state.held is not None
        if job.mode.keeps_place and has_place and is_same(job, state.schedule):
            return follow(outlook), outlook
        changed = replace(outlook, state=replace(set_due(state, job), schedule=job.schedule))
        return follow_if_good(changed), changed

    def _count_others(self, chosen: set[str]) -> Counting | None:
        number, _, following = self._store.coming.count(self._end)
        if number - len(chosen) > MOST_OTHERS:
            return None
        counting = Counting(*self._span)
        for page in self._store.coming.list_pages(self._now, self._end):
            for job in page:
                if job.jobid not in chosen and not is_follower(job.schedule):
                    counting.add(job)
        for job in list_all_followers(self._store, self._now, self._span[-1]) if following else ():
            if job.jobid not in chosen:
                counting.add(job)
        counting.finish()
        return counting


def find_capacities(processes: Sequence[Process], queues: Iterable[str]) -> dict[str, Capacity]:
    """Return the capacity of each of `queues` that has workers. A worker counts in full for each of its queues."""
    workers = [each for each in processes if each.kind == "worker" and each.state == "alive"]
    found = dict[str, Capacity]()
    for queue in queues:
        if own := [each for each in workers if each.works(queue)]:
            numbers = [each.concurrency for each in own if each.concurrency is not None]
            found[queue] = Capacity(len(own), sum(numbers) if len(numbers) == len(own) else None)
    return found


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
