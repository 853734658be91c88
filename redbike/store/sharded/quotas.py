"""Limits of queues over all shards: each shard has a part of them, and the parts move to where jobs wait.

All parts together are never more than the whole, whichever process dies or shard is away: see ``quota.lua``.
"""

import json
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from redbike.errors import RedbikeError, ServerError, Unreachable
from redbike.store.queue_limits import Unlimited, describe_limit
from redbike.store.quotas import Held, Late, Quota, Whole
from redbike.store.sharded.dividing import Parts, divide, find_pause, is_wanting
from redbike.store.sharded.missing import describe_silent
from redbike.store.sharded.routes import Ask, Given, Named, Shards
from redbike.store.store import Store
from redbike.text.parsing import is_number, load_object

T = TypeVar("T")

Change = Callable[[Whole], Whole]

LIMITS = ("at_once", "count")
TRIES, PAUSE = 20, 0.05  # how often to try to set a limit while others divide, and the seconds by which pauses grow


def limit_queue(shards: Shards, ask: Ask, given: Given, named: Named) -> bool:
    """Limit a queue over all shards, see `QueueLimiter.limit`. All must answer first; otherwise nothing changes."""
    shards.note()
    return _limit(shards, *given, **named)


def _limit(
    shards: Shards,
    name: str,
    at_once: int | Unlimited | None = None,
    rate: tuple[int, int] | Unlimited | None = None,
    by_code: bool = False,
) -> bool:
    def change(known: Whole) -> Whole:
        if by_code and not known.is_open and not known.by_code:
            return known
        most = known.at_once if at_once is None else at_once or None
        whole = Whole(most, known.rate if rate is None else (rate[0], float(rate[1])) if rate else None)
        return Whole(whole.at_once, whole.rate, by_code and not whole.is_open)

    held = _read(shards, name, all_of_them=True)
    known = _find_whole(held)
    whole = change(known)
    # A shard that has lost its data has no limit, or an older one.
    is_everywhere = len({(each.whole, each.divided) for each in held.values() if not each.moving}) < 2
    if whole == known and is_everywhere and (by_code or not any(each.moving for each in held.values())):
        return False
    _set(shards, name, change, describe_limit(name, at_once, rate))
    return True


def divide_anew(shards: Sequence[Store], name: str) -> None:
    """Divide the limits of a queue by the jobs that wait now. If another process divides them, leave it to a timer."""
    with suppress(Late):
        _divide(shards, name)


def divide_missed(shards: Sequence[Store], emptied: Collection[str]) -> None:
    """Let a dispatcher divide soon each limit of which a shard lacks the newest division: it was away, or lost data.

    A shard without the limit counts only if its prefix is in `emptied`, as it has lost all: otherwise another shard may
    still have a limit that was removed.
    """
    known = list[tuple[Store, dict[str, Held]]]()
    for shard in shards:
        with suppress(Unreachable):
            known.append((shard, shard.quotas.read_all()))
    for name in sorted({name for _, kept in known for name, held in kept.items() if not held.whole.is_open}):
        holders = {shard: kept[name].divided for shard, kept in known if name in kept}
        newest = max(holders, key=lambda shard: holders[shard])
        lacks = any(shard not in holders and shard.keys.prefix in emptied for shard, _ in known)
        if lacks or min(holders.values()) < holders[newest]:
            # A timer: so only one of all dispatchers divides.
            newest.quotas.postpone(name)


def _set(shards: Sequence[Store], name: str, change: Change, detail: str) -> None:
    for number in range(TRIES):
        try:
            return _divide(shards, name, change, detail)
        except Late:
            # A random pause separates processes that have begun together.
            time.sleep(random.uniform(0.0, PAUSE * number))
    raise ServerError(f"the limits of the queue {name!r} are being divided by somebody else: try again")


def _divide(shards: Sequence[Store], name: str, change: Change | None = None, detail: str | None = None) -> None:
    began, kept = time.monotonic(), _read(shards, name, all_of_them=change is not None)
    if _find_parts(kept, len(shards)) is None:
        # Somebody else may be dividing, and can go on if nobody holds the shards again.
        return
    known, epoch = _find_whole(kept, change), 1 + max((each.epoch for each in kept.values()), default=0)
    found = dict[int, Held]()

    def hold(number: int) -> None:
        found[number] = shards[number].quotas.hold(name, epoch, known.at_once is not None)

    try:
        ask_all(kept, hold)
        # The limits may have changed since they were read, but not since all shards are held.
        whole, before = _find_whole(found, change), _find_parts(found, len(shards))
        if before is None:
            _free(shards, name, epoch, found)
            return
        if whole.at_once is not None:
            uncounted = [number for number in found if change is not None or found[number].whole.at_once is None]
            ask_all(uncounted, lambda number: shards[number].queue_limits.count_flying(name))
        held = {} if whole.is_open else ask_all(found, lambda number: shards[number].quotas.look(name, epoch))
    except (Late, RedbikeError):
        _free(shards, name, epoch, found)
        raise
    if whole.is_open:
        return _remove(shards, name, epoch, found, detail)
    quotas = divide(whole, held, before)
    more = {"wanted": is_wanting(quotas, held), "parts": _write_parts(before, quotas, held, len(shards))}
    more |= {"took": time.monotonic() - began, "detail": detail}
    _give(shards, name, epoch, whole, held, quotas, more)


