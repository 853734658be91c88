"""Remarks on a follower: which of its parents are held when it is due, and which do not exist."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from redbike.loop.catchup import JUST_BEFORE
from redbike.queries.following.family import Family
from redbike.schedule.clock import Clock
from redbike.store.store import Store

MOST_NAMED = 5  # parents


def remark_parents(
    family: Family, jobids: Iterable[str], clock: Clock, remark: Callable[[float], str]
) -> Callable[[float], str]:
    """Return a function of a due time: it returns what `remark` does, or else which job is paused then.

    It looks at `jobids` and all jobs above them. The `family` has the due times, and the holds of its jobs.
    """
    found, waiting = dict.fromkeys(jobids), list(jobids)
    while waiting:
        fresh = [each for each in family.list_parents(waiting.pop()) if each not in found]
        found |= dict.fromkeys(fresh)
        waiting += fresh

    def remark_all(due: float) -> str:
        own, holds = remark(due), family.holds
        if own or holds is None:
            return own
        ending = (each for each in found if family.find_stream(each).next(due - JUST_BEFORE) == due)
        held = ((each, holds.describe(each, due, clock)) for each in ending)
        return next((f"  {each}: {said}" for each, said in held if said), "")

    return remark_all


def describe_unknown(store: Store, jobid: str) -> Iterator[str]:
    """Yield a line if a follower waits for a job that does not exist: it may be set later, or be misspelt."""
    family = Family(store)
    family.read_parents([jobid], levels=1)
    for group in family.groups.values():
        if not (group.counts.left or group.counts.is_open):
            yield f"{jobid}: no job of the group {group.name!r} is left, so it is due now"
        return
    if missing := [each for each in family.list_parents(jobid) if family.states.get(each) is None]:
        names = ", ".join(f"{each!r:.80}" for each in missing[:MOST_NAMED]) + ", …" * (len(missing) > MOST_NAMED)
        yield f"{jobid}: it waits for {names}, which {'is no job' if len(missing) == 1 else 'are no jobs'} yet"


def find_hidden(family: Family, fits: Callable[[str], bool]) -> set[str]:
    """Return the jobs that follow, on any level, a job that does not fit, or that was not read.

    A user who may not see such a job must not see when its followers are due either: this would show when it runs.
    The parents of the requested jobs are known.
    """
    below, hidden = defaultdict[str, list[str]](list), set[str]()
    for jobid in (*family.states, *family.groups):
        for parent in family.list_parents(jobid):
            below[parent].append(jobid)
    waiting = [each for each in below if each not in family.groups and not (each in family.states and fits(each))]
    waiting += [name for name, group in family.groups.items() if group.counts.left > len(group.jobids)]
    while waiting:
        # Popped, as damaged records may form a cycle.
        found = below.pop(waiting.pop(), [])
        hidden.update(found)
        waiting += found
    return hidden
