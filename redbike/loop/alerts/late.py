"""Which jobs are late: an occurrence has not begun, or not ended, in the time that the options of its job give it.

These options are ``start-within`` and ``finish-within``, which count from the due time, and ``finish-by``, a time of
day. What a pause holds is not late: somebody wants it so. A follower is late, too, if its parents are late or have
failed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from redbike.config.options import parse_options
from redbike.config.settings import Settings, override
from redbike.errors import Unreachable
from redbike.loop.catchup import decide_next
from redbike.schedule.clock import Clock
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import AWAITED, join_words
from redbike.store.alerts import Known, Pending
from redbike.store.enums import Left
from redbike.store.inspected import JobState
from redbike.store.records import RetryState
from redbike.store.run import Run
from redbike.store.schedules import read_schedule
from redbike.store.store import Store
from redbike.text.group_names import MARK, is_group, is_jobid, name_parent

MOST_LEVELS = 64  # of parents above a job
MOST_MEMBERS = 100  # jobs of a group whose due times are read
BEHIND = "waits for the end of the run before"


@dataclass(frozen=True, slots=True)
class Late:
    """A job that is late. Times are epoch seconds."""

    jobid: str
    due: float
    since: float  #: the instant by which it was to begin, or to end
    text: str  #: a clause that says so, with the job as its subject; "" if nobody knows whether it is late


@dataclass(frozen=True, slots=True)
class _Occurrence:
    due: float
    has_begun: bool
    place: str  # where it is, in words


class Awaited(NamedTuple):
    """What a follower waits for."""

    due: float  # its due time: the latest of its parents
    parents: list[str]  # those that have not ended


class Awaiting:
    """Finds what followers of `store` wait for at the instant `now`; it reads each job once."""

    def __init__(self, store: Store, now: float) -> None:
        self._store, self._now = store, now
        self._states: dict[str, JobState | None] = {}
        self._dues: dict[str, float | None] = {}

    def find(self, jobid: str) -> Awaited | None:
        """Return what a follower waits for; None if one of its parents is not due either, or if nobody knows that.

        Raise `Unreachable` if the shard of a parent is missing, and the caller does not tolerate that.
        """
        [state] = self._read([jobid])
        due = self._find_due(state, MOST_LEVELS) if state else None
        return Awaited(due, list(map(name_parent, state.waits_for))) if state and due is not None else None

    def _read(self, jobids: Sequence[str]) -> list[JobState | None]:
        """Return the states of jobs; None for those of a missing shard, which is asked once."""
        fresh = [jobid for jobid in jobids if jobid not in self._states]
        found = {state.jobid: state for state in self._store.questions.list_states(fresh)} if fresh else {}
        self._states |= {jobid: found.get(jobid) for jobid in fresh}
        return [self._states[jobid] for jobid in jobids]

    def _find_due(self, state: JobState, levels: int) -> float | None:
        if state.jobid not in self._dues:
            self._dues[state.jobid] = None  # if it follows itself, as its record may be damaged
            try:
                self._dues[state.jobid] = self._compute_due(state, levels)
            except Unreachable:
                del self._dues[state.jobid]
                raise
        return self._dues[state.jobid]

    def _compute_due(self, state: JobState, levels: int) -> float | None:
        follows = state.follows
        # Nobody expects that a parent will fail.
        if follows is None or follows["when"] == "failed" or not levels or not state.waits_for:
            return None
        dues = [float(due) for due in follows["ended"].values()]
        for parent in self._read_awaited(state):
            if parent is None:
                return None
            due = self._find_pending(parent, levels)
            # What has failed for good does not end well any more.
            if due is None and follows["when"] == "ok":
                due = _find_failed(parent)
            if due is None:
                return None
            dues.append(due)
        return max(dues)

    def _read_awaited(self, state: JobState) -> list[JobState | None]:
        """Return the parents for which a follower waits; for a group, the first of the jobs that are left of it.

        The list has None for an unknown parent.
        """
        groups = [each.removeprefix(MARK) for each in state.waits_for if is_group(each)]
        found = self._store.groups.read(groups, MOST_MEMBERS) if groups else {}
        if len(found) < len(groups):
            return [None]
        members = (jobid for group in found.values() for jobid in group.jobids)
        return self._read([*filter(is_jobid, state.waits_for), *members])

    def _find_pending(self, state: JobState, levels: int) -> float | None:
        """Return the due time of the occurrence of a parent that runs, waits or is tried again; None if none does."""
        if place := state.run or state.waiting:
            return place.due
        if state.timeline == AWAITED:
            return self._find_due(state, levels - 1)
        tried = RetryState.parse(state.retry_state).due
        if state.due is not None and tried is not None:
            return tried
        return state.due if state.due is not None and state.due <= self._now else None


def _find_failed(state: JobState) -> float | None:
    due = (state.failure or {}).get("due")
    return float(due) if isinstance(due, int | float) else None


def find_late(store: Store, settings: Settings, known: Known | None = None, has_unknown: bool = False) -> list[Late]:
    """Return the jobs that are late, the one that has been late longest first.

    `known` is what was read for this. The cost grows only with the number of jobs that alert. If `has_unknown`, a job
    that waits for a job of a shard that is away is returned, too, without a text; otherwise raise `Unreachable`. If
    the caller tolerates missing shards, such jobs are left out.
    """
    known = store.alerts.read() if known is None else known
    awaiting = Awaiting(store.whole, known.now)
    late = (_judge(awaiting, job, known.now, settings, has_unknown) for job in known.pending)
    return sorted((each for each in late if each), key=lambda each: (each.since, each.jobid))


def _judge(awaiting: Awaiting, job: Pending, now: float, settings: Settings, has_unknown: bool) -> Late | None:
    awaits = job.timeline == AWAITED and not (job.run or job.waiting)
    try:
        awaited = awaiting.find(job.jobid) if awaits else None
    except Unreachable:
        if has_unknown:
            return Late(job.jobid, now, now, "")
        raise
    return judge_late(job, now, settings, awaited)


def judge_late(job: Pending, now: float, settings: Settings, awaited: Awaited | None = None) -> Late | None:
    """Return how a job is late `now`, by the first limit that has passed; None if it is not late.

    `awaited` is what a follower waits for.
    """
    schedule = read_schedule(job.jobid, job.schedule, job.options)
    zone = (schedule.timezone if schedule else None) or settings.timezone
    occurrences = [*_list_occurrences(job, Clock(now, zone), awaited)]
    if schedule and "start-within" in parse_options(job.options):
        occurrences += _list_behind(job, schedule, override(settings, job.options), now)
    passed = [
        (limit, occurrence, what)
        for occurrence in occurrences
        if occurrence.due <= now
        for limit, what in _list_limits(job, occurrence, zone)
        if limit <= now
    ]
    if not passed:
        return None
    since, occurrence, what = min(passed, key=lambda each: each[0])
    clock = Clock(now, zone)
    text = f"{what} by {clock.name(since)}, was due at {clock.format(occurrence.due)}, and {occurrence.place}"
    return Late(job.jobid, occurrence.due, since, text)


def _list_occurrences(job: Pending, clock: Clock, awaited: Awaited | None) -> Iterator[_Occurrence]:
    if awaited:
        yield _Occurrence(awaited.due, False, f"waits for {join_words(awaited.parents)}")
    elif job.run:
        yield _Occurrence(job.run.due, True, f"runs since {clock.format(job.run.start)}")
        left = job.run.next
        # A pause does not hold what somebody has asked for.
        if left.startswith(Left.OWED) or (left.startswith(Left.ANEW) and not job.is_paused):
            yield _Occurrence(float(left.partition(":")[2]), False, BEHIND)
    elif job.waiting:
        yield _Occurrence(job.waiting.due, job.kept.has_begun, f"waits in the queue {job.waiting.queue}")
    elif job.timeline is not None:
        due = job.timeline if job.kept.due is None else job.kept.due
        is_later = job.timeline > clock.now
        place = f"is tried again at {clock.format(job.timeline)}" if is_later else "waits for a dispatcher"
        yield _Occurrence(due, job.kept.has_begun, place)


def _list_behind(job: Pending, schedule: Schedule, own: Settings, now: float) -> Iterator[_Occurrence]:
    """Yield the occurrence that waits for the end of the one before, with all its tries.

    `own` are the settings of the job. It goes on with this occurrence if the one before ends `now`.
    """
    run, waits = job.run, own.overlap == "queue" or own.catchup == "all"
    if not waits or job.is_paused or (run.next != Left.NOTHING if run else not job.kept.has_begun):
        return
    start, due = (run.start, run.due) if run else (now, job.waiting.due if job.waiting else job.kept.due)
    if due is not None:
        before = Run(job.jobid, due, "", start, start, 0, 0, job.schedule, "", options=job.options)
        before.tries, before.after, before.alone = job.kept.tries, job.kept.after, job.kept.alone
        following = decide_next(before, schedule, own, now).due
        if isinstance(following, float):
            yield _Occurrence(following, False, BEHIND)


def _list_limits(job: Pending, occurrence: _Occurrence, zone: str) -> Iterator[tuple[float, str]]:
    """Yield the instants by which the occurrence is to begin or to end, each with words for that."""
    options, due = parse_options(job.options), occurrence.due
    if "start-within" in options and not occurrence.has_begun:
        yield due + float(options["start-within"]), "was to begin"
    if "finish-within" in options:
        yield due + float(options["finish-within"]), "was to end"
    if "finish-by" in options:
        yield find_time_of_day(due, str(options["finish-by"]), zone), "was to end"


def find_time_of_day(after: float, clock_time: str, zone: str) -> float:
    """Return the first instant after `after` with the time of day `clock_time`, such as ``06:00``, in a zone.

    A time that the clocks skip is later by the length of the gap. If a time comes twice, both instants count.
    """
    place = ZoneInfo(zone)
    day, moment = datetime.fromtimestamp(after, place).date(), time.fromisoformat(clock_time)
    while True:
        local = datetime.combine(day, moment, place)
        first, second = local.timestamp(), local.replace(fold=1).timestamp()
        # If the clocks skip the time, the second one is earlier, and does not count.
        for instant in (first, max(first, second)):
            if instant > after:
                return instant
        day += timedelta(days=1)
