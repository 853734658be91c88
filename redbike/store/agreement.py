"""Among how many shards the jobs of a prefix are divided: it is stored, and nobody may think otherwise.

The number stands in ``-agreed`` of the prefix itself and of each shard. So a process without shards finds it, and one
that cannot reach some of the masters does.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import redis

from redbike.connection.refusals import translate_errors
from redbike.errors import BadConfig, ServerError, Unreachable
from redbike.store.keys import Keys
from redbike.store.records import decode
from redbike.store.scripts import name_wrong_key

NUMBER = "shards"  # the field


class Place(Protocol):
    """A shard: what reaches its server, and its keys."""

    client: "redis.Redis"
    keys: Keys


class Agreement:
    """The number of shards of `prefix`, whose own keys `client` reaches; `shards` are the stores of more than one."""

    def __init__(self, client: "redis.Redis", prefix: str, shards: Sequence[Place] = ()) -> None:
        self._prefix, self._number = prefix, max(1, len(shards))
        own: list[tuple[Any, Keys]] = [(client, Keys(prefix))]
        self._places = own + [(shard.client, shard.keys) for shard in shards]
        self._is_noted = False

    def check(self) -> None:
        """Raise `BadConfig` if the jobs are divided among another number of shards."""
        known, silent = list[str](), list[Unreachable]()
        for client, keys in self._places:
            try:
                known.append(decode(_ask(client, keys.agreed, "hash", "hget", NUMBER)))
            except Unreachable as error:
                silent.append(error)
            except ServerError:
                if self._number > 1:
                    raise
                return  # whoever needs the key, or looks for such a thing, says that it is no hash
        if len(silent) == len(self._places):
            raise silent[0]
        self._compare(known)
        client, keys = self._places[0]
        if self._number > 1 and not any(known) and _ask(client, keys.statuses, "hash", "hlen"):
            raise BadConfig(
                f"bad shards {self._number}: the prefix {self._prefix!r} has jobs that are in one shard; load them "
                "under another prefix, from what redbike schedules --full prints"
            )

    def note(self) -> None:
        """Note the number, before anything is changed under it. Raise `BadConfig` if another one is noted."""
        if self._is_noted or self._number == 1:
            return
        silent = list[Unreachable]()
        for client, keys in self._places:
            try:
                if not _ask(client, keys.agreed, "hash", "hsetnx", NUMBER, str(self._number)):
                    self._compare([decode(_ask(client, keys.agreed, "hash", "hget", NUMBER))])
            except Unreachable as error:
                silent.append(error)
        if len(silent) == len(self._places):
            raise silent[0]
        self._is_noted = not silent

    def forget(self) -> int:
        """Forget the number, as there are no jobs any more; return how many keys are gone that no shard has."""
        self._is_noted = False
        client, keys = self._places[0]
        return int(_ask(client, keys.agreed, "hash", "hdel", NUMBER)) if self._number > 1 else 0

    def _compare(self, known: Sequence[str]) -> None:
        if other := next((number for number in known if number not in ("", str(self._number))), ""):
            raise BadConfig(
                f"bad shards {self._number}: the jobs of the prefix {self._prefix!r} are divided among {other:.10}"
            )


def _ask(client: Any, key: str, kind: str, command: str, *given: str) -> Any:
    with translate_errors():
        try:
            return getattr(client, command)(key, *given)
        except redis.ResponseError as error:
            raise name_wrong_key(client, [(key, kind)], error) from error
