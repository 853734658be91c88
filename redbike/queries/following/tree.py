"""The jobs around one job: a few generations of parents and followers. Each job is in it once."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from redbike.queries.following.family import Family, find_after
from redbike.queries.following.holds import read_holds
from redbike.queries.following.words import describe_place
from redbike.schedule.clock import Clock
from redbike.store.store import Store
from redbike.text.group_names import is_group, name_parent

LEVELS = 2  # generations up, and as many down
MOST_NODES = 30
MOST_LINES = 60

_HOW = {
    "after": {"ok": "", "failed": " failed", "any": " ended"},
    "then": {"ok": "", "failed": " if it fails", "any": " in any case"},
}


@dataclass(slots=True)
class Node:
    """A job of a neighbourhood."""

    jobid: str
    level: int  #: generations below the requested job; negative for parents
    is_there: bool
    text: str = ""  #: for a parent, its current state: ``is due at …``
    ending: str = "ok"  #: how its parents must end; "" if it follows no job

    @property
    def name(self) -> str:
        """Its id, or the name of a group."""
        return name_parent(self.jobid)


class Branch(NamedTuple):
    """A job in a tree below another one: ``after`` it, or ``then``."""

    depth: int
    word: str
    jobid: str
    how: str  #: how a parent must end: `` failed``, `` if it fails``; "" if it must succeed
    text: str  #: the current state of a parent

    @property
    def name(self) -> str:
        """Its id, or the name of a group."""
        return name_parent(self.jobid)

    @property
    def is_group(self) -> bool:
        """Whether it is a group, not a job."""
        return is_group(self.jobid)


@dataclass(slots=True)
class Neighbourhood:
    """The jobs around one job, by their ids, and the links between them."""

    jobid: str
    nodes: dict[str, Node] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)  #: (parent, follower), both in `nodes`
    hidden: int = 0  #: linked jobs that are left out
    is_deep: bool = False  #: there are further jobs behind the ones left out, which are not counted

    def list_branches(self) -> Iterator[Branch]:
        """Yield the branches of a tree below the job: first its parents, then its followers."""
        yield from self._list_branches(self.jobid, "after", 1, {self.jobid})
        yield from self._list_branches(self.jobid, "then", 1, {self.jobid})

    def _list_branches(self, jobid: str, word: str, depth: int, path: set[str]) -> Iterator[Branch]:
        is_up = word == "after"
        for parent, follower in self.links if depth <= LEVELS else ():
            one, other = (follower, parent) if is_up else (parent, follower)
            if one == jobid and other not in path:
                how = _HOW[word][self.nodes[follower].ending or "ok"] if not is_group(parent) else ""
                yield Branch(depth, word, other, how, self.nodes[other].text if is_up else "")
                yield from self._list_branches(other, word, depth + 1, path | {other})

    def list_lines(self) -> Iterator[str]:
        """Yield the lines of an indented tree."""
        yield self.jobid
        for branch in islice(self.list_branches(), MOST_LINES):
            text = f", which {branch.text}" if branch.text else ""
            yield f"{'  ' * branch.depth}{branch.word} {branch.name}{branch.how}{text}"
        if self.is_deep:
            yield "  and more, further away"
        elif self.hidden:
            yield f"  and {self.hidden:,} more"


def look_around(store: Store, jobid: str, clock: Clock, family: Family) -> Neighbourhood | None:
    """Return the neighbourhood of a job; None if it has neither parents nor followers. Read them into `family`."""
    family.read_parents([jobid])
    family.read_followers([jobid], LEVELS, MOST_NODES)
    if not family.list_parents(jobid) and not family.list_followers(jobid):
        return None
    family.holds = read_holds(store, family.states)
    found = Neighbourhood(jobid)
    _add_node(found, family, jobid, 0, clock)
    up = _walk(found, family, family.list_parents, -1, clock)
    down = _walk(found, family, family.list_followers, 1, clock)
    links = [*((parent, child) for child, parent in up), *down]
    found.links = [link for link in dict.fromkeys(links) if all(each in found.nodes for each in link)]
    return found


def _walk(
    found: Neighbourhood, family: Family, find_next: Callable[[str], Iterable[str]], step: int, clock: Clock
) -> list[tuple[str, str]]:
    """Add the jobs that can be reached in this direction, the nearest first; return the steps."""
    waiting, steps = deque([(found.jobid, 0)]), list[tuple[str, str]]()
    left_out = set[str]()
    while waiting:
        jobid, level = waiting.popleft()
        if abs(level) >= LEVELS:
            further = [each for each in find_next(jobid) if each not in found.nodes]
            found.is_deep |= bool(further)
            left_out.update(further)
            continue
        for other in find_next(jobid):
            steps.append((jobid, other))
            if other in found.nodes:
                continue
            if len(found.nodes) >= MOST_NODES:
                left_out.add(other)
                continue
            _add_node(found, family, other, level + step, clock)
            waiting.append((other, level + step))
    found.hidden += len(left_out)
    return steps


def _add_node(found: Neighbourhood, family: Family, jobid: str, level: int, clock: Clock) -> None:
    state = family.states.get(jobid)
    after = find_after(state.schedule) if state else None
    is_there = state is not None or jobid not in family.states
    text = describe_place(family, jobid, "any", clock) if level < 0 else ""
    found.nodes[jobid] = Node(jobid, level, is_there, text, after.ending if after else "")
