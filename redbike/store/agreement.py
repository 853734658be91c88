"""The number of shards among which the jobs of a prefix are divided. A process with another number is refused.

The number is stored in ``-agreed`` of the prefix itself and of ``{app:00}`` and so on. So a process without shards
finds it, and so does one that cannot reach some of the masters. While the jobs move to another number of shards, the
field says so, and every process is refused.
"""

import math
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self

import redis

from redbike.connection.refusals import translate_errors
from redbike.errors import BadConfig, ServerError, Unreachable
from redbike.store.keys import Keys
from redbike.store.namespace import read_time
from redbike.store.processes import LOST
from redbike.store.records import decode
from redbike.store.scripts import name_wrong_key
from redbike.text.printable import name_number

NUMBER = "shards"  # the field
AGAIN = 1.0  # seconds after which the number is stored again: the server may have lost all of its data
LEFT = "left"  # the field with earlier numbers of shards: their keys refuse processes that still use such a number
_STATE = re.compile(r"(\d{1,9})(?:(=?>)(\d{1,9}))?(?: (\S+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Division:
    """The number of shards, and the one to which jobs move. It is stored as ``4``, ``4>16 ID`` or ``16 ID``.

    ``4=>16 ID`` is a move that cannot be undone any more. `token` is the ID of the process that moved the jobs last.
    """

    number: int
    to: int | None = None
    is_decided: bool = False
    token: str = ""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read the stored text; None for an empty or damaged one."""
        found = _STATE.fullmatch(text)
        if found is None:
            return None
        return cls(int(found[1]), int(found[3]) if found[3] else None, found[2] == "=>", found[4] or "")

    def format(self) -> str:
        """Return the text to store."""
        target = "" if self.to is None else f"{'=' * self.is_decided}>{self.to}"
        return f"{self.number}{target}{' ' * bool(self.token)}{self.token}"

    def describe(self) -> str:
        """Return in words which move is under way, and which command completes it."""
        return (
            f"on the move from {name_number(self.number, 'shard')} to {self.to}: redbike shards move --to={self.to} "
            "completes the move"
        )


class Moving(BadConfig):
    """The jobs move to another number of shards: no process may use them meanwhile."""

    def __init__(self, message: str, division: Division) -> None:
        super().__init__(message)
        self.division = division


class Place(Protocol):
    """A shard: the client of its server, and its keys."""

    client: "redis.Redis"
    keys: Keys


class Agreement:
    """The number of shards of `prefix`. `client` reaches its own keys; `shards` are the stores if there are several."""

    def __init__(self, client: "redis.Redis", prefix: str, shards: Sequence[Place] = ()) -> None:
        self.client, self.prefix, self._number = client, prefix, max(1, len(shards))
        own: list[tuple[Any, Keys]] = [(client, Keys(prefix))]
        self._places = own + [(shard.client, Keys(name_home(shard.keys.prefix))) for shard in shards]
        self._noted_at = self._checked_at = -math.inf  # by the monotonic clock

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
                return  # the next script that needs the key, or fsck, reports that it is no hash
        if len(silent) == len(self._places):
            raise silent[0]
        self._compare(known)
        if self._number > 1 and not any(known):
            self._check_unused()
        self._checked_at = time.monotonic()

    def _check_unused(self) -> None:
        client, keys = self._places[0]
        if _ask(client, keys.statuses, "hash", "hlen"):
            raise BadConfig(
                f"bad shards {self._number}: the prefix {self.prefix!r} has jobs that are in one shard; "
                f"redbike shards move --to={self._number} divides them"
            )
        # Processes with one shard would never read the number.
        with translate_errors():
            since = read_time(client.time()) - LOST
            alive = client.zrange(keys.seen, since, "+inf", byscore=True, offset=0, num=1)
        if alive:
            raise BadConfig(
                f"bad shards {self._number}: dispatchers or workers of the prefix {self.prefix!r} run with one shard, "
                f"or did so within {LOST:.0f} s: stop them first"
            )

    def note(self, is_gone: bool = False) -> None:
        """Store the number, before this process changes anything. Raise `BadConfig` if another number is stored.

        Do nothing if this process has stored it within `AGAIN` seconds, unless the caller knows that it `is_gone`.
        """
        began = time.monotonic()
        passed = began - self._noted_at
        if self._number == 1 or (passed < AGAIN and not is_gone):
            return
        if passed < math.inf and not is_gone and self._is_still_noted():
            self._noted_at = began
            return
        if passed == math.inf and began - self._checked_at >= AGAIN:
            self.check()  # a fleet with one shard may have begun since the last check
        silent = list[Unreachable]()
        for client, keys in self._places:
            try:
                if not _ask(client, keys.agreed, "hash", "hsetnx", NUMBER, str(self._number)):
                    self._compare([decode(_ask(client, keys.agreed, "hash", "hget", NUMBER))])
            except Unreachable as error:
                silent.append(error)
        if len(silent) == len(self._places):
            raise silent[0]
        self._noted_at = -math.inf if silent else began

    def _is_still_noted(self) -> bool:
        """Tell whether the first place still has the number; True if it is away. Raise `BadConfig` for another one."""
        client, keys = self._places[0]
        with suppress(Unreachable):
            found = decode(_ask(client, keys.agreed, "hash", "hget", NUMBER))
            self._compare([found])
            return bool(found)
        return True

    def list_left(self) -> list[int]:
        """Return the earlier numbers of shards: their keys refuse processes that still use such a number."""
        client, keys = self._places[0]
        return _read_numbers(decode(_ask(client, keys.agreed, "hash", "hget", LEFT)))

    def forget(self) -> int:
        """Remove the number, as no jobs are left; return from how many keys. No shard counts these keys."""
        self._noted_at = -math.inf
        places = self._places if self._number > 1 else []
        return sum(int(_ask(client, keys.agreed, "hash", "hdel", NUMBER, LEFT) > 0) for client, keys in places)

    def _compare(self, known: Sequence[str]) -> None:
        for text in known:
            division = Division.parse(text)
            if division and division.to is not None:
                raise Moving(
                    f"bad shards {self._number}: the jobs of the prefix {self.prefix!r} are {division.describe()}",
                    division,
                )
            if text and (division is None or division.number != self._number):
                other = division.number if division else f"{text:.10}"
                raise BadConfig(
                    f"bad shards {self._number}: the jobs of the prefix {self.prefix!r} are divided among {other}; "
                    f"write shards: {other} into the config"
                )


def name_home(prefix: str) -> str:
    """Return the part of a shard's prefix, ``{app:00}`` of ``{app:00}/16``, that does not depend on the number."""
    return prefix.rpartition("/")[0]


def add_left(client: "redis.Redis", prefix: str, *numbers: int) -> None:
    """Store earlier numbers of shards, so that their keys refuse processes that still use one of them."""
    key = Keys(prefix).agreed
    known = _read_numbers(decode(_ask(client, key, "hash", "hget", LEFT)))
    _ask(client, key, "hash", "hset", LEFT, ",".join(map(str, dict.fromkeys([*known, *numbers]))))


def _read_numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word.isdecimal()]


def _ask(client: Any, key: str, kind: str, command: str, *given: str) -> Any:
    with translate_errors():
        try:
            return getattr(client, command)(key, *given)
        except redis.ResponseError as error:
            raise name_wrong_key(client, [(key, kind)], error) from error
