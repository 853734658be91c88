"""Jobs and their parents in their current states, and when each of them is due."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from redbike.config.settings import Settings, override
from redbike.errors import BadSchedule
from redbike.loop.catchup import COUNT_LIMIT, JUST_BEFORE
from redbike.queries.blackouts import Calendar
from redbike.queries.following.budget import Budget
from redbike.queries.following.held import find_held, follow_first, gather, hold_back, keeps_run, leave_out
from redbike.queries.following.holds import Holds
from redbike.queries.following.streams import NEVER, ClosedFollower, Latest, Stream, make_group_stream
from redbike.schedule.after import After
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import AWAITED
from redbike.schedule.parser import is_follower, parse_stored
from redbike.store.archived import read_duration
from redbike.store.coming import ComingJob, find_moments
from redbike.store.groups import GroupState
from redbike.store.inspected import JobState
from redbike.store.namespace import PAGE, split
from redbike.store.schedules import find_schedule
from redbike.store.store import Store
from redbike.text.group_names import MARK, is_group

MOST_LEVELS = 64  # generations of parents above a job
MOST_JOBS = 50_000  # that are read
MOST_MEMBERS = 1000  # of a group, whose ends are computed


def find_after(schedule: str | None) -> After | None:
    """Return a stored schedule if it is the schedule of a follower; None for any other schedule, or a damaged one."""
    if not is_follower(schedule):
        return None
    try:
        parsed = parse_stored(schedule or "")
    except BadSchedule:
        return None
    return parsed if isinstance(parsed, After) else None


class Family:
    """The jobs of `store` that were read, and when they are due.

    With `presumes_success`, each run succeeds: a follower that waits for a failure is never due.
    """

    def __init__(self, store: Store, presumes_success: bool = True) -> None:
        self._store, self._presumes_success = store, presumes_success
        self.states: dict[str, JobState | None] = {}  # by job id; None if there is no such job
        self.groups: dict[str, GroupState] = {}  # groups among the parents
        self.budget = Budget()  # for jobs that are late
        self.calendar: Calendar | None = None  # the blackouts, if they are to be computed
        self.holds: Holds | None = None  # the pauses and blackouts, if they are to be described
        self._streams: dict[str, Schedule] = {}
        self._coming: dict[tuple[str | None, ...], Stream] = {}
        self.is_cut = False  # whether a parent was left out, as there are too many
        self._levels: dict[str, int] = {}  # number of generations above each job

    def add(self, states: Iterable[JobState]) -> None:
        """Add jobs that were read before."""
        for state in states:
            is_there = state.schedule is not None or state.status is not None or state.running
            self.states[state.jobid] = state if is_there else None

    def read(self, jobids: Iterable[str]) -> None:
        """Read those of `jobids` that are not known yet, with one round trip for each thousand.

        If the caller tolerates missing shards, jobs of a missing shard stay unknown, and so do all groups.
        """
        wanted = dict.fromkeys(jobids)
        if groups := [each for each in wanted if is_group(each) and each not in self.groups]:
            found = self._store.groups.read([each.removeprefix(MARK) for each in groups], MOST_MEMBERS)
            self.groups |= {MARK + name: group for name, group in found.items()}
        fresh = [jobid for jobid in wanted if jobid not in self.states and not is_group(jobid)]
        for page in split(fresh[: max(0, MOST_JOBS - len(self.states))], PAGE):
            self.add(self._store.questions.list_states(page))

    def read_parents(self, jobids: Iterable[str], levels: int = MOST_LEVELS) -> None:
        """Read jobs and all of their ancestors, in a round trip for each generation."""
        self._read_levels(jobids, levels, lambda jobid: self.list_parents(jobid))

    def read_followers(self, jobids: Iterable[str], levels: int = MOST_LEVELS, most: int = MOST_JOBS) -> None:
        """Read jobs and all of their descendants, in a round trip for each generation; `most` jobs of each at most."""
        self._read_levels(jobids, levels, lambda jobid: self.list_followers(jobid), most)

    def _read_levels(
        self, jobids: Iterable[str], levels: int, find_next: Callable[[str], Iterable[str]], most: int = MOST_JOBS
    ) -> None:
        generation, seen = list(jobids), set[str]()
        for _ in range(levels + 1):
            if not generation:
                return
            seen.update(generation)
            self.read(generation)
            found = dict.fromkeys(other for jobid in generation for other in find_next(jobid))
            generation = [jobid for jobid in found if jobid not in seen][:most]

    def list_parents(self, jobid: str) -> tuple[str, ...]:
        """Return the parents of a known job, in their order."""
        if jobid in self.groups:
            return self.groups[jobid].jobids
        state = self.states.get(jobid)
        after = find_after(state.schedule) if state else None
        return after.parents if after else ()

    def list_followers(self, jobid: str) -> tuple[str, ...]:
        """Return the followers of a known job, and the group that it belongs to."""
        if jobid in self.groups:
            return self.groups[jobid].followers
        state = self.states.get(jobid)
        group = (MARK + state.member_of,) if state and state.member_of else ()
        return (*state.followers, *group) if state else ()

    def find_stream(self, jobid: str) -> Schedule:
        """Return when a job ends occurrences from now on. A run in flight ends at once."""
        stack, entered = [jobid], set[str]()
        while stack:
            each = stack[-1]
            # Damaged records may let a job follow itself: it is never due by this.
            fresh = [] if each in entered else [one for one in self.list_parents(each) if one not in entered]
            entered.add(each)
            stack.extend(one for one in fresh if one not in self._streams)
            if stack[-1] == each:
                stack.pop()
                if each not in self._streams:
                    self._streams[each] = self._make_stream(each)
        return self._streams[jobid]

    def _make_stream(self, jobid: str) -> Schedule:
        state = self.states.get(jobid)
        level = max((self._levels[each] for each in self.list_parents(jobid) if each in self._levels), default=0)
        self._levels[jobid] = level + 1
        if jobid in self.groups:
            members = [self._streams.get(each, NEVER) for each in self.list_parents(jobid)]
            ends = make_group_stream(self.groups[jobid], members, self._find_now())
            self.is_cut |= ends is None
            return ends or NEVER
        self.is_cut |= jobid not in self.states or level >= MOST_LEVELS
        # The run of a job that was unset meanwhile still ends.
        if state is None or (state.schedule is None and not state.run) or level >= MOST_LEVELS:
            return NEVER
        # If several runs end together, a follower runs for the first one, and once more for the last.
        return self.close(state, self.make_own_stream(state), most=2)

    def _find_now(self) -> float:
        """Return the instant at which the jobs were read."""
        return next((state.now for state in self.states.values() if state), 0.0)

    def close(self, state: JobState, stream: Schedule, most: int = COUNT_LIMIT) -> Schedule:
        """Return when a job ends with blackouts; `stream` is without. It runs up to `most` times when one is over."""
        if (held := find_held(self.calendar, self._store, state)) is None:
            return stream
        if not is_follower(state.schedule):
            return hold_back(stream, held, state, most)
        return ClosedFollower(stream, held.windows, held.catchup == "none", held.expires)

    def make_own_stream(self, state: JobState) -> Schedule:
        """Return when a job, whose parents are known, ends occurrences."""
        base = self.find_base(state)
        found = find_moments(state.now, state.timeline, state.queued, state.running, state.paused)
        if base is None or found is None:
            return NEVER if not state.run else Stream([state.now])
        firsts, base, after = self._place(state, base, *found[1:])
        return Stream(sorted({*([state.now] if state.run else []), *firsts}), base, after)

    def find_base(self, state: JobState) -> Schedule | None:
        """Return the schedule of a job; for a follower, by its known parents. None for a bad schedule."""
        if (after := find_after(state.schedule)) is not None:
            return self.follow(after, state)
        try:
            return find_schedule(state.jobid, state.schedule or "", state.options)
        except BadSchedule:
            return None

    def follow(self, after: After, state: JobState | None, now: float = 0.0) -> Schedule:
        """Return when a follower is due from now on. Without a `state`, it is a follower that is not set yet."""
        if after.ending == "failed" and self._presumes_success:
            return NEVER
        if after.runs_once and state and AWAITED not in (state.timeline, state.pause.due if state.pause else None):
            return NEVER  # it is due by its group once
        kept = state.follows if state else None
        # `after` may be a new schedule with other parents, which is not set yet.
        is_same = kept is not None and set(kept["parents"]) == set(after.parents) and kept["when"] == after.ending
        waits_for = state.waits_for if state and is_same else after.parents
        streams = [self._streams.get(parent, NEVER) for parent in after.parents]
        awaited = [self._streams.get(parent, NEVER) for parent in waits_for]
        return Latest(after.text, streams, awaited, state.now if state else now)

    def foresee(self, after: After, now: float) -> Schedule:
        """Return when a follower that is not set yet would be due; its parents are known."""
        for parent in after.parents:
            self.find_stream(parent)
        return self.follow(after, None, now)

    def _make_own(self, state: JobState, first: float | None, after: float) -> Stream:
        if (base := self.find_base(state)) is None:
            return Stream()
        return Stream(*self._place(state, base, first, after))

    def _place(
        self, state: JobState, base: Schedule, first: float | None, after: float
    ) -> tuple[list[float], Schedule | None, float]:
        """Return the first runs of a job, the schedule that follows them, and the instant after which it counts."""
        firsts, is_held, drops = [] if first is None else [first], False, False
        settings = self.calendar.settings if self.calendar else Settings()
        is_own = state.pause is not None or not (base.allows_pause or isinstance(base, Latest))
        course = follow_first(self._store, state, settings, self.calendar, budget=self.budget) if is_own else None
        if course is not None:
            firsts = course.runs
            if not isinstance(base, Latest):
                firsts = leave_out(firsts)
                return ([*firsts, course.due], base, course.due) if course.due is not None else (firsts, None, 0.0)
            if state.pause and state.pause.until is None:
                return firsts, None, 0.0
            is_held = not keeps_run(state, firsts, after)
            drops = is_held and override(settings, state.options).catchup == "none"
        if isinstance(base, Latest):
            # An occurrence that comes due in a pause runs at its end.
            end = after if state.pause else state.now
            firsts, after = gather(base, firsts, state.now, end, is_held, drops)
        return firsts, base, after

    def make_coming(self, state: JobState) -> ComingJob | None:
        """Return the runs of a follower from now on; None if there are none."""
        self.find_stream(state.jobid)
        found = find_moments(state.now, state.timeline, state.queued, state.running, state.paused)
        if found is None:
            return None
        # Followers that only wait for the same parents are due at the same times.
        is_plain = state.timeline is not None and state.timeline >= AWAITED and not state.pause
        key = (state.schedule, *state.waits_for) if is_plain else (None, state.jobid)
        if key not in self._coming:
            self._coming[key] = self._make_own(state, *found[1:])
        stream = self.close(state, self._coming[key])
        first = stream.next(state.now - JUST_BEFORE)
        if first is None:
            return None
        duration = read_duration(state.history)
        return ComingJob(state.jobid, state.schedule or "", "", found[0], first, first, duration, known=stream)


def list_due_times(family: Family, state: JobState) -> Schedule:
    """Return when a follower is due, by the current states of its parents, which are known."""
    job = family.make_coming(state)
    return job.known if job and job.known else NEVER


def list_coming_followers(
    store: Store,
    jobids: Sequence[str],
    now: float,
    calendar: Calendar | None,
    family: Family | None = None,
    budget: Budget | None = None,
) -> Iterator[ComingJob]:
    """Yield the runs of the followers among `jobids`; it is `now`, by Redis' clock."""
    family = family or Family(store)
    family.calendar, family.budget = calendar, budget or family.budget
    family.read_parents(jobids)
    family.states = {jobid: state and replace(state, now=now) for jobid, state in family.states.items()}
    for jobid in jobids:
        state = family.states.get(jobid)
        if state is not None and (job := family.make_coming(state)) is not None:
            yield job


def list_all_followers(
    store: Store, now: float, calendar: Calendar | None, budget: Budget | None = None
) -> Iterator[ComingJob]:
    """Yield the runs of all followers; it is `now`, by Redis' clock."""
    family = Family(store)
    for page in store.coming.list_followers():
        family.read(page)
    yield from list_coming_followers(store, list(family.states), now, calendar, family, budget)
