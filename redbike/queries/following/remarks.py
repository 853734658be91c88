"""What holds the parents of a follower at the times for which it is due."""

from collections.abc import Callable, Iterable

from redbike.queries.following.family import Family
from redbike.queries.following.streams import JUST_BEFORE
from redbike.schedule.clock import Clock


def remark_parents(
    family: Family, jobids: Iterable[str], clock: Clock, remark: Callable[[float], str]
) -> Callable[[float], str]:
    """Return what tells of a due time what `remark` does, or else which of the jobs above these is paused then.

    Or which of these. The due times are those of the `family`, which knows what holds its jobs.
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
