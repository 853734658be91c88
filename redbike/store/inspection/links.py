"""Check jobs that follow jobs or groups of other shards: the shard of each parent must know of them.

The shard of each group must know which other shards have jobs of it. Otherwise followers wait for ever, or are due too
early. A shard may lack this after its server has lost its last writes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from redbike.errors import Unreachable
from redbike.store.groups import GroupState
from redbike.store.namespace import PAGE, split
from redbike.store.sharded.mail import deliver
from redbike.store.sharded.missing import pass_over
from redbike.store.store import Store
from redbike.text.group_names import MARK, is_group, name_parent

T = TypeVar("T")

LOOKS = 3  # at a group that changes meanwhile


class Unknown(NamedTuple):
    """A follower that the shard of its parent does not know."""

    jobid: str
    parent: str
    prefix: str  # of the parent's shard

    def describe(self) -> str:
        """Return the problem as a line."""
        name = f"the {name_parent(self.parent)}" if is_group(self.parent) else repr(self.parent)
        return f"{self.jobid!r}: the shard {self.prefix} does not know that it follows {name}"


def _ask(store: Store, numbers: Iterable[int], ask: Callable[..., T], *given: Any) -> dict[int, T]:
    """Return what shards answer, by their numbers; without those that are missing, if the caller tolerates that."""
    answers = dict[int, T]()
    for number in numbers:
        try:
            answers[number] = ask(store.shards[number], *given)
        except Unreachable as error:
            pass_over(store.shards[number], error)
    return answers


def list_unknown(store: Store) -> Iterator[Unknown]:
    """Yield each follower of a job of another shard, if that shard does not know the follower."""
    for number, shard in enumerate(store.shards if len(store.shards) > 1 else ()):
        try:
            for page in shard.coming.list_followers():
                found = list(_list_unknown(store, number, shard.links.read_parents(page)))
                # A job that was unset meanwhile is known nowhere any more.
                still = shard.links.read_parents([each.jobid for each in found])
                yield from (each for each in found if each.parent in still.get(each.jobid, ()))
        except Unreachable as error:
            pass_over(shard, error)


def _list_unknown(store: Store, number: int, parents_of: Mapping[str, Sequence[str]]) -> Iterator[Unknown]:
    wanted: dict[int, dict[str, list[str]]] = {}  # by the shard of a parent: its followers
    for jobid, parents in parents_of.items():
        for parent in parents:
            wanted.setdefault(store.number_shard(parent), {}).setdefault(parent, []).append(jobid)
    wanted.pop(number, None)
    for other, followers in wanted.items():
        known = _ask(store, [other], lambda shard, names: shard.links.list_subscribers(names), list(followers))
        for subscribers in known.values():
            prefix = store.shards[other].keys.prefix
            for parent, own in followers.items():
                if number not in subscribers[parent]:
                    yield from (Unknown(jobid, parent, prefix) for jobid in own)


def repair_unknown(store: Store) -> Iterator[tuple[str, bool]]:
    """Make followers known to the shards of parents; yield a line for each, and whether it is repaired now."""
    found = list(list_unknown(store))
    for each in found:
        store.find_shard(each.parent).links.subscribe(store.number_shard(each.jobid), [each.parent])
    yield from _look_again(found, list_unknown(store) if found else ())


class Uncounted(NamedTuple):
    """A group whose shard does not know whether another shard has jobs of it left."""

    name: str
    prefix: str  # of the group's shard
    shard: int  # the number of the other one

    def describe(self) -> str:
        """Return the problem as a line."""
        return f"the group {self.name!r}: the shard {self.prefix} does not know which jobs of it others have"


def list_uncounted(store: Store) -> Iterator[Uncounted]:
    """Yield each group whose home and another shard do not agree whether that shard has jobs of it."""
    shards = store.shards if len(store.shards) > 1 else ()
    listed = _ask(store, range(len(shards)), lambda shard: list(shard.groups.list_names()))
    for page in split(sorted(set(chain.from_iterable(listed.values()))), PAGE):
        found = _ask(store, listed, lambda shard, names: shard.groups.read(names, 0, len(shards)), page)
        for name in page:
            home = store.number_shard(MARK + name)
            others = (other for other in found if other != home and home in found)
            wrong = (other for other in others if not _agree(found[home][name], found[other][name], home, other))
            yield from (
                Uncounted(name, shards[home].keys.prefix, other)
                for other in wrong
                if _is_uncounted(shards, name, home, other)
            )


def _agree(whole: GroupState, part: GroupState, home: int, other: int) -> bool:
    has_jobs = part.counts.left > 0
    return (other in whole.parts) == has_jobs and part.home == (home if has_jobs else None)


def _is_uncounted(shards: Sequence[Store], name: str, home: int, other: int) -> bool:
    """Tell whether the home of a group and another shard do not agree, and no message about it is under way."""
    for _ in range(LOOKS):
        before, whole, after = (shards[each].groups.read([name], 0, len(shards))[name] for each in (other, home, other))
        moves = before.counts != after.counts or home in shards[other].links.list_mail()
        if moves or _agree(whole, after, home, other):
            return False
    return True


def repair_uncounted(store: Store) -> Iterator[tuple[str, bool]]:
    """Let shards of groups know which others have jobs of them; yield a line for each, and whether it is repaired."""
    found = list(list_uncounted(store))
    for each in found:
        home = store.number_shard(MARK + each.name)
        store.shards[each.shard].groups.tell(each.name, home)
        deliver(store.shards, each.shard, home)
    yield from _look_again(found, list_uncounted(store) if found else ())


def _look_again(
    found: Iterable[Unknown | Uncounted], left: Iterable[Unknown | Uncounted]
) -> Iterator[tuple[str, bool]]:
    still = set(left)
    for each in found:
        done = "not repaired: it still does not" if each in still else "repaired: it does now"
        yield f"{each.describe()} -- {done}", each not in still
