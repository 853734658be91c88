"""Several prefixes share a server, but no key may belong to two of them.

- ``a`` with a queue ``work-mail`` has the list of the queue ``mail`` of ``a-work``.
- If both ``a`` and ``a-wake`` have a queue ``q``, the tokens of the first are in the list of the second.
- If ``a-queue`` has a queue ``limits``, its list is the key for the limits of ``a``.

A process that sets a job is refused early: as soon as the other prefix could have such a queue. A worker or dispatcher
is refused a queue only if the other prefix has used a queue that shares a key with it.

A tag is random. So no in-flight key of ``a`` is a key of ``a-inflight``.
"""

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

import redis

from redbike.connection.client import is_in_cluster
from redbike.connection.refusals import translate_errors
from redbike.errors import BadQueueName
from redbike.store.keys import Keys
from redbike.store.namespace import PAGE, split
from redbike.store.prefixes import list_keys, read_queues
from redbike.store.store import Store

AGAIN = 10.0  # seconds after which a refused queue is checked again


class Neighbours:
    """Finds queues of this prefix that share keys with another one. A queue that shares none is checked only once."""

    def __init__(self, store: Store) -> None:
        self._client = store.client
        self._keys = store.keys
        self._is_in_cluster = is_in_cluster(store.client)
        self._has_shards = len(store.whole.shards) > 1
        self._free: set[str] = set()  # queues that `check` has accepted
        self._shared: dict[str, tuple[str, float]] = {}  # by refused queue: why, and when it was checked
        self._unshared: set[str] = set()  # queues that share no key

    def check(self, queues: Collection[str]) -> None:
        """Raise `BadQueueName` if another prefix has, or could get, a key of one of these queues."""
        # Braces keep the keys of shards apart from all others.
        if not (self._has_shards or self._free.issuperset(queues)):
            new = {*queues} - self._free
            used = self._find_used(new)
            for why in (*self._find_shared(new, used).values(), *self._list_possible(new, used)):
                raise BadQueueName(why)
            self._free |= new

    def check_shared(self, queues: Collection[str]) -> None:
        """Raise `BadQueueName` if another prefix has a key of one of these queues."""
        for why in self.find_shared(queues).values():
            raise BadQueueName(why)

    def find_shared(self, queues: Collection[str]) -> dict[str, str]:
        """Return for each of these queues that shares a key with another prefix why it is refused."""
        if self._has_shards or self._unshared.issuperset(queues):
            return {}
        now = time.monotonic()
        known = {name: self._shared[name] for name in queues if name in self._shared}
        known = {name: (why, at) for name, (why, at) in known.items() if now - at < AGAIN}
        if new := {*queues} - self._unshared - known.keys():
            found = self._find_shared(new, self._find_used(new))
            known |= {name: (why, now) for name, why in found.items()}
            self._shared |= known
            self._unshared |= new - found.keys()
        return {name: why for name, (why, _) in known.items()}

    def _find_shared(self, queues: set[str], used: dict[str, set[str]]) -> dict[str, str]:
        found: dict[str, str] = {}
        for other, names in used.items():
            theirs = set(list_keys(Keys(other), names))
            if not theirs.isdisjoint(self._keys.list_fixed()):
                found |= dict.fromkeys(queues, self._explain(other, "a queue of that"))
            shared = (name for name in queues if not theirs.isdisjoint(self._keys.of_queue(name)))
            found |= {name: self._explain(other, f"its queue {name!r}") for name in shared}
        return found

    def _list_possible(self, queues: set[str], used: dict[str, set[str]]) -> Iterator[str]:
        """Yield for each key of these queues that another prefix could get why it is refused."""
        for name in sorted(queues):
            for other in (key for head in _list_heads(name) for key in self._keys.of_queue(head) if key in used):
                yield self._explain(other, f"its queue {name!r}")
        for other in _list_heads(self._keys.prefix):
            for name in sorted(used.get(other, ())):
                # Both prefixes may share this one key, but only if this prefix has a queue of this name, too.
                keys = {*Keys(other).of_queue(name)} - {self._keys.queue(name)}
                if any(key.startswith(self._keys.queue("")) for key in keys):
                    yield self._explain(other, f"the queue {name!r} of that")

    def _find_used(self, queues: Iterable[str]) -> dict[str, set[str]]:
        """Return the other prefixes that have jobs and could share keys of these queues, with their used queues."""
        heads = {head for key in list_keys(self._keys, queues) for head in _list_heads(key)} - {self._keys.prefix}
        # In a cluster, a prefix has braces: a name without them is no prefix.
        asked = sorted(head for head in heads if "{" in head or not self._is_in_cluster)
        with translate_errors():
            found = (other for page in split(asked, PAGE) for other in self._list_used(page))
            pairs = [(other, read_queues(self._client, other)) for other in found]
        return {other: names for other, names in pairs if names is not None}

    def _list_used(self, prefixes: list[str]) -> list[str]:
        keys = [f"{prefix}-statuses" for prefix in prefixes]
        with suppress(redis.exceptions.NoPermissionError):  # for one of them at least
            if not self._client.exists(*keys):
                return []
        with self._client.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.type(key)
            kinds = pipeline.execute(raise_on_error=False)
        for kind in kinds:
            if isinstance(kind, Exception) and not isinstance(kind, redis.exceptions.NoPermissionError):
                raise kind
        return [prefix for prefix, kind in zip(prefixes, kinds, strict=True) if kind in (b"hash", "hash")]

    def _explain(self, other: str, why: str) -> str:
        own = self._keys.prefix
        return f"the prefix {own!r} cannot be used beside {other!r} on one server: {why} would have its keys"


def _list_heads(name: str) -> list[str]:
    """Return the part of a name before each of its dashes."""
    parts = name.split("-")
    heads = ("-".join(parts[:number]) for number in range(1, len(parts)))
    # A part that ends within braces is no prefix: in a cluster it would be in another slot.
    return [head for head in heads if head.count("{") == head.count("}")]
