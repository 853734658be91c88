"""One shard's part of the limits of a queue, see ``lua/quota.lua``. `redbike.store.sharded.quotas` divides limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redbike.store.namespace import Part, read_json
from redbike.store.records import decode
from redbike.text.parsing import is_number, load_object


class Late(Exception):
    """Another process divides the limits of the queue."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The limits of a queue over all shards. `rate` is jobs and seconds. `by_code`: a worker class has set them."""

    at_once: int | None = None
    rate: tuple[int, float] | None = None
    by_code: bool = False

    @property
    def is_open(self) -> bool:
        """Tell whether there is no limit."""
        return self.at_once is None and self.rate is None


@dataclass(frozen=True, slots=True)
class Held:
    """A shard's part of the limits of a queue, and what it needs."""

    epoch: int  # the number of the last division that held the shard
    moving: bool  # whether a division is under way
    whole: Whole
    parts: str  # the parts of all shards, as a text
    divided: int = 0  # the number of the division that gave `whole` and `parts`, which may be older than `epoch`
    count: int = 0  # its part of the rate
    flying: int = 0  # jobs in flight
    waiting: int = 0  # jobs that wait in the queue
    first: float = 0.0  # the due time of the first waiting job, or now if none waits; epoch seconds
    tokens: float = 0.0  # how many jobs the rate allows now


@dataclass(frozen=True, slots=True)
class Quota:
    """A part of the limits: of the runs at once, and of the rate. `tokens` jobs of the rate may be taken now."""

    at_once: int | None
    count: int | None
    tokens: float = 0.0


class Quotas(Part):
    """Divides the limits of queues among shards."""

    def read(self, name: str) -> Held:
        """Return what is stored of the limits of the queue `name`, without numbers of its jobs."""
        kept = decode(self._namespace.ask("hget", self._namespace.keys.queue_limits, name))
        return _read_held(load_object(kept) or {})

    def read_all(self) -> dict[str, Held]:
        """Return what `read` does for all queues that have a limit or a pause, by name."""
        kept = self._namespace.ask("hgetall", self._namespace.keys.queue_limits)
        return {decode(name): _read_held(load_object(decode(text)) or {}) for name, text in kept.items()}

    def postpone(self, name: str, is_first: bool = False) -> None:
        """Let a dispatcher divide in two seconds. With `is_first`, raise `Late` if the timer has not come."""
        self._run(name, "later", 0, **({"first": True} if is_first else {}))

    def hold(self, name: str, epoch: int, at_once: bool) -> Held:
        """Let no job be taken until parts are given. With `at_once`, slots are kept from now on. Raise `Late`."""
        return self._run(name, "hold", epoch, at_once=at_once)

    def look(self, name: str, epoch: int) -> Held:
        """Return how many jobs are in flight and wait now, after all shards were held. Raise `Late`."""
        return self._run(name, "look", epoch)

    def free(self, name: str, epoch: int) -> None:
        """Let jobs be taken again, with the part that the shard had, as no shard got a new one. Raise `Late`."""
        self._run(name, "free", epoch)

    def give(self, name: str, epoch: int, quota: Quota, whole: Whole, **given: Any) -> None:
        """Give this shard its part. ``lua/quota.lua`` describes `given`. Raise `Late`."""
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
    """Return the number of the division that gave the limits in a record; 0 for none.

    A record of an older version has only the number of the last division that held it, even if that gave no part.
    """
    epoch, divided = (int(found[key]) if is_number(found.get(key)) else None for key in ("epoch", "divided"))
    return divided if divided is not None else (epoch or 0) - bool(found.get("moving"))
