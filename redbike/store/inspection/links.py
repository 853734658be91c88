"""Jobs that follow jobs of other shards: does the shard of each parent know of them?

Otherwise they wait for ever. That may be so after its server has lost its last writes.
"""

from collections.abc import Iterator
from typing import NamedTuple

from redbike.store.store import Store
from redbike.text.group_names import is_jobid


class Unknown(NamedTuple):
    """A follower of which the shard of a parent does not know."""

    jobid: str
    parent: str
    prefix: str  # of that shard

    def describe(self) -> str:
        """Return a line that tells so."""
        return f"{self.jobid!r}: the shard {self.prefix} does not know that it follows {self.parent!r}"


def list_unknown(store: Store) -> Iterator[Unknown]:
    """Yield the followers of jobs of other shards that are not known there."""
    for number, shard in enumerate(store.shards if len(store.shards) > 1 else ()):
        for page in shard.coming.list_followers():
            found = list(_list_unknown(store, number, page))
            # What is unset meanwhile is known nowhere any more.
            still = shard.links.read_parents([each.jobid for each in found])
            yield from (each for each in found if each.parent in still.get(each.jobid, ()))


def _list_unknown(store: Store, number: int, jobids: list[str]) -> Iterator[Unknown]:
    wanted: dict[int, dict[str, list[str]]] = {}  # by the shard of a parent: its followers
    for jobid, parents in store.shards[number].links.read_parents(jobids).items():
        for parent in filter(is_jobid, parents):
            wanted.setdefault(store.number_shard(parent), {}).setdefault(parent, []).append(jobid)
    wanted.pop(number, None)
    for other, followers in wanted.items():
        subscribers = store.shards[other].links.list_subscribers(list(followers))
        prefix = store.shards[other].keys.prefix
        for parent, own in followers.items():
            if number not in subscribers[parent]:
                yield from (Unknown(jobid, parent, prefix) for jobid in own)


def repair_unknown(store: Store) -> Iterator[tuple[str, bool]]:
    """Let the shards of parents know of their followers; yield a line for each, and that it is well now."""
    for each in list_unknown(store):
        store.find_shard(each.parent).links.subscribe(store.number_shard(each.jobid), [each.parent])
        yield f"{each.describe()} -- repaired: it does now", True
