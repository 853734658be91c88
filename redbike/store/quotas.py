"""The part that one shard has of the limits of a queue, see ``lua/quota.lua``. `store.sharded.quotas` divides them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redbike.store.namespace import Part, read_json
from redbike.store.records import decode
from redbike.text.parsing import is_number, load_object


class Late(Exception):
    """Somebody else divides the limits of the queue."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The limits of a queue over all shards. `rate` is a number of jobs, and seconds; `by_code`: a worker class's."""

    at_once: int | None = None
    rate: tuple[int, float] | None = None
    by_code: bool = False

    @property
    def is_open(self) -> bool:
        """Tell whether there is none."""
        return self.at_once is None and self.rate is None


@dataclass(frozen=True, slots=True)
class Held:
    """What a shard has of the limits of a queue, and needs of them."""

    epoch: int  # the number of the division that has held it last
    moving: bool  # whether somebody divides
    whole: Whole
    parts: str  # those of all shards, as a text
    divided: int = 0  # the number of the division from which these two are, which may be older than `epoch`
    count: int = 0  # its part of the rate
    flying: int = 0  # jobs in flight
    waiting: int = 0  # jobs that wait in the queue
    first: float = 0.0  # since when the first of them waits
    tokens: float = 0.0  # how many may be taken by the rate now


@dataclass(frozen=True, slots=True)
class Quota:
    """A part of the limits: of runs at once, and of the rate, of which `tokens` may be taken now."""

    at_once: int | None
    count: int | None
    tokens: float = 0.0


class Quotas(Part):
    """Divides the limits of queues among shards."""

    def read(self, name: str) -> Held:
        """Return what is kept of the queue `name`, without its jobs."""
        kept = decode(self._namespace.ask("hget", self._namespace.keys.queue_limits, name))
        return _read_held(load_object(kept) or {})

    def read_all(self) -> dict[str, Held]:
        """Return what is kept of all queues that have a limit or a pause, without their jobs."""
        kept = self._namespace.ask("hgetall", self._namespace.keys.queue_limits)
        return {decode(name): _read_held(load_object(decode(text)) or {}) for name, text in kept.items()}

    def postpone(self, name: str, is_first: bool = False) -> None:
        """See that a dispatcher divides in two seconds; `is_first`: raise `Late` if another one has seen the timer."""
        self._run(name, "later", 0, **({"first": True} if is_first else {}))

    def hold(self, name: str, epoch: int, at_once: bool) -> Held:
        """Let nothing be taken until parts are given; `at_once`: slots are kept from now on. Raise `Late`."""
        return self._run(name, "hold", epoch, at_once=at_once)

    def look(self, name: str, epoch: int) -> Held:
        """Return what is in flight and waits now, since all shards are held. Raise `Late`."""
        return self._run(name, "look", epoch)

    def free(self, name: str, epoch: int) -> None:
        """Let go of what is held, with the part that it had: no shard was given one. Raise `Late`."""
        self._run(name, "free", epoch)

    def give(self, name: str, epoch: int, quota: Quota, whole: Whole, **given: Any) -> None:
        """Give this shard its part; `given` is described in the script. Raise `Late`."""
        seconds = whole.rate[1] if whole.rate else None
        count = whole.rate[0] if whole.rate else None
        of = {"at_once": whole.at_once, "count": count, "seconds": seconds}
        given |= {"at_once": quota.at_once, "count": quota.count, "seconds": seconds, "tokens": quota.tokens}
        given |= {"of": _leave_out(of), "code": whole.by_code}
        self._run(name, "give", epoch, **_leave_out(given))

    def _run(self, name: str, step: str, epoch: int, **given: Any) -> Held:
        reply = self._namespace.run("quota", [name], step=step, epoch=epoch, **given)
        if reply[0] == "late":
            raise Late(name)
        return _read_held(read_json(reply[1])) if len(reply) > 1 else Held(epoch, False, Whole(), "")


def _leave_out(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}


def _read_held(found: Any) -> Held:
    of = found.get("of")
    known = {key: value for key, value in of.items() if is_number(value)} if isinstance(of, dict) else {}
    rate = (int(known["count"]), float(known["seconds"])) if {"count", "seconds"} <= known.keys() else None
    whole = Whole(int(known["at_once"]) if "at_once" in known else None, rate, found.get("code") is True)
    numbers = {key: value for key, value in found.items() if is_number(value)}
    epoch, count, flying, waiting = (int(numbers.get(key, 0)) for key in ("epoch", "count", "flying", "waiting"))
    first, tokens = (float(numbers.get(key, 0.0)) for key in ("first", "tokens"))
    moving, parts = bool(found.get("moving")), str(found.get("parts", ""))
    return Held(epoch, moving, whole, parts, read_division(found), count, flying, waiting, first, tokens)


def read_division(found: Mapping[str, Any]) -> int:
    """Return the number of the division from which the limits in a record are; 0 for none.

    A record of an older version has only the number with which it was held last, also if no part was given then.
    """
    epoch, divided = (int(found[key]) if is_number(found.get(key)) else None for key in ("epoch", "divided"))
    return divided if divided is not None else (epoch or 0) - bool(found.get("moving"))
