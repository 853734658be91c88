"""Groups of jobs: how many of one are left, which, and how many have not ended well."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from redbike.store.group_counts import GroupCounts
from redbike.store.namespace import PAGE, Part
from redbike.store.records import decode, encode
from redbike.text.group_names import MARK

NAMED = 5  # jobs that are left, of which one is told


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group of jobs."""

    name: str
    counts: GroupCounts
    jobids: tuple[str, ...] = ()  # the first of those that are left
    followers: tuple[str, ...] = ()  # the jobs that wait for it


class Groups(Part):
    """Opens groups, and reads them."""

    def open(self, name: str) -> None:
        """Open a group: whatever ends, nothing comes of it until a job is set that follows it."""
        self._namespace.run("open_group", group=name)

    def read(self, names: Iterable[str], most: int = NAMED) -> dict[str, GroupState]:
        """Return groups, by their names, in one round trip, with up to `most` of the jobs that are left of each."""
        wanted, keys = list(dict.fromkeys(names)), self._namespace.keys
        kinds = (keys.following, "hash"), (keys.followers, "zset")
        with self._namespace.translate(*kinds), self._namespace.client.pipeline(transaction=True) as pipeline:
            for name in wanted:
                first, last = _find_bounds(2 * MARK + name)
                pipeline.hget(keys.following, encode(MARK + name))
                pipeline.zlexcount(keys.followers, first, last)
                pipeline.zrange(keys.followers, first, last, bylex=True, offset=0, num=most)
                pipeline.zrange(keys.followers, *_find_bounds(MARK + name), bylex=True)
            found = pipeline.execute()
        replies = (found[first : first + 4] for first in range(0, len(found), 4))
        return {
            name: GroupState(name, GroupCounts.parse(decode(record), left), _read_links(links), _read_links(others))
            for name, (record, left, links, others) in zip(wanted, replies, strict=True)
        }

    def list_jobids(self) -> Iterator[str]:
        """Yield the jobs that are left of all groups, each once for its group."""
        key, start, last = self._namespace.keys.followers, b"[" + encode(2 * MARK), b"(" + encode(MARK) + b"\x1e"
        while True:
            page = self._namespace.ask("zrange", key, start, last, bylex=True, offset=0, num=PAGE)
            yield from _read_links(page)
            if len(page) < PAGE:
                return
            start = b"(" + page[-1]


def _find_bounds(parent: str) -> tuple[bytes, bytes]:
    """Return between which members of ``-followers`` the links from a parent are."""
    link = encode(parent)
    return b"[" + link + b"\n", b"(" + link + b"\v"


def _read_links(links: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(decode(link).partition("\n")[2] for link in links)