def _remove(shards: Sequence[Store], name: str, epoch: int, held: Iterable[int], detail: str | None) -> None:
    """Remove the limits in all shards that are held. Raise `Late` if somebody else holds one by now."""
    for number in sorted(held):
        if not _noting(shards, number, detail).queue_limits.limit(name, False, False, epoch=epoch):
            raise Late(name)


def _give(
    shards: Sequence[Store],
    name: str,
    epoch: int,
    whole: Whole,
    held: Mapping[int, Held],
    quotas: Mapping[int, Quota],
    more: Mapping[str, Any],
) -> None:
    """Give each held shard its part, and the data that is the same for all shards."""
    again, detail = find_pause(whole, quotas, held), more["detail"]
    needy = min(held, key=lambda number: (not held[number].waiting, held[number].first))

    def give(number: int) -> None:
        own = {**more, "flying": held[number].flying, "again": again if number == needy else None}
        _noting(shards, number, detail).quotas.give(name, epoch, quotas[number], whole, **own)

    first, *others = sorted(quotas)
    give(first)  # so the first shard knows of a change that is cut short
    ask_all(others, give)


def _find_parts(held: Mapping[int, Held], number: int) -> Parts | None:
    """Return the parts of all shards, as the held ones know them; None if one that is away may have another part."""
    newest = max(held.values(), key=lambda each: each.divided, default=None)
    before = _read_parts(newest, number) if newest else {}
    is_any_away = len(held) < number
    is_unknown = newest is None or (is_any_away and (not before or any(each.moving for each in held.values())))
    return None if is_unknown else before


def _free(shards: Sequence[Store], name: str, epoch: int, held: Mapping[int, Held]) -> None:
    """Let shards go on with the parts that they had before they were held, if they had any."""
    for number, each in held.items():
        if not each.moving and not each.whole.is_open:
            with suppress(Late, RedbikeError):
                shards[number].quotas.free(name, epoch)


def ask_all(numbers: Iterable[int], ask: Callable[[int], T]) -> dict[int, T]:
    """Ask these shards at the same time; return their answers, by number."""
    listed = list(numbers)
    with ThreadPoolExecutor(max(1, len(listed)), thread_name_prefix="redbike-shards") as threads:
        return dict(zip(listed, threads.map(ask, listed), strict=True))


def _noting(shards: Sequence[Store], number: int, detail: str | None = "") -> Any:
    """Return the shard. Only the first one notes a change in its log: that of all shards is one change."""
    return shards[number] if number == 0 and detail is not None else shards[number].noted_as(None)


def _read(shards: Sequence[Store], name: str, all_of_them: bool) -> dict[int, Held]:
    def read(number: int) -> Held | None:
        try:
            return shards[number].quotas.read(name)
        except Unreachable as error:
            if all_of_them:
                raise describe_silent(shards[number], error) from error
            return None

    found = ask_all(range(len(shards)), read)
    return {number: held for number, held in found.items() if held}


def _find_whole(held: dict[int, Held], change: Change | None = None) -> Whole:
    """Return the limits over all shards, by the newest division of which a part was given; apply `change`, if any."""
    known = [each for each in held.values() if not each.whole.is_open]
    whole = max(known, key=lambda each: (each.divided, not each.moving)).whole if known else Whole()
    return change(whole) if change else whole


def _read_parts(held: Held, number: int) -> Parts:
    """Return the parts of `number` shards; {} if there are none, or damaged ones."""
    found = load_object(held.parts) or {}
    is_whole = all(_is_list(found.get(limit), number) for limit in LIMITS)
    return {limit: found[limit] for limit in LIMITS} if is_whole else {}


def _is_list(found: Any, number: int) -> bool:
    return isinstance(found, list) and len(found) == number and all(map(is_number, found))


def _write_parts(before: Parts, quotas: Mapping[int, Quota], held: Mapping[int, Held], number: int) -> str:
    """Return the parts of all shards as JSON: those of shards that are away stay as before.

    It is read for shards that are away. A part also has the places of runs that go on, even if others are to get them.
    """
    parts = {limit: list(before.get(limit, ())) or [0] * number for limit in LIMITS}
    for shard, quota in quotas.items():
        parts["at_once"][shard] = max(quota.at_once, held[shard].flying) if quota.at_once is not None else 0
        parts["count"][shard] = quota.count or 0
    return json.dumps(parts)
