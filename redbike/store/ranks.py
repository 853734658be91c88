"""Walk along a sorted set from where somebody has stopped, however many entries have the same score."""

from collections.abc import Iterator

from redbike.store.namespace import Namespace

PAGE = 250  # entries in one request

Entry = tuple[float, bytes]  # the score, and the member


class Ranks:
    """A sorted set, in the order of the server: by score, and then by the bytes of the member."""

    def __init__(self, namespace: Namespace, key: str) -> None:
        self._namespace = namespace
        self._key = key

    def count(self) -> int:
        """Return how many entries it has."""
        return int(self._namespace.ask("zcard", self._key))

    def list_after(self, last: Entry | None, page: int = PAGE) -> Iterator[tuple[int, list[Entry]]]:
        """Yield pages of the entries behind `last`, in their order, each with how many stand before it; None: all.

        Entries may come and go meanwhile, also `last`: no other one is left out for that.
        """
        while True:
            rank = 0 if last is None else self._find_rank(last, 1)
            found = self._read(rank, rank + page - 1)
            if not found:
                return
            yield rank, found
            last = found[-1]

    def list_before(self, last: Entry | None, page: int = PAGE) -> Iterator[tuple[int, list[Entry]]]:
        """Yield pages of the entries before `last`, the last one first, each with how many stand behind it."""
        while True:
            number = self.count()
            end = number if last is None else self._find_rank(last, 0)
            found = self._read(max(0, end - page), end - 1) if end else []
            if not found:
                return
            yield number - end, found[::-1]
            last = found[0]

    def _read(self, first: int, last: int) -> list[Entry]:
        found = self._namespace.ask("zrange", self._key, first, last, withscores=True)
        return [(float(score), member) for member, score in found]

    def _find_rank(self, entry: Entry, behind: int) -> int:
        """Return how many entries stand before this one, which may be gone; with 1 as `behind`, itself too."""
        score, member = entry
        with (
            self._namespace.translate((self._key, "zset")),
            self._namespace.client.pipeline(transaction=True) as pipeline,
        ):
            pipeline.zrank(self._key, member)
            pipeline.zscore(self._key, member)
            pipeline.zcount(self._key, "-inf", f"({score!r}")
            pipeline.zcount(self._key, "-inf", score)
            rank, now, low, high = pipeline.execute()
        if rank is not None and now == score:
            return int(rank) + behind
        # It has gone: of those with its score, the first one that stands behind it, by halves.
        while low < high:
            middle = (low + high) // 2
            found = self._read(middle, middle)
            if found and found[0] <= entry:
                low = middle + 1
            else:
                high = middle
        return int(low)
