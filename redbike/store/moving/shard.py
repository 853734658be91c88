"""A shard of the old or the new number of shards: its keys have other names while its jobs are on the move."""

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from redbike.connection.client import aim_at_each, is_in_cluster
from redbike.errors import RedbikeError
from redbike.store.agreement import LEFT, NUMBER, name_home
from redbike.store.keys import ASIDE, FIXED, Keys
from redbike.store.moving.rules import STAYING
from redbike.store.namespace import PAGE, Namespace, split
from redbike.store.records import decode, encode
from redbike.store.scripts import GUARD, Call, Scripts
from redbike.store.sharded.pipeline import ReplicatedPipeline
from redbike.store.sharded.places import name_shards
from redbike.store.sharded.steering import FIELD

OLD = "old"  # the name under which the keys are kept that the jobs leave
REPLICA_TIMEOUT = 2.0  # seconds for which a replica is waited for at a time
MARK = "mark"  # the key that exists while keys have other names
# The set of queues first: the keys of queues are found by it.
NAMES = ("queues", *(name for name in FIXED if name not in ("queues", "control", *STAYING)))


class Superseded(RedbikeError):
    """Another process moves these jobs."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The client of its server, its keys, and the keys whose ``-agreed`` says where the jobs are on the move."""

    client: Any
    keys: Keys
    home: Keys
    scripts: Scripts

    @property
    def live(self) -> Namespace:
        """Its keys under their own names."""
        return Namespace(self.client, self.keys, self.scripts)

    def aside(self, name: str) -> Namespace:
        """Its keys under other names."""
        return Namespace(self.client, Keys(f"{self.keys.prefix}-{ASIDE}{name}"), self.scripts)

    def read_agreed(self) -> str:
        """Return the agreed number of shards, as it is stored."""
        return decode(Namespace(self.client, self.home, self.scripts).ask("hget", self.home.agreed, NUMBER))

    def list_agreed(self) -> list[tuple[str, str]]:
        """Return what else its processes agree on: fields and texts."""
        return [(field, text) for field, text in self.live.scan(self.keys.agreed) if field not in (NUMBER, LEFT)]

    def agree(self, was: str, becomes: str) -> bool:
        """Replace the agreed number `was` by what it `becomes`; return False if another one is stored."""
        call = Namespace(self.client, self.home, self.scripts).pack("agree", was=was, becomes=becomes)
        return bool(self.scripts.run(call)[0] == "ok")

    def is_replicated(self, agreed: str) -> bool:
        """Tell whether a replica of its master has all changes within `REPLICA_TIMEOUT`, or there is no replica."""
        call = Namespace(self.client, self.home, self.scripts).pack("agree", was=agreed, becomes=agreed)
        with closing(ReplicatedPipeline(self.client)) as pipeline:
            pipeline.run([call])
            return pipeline.is_alone() or pipeline.is_replicated(REPLICA_TIMEOUT)

    def leave(self, agreed: str, guard: str) -> None:
        """Rename its keys to those under `OLD`. A request for the keys is refused with the text of `guard`."""
        self._relocate(self.live, self.aside(OLD), agreed, guard=GUARD + guard, guarded=len(NAMES))

    def enter(self, agreed: str, name: str) -> None:
        """Rename its keys, which are under `name`, to their own names."""
        self._relocate(self.aside(name), self.live, agreed)

    def drop_old(self, agreed: str) -> None:
        """Delete the keys that its jobs have left."""
        old = self.aside(OLD)
        self._relocate(old, old, agreed, drops=True)
        self.live.ask("delete", self.keys.control)

    def _relocate(self, source: Namespace, target: Namespace, agreed: str, **given: Any) -> None:
        aside = source if source.keys.prefix != self.keys.prefix else target
        word = "changed"
        while word == "changed":
            queues = list_queues(source)
            names = list_keys(source.keys, queues), list_keys(target.keys, queues)
            keys = (self.home.agreed, f"{aside.keys.prefix}-{MARK}", *names[0], *names[1])
            packed = json.dumps({"shards": agreed, "used": len(queues), **given}, ensure_ascii=False)
            word = self.scripts.run(Call("relocate", keys, packed))[0]
        if word == "stale":
            raise Superseded("another process moves these jobs")


def wait_for_replicas(shards: Sequence[Shard], agreed: str, patience: float) -> None:
    """Wait for replicas of all masters to have what was changed. Raise `RedbikeError` after `patience` seconds.

    On a single server there is nothing to wait for: its replica has everything in the order in which it was done.
    """
    until = time.monotonic() + patience
    for shard in {shard.keys.prefix: shard for shard in shards if is_in_cluster(shard.client)}.values():
        while not shard.is_replicated(agreed):
            if time.monotonic() > until:
                raise RedbikeError(
                    f"cannot complete the move: no replica of the master of {shard.keys.prefix} has all jobs yet; wait "
                    "for it, or remove it, and begin again"
                )


def pass_on_agreed(old: Sequence[Shard], new: Sequence[Shard]) -> None:
    """Copy to the new shards what the processes of the old ones agreed on."""
    for shard in old:
        for field, text in shard.list_agreed():
            # Notes of changes in all shards are not needed: the new shards start alike.
            for target in new if not field.startswith(FIELD) else ():
                target.live.ask("hsetnx", target.keys.agreed, encode(field), encode(text))


def forget_agreed(old: Sequence[Shard]) -> None:
    """Delete what the processes of the old shards agreed on."""
    for shard in old:
        if fields := [encode(field) for field, _ in shard.list_agreed()]:
            shard.live.ask("hdel", shard.keys.agreed, *fields)


def list_shards(client: Any, prefix: str, number: int) -> list[Shard]:
    """Return the shards of a prefix that has `number` of them."""
    if number == 1:
        return [Shard(client, Keys(prefix), Keys(prefix), Scripts(client))]
    names = name_shards(prefix, number)
    pairs = zip(aim_at_each(client, names), names, strict=True)
    return [Shard(each, Keys(name), Keys(name_home(name)), Scripts(each)) for each, name in pairs]


def forget_left(client: Any, prefix: str, numbers: Iterable[int]) -> int:
    """Delete what refuses requests in the places of so many shards; return how many keys are deleted."""
    gone = 0
    for shard in (shard for number in numbers for shard in list_shards(client, prefix, number)):
        gone += int(shard.live.ask("unlink", shard.home.agreed, *shard.keys.list_fixed()))
    return gone


def list_keys(keys: Keys, queues: Sequence[str]) -> list[str]:
    """Return the keys that leave with the jobs."""
    fixed = [f"{keys.prefix}-{name}" for name in NAMES]
    return [*fixed, *(key for name in queues for key in keys.of_queue(name))]


def list_queues(place: Namespace) -> list[str]:
    """Return the names of the queues that were ever used there; none where the jobs have left."""
    if decode(place.ask("type", place.keys.queues)) != "set":
        return []
    return sorted(map(decode, place.ask("smembers", place.keys.queues)))


def delete(place: Namespace, queues: Iterable[str] = ()) -> None:
    """Delete the keys of `place`, also of these queues, whose names another process may have deleted."""
    names = sorted({*list_queues(place), *queues})
    for page in split([f"{place.keys.prefix}-{MARK}", *list_keys(place.keys, names)][::-1], PAGE):
        place.ask("unlink", page[0], *page[1:])
