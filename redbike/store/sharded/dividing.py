"""Divide the limits of a queue among shards: the shard whose jobs wait longest is served first."""

import math
from collections.abc import Mapping, Sequence

from redbike.store.quotas import Held, Quota, Whole

SLOW = 1.0  # seconds after which the tokens of a rate are divided again, at least

Parts = Mapping[str, Sequence[int]]  # "at_once" and "count" (of the rate): the part of each shard, by its number


def divide(whole: Whole, held: Mapping[int, Held], before: Parts) -> dict[int, Quota]:
    """Return the part of each shard in `held`, by its number. Each other shard keeps the part that it had `before`."""
    order = sorted(held, key=lambda shard: (held[shard].first if held[shard].waiting else math.inf, shard))
    places = _divide_places(whole.at_once, order, held, before.get("at_once", ()))
    rates = _divide_rate(whole.rate, order, held, before.get("count", ()))
    return {shard: Quota(places.get(shard), *rates.get(shard, (None, 0.0))) for shard in order}


def is_wanting(quotas: Mapping[int, Quota], held: Mapping[int, Held]) -> bool:
    """Tell whether in some shard more jobs wait than its part lets start now."""
    return any(each.waiting > _count_room(quotas[shard], each) for shard, each in held.items())


def _count_room(quota: Quota, held: Held) -> float:
    room = math.inf if quota.at_once is None else quota.at_once - held.flying
    return max(0.0, room if quota.count is None else min(room, math.floor(quota.tokens)))


def find_pause(whole: Whole, quotas: Mapping[int, Quota], held: Mapping[int, Held]) -> float | None:
    """Return the seconds until tokens are divided again; None if no shard waits for a token."""
    if whole.rate is None or all(each.waiting <= math.floor(quotas[shard].tokens) for shard, each in held.items()):
        return None
    return max(SLOW, whole.rate[1] / whole.rate[0])


def _divide_places(
    most: int | None, order: Sequence[int], held: Mapping[int, Held], before: Sequence[int]
) -> dict[int, int]:
    if most is None:
        return {}
    elsewhere = sum(part for shard, part in enumerate(before) if shard not in held)
    spare = most - elsewhere - sum(each.flying for each in held.values())
    if spare < 0:
        # More jobs run than the limit allows now. No job begins in any shard until enough of them have ended.
        return dict.fromkeys(order, 0)
    parts = {shard: held[shard].flying for shard in order}
    for shard, more in zip(order, share_out(spare, [held[shard].waiting for shard in order]), strict=True):
        parts[shard] += more
    if not spare:
        _make_room(most - elsewhere, order, held, parts)
    return parts


def _make_room(most: int, order: Sequence[int], held: Mapping[int, Held], parts: dict[int, int]) -> None:
    """For each shard with too few places, take one from a shard with too many. It is free when its run ends."""
    active = [shard for shard in order if held[shard].waiting or held[shard].flying]
    fair = max(1, most // max(1, len(active)))
    for needy in [shard for shard in order if held[shard].waiting and held[shard].flying < fair]:
        rank = order.index(needy)
        givers = [
            shard
            for place, shard in enumerate(order)
            if parts[shard] > fair or (parts[shard] > 0 and place > rank and most < len(active))
        ]
        if givers:
            parts[max(givers, key=lambda shard: (parts[shard], order.index(shard)))] -= 1


def _divide_rate(
    rate: tuple[int, float] | None, order: Sequence[int], held: Mapping[int, Held], before: Sequence[int]
) -> dict[int, tuple[int, float]]:
    if rate is None:
        return {}
    most = max(0, rate[0] - sum(part for shard, part in enumerate(before) if shard not in held))
    used = sum(each.count - each.tokens for each in held.values())
    counts = dict(zip(order, share_out(most, [held[shard].waiting for shard in order]), strict=True))
    tokens, left = dict.fromkeys(order, 0.0), max(0.0, most - used)
    for bound in (lambda shard: min(counts[shard], held[shard].waiting), counts.__getitem__):
        for shard in order:
            more = min(left, max(0.0, bound(shard) - tokens[shard]))
            tokens[shard] += more
            left -= more
    return {shard: (counts[shard], tokens[shard]) for shard in order}


def share_out(number: int, wants: Sequence[int]) -> list[int]:
    """Return a share of `number` for each of `wants`: as even as these allow, then of the rest. The first get more."""
    found = [0] * len(wants)
    while number and (active := [place for place, want in enumerate(wants) if want > found[place]]):
        each = max(1, number // len(active))
        for place in active:
            more = min(each, wants[place] - found[place], number)
            found[place] += more
            number -= more
    more, first_ones = divmod(number, max(1, len(wants)))
    return [part + more + (place < first_ones) for place, part in enumerate(found)]
