"""Prefixes whose keys could be hit by those of another one: ``a`` with a queue ``work-mail``, and ``a-work``."""

from collections.abc import Iterator

import redis

from redbike.connection.refusals import translate_errors
from redbike.errors import BadQueueName
from redbike.store.keys import Keys
from redbike.store.records import decode


class Neighbours:
    """Sees to it that no key of this prefix is one of another prefix on the same server."""

    def __init__(self, client: "redis.Redis", keys: Keys) -> None:
        self._client = client
        self._prefix = keys.prefix
        self._free: set[str] = set()  # what queues may begin with
        self._is_checked = False  # whether no other prefix has queues with the keys of this one

    def check(self, queue: str) -> None:
        """Raise `BadQueueName` if the keys of a queue are, or may become, those of another prefix."""
        if not self._is_checked:
            self._check_prefix()
            self._is_checked = True
        for head, _ in _split(queue):
            if head not in self._free:
                if self._is_used(f"{self._prefix}-{head}"):
                    self._refuse(f"{self._prefix}-{head}", f"its queue {queue!r}")
                self._free.add(head)

    def _check_prefix(self) -> None:
        for other, rest in _split(self._prefix):
            if self._is_used(other):
                with translate_errors():
                    names = map(decode, self._client.smembers(f"{other}-queues"))
                if found := next((name for name in names if name.startswith(f"{rest}-")), None):
                    self._refuse(other, f"the queue {found!r} of that")

    def _is_used(self, prefix: str) -> bool:
        with translate_errors():
            try:
                return decode(self._client.type(f"{prefix}-statuses")) == "hash"
            except redis.exceptions.NoPermissionError:
                return False

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
