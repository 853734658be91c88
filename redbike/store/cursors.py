"""Walks along hashes and sorted sets. A page takes a limited amount of work, and ends at a cursor.

1. A hash with few entries is read as a whole, and sorted by its fields. The cursor has the last field that was read.
2. A larger hash is read by HSCAN, in the order of the server. The cursor has the cursor of HSCAN.
3. A sorted set is read in its order. The cursor has the last entry that was read.

Entries may come and go between two pages. An entry that is there all the time is on one page, perhaps on two.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, Self

from redbike.errors import BadConfig
from redbike.store.namespace import RANKS_PAGE, Entry, Namespace, Ranks
from redbike.store.records import decode, encode
from redbike.text.parsing import parse_whole

BITS = 64  # of a cursor of HSCAN; also the highest number of shards
MOST_SOURCES = 999  # sources of a search, in all shards together
ROWS = 50  # entries of a step
FEW = 1000  # a hash with at most so many entries is read as a whole
LEAST_SCANNED, MOST_SCANNED, SLOW = 50, 1000, 0.005  # entries in one request: more if the last took less than `SLOW`

Fields = dict[bytes, bytes]
Select = Callable[[Fields], list[str]]  # the names of those fields that may fit


class Cursor(NamedTuple):
    """Where a page begins: in a hash at a cursor of HSCAN, with ids behind `entry`; in a sorted set behind `entry`."""

    source: int = 0  # the index of a source of the search
    scan: int = 0  # the cursor of HSCAN
    entry: Entry | None = None
    missed: int = 0  # a bit for each shard that a page has left out, as the shard did not answer

    def format(self) -> str:
        """Return it as a text for a URL."""
        score, member = self.entry or (0.0, b"")
        missed = f".{self.missed}" if self.missed else ""
        return f"{self.source}{missed}-{self.scan}" + (f"-{score!r}-{member.hex()}" if self.entry else "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a text of `format`; "" is the beginning. Raise `BadConfig` for any other text."""
        if not text:
            return cls()
        try:
            place, scan, *entry = text.split("-", 2)
            source, mark, bits = place.partition(".")
            number, at = _read_whole(source, MOST_SOURCES), _read_whole(scan, 2**BITS - 1)
            missed = _read_whole(bits, 2**BITS - 1) if mark else 0
            if not entry:
                return cls(number, at, None, missed)
            score, _, member = entry[0].rpartition("-")
            return cls(number, at, (float(score), bytes.fromhex(member)), missed)
        except ValueError:
            raise make_bad_cursor(text) from None


def make_bad_cursor(text: str) -> BadConfig:
    """Return the error for a text that is no cursor."""
    return BadConfig(f"bad cursor {text!r:.40}: it comes from the link to the next page")


class Step(NamedTuple):
    """What one request of a walk has found."""

    names: list[str]  # ids of jobs that may fit
    scanned: int  # entries read by this request
    done: int  # entries read since the beginning of the source
    following: Cursor | None  # of the next page; None if nothing is left


class Source(NamedTuple):
    """A key in which fitting jobs may be."""

    kind: Literal["hash", "due", "planned", "next", "failures"]
    key: str
    only: str = ""  # only jobs whose value in the hash begins with this may fit
    without: str = ""  # a sorted set whose jobs are left out, as another source has them


class RankPage(NamedTuple):
    """What one request has found in a sorted set."""

    done: int  # the number of entries before these
    entries: list[Entry]
    is_over: bool  # whether these are the last ones


def read_ranks(
    ranks: Ranks, last: Entry | None, until: float = math.inf, is_backwards: bool = False, page: int = RANKS_PAGE
) -> Iterator[RankPage]:
    """Yield pages of a sorted set behind `last`, up to the score `until`, or backwards; `page` in each request."""
    total = ranks.count()
    for done, found in ranks.list_before(last, page) if is_backwards else ranks.list_after(last, page):
        entries = [entry for entry in found if entry[0] <= until]
        is_over = len(entries) < len(found) or done + len(found) >= total
        yield RankPage(done, entries, is_over)
        if is_over:
            return


def walk_ranks(pages: Iterable[RankPage], cursor: Cursor) -> Iterator[Step]:
    """Yield the steps of a walk along a sorted set, from its pages behind `cursor`."""
    for done, entries, is_over in pages:
        for first in range(0, len(entries), ROWS):
            part = entries[first : first + ROWS]
            following = None if is_over and first + ROWS >= len(entries) else cursor._replace(entry=part[-1])
            yield Step([decode(member) for _, member in part], len(part), done + first + len(part), following)


def walk_hash(namespace: Namespace, key: str, cursor: Cursor, pattern: str | None, select: Select) -> Iterator[Step]:
    """Yield the steps of a walk along those fields of a hash that `pattern` matches and `select` returns."""
    total = int(namespace.ask("hlen", key))
    behind = cursor.entry[1] if cursor.entry else b""

    def look(scan: int, count: int) -> tuple[int, list[str]]:
        scan, found = namespace.scan_page(key, scan, pattern, count)
        return scan, select({name: value for name, value in found.items() if name > behind})

    walk = _walk_few if cursor.scan == 0 and total <= FEW else _walk_many
    return walk(look, cursor, total)


Look = Callable[[int, int], tuple[int, list[str]]]  # reads so many entries from a cursor of HSCAN on


def _walk_few(look: Look, cursor: Cursor, total: int) -> Iterator[Step]:
    scan, names = look(0, FEW)
    while scan:
        scan, more = look(scan, FEW)
        names += more
    ordered = sorted({*names}, key=encode)
    for first in range(0, len(ordered), ROWS):
        page = ordered[first : first + ROWS]
        is_last = first + ROWS >= len(ordered)
        yield Step(page, len(page), total, None if is_last else cursor._replace(entry=(0.0, encode(page[-1]))))


def _walk_many(look: Look, cursor: Cursor, total: int) -> Iterator[Step]:
    scan, count = cursor.scan, LEAST_SCANNED
    while True:
        began = time.monotonic()
        scan, names = look(scan, count)
        done = round(measure_scan(scan) * total) if scan else total
        yield Step(names, count, done, cursor._replace(scan=scan) if scan else None)
        if not scan:
            return
        count = min(MOST_SCANNED, count * 2) if time.monotonic() - began < SLOW else LEAST_SCANNED


def measure_scan(scan: int) -> float:
    """Return which share of a hash, from 0 to 1, HSCAN has read when it returns this cursor.

    The server increments the number of a bucket from its highest bit to its lowest.
    """
    bits = f"{scan:0{BITS}b}"
    return int(bits[::-1], 2) / float(2**BITS)


def _read_whole(text: str, most: int) -> int:
    if (number := parse_whole(text, most)) is None:
        raise ValueError
    return number
