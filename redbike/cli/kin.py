"""Describe on a terminal which jobs a job follows, and which jobs follow it."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from redbike.loop.catchup import JUST_BEFORE
from redbike.queries.following.family import MOST_LEVELS, Family, find_after, list_due_times
from redbike.queries.following.held import find_due
from redbike.queries.following.holds import read_holds
from redbike.queries.following.remarks import remark_parents
from redbike.queries.following.tree import Neighbourhood, look_around
from redbike.queries.following.words import describe_group, describe_place, explain_follower, explain_parents
from redbike.schedule.after import After
from redbike.schedule.clock import Clock, list_runs
from redbike.schedule.kinds import Schedule
from redbike.store.inspected import JobState
from redbike.store.sharded.missing import list_missing
from redbike.store.store import Store
from redbike.text.group_names import is_group, name_parent
from redbike.text.printable import escape

MOST = 5  # jobs in a line


def list_parent_times(
    store: Store, after: After, jobid: str, zone: str, start: float, count: int, remark: Callable[[float], str]
) -> tuple[str, str, list[str]]:
    """Return for what a follower waits, why it has no due times ("" if it has), and lines with those of its parents.

    `jobid` is "" for a follower that is not set. `remark` returns a text to print after a due time (epoch seconds).
    """
    family, clock = Family(store, presumes_success=False), Clock(store.timeline.read_clock(), zone)
    family.read_parents([jobid] if jobid else after.parents)
    family.holds = read_holds(store, family.states)
    state = family.states.get(jobid) if jobid else None
    if state is None:
        said = explain_parents(family, after, after.parents, clock)
        schedule = family.foresee(after, clock.now)
    else:
        said, schedule = explain_follower(family, state, clock), list_due_times(family, state)
    if note := _explain_lack(family, schedule, clock):
        return _show(said), note, []
    remark_all = remark_parents(family, [jobid] if state else after.parents, clock, remark)
    return _show(said), "", list(_list_lines(schedule, state, clock, start, count, remark_all))


def _list_lines(
    schedule: Schedule, state: JobState | None, clock: Clock, start: float, count: int, remark: Callable[[float], str]
) -> Iterator[str]:
    """Yield up to `count` due times of parents after `start`, as lines. If that is now, include those due already."""
    start, shown = start - JUST_BEFORE if start <= clock.now else start, partial(find_due, state)
    return list_runs(schedule, start, clock.now, count, clock.zone, None, lambda due: _show(remark(due)), shown)


def _explain_lack(family: Family, schedule: Schedule, clock: Clock) -> str:
    """Return a sentence that says why the due times of the parents are unknown; "" if they are known."""
    if schedule.allows_pause:
        return "What it follows runs all the time, so it is due again as soon as that has ended."
    if family.is_cut and schedule.next(clock.now - JUST_BEFORE) is None:
        if list_missing():
            return "Its due time is unknown: the shard of a job that comes before it is missing."
        return f"Its due time is unknown: more than {MOST_LEVELS} levels of jobs come before it."
    return ""


class Kin:
    """A job of `store` with its parents and followers."""

    def __init__(self, store: Store, jobid: str, clock: Clock) -> None:
        self._clock, self._jobid = clock, jobid
        self._family = Family(store, presumes_success=False)
        self._around: Neighbourhood | None = look_around(store, jobid, clock, self._family)
        state = self._family.states.get(jobid)
        self.after = find_after(state.schedule) if state else None
        self._state = state

    def list_times(self, count: int, remark: Callable[[float], str]) -> Iterable[str]:
        """Return up to `count` due times of its parents as lines, or one line that says why they are unknown."""
        assert self._state
        schedule = list_due_times(self._family, self._state)
        if lack := _explain_lack(self._family, schedule, self._clock):
            return [lack]
        remark_all = remark_parents(self._family, [self._jobid], self._clock, remark)
        return _list_lines(schedule, self._state, self._clock, self._clock.now, count, remark_all)

    def explain(self, place: str) -> str:
        """Return for which parents the job waits; `place` if it waits for none."""
        state = self._state
        waits = state is not None and state.timeline is not None and state.due is None and not state.pause
        said = explain_follower(self._family, state, self._clock) if waits and state else ""
        return _show(said) if said else place

    def list_facts(self) -> Iterator[tuple[str, str]]:
        """Yield the parents and the followers of the job, as names and values."""
        if self.after and is_group(self.after.parents[0]):
            yield "waits for", _show(describe_group(self._family, self.after.parents[0]))
        elif self.after:
            ending = self.after.ending
            parents = (f"{each} ({self._describe(each, ending)})" for each in self.after.parents[:MOST])
            yield "after", _list_some(list(parents), len(self.after.parents))
        if followers := self._family.list_followers(self._jobid):
            yield "followed by", _list_some(list(map(name_parent, followers[:MOST])), len(followers))

    def _describe(self, parent: str, ending: str) -> str:
        return describe_place(self._family, parent, ending, self._clock).removeprefix("is ")

    def list_tree(self) -> Iterator[str]:
        """Yield the lines of a tree of the jobs around this one: parents above their followers."""
        yield from map(_show, self._around.list_lines() if self._around else ())


def _list_some(names: list[str], number: int) -> str:
    more = f", and {number - MOST} more" if number > MOST else ""
    return _show(", ".join(names)) + more


def _show(text: str) -> str:
    return escape(text.encode(errors="surrogateescape"))
