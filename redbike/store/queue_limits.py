"""The transitions of limits: a queue, or everything, is paused and opened again, and queues are limited.

The name "" stands for everything.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from redbike.config.queue_limits import format_rate
from redbike.store.log import describe_pause
from redbike.store.namespace import PAGE, Part, read_json, split
from redbike.store.records import decode, parse_batch, parse_number
from redbike.text.parsing import load_object

Unlimited = Literal[False]  # removes a limit


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause. Times are epoch seconds; `until` is None if the pause does not end by itself."""

    since: float
    until: float | None = None
    by: str = ""
    reason: str = ""
    is_of_blackout: bool = False  #: whether a blackout has begun it, see `Redbike.pause`

    def holds(self, now: float) -> bool:
        """Tell whether it is on at `now`: it has not ended by itself."""
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The pause and the limits of a queue, or of everything: then `queue` is ""."""

    queue: str
    pause: Pause | None = None
    at_once: int | None = None
    rate: str | None = None  #: such as ``100/m``

    @property
    def is_open(self) -> bool:
        """Tell whether there is neither a pause nor a limit."""
        return self.pause is None and self.at_once is None and self.rate is None


@dataclass(frozen=True, slots=True)
class QueueLimitsState:
    """What is stored of the limits of a queue, at one instant."""

    queue: str
    stored: str | None  # the record; None if there is none
    timer: float | None  # when a dispatcher handles it
    wrong: dict[str, bool]  # jobs whose slots are wrong: True if a job has one and should not, False if it lacks one
    now: float

    @property
    def limits(self) -> QueueLimits | None:
        """The limits; None if they are missing or damaged."""
        return parse_limits(self.queue, self.stored or "")


class QueueLimiter(Part):
    """Pauses, opens and limits queues."""

    def pause(
        self, name: str, until: float | None = None, by: str = "", reason: str = "", replaces: bool = False
    ) -> bool:
        """Pause the queue `name`. Return False, and change nothing, if it is paused already.

        But if it `replaces`, or if the pause is one of a blackout that ends before `until`, it gets the new end.
        """
        given: dict[str, Any] = {"by": by, "reason": reason}
        if until is not None:
            given["until"] = until
        if replaces:
            given["replaces"] = True
        detail = describe_pause(until, reason, _describe(name))
        return bool(self._namespace.run("pause_queue", _list_queue(name), detail=detail, **given)[0] == "ok")

    def open(self, name: str, resume: bool = False) -> bool:
        """End a pause that is over, or any pause with `resume`, and wake workers. Return False if there was none."""
        given = {"detail": _describe(name), "resume": resume}
        word, *new = self._namespace.run("open", _list_queue(name), **given)
        if new:
            self.count_flying(name)
        if not name:
            # No workers were woken while everything was paused.
            for queue in self.list_queues():
                self.open(queue)
        return bool(word == "ok")

    def limit(
        self,
        name: str,
        at_once: int | Unlimited | None = None,
        rate: tuple[int, int] | Unlimited | None = None,
        by_code: bool = False,
        epoch: int | None = None,
    ) -> bool:
        """Limit the queue `name`. None leaves a limit as it is, False removes it.

        `rate` is a number of jobs, and the seconds in which so many may be taken. A limit `by_code` does not replace
        one that an operator has set: then it returns False. It also returns False if the division `epoch` does not hold
        the shard any more.
        """
        given: dict[str, Any] = {} if at_once is None else {"at_once": at_once}
        if epoch is not None:
            given["epoch"] = epoch
        if rate is not None:
            given["rate"] = rate
        detail = describe_limit(name, at_once, rate)
        changed = self._namespace.run("limit", [name], detail=detail, code=by_code, **given)[0] == "ok"
        if changed and at_once:
            # Runs that are in flight already count, too.
            self.count_flying(name)
        return bool(changed)

    def count_flying(self, name: str) -> None:
        """Give a slot to each job that is in flight from the queue `name`, after a limit was set."""
        self.rebuild_slots(name, self._list_flying())
        self._namespace.run("rebuild_slots", [name], jobs=[], last=True)

    def rebuild_slots(self, name: str, jobids: Sequence[str]) -> None:
        """Give a slot to each of `jobids` that is in flight from the queue `name`; the others of them lose theirs."""
        pages = split(jobids, PAGE)
        self._namespace.scripts.run_all(self._namespace.pack("rebuild_slots", [name], jobs=page) for page in pages)

    def reserve(self, name: str, tag: str, jobid: str, seconds: float) -> bool:
        """Reserve a place of the queue `name` for `seconds`, for an overrun run whose function goes on.

        0 ends the reservation. Return False if there is none to end, or if the queue has no limit at once.
        """
        return bool(self._namespace.run("reserve", [name], run=f"{tag} {jobid}", seconds=seconds)[0] == "ok")

    def _list_flying(self) -> list[str]:
        # A dispatcher may send these commands, too.
        keys, found = self._namespace.keys, list[str]()
        for page in split(self._namespace.ask("zrange", keys.leases, 0, -1), PAGE):
            batches = self._namespace.ask("hmget", keys.batches, page)
            found += [jobid for batch in batches for jobid in parse_batch(decode(batch))]
        return found

    def inspect(self, name: str, jobids: Sequence[str] = ()) -> QueueLimitsState:
        """Return what is stored of the limits of the queue `name`, and which of `jobids` have a wrong slot."""
        found = read_json(self._namespace.run("inspect_limits", _list_queue(name), jobs=list(jobids))[1])
        wrong = found["wrong"] or {}
        return QueueLimitsState(name, found.get("limits"), parse_number(found.get("timer")), wrong, float(found["now"]))

    def list_queues(self) -> list[str]:
        """Return the names of all queues that were ever used."""
        return sorted(map(decode, self._namespace.ask("smembers", self._namespace.keys.queues)))

    def find_used(self, names: Iterable[str]) -> list[str]:
        """Return those of these queues that were ever used."""
        pages, key = list(split(names, PAGE)), self._namespace.keys.queues
        replies = self._namespace.ask_all(*(("smismember", key, page) for page in pages), at_once=False)
        found = ((page, reply) for page, reply in zip(pages, replies, strict=True))
        return [name for pair in found for name, is_used in zip(*pair, strict=True) if is_used]

    def list_all(self) -> list[QueueLimits]:
        """Return all pauses and limits: those of everything first, then by name of queue."""
        found = (parse_limits(name, text) for name, text in self._read_all())
        return [limits for limits in found if limits and not limits.is_open]

    def list_pauses(self) -> dict[str, tuple[Pause | None, Pause | None]]:
        """Return by queue, with "" for everything, the last ended pause and the present pause; None for none.

        An ended pause is known for a day; its `until` is its last instant. The present pause may be over too, if no
        dispatcher has handled its end yet.
        """
        pauses = {}
        for name, text in self._read_all():
            if limits := parse_limits(name, text):
                pauses[name] = _read_last(text), limits.pause
        return pauses

    def _read_all(self) -> list[tuple[str, str]]:
        client, key = self._namespace.client, self._namespace.keys.queue_limits
        with self._namespace.translate((key, "hash")):
            kept = dict(client.hscan_iter(key, count=PAGE))
        return [(decode(name), decode(text)) for name, text in sorted(kept.items())]

    def read(self, name: str) -> QueueLimits:
        """Return the limits of the queue `name`."""
        kept = self._namespace.ask("hget", self._namespace.keys.queue_limits, name)
        return parse_limits(name, decode(kept)) or QueueLimits(name)

    def find_opening(self, name: str, now: float) -> float | None:
        """Return when the rate of a queue allows the next job, as ``_room.lua`` does; None if it allows one `now`.

        It is infinity for a shard whose part of the rate is 0.
        """
        kept = load_object(decode(self._namespace.ask("hget", self._namespace.keys.queue_limits, name))) or {}
        try:
            count, seconds, full_at = float(kept["count"]), float(kept["seconds"]), float(kept.get("full_at", 0))
        except (KeyError, TypeError, ValueError):
            return None
        lacks = full_at - now
        lacks = min(max(lacks, 0.0), seconds) if lacks < seconds + 1 else 0.0  # it is full if the clock was set back
        opens = now + lacks - seconds + seconds / count if count else math.inf
        return opens if opens > now + 1e-6 else None


def _list_queue(name: str) -> list[str]:
    return [name] if name else []


def _describe(name: str) -> str:
    """Return the name of a queue, or of everything, for the log."""
    return f"queue {name}" if name else "all"


def describe_limit(name: str, at_once: int | Unlimited | None, rate: tuple[int, int] | Unlimited | None) -> str:
    """Return how the log tells of limits that are set."""
    parts = [] if at_once is None else [f"at once {at_once or 'none'}"]
    parts += [] if rate is None else [f"rate {format_rate(*rate) if rate else 'none'}"]
    return f"{_describe(name)}: {', '.join(parts)}"


def parse_limits(name: str, text: str) -> QueueLimits | None:
    """Return limits as they are kept, over all shards; None for one that is missing or damaged."""
    try:
        kept = json.loads(text)
        paused = kept.get("paused")
        pause = paused and Pause(
            float(paused["since"]),
            float(paused["until"]) if "until" in paused else None,
            str(paused.get("by", "")),
            str(paused.get("reason", "")),
            paused.get("code") is True,
        )
        whole = kept.get("of", kept)  # a shard has a part of it
        at_once = int(whole["at_once"]) if "at_once" in whole else None
        rate = (float(whole["count"]), float(whole["seconds"])) if "count" in whole else None
        if (at_once is not None and at_once < 1) or (rate and min(rate) < 1):
            return None
        return QueueLimits(name, pause or None, at_once, rate and format_rate(*rate))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _read_last(text: str) -> Pause | None:
    """Return the last pause of limits that has ended; None if none is known."""
    last = json.loads(text).get("last")
    try:
        return Pause(float(last["since"]), float(last["ended"]))
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
