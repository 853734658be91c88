"""No prefix may have keys that are those of another one on the same server.

- ``a`` with a queue ``work-mail`` has those of ``a-work``.
- If both ``a`` and ``a-wake`` have a queue ``q``, one key has the tokens of the first and the jobs of the second.
- If ``a-queue`` has a queue ``limits``, its jobs are in the key for the limits of ``a``.

A tag is random. So no in-flight key of ``a`` is a key of ``a-inflight``.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import redis

from redbike.connection.client import is_in_cluster
from redbike.connection.refusals import translate_errors
from redbike.errors import BadQueueName
from redbike.store.keys import FIXED, Keys
from redbike.store.processes import ProcessRecord, list_worked
from redbike.store.records import decode
from redbike.store.store import Store


class Neighbours:
    """Refuses queues whose keys are, or may become, those of another prefix. It asks about each queue once."""

    def __init__(self, store: Store) -> None:
        self._client = store.client
        self._keys = store.keys
        self._prefix = store.keys.prefix
        self._is_in_cluster = is_in_cluster(store.client)
        self._has_shards = len(store.whole.shards) > 1
        self._checked: set[str] = set()  # queues
        self._unused: set[str] = set()  # other prefixes

    def check(self, queues: Collection[str]) -> None:
        """Raise `BadQueueName` if the keys of one of these queues are, or may become, those of another prefix."""
        # Braces keep the keys of shards apart from all others.
        if not (self._has_shards or self._checked.issuperset(queues)):
            new = {*queues} - self._checked
            self._check_shorter(new)
            self._check_longer(new)
            self._checked |= new

    def _check_shorter(self, queues: set[str]) -> None:
        """Check prefixes with which this one begins."""
        for other in self._list_used(head for head, _ in _split(self._prefix)):
            theirs = Keys(other)
            if fixed := {*theirs.list_fixed()} & {self._keys.queue(name) for name in queues}:
                self._refuse(other, f"its queue {min(fixed).removeprefix(f'{self._prefix}-')!r}")
            for name in sorted(self._read_queues(other)):
                own = self._keys.queue(name)
                for key in theirs.of_queue(name):
                    if key.startswith(self._keys.queue("")) and (key != own or name in queues):
                        self._refuse(other, f"the queue {name!r} of that")

    def _check_longer(self, queues: set[str]) -> None:
        """Check prefixes that begin with this one."""
        heads = {head: name for name in sorted(queues, reverse=True) for head, _ in _split(name)}
        # A key of a queue begins with those of any queue there.
        taken = {other: name for head, name in heads.items() for other in self._keys.of_queue(head)}
        # A key is that of one queue there.
        shared = {self._keys.queue(head): {rest} for name in FIXED for head, rest in _split(name)}
        shared |= {base.removesuffix("-"): queues for base in self._keys.of_queue("")[1:]}
        for other in self._list_used([*taken, *shared]):
            if other in taken:
                self._refuse(other, f"its queue {taken[other]!r}")
            if found := shared[other] & self._read_queues(other):
                self._refuse(other, f"the queue {min(found)!r} of that")

    def _list_used(self, prefixes: Iterable[str]) -> list[str]:
        """Return those that have jobs, dispatchers or workers."""
        # In a cluster, a prefix has braces; without these it would be in another slot.
        unknown = sorted(each for each in {*prefixes} - self._unused if "{" in each or not self._is_in_cluster)
        keys = [f"{prefix}-{name}" for prefix in unknown for name in ("statuses", "workers")]
        kinds = self._read_types(keys)
        used = [prefix for prefix, *pair in zip(unknown, kinds[::2], kinds[1::2], strict=True) if "hash" in pair]
        self._unused.update({*unknown} - {*used})
        return used

    def _read_types(self, keys: Sequence[str]) -> list[str]:
        with translate_errors():
            try:
                with self._client.pipeline(transaction=False) as pipeline:
                    for key in keys:
                        pipeline.type(key)
                    return [decode(kind) for kind in pipeline.execute()]
            except redis.exceptions.NoPermissionError:
                # Of one at least. Those that nobody here may see are not in the way.
                return ["none"] if len(keys) == 1 else [kind for key in keys for kind in self._read_types([key])]

    def _read_queues(self, other: str) -> set[str]:
        """Return the queues of another prefix that were ever used, and those that its workers look into."""
        keys = Keys(other)
        with translate_errors():
            names = {decode(name) for name in self._client.smembers(keys.queues)}
            owners: Any = self._client.zrange(keys.seen, 0, -1)
            texts = self._client.hmget(keys.workers, owners) if owners else []
        records = (ProcessRecord.parse(decode(text)) for text in texts)
        return names.union(*(list_worked(record) for record in records if record))

    def _refuse(self, other: str, why: str) -> None:
        raise BadQueueName(
            f"the prefix {self._prefix!r} cannot be used beside {other!r} on one server: {why} would have its keys"
        )


def _split(name: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before and behind each dash."""
    parts = name.split("-")
    for number in range(1, len(parts)):
        head, rest = "-".join(parts[:number]), "-".join(parts[number:])
        # In a cluster, half of what stands in braces would be in another slot, and is no prefix.
        if head.count("{") == head.count("}"):
            yield head, rest
