"""Who follows whom, and what groups there are, when jobs move to another number of shards."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from redbike.errors import RedbikeError
from redbike.store.backfill import HEAD
from redbike.store.group_counts import COUNTED, GroupCounts
from redbike.store.links import MARK as SHARD
from redbike.store.links import Links
from redbike.store.moving.copying import find_target
from redbike.store.namespace import Namespace, Ranks
from redbike.store.records import decode, encode, format_time
from redbike.text.group_names import MARK


def check_links(places: Sequence[Namespace], number: int) -> None:
    """Raise `RedbikeError` if messages are under way, or if jobs that belong together would be in different shards."""
    if any(Links(place).list_mail() for place in places):
        raise RedbikeError(
            "cannot move: followers in other shards still wait for news of their parents; move again, "
            "which sends it first"
        )
    for place in places:
        for link in _list_links(place):
            names = [name.lstrip(HEAD) for name in link]
            # A job may be in another shard than its parent, but not than its backfill.
            if names != link and len({find_target(name, number) for name in names}) > 1:
                raise RedbikeError(
                    f"cannot move: {' and '.join(map(repr, names))} belong together, and would be in different shards "
                    f"of {number}; the same word in braces in both ids keeps jobs together"
                )


def link(sources: Sequence[Namespace], targets: Sequence[Namespace]) -> None:
    """Write into the shards of parents and of groups which other shards have followers and jobs of them."""
    members: dict[str, Counter[int]] = {}  # of groups: how many are in each shard
    for number, target in enumerate(targets):
        parents: dict[int, dict[str, None]] = {}
        for parent, follower in _list_links(target):
            if parent.startswith(2 * MARK):
                members.setdefault(parent[2:], Counter())[number] += 1
            elif not follower.startswith(MARK) and HEAD not in (parent[:1], follower[:1]):
                parents.setdefault(find_target(parent, len(targets)), {})[parent] = None
        parents.pop(number, None)
        for other, names in parents.items():
            Links(targets[other]).subscribe(number, names)
    _regroup(sources, targets, members)


def _regroup(sources: Sequence[Namespace], targets: Sequence[Namespace], members: Mapping[str, Counter[int]]) -> None:
    """Write the records of groups anew: from the old records of all shards, and from where the jobs are now."""
    found: dict[str, list[GroupCounts]] = {}
    for source in sources:
        for field, text in source.scan(source.keys.following, f"{MARK}*"):
            found.setdefault(field[1:], []).append(GroupCounts.parse(text, 0))
    for name in sorted({*found, *members}):
        home, records = find_target(MARK + name, len(targets)), found.get(name, [])
        parts = {number: left for number, left in members.get(name, Counter()).items() if number != home}
        total, failed, dropped = (sum(getattr(each, word) for each in records) for word in COUNTED)
        _note(targets[home], name, max(0, total - sum(parts.values())), failed, dropped, **_describe(records))
        for number, left in parts.items():
            _note(targets[number], name, left, 0, 0, home=f"{home:02}")
            link = f"{2 * MARK}{name}\n{SHARD}{number:02}"
            targets[home].ask("zadd", targets[home].keys.followers, {encode(link): 0})


def _describe(records: Sequence[GroupCounts]) -> dict[str, Any]:
    """Return the other fields that the record of a group has in its home."""
    dues = [each.due for each in records if each.due is not None]
    due = {"due": format_time(max(dues))} if dues else {}
    return due | ({"open": True} if any(each.is_open for each in records) else {})


def _note(place: Namespace, name: str, total: int, failed: int, dropped: int, **more: Any) -> None:
    record = {"total": total, "failed": failed, "dropped": dropped, **more}
    place.ask("hset", place.keys.following, encode(MARK + name), json.dumps(record, separators=(",", ":")))


def _list_links(place: Namespace) -> Iterator[list[str]]:
    """Yield each parent with each follower, but no subscriptions and messages of shards."""
    for _, page in Ranks(place, place.keys.followers).list_after(None):
        for _, link in page:
            parent, _, follower = decode(link).partition("\n")
            if SHARD not in (parent[:1], follower[:1]):
                yield [parent, follower]
