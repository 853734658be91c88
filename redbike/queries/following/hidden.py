"""Which jobs wait for others of which somebody may not hear: then when they are due says what those do."""

from collections import defaultdict
from collections.abc import Callable

from redbike.queries.following.family import Family


def find_hidden(family: Family, fits: Callable[[str], bool]) -> set[str]:
    """Return those that follow, on any level, a job that does not fit, or that nobody has read.

    The parents of the jobs that are asked for are known.
    """
    below, hidden = defaultdict[str, list[str]](list), set[str]()
    for jobid in (*family.states, *family.groups):
        for parent in family.list_parents(jobid):
            below[parent].append(jobid)
    waiting = [each for each in below if each not in family.groups and not (each in family.states and fits(each))]
    waiting += [name for name, group in family.groups.items() if group.counts.left > len(group.jobids)]
    while waiting:
        # Popped, as damaged records may go round in a circle.
        found = below.pop(waiting.pop(), [])
        hidden.update(found)
        waiting += found
    return hidden
