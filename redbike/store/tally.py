"""What entries of the journal add to the counts. It reads no more of a run than that: there may be 100,000 a second.

The counts have these fields, where QUEUE is empty for those queues for which there was no more room:

- ``runs:OUTCOME:QUEUE``: ended runs,
- ``took:SECONDS:QUEUE``: those that took at most so long, and longer than the next lower one of `BUCKETS`,
- ``microseconds::QUEUE``: that they took together,
- ``forgotten::``: one-offs that were forgotten after their end,
- ``rewinds::``: how often the server went back in time,
- ``delay:SECONDS:QUEUE``: first tries that began at most so long after their due time, by the same bounds,
- ``delays::QUEUE``: microseconds that these were late together,
- ``archived``: entries of the journal that were ever archived,
- ``archiver``: ``TIME TOKEN`` of who is archiving,
- ``recent``: JSON ``{QUEUE: {PART: ended runs}}``, for those parts of `PART` seconds that are less than `RECENT` ago,
- ``hour``: the same of each `MINUTE`, for the last `HOUR`.
"""

import json
import math
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from redbike.store.entries import Batch, is_of_backfill
from redbike.store.enums import Outcome
from redbike.store.history import BAD, OUTCOMES, read_facts

BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0, 7200.0)  # seconds
PART, RECENT = 10, 60  # seconds
MINUTE, HOUR = 60, 3600  # seconds
MOST_RECENT = 5000  # parts of queues

_BOUNDS = struct.unpack(f"<{len(BUCKETS)}f", struct.pack(f"<{len(BUCKETS)}f", *BUCKETS))  # as a run keeps its seconds
_NAMES = [f"{bound:g}" for bound in (*BUCKETS, math.inf)]
_LOST = OUTCOMES.index(Outcome.LOST)


def count(entries: Iterable[bytes]) -> Counter[str]:
    """Return what entries add to the counts. Damaged ones add nothing."""
    return count_all(entries)[0]


def count_recent(entries: Iterable[bytes]) -> Counter[tuple[int, str]]:
    """Return how many runs of entries have ended, by the number of the part of `PART` seconds, and queue."""
    recent = Counter[tuple[int, str]]()
    for entry in entries:
        with suppress(*BAD):
            recent.update(_count_recent(Batch.open(entry)))
    return recent


def _count_recent(batch: Batch) -> Counter[tuple[int, str]]:
    text, found = batch.text, Counter[tuple[int, int]]()
    for _, queue, _, start, end in batch.walk():
        found[int(read_facts(text, start, end)[2] // PART), queue] += 1
    return _name_queues(batch, found)


def _name_queues(batch: Batch, parts: Counter[tuple[int, int]]) -> Counter[tuple[int, str]]:
    return Counter({(part, batch.queues[queue]): number for (part, queue), number in parts.items()})


def count_all(entries: Iterable[bytes]) -> tuple[Counter[str], Counter[tuple[int, str]]]:
    """Return both counts of entries, and read each entry once."""
    counts, recent = Counter[str](), Counter[tuple[int, str]]()
    for entry in entries:
        with suppress(*BAD):
            added, ended = _count(Batch.open(entry))
            counts.update(added)
            recent.update(ended)
    return counts, recent


def _count(batch: Batch) -> tuple[Counter[str], Counter[tuple[int, str]]]:
    text, found, seconds = batch.text, Counter[tuple[int, int, int]](), dict[int, float]()
    late, delays, parts = Counter[tuple[int, int]](), dict[int, float](), Counter[tuple[int, int]]()
    for _, queue, _, start, end in batch.walk():
        outcome, took, ended, waited, attempt = read_facts(text, start, end)
        if attempt == 1 and not is_of_backfill(text, start):
            late[queue, bisect_left(BUCKETS, waited)] += 1
            delays[queue] = delays.get(queue, 0.0) + waited
        found[queue, outcome, bisect_left(_BOUNDS, took)] += 1
        parts[int(ended // PART), queue] += 1
        if outcome != _LOST:
            seconds[queue] = seconds.get(queue, 0.0) + took
    counts = Counter[str]()
    for (queue, outcome, bucket), number in found.items():
        name = batch.queues[queue]
        counts[f"runs:{OUTCOMES[outcome]}:{name}"] += number
        if outcome != _LOST:
            # Nobody knows how long the others took.
            counts[f"took:{_NAMES[bucket]}:{name}"] += number
    for queue, total in seconds.items():
        counts[f"microseconds::{batch.queues[queue]}"] += round(total * 1_000_000)
    for (queue, bucket), number in late.items():
        counts[f"delay:{_NAMES[bucket]}:{batch.queues[queue]}"] += number
    for queue, total in delays.items():
        counts[f"delays::{batch.queues[queue]}"] += round(total * 1_000_000)
    return counts, _name_queues(batch, parts)


def sum_minutes(recent: Counter[tuple[int, str]]) -> Counter[tuple[int, str]]:
    """Return runs by the number of the minute, and queue, that `count_recent` has counted."""
    found = Counter[tuple[int, str]]()
    for (part, queue), number in recent.items():
        found[part * PART // MINUTE, queue] += number
    return found


def format_recent(
    kept_before: Counter[tuple[int, str]], added: Counter[tuple[int, str]], most: int = RECENT // PART
) -> str:
    """Return ended runs by part and queue as they are to be kept, for the `most` parts before the newest that is added.

    Those to come are left out, too: the clock was ahead when they ended.
    """
    newest = max((part for part, _ in added), default=0)
    kept: dict[str, dict[str, int]] = {}
    recent = {each: number for each, number in (kept_before + added).items() if abs(newest - each[0]) <= most}
    for (part, queue), number in Counter(recent).most_common(MOST_RECENT):
        kept.setdefault(queue, {})[str(part)] = number
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def parse_recent(text: str) -> Counter[tuple[int, str]]:
    """Read what `format_recent` has made; none for anything else."""
    found: Counter[tuple[int, str]] = Counter()
    with suppress(ValueError, TypeError, AttributeError, RecursionError):
        for queue, parts in json.loads(text).items():
            for part, number in parts.items():
                found[int(part), queue] += int(number)
    return found
