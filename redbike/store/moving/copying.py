"""Copy hashes, sorted sets and sets from some shards to others, page by page. To copy twice does no harm."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from redbike.errors import RedbikeError
from redbike.store.keys import FIXED
from redbike.store.moving.rules import BY_JOB, PAGED, Where
from redbike.store.namespace import DATA_PAGE, PAGE, RANKS_PAGE, Namespace
from redbike.store.records import decode
from redbike.store.sharded.places import find_shard

LONG = ("data", "outputs", "failures", "history", "saved")  # keys whose values may be long
LENGTHS = {"hash": "hlen", "zset": "zcard", "set": "scard"}
COMMANDS = {"hash": "hset", "zset": "zadd", "set": "sadd"}
Item = tuple[bytes, Any]  # a field and its value, or a member and its score
Report = Callable[[int, int], None]  # gets about how many jobs were copied, and of how many


def find_target(name: str, number: int) -> int:
    """Return the number of the shard, from 0, of a job or the name of a group among `number` shards."""
    return find_shard(name, number) if number > 1 else 0


class Copier:
    """Copies from the `sources` to the `targets`, which nobody else uses. `report` is called with the progress."""

    def __init__(
        self, sources: Sequence[Namespace], targets: Sequence[Namespace], report: Report = lambda done, number: None
    ) -> None:
        self.sources, self.targets, self._report = sources, targets, report
        self._left_out = Counter[str]()  # by key: how many entries are not copied
        self._done, self._all = 0, sum(count(each, name) for each in sources for name in PAGED)
        self._jobs = sum(count(each, "schedules") for each in sources)

    def copy(self) -> None:
        """Copy all that has a rule in `PAGED`. Raise `RedbikeError` if an entry of a job has not arrived."""
        for name in PAGED:
            for source in self.sources:
                self._copy_key(source, name)
            before, after = (sum(count(each, name) for each in places) for places in (self.sources, self.targets))
            if name in BY_JOB and before - self._left_out[name] != after:
                raise RedbikeError(f"cannot move: of {before} entries of {name!r}, {after} have arrived")

    def _copy_key(self, source: Namespace, name: str) -> None:
        size = DATA_PAGE if name in LONG else PAGE
        waiting: list[list[Item]] = [[] for _ in self.targets]
        for item in _read(source, name, size):
            self._done += 1
            found = self._find(name, decode(item[0]))
            self._left_out[name] += not found
            for number in found:
                waiting[number].append(item)
                if len(waiting[number]) >= size:
                    self._write(number, name, waiting[number])
                    waiting[number] = []
            if not self._done % PAGE:
                self._report(self._done * self._jobs // self._all, self._jobs)
        for number, items in enumerate(waiting):
            self._write(number, name, items)

    def _find(self, name: str, member: str) -> Sequence[int]:
        where = PAGED[name](member)
        if isinstance(where, str):
            return (find_target(where, len(self.targets)),)
        return {Where.EVERYWHERE: range(len(self.targets)), Where.FIRST: (0,), Where.MERGED: ()}[where]

    def _write(self, number: int, name: str, items: list[Item]) -> None:
        if not items:
            return
        target, kind = self.targets[number], FIXED[name]
        given: dict[str, Any] = {"mapping": dict(items)} if kind != "set" else {}
        members = [member for member, _ in items] if kind == "set" else []
        target.ask(COMMANDS[kind], make_key(target, name), *members, **given)


def make_key(place: Namespace, name: str) -> str:
    """Return the key of `place` with this fixed name."""
    return f"{place.keys.prefix}-{name}"


def count(place: Namespace, name: str) -> int:
    """Return how many fields or members a key has."""
    return int(place.ask(LENGTHS[FIXED[name]], make_key(place, name)))


def _read(source: Namespace, name: str, size: int) -> Iterator[Item]:
    key, kind = make_key(source, name), FIXED[name]
    if kind == "hash":
        yield from source.scan_bytes(key, page=size)
    elif kind == "set":
        yield from ((member, None) for member in sorted(source.ask("smembers", key)))
    else:
        # Nobody changes it meanwhile.
        for first in range(0, count(source, name), RANKS_PAGE):
            yield from source.ask("zrange", key, first, first + RANKS_PAGE - 1, withscores=True)
