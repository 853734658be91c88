"""Backfill a job: run its occurrences of a past range, beside its schedule.

The schedule of the job gives the occurrences; they run oldest first. A backfill leaves out occurrences that have
succeeded, by kept runs and earlier backfills, and those that wait, run, or may still run by the policies of the job.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from redbike.config.options import find_all_of
from redbike.config.settings import Settings
from redbike.errors import BadConfig, BadJobId, BadSchedule, NoSuchJob, quoted
from redbike.loop.catchup import JUST_BEFORE
from redbike.loop.courses import end_run, follow, resume
from redbike.loop.outlook import Outlook, list_holds
from redbike.schedule.clock import Clock
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import MAX_TEXT
from redbike.store.backfill import BackfillDetails, DoneRange, NewBackfill, describe_progress, make_jobid
from redbike.store.backfills import MOST as MOST_FOLLOWERS
from redbike.store.enums import Left, Outcome
from redbike.store.inspected import JobState
from redbike.store.names import check_known_jobid
from redbike.store.namespace import PAGE, split
from redbike.store.records import RetryState
from redbike.store.schedules import find_schedule
from redbike.store.store import Store
from redbike.text.printable import name_number

MOST = 1_000_000  # occurrences of one backfill
MOST_RUNS = 100_000  # with runs of followers: one step ends them all
MOST_BEGUN = 10_000  # runs that begin at once, in one step
MOST_AT_ONCE = 1000
MOST_ADDED = 30  # characters that a backfill adds to the schedule of a follower, for each parent, and once besides
MOST_WALKED = 3  # runs that are computed one by one: only catchup = all has more, and runs all the rest
TRIES = 5  # attempts for a job that changes all the time


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill that has begun, or the plan of one. Times are epoch seconds.

    `dues` are the due times of its occurrences, oldest first. Of the occurrences from `start` to `end`, it leaves out
    `done`, which succeeded, and `busy`, which wait, run, or may still run by the policies of the job. `known_since` is
    the due time of the oldest known run of the schedule, or None. `followers` are the jobs that run after each run.
    """

    jobid: str
    start: float
    end: float
    dues: Sequence[float] = field(repr=False)
    at_once: int = 1
    done: int = 0
    busy: int = 0
    known_since: float | None = None
    followers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the occurrences of a job."""

    state: JobState
    schedule: Schedule
    done: frozenset[float]  # due times of those that have succeeded
    busy: frozenset[float]  # due times of those that wait or run, or may still run by the policies
    ranges: Sequence["_Range"]
    since: float | None  # the first due time of a run that is kept

    def has_done(self, due: float) -> bool:
        """Tell whether an occurrence has succeeded."""
        return due in self.done or any(each.has(due) for each in self.ranges)


class _Range:
    """The occurrences that a backfill has run."""

    def __init__(self, jobid: str, found: DoneRange) -> None:
        self._found, self.begun = found, found.begun
        try:
            self._schedule: Schedule | None = find_schedule(jobid, found.schedule, found.options)
        except BadSchedule:
            self._schedule = None  # another version of Redbike may have stored it

    def has(self, due: float) -> bool:
        """Tell whether an occurrence was one of them, and has succeeded."""
        found = self._found
        if self._schedule is None or not found.first <= due <= found.last or due in found.bad:
            return False
        return self._schedule.next(due - JUST_BEFORE) == due


def check_range(start: float, end: float, now: float, at_once: object, timezone: str) -> float:
    """Return the end of the range, at most now. Raise `BadConfig` for a bad range, or a bad `at_once`."""
    clock = Clock(now, timezone)
    if isinstance(at_once, bool) or not isinstance(at_once, int) or not 1 <= at_once <= MOST_AT_ONCE:
        raise BadConfig(f"bad at_once {quoted(str(at_once))}: 1 to {MOST_AT_ONCE} are allowed")
    if start > end:
        raise BadConfig(f"bad range: it begins at {clock.name(start)}, after its end, {clock.name(end)}")
    if start > now:
        raise BadConfig(
            f"bad range: its start, {clock.name(start)}, is in the future; the schedule runs future occurrences"
        )
    return min(end, now)


def plan(
    store: Store, jobid: str, start: float, end: float, at_once: int, again: bool, settings: Settings,
    alone: bool = False
) -> tuple[Backfill, NewBackfill]:  # fmt: skip
    """Return the backfill of a checked range, and the `NewBackfill` to store for it; nothing is changed.

    With `alone`, the followers of the job are left out.

    Raise `NoSuchJob`, `BadJobId`, and `BadConfig` if there is nothing to run, or another backfill is under way.
    """
    known = _read(store, jobid, settings, start, end)
    clock = Clock(known.state.now, settings.timezone)
    under_way, _ = store.backfills.read(jobid)
    if under_way and not under_way["preparing"]:
        raise BadConfig(describe_busy(jobid, under_way))
    found = list(islice(known.schedule.list_due(max(0.0, start) - JUST_BEFORE, end), MOST + 1))
    if len(found) > MOST:
        raise BadConfig(f"bad range: {jobid!r} has more than {MOST:,} occurrences in it")
    begun = min((each.begun for each in known.ranges), default=math.inf)
    own, own_busy = _list_own(store, jobid, [due for due in found if due not in known.busy], begun)
    all_busy = known.busy | own_busy
    busy = [due for due in found if due in all_busy]
    rest = [due for due in found if due not in all_busy]
    is_done = set[float]() if again else {due for due in rest if known.has_done(due)} | own
    dues = [due for due in rest if due not in is_done]
    done = len(rest) - len(dues)
    if not dues:
        raise BadConfig(_explain_nothing(jobid, start, end, done, len(busy), clock))
    followers = [] if alone else _find_followers(store, jobid, dues, at_once)
    backfill = Backfill(jobid, start, end, dues, at_once, done, len(busy), known.since, followers)
    state = known.state
    new = NewBackfill(jobid, state.schedule or "", state.options, start, end, dues, at_once, store.who, busy)
    new.alone = alone
    new.detail = f"{clock.name(start)} to {clock.name(end)}: {name_number(len(dues), 'occurrence')}, {at_once} at once"
    return backfill, new


def backfill(
    store: Store, jobid: str, start: float, end: float, at_once: int, again: bool, settings: Settings,
    alone: bool = False
) -> Backfill:  # fmt: skip
    """Begin the backfill of a checked range, and return it. Raise the errors of `plan`."""
    for _ in range(TRIES):
        planned, new = plan(store, jobid, start, end, at_once, again, settings, alone)
        word = store.backfills.begin(new)
        if word == "ok":
            return planned
        if word == "gone":
            raise NoSuchJob(f"no such job: {jobid!r}")
        if word == "lost":
            raise BadConfig(f"another backfill of {jobid!r} was begun at the same time")
    raise BadConfig(f"{jobid!r} changed several times meanwhile: the backfill did not begin, so try again")


def describe_busy(jobid: str, other: BackfillDetails) -> str:
    """Return why a second backfill of a job is refused, with the progress of the first one."""
    return f"a backfill of {jobid!r} is under way: {describe_progress(other)}; redbike cancel ends it"


def _read(store: Store, jobid: str, settings: Settings, start: float, end: float) -> _Known:
    """Read what is known of a job. Raise `NoSuchJob` and `BadJobId`, and `BadConfig` if it cannot have a backfill."""
    [state] = store.questions.inspect([check_known_jobid(jobid)])
    if state.schedule is None:
        raise NoSuchJob(f"no such job: {jobid!r}")
    schedule = find_schedule(jobid, state.schedule, state.options)
    if schedule.is_for_hosts or find_all_of(state.options)[0]:
        raise BadConfig(f"{jobid!r} is a job for every host: such a job cannot have a backfill")
    if schedule.never_runs or schedule.runs_once or schedule.allows_pause or schedule.is_awaiting:
        raise BadConfig(f"{jobid!r} has no occurrences at times of its own: {quoted(state.schedule)}")
    runs = list(store.journal.list_runs([jobid]))
    ranges = [_Range(jobid, found) for found in store.backfills.list_done(jobid)]
    since = min((run.due for run in runs), default=None)
    done = frozenset(run.due for run in runs if run.outcome == Outcome.OK)
    busy = frozenset(_list_busy(store, state, settings, start, end))
    return _Known(state, schedule, done, busy, ranges, since)


def _list_busy(store: Store, state: JobState, settings: Settings, start: float, end: float) -> Iterator[float]:
    """Yield the due times of occurrences that wait or run by the schedule, or may still run by the policies.

    All of these from `start` to `end` are yielded, up to `MOST`; other due times may be among them.

    Nobody knows whether a run in flight succeeds or is retried, and whether a pause of its job ends before that. So
    the due times of each case count, and nothing runs twice. Pauses are taken to end now.
    """
    found = list_holds(store.find_shard(state.jobid).queue_limits.list_pauses())
    names = state.waiting.queue if state.waiting else store.name_queue(state.jobid), ""
    own, common = ([replace(each, until=min(each.until, state.now)) for each in found.get(name, ())] for name in names)
    outlook, states = Outlook(state, settings, math.inf, own, common, MOST_WALKED), [state]
    if run := state.run:
        yield run.due
        states.append(end_run(outlook, run)[0])
        if not (run.was_set or run.next.startswith(Left.ANEW)):
            tried = RetryState(tries=1, due=run.due, after=RetryState.parse(state.retry_state).after)
            states.append(replace(state, running="", paused="", timeline=state.now, retry_state=tried.format()))
    for each in states:
        course = (resume if each.pause else follow)(replace(outlook, state=each))
        yield from course.dues
        if len(course.dues) == MOST_WALKED:
            since = max(course.dues[-1], start - JUST_BEFORE)
            yield from islice(outlook.schedule.list_due(since, min(end, state.now)), MOST + 1)


def _explain_nothing(jobid: str, start: float, end: float, done: int, busy: int, clock: Clock) -> str:
    span = f"between {clock.name(start)} and {clock.name(end)}"
    if not done and not busy:
        return f"nothing to run: {jobid!r} has no occurrence {span}"
    why = [f"{done:,} {'has' if done == 1 else 'have'} succeeded (--again runs them again)"] if done else []
    waits = "waits, runs" if busy == 1 else "wait, run"
    why += [f"{busy:,} {waits} or may still run by the schedule"] if busy else []
    return f"nothing to run: of the occurrences of {jobid!r} {span}, {', '.join(why)}"


def _find_followers(store: Store, jobid: str, dues: Sequence[float], at_once: int) -> list[str]:
    """Return the jobs that follow this one, directly or not; each is to run after it for all `dues`.

    Raise `BadConfig` for too many followers, and `BadJobId` as `_find_there` does.
    """
    followers = store.backfills.list_followers(jobid)
    if len(followers) > MOST_FOLLOWERS:
        raise BadConfig(f"{jobid!r} has more than {MOST_FOLLOWERS:,} followers: --alone runs it without them")
    for name, number, most in (("range", len(dues), MOST_RUNS), ("at_once", min(at_once, len(dues)), MOST_BEGUN)):
        if followers and (1 + len(followers)) * number > most:
            what = f"{name_number(number, 'occurrence')} with {name_number(len(followers), 'follower')}"
            raise BadConfig(f"bad {name}: {jobid!r} has {what}, over {most:,} runs: --alone leaves these out")
    for each in followers:
        text = store.questions.read_schedule(each) or ""
        if len(text.encode()) + MOST_ADDED * (2 + text.count(",")) > MAX_TEXT:
            raise BadConfig(f"{each!r} follows too many jobs for a backfill of {jobid!r}: --alone runs it without them")
        _find_there(store, each, [make_jobid(each, due) for due in dues])
    return followers


def _find_there(store: Store, jobid: str, ids: Sequence[str]) -> list[str]:
    """Return those of `ids`, the jobs of occurrences in a backfill of this job, that exist.

    Raise `BadJobId` if the id of an occurrence is too long, or is the id of another job.
    """
    if ids:
        check_known_jobid(max(ids, key=len))
    found = store.backfills.find_bases(ids)
    for other, base in found.items():
        if base != jobid:
            raise BadJobId(f"bad job id {other!r}: an occurrence of the backfill needs it, but another job has it")
    return list(found)


def _list_own(store: Store, jobid: str, dues: Sequence[float], begun: float) -> tuple[set[float], set[float]]:
    """Return which `dues` have succeeded, and which wait or run, by the jobs that an earlier backfill has left.

    Runs before `begun`, the begin of the first known backfill, do not count: the job was unset since. Raise `BadJobId`
    if the id of an occurrence is too long, or is the id of another job.
    """
    ids = {make_jobid(jobid, due): due for due in dues}
    found = _find_there(store, jobid, list(ids))
    runs = store.journal.list_runs(found)
    done = {ids[run.jobid] for run in runs if run.outcome == Outcome.OK and run.started >= begun}
    # A person may have run some of them again.
    states = (state for page in split(found, PAGE) for state in store.questions.inspect(page))
    return done, {ids[each.jobid] for each in states if each.run or each.waiting or each.held or each.due}
