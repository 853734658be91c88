"""Merge what several shards have: counts are added, and limits of queues are divided anew."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from redbike.store.alerts import MISSED, SENDING, SENT, WAITING, Missed
from redbike.store.enums import Skip
from redbike.store.moving.copying import make_key
from redbike.store.namespace import PAGE, Namespace, split
from redbike.store.quotas import Quotas, read_division
from redbike.store.records import COUNT, decode, encode
from redbike.store.sharded.dividing import share_out
from redbike.store.tally import HOUR, MINUTE, format_recent, parse_recent
from redbike.text.parsing import is_number, load_object

Fields = dict[str, str]
TOLD = (Skip.MISSED, Skip.LATE, Skip.EXPIRED)  # what people are told as missed


def merge(sources: Sequence[Namespace], targets: Sequence[Namespace]) -> None:
    """Write to the targets what all sources have together."""
    first = targets[0]
    _write(first, "counts", add_counts([_read(each, "counts") for each in sources]))
    skipped = [_read_totals(each) for each in sources]
    _write(first, "skipped", {name: str(number) for name, number in sum(skipped, Counter[str]()).items()})
    told = [_read_fields(each, "alerts", (MISSED, WAITING, SENT)) for each in sources]
    _write(first, "alerts", join_told(told, skipped))
    for target in targets[1:] if any(MISSED in each for each in told) else ():
        _write(target, "alerts", {MISSED: "0"})
    parts = share_limits([_read(each, "queue-limits") for each in sources], len(targets))
    for target, part in zip(targets, parts, strict=True):
        _write(target, "queue-limits", part)
    for name in (name for name, text in parts[0].items() if '"of":' in text):
        Quotas(first).postpone(name)
    known = [float(score) for each in sources if (score := each.ask("zscore", each.keys.dispatched, "until"))]
    for target in targets if known else ():
        target.ask("zadd", target.keys.dispatched, {"until": min(known)})


def add_counts(found: Sequence[Fields]) -> Fields:
    """Add up counts, see tally.py; a damaged one counts nothing."""
    sums = Counter[str]()
    for fields in found:
        sums.update({name: int(text) for name, text in fields.items() if COUNT.fullmatch(text)})
    counts = {name: str(number) for name, number in sums.items()}
    for name, most in (("recent", None), ("hour", HOUR // MINUTE)):
        runs = sum((parse_recent(fields.get(name, "")) for fields in found), Counter[tuple[int, str]]())
        if runs:
            counts[name] = format_recent(Counter(), runs, *([most] if most else []))
    return counts


def join_told(found: Sequence[Fields], skipped: Sequence[Mapping[str, int]]) -> Fields:
    """Return how many missed occurrences were told, when a message was sent last, and all messages that wait."""
    told: Fields = {}
    if any(MISSED in fields for fields in found):
        known = [
            Missed.parse(fields[MISSED]).number if MISSED in fields else sum(totals[f"{each}:"] for each in TOLD)
            for fields, totals in zip(found, skipped, strict=True)
        ]
        told[MISSED] = Missed(sum(known)).format()
    if sent := max((fields[SENT] for fields in found if SENT in fields), default=""):
        told[SENT] = sent
    for number, message in enumerate(fields[WAITING] for fields in found if WAITING in fields):
        told[f"{SENDING}moved{number}" if number else WAITING] = message
    return told


def share_limits(found: Sequence[Fields], number: int) -> list[Fields]:
    """Return what each of `number` shards gets of the limits of queues: together as much as before.

    Each has a part of them, see `redbike.store.sharded.quotas`. A dispatcher divides them anew by the jobs that wait.
    """
    parts: list[Fields] = [{} for _ in range(number)]
    for name in dict.fromkeys(name for fields in found for name in fields):
        kept = [load_object(fields[name]) or {} for fields in found if name in fields]
        common, whole = _join(kept), _find_whole(kept)
        shares = {limit: share_out(int(whole.get(limit, 0)), [0] * number) for limit in ("at_once", "count")}
        for place, fields in enumerate(parts):
            own = common | whole | {limit: shares[limit][place] for limit in shares if limit in whole}
            if whole and number > 1:
                own |= {"of": whole, "parts": json.dumps(shares), "epoch": _find_epoch(kept) + 1}
            if not own.get("count"):
                own.pop("full_at", None)
            if own:
                fields[name] = json.dumps(own, separators=(",", ":"), ensure_ascii=False)
    return parts


def _join(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the limits of a queue besides numbers: they are the same in each shard, except when the rate is full."""
    joined: dict[str, Any] = {}
    for limits in found:
        joined |= {field: limits[field] for field in ("paused", "last", "code") if limits.get(field) is not None}
    # As if all had taken as much as the one that has taken most: so none takes too much.
    full = [str(limits["full_at"]) for limits in found if "full_at" in limits]
    return joined | ({"full_at": max(full, key=_read_time)} if full else {})


def _find_whole(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the numbers over all shards, as the last division has them; a damaged one is none."""
    known = [
        (read_division(limits), not limits.get("moving"), number)
        for number, limits in enumerate(found)
        if _read_numbers(limits)
    ]
    return _read_numbers(found[max(known)[2]]) if known else {}


def _read_numbers(limits: Mapping[str, Any]) -> dict[str, Any]:
    whole = limits["of"] if isinstance(limits.get("of"), dict) else limits
    numbers = {name: whole[name] for name in ("at_once", "count", "seconds") if is_number(whole.get(name))}
    if len({"count", "seconds"} & numbers.keys()) < 2:
        numbers = {name: numbers[name] for name in ("at_once",) if name in numbers}
    return numbers


def _find_epoch(found: Sequence[Mapping[str, Any]]) -> int:
    return max((int(limits["epoch"]) for limits in found if is_number(limits.get("epoch"))), default=0)


def _read_time(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdecimal() else 0.0


def _read(place: Namespace, name: str) -> Fields:
    return dict(place.scan(make_key(place, name)))


def _read_fields(place: Namespace, name: str, fields: Sequence[str]) -> Fields:
    found = zip(fields, place.ask("hmget", make_key(place, name), fields), strict=True)
    return {field: decode(value) for field, value in found if value is not None}


def _read_totals(place: Namespace) -> Counter[str]:
    found = _read_fields(place, "skipped", [f"{reason}:" for reason in Skip])
    return Counter({name: int(text) for name, text in found.items() if COUNT.fullmatch(text)})


def _write(place: Namespace, name: str, fields: Fields) -> None:
    for page in split(fields.items(), PAGE):
        place.ask("hset", make_key(place, name), mapping={encode(field): encode(text) for field, text in page})
