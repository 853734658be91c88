"""Groups of jobs: how many jobs of a group are left, which, and how many have not ended well."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redbike.store.group_counts import GroupCounts
from redbike.store.inspected import JobState
from redbike.store.links import MARK as SHARD
from redbike.store.namespace import PAGE, Part
from redbike.store.records import decode, encode
from redbike.text.group_names import MARK, is_jobid
from redbike.text.parsing import load_object

NAMED = 5  # jobs that are left whose ids are read
_SHARD = re.compile(rf"{SHARD}(\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group of jobs."""

    name: str
    counts: GroupCounts
    jobids: tuple[str, ...] = ()  # the first of those that are left
    followers: tuple[str, ...] = ()  # the jobs that wait for it
    parts: tuple[int, ...] = ()  # the other shards with jobs of the group, if this shard is its home
    home: int | None = None  # the number of its home, if that is another shard


def see_whole(states: list[JobState], read: Callable[[list[str]], Mapping[str, GroupState]]) -> list[JobState]:
    """Return states of jobs with the counts, over all shards, of the groups for which they wait."""
    names = {name for state in states if (name := state.awaited_group)}
    groups = read(sorted(names)) if names else {}

    def see(state: JobState) -> JobState:
        found = groups.get(state.awaited_group)
        # The record of an ended group is gone: only the follower still has its counts.
        is_over = found and state.has_counts and not (found.counts.left or found.counts.is_open)
        return state if found is None or is_over else replace(state, awaited=found.counts)

    return [see(state) for state in states] if groups else states


class Groups(Part):
    """Opens groups, and reads them."""

    def open(self, name: str, home: int | None = None) -> None:
        """Open a group: even if all of its jobs end, nothing happens until a job that follows the group is set.

        With a `home`, this is another shard of the group: only restart the count of the jobs here.
        """
        self._change(name, "open", home)

    def close(self, name: str) -> None:
        """Close a group, when a job that follows it is set in another shard."""
        self._change(name, "close")

    def tell(self, name: str, home: int) -> None:
        """Add a message to the shard `home` of a group: whether jobs of the group are left here."""
        self._change(name, "tell", home)

    def _change(self, name: str, how: str, home: int | None = None) -> None:
        more = {} if home is None else {"home": f"{home:02}"}
        self._namespace.run("open_group", group=name, how=how, **more)

    def read(self, names: Iterable[str], most: int = NAMED, shards: int = 1) -> dict[str, GroupState]:
        """Return groups by name, in one round trip, each with up to `most` of the jobs that are left of it.

        `shards` is the number of all shards. Only jobs of this shard are returned.
        """
        wanted, keys = list(dict.fromkeys(names)), self._namespace.keys
        kinds = (keys.following, "hash"), (keys.followers, "zset")

        def fill(pipeline: Any) -> None:
            for name in wanted:
                first, last = _find_bounds(2 * MARK + name)
                pipeline.hget(keys.following, encode(MARK + name))
                pipeline.zlexcount(keys.followers, first, last)
                pipeline.zrange(keys.followers, first, last, bylex=True, offset=0, num=most + shards - 1)
                pipeline.zrange(keys.followers, *_find_bounds(MARK + name), bylex=True)

        with self._namespace.translate(*kinds):
            found = self._namespace.execute(fill, at_once=True)
        replies = (found[first : first + 4] for first in range(0, len(found), 4))
        return {name: _read_group(name, most, *reply) for name, reply in zip(wanted, replies, strict=True)}

    def list_names(self) -> Iterator[str]:
        """Yield the names of the groups with jobs left here, or, if this is their home, in other shards."""
        start, last = f"[{2 * MARK}", b"(" + encode(MARK) + b"\x1e"
        while found := self._list_links(encode(start), last, 1):
            name = decode(found[0]).partition("\n")[0].removeprefix(2 * MARK)
            yield name
            start = f"[{2 * MARK}{name}\v"

    def _list_links(self, start: bytes, last: bytes, most: int) -> Sequence[bytes]:
        key = self._namespace.keys.followers
        found: Sequence[bytes] = self._namespace.ask("zrange", key, start, last, bylex=True, offset=0, num=most)
        return found

    def list_jobids(self) -> Iterator[str]:
        """Yield the jobs that are left of all groups, once for each group of which a job is one."""
        start, last = b"[" + encode(2 * MARK), b"(" + encode(MARK) + b"\x1e"
        while True:
            page = self._list_links(start, last, PAGE)
            yield from filter(is_jobid, _read_links(page))
            if len(page) < PAGE:
                return
            start = b"(" + page[-1]


def _read_group(
    name: str, most: int, record: bytes | None, left: int, links: list[bytes], others: list[bytes]
) -> GroupState:
    members, text = _read_links(links), decode(record)
    parts = tuple(int(match[1]) for each in members if (match := _SHARD.fullmatch(each)))
    home = str((load_object(text) or {}).get("home", ""))
    return GroupState(
        name,
        GroupCounts.parse(text, left - len(parts)),
        tuple(filter(is_jobid, members))[:most],
        tuple(filter(is_jobid, _read_links(others))),
        parts,
        int(home) if home.isdecimal() else None,
    )


def _find_bounds(parent: str) -> tuple[bytes, bytes]:
    """Return the bounds, as of ZRANGE BYLEX, of the links from a parent in ``-followers``."""
    link = encode(parent)
    return b"[" + link + b"\n", b"(" + link + b"\v"


def _read_links(links: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(decode(link).partition("\n")[2] for link in links)
