"""What entries of the journal add to the counts. It reads of a run only what it counts: 100,000 may end in a second.

The counts have these fields. QUEUE is empty for queues that no longer fit into the hash:

- ``runs:OUTCOME:QUEUE``: ended runs,
- ``took:SECONDS:QUEUE``: runs, except lost ones, that took up to SECONDS, and more than the bound before in `BUCKETS`,
- ``microseconds::QUEUE``: the total duration of runs, except lost ones,
- ``forgotten::``: one-offs that were forgotten after their end,
- ``rewinds::``: how often the server went back in time,
- ``delay:SECONDS:QUEUE``: first tries that began up to SECONDS after their due time, with the same bounds,
- ``delays::QUEUE``: the total delay of first tries in microseconds,
- ``archived``: entries of the journal that were ever archived,
- ``archiver``: ``TIME TOKEN`` of the process that archives,
- ``recent``: JSON ``{QUEUE: {PART: ended runs}}``, for those parts of `PART` seconds that are less than `RECENT` ago,
- ``hour``: the same for each `MINUTE` of the last `HOUR`.

Occurrences of backfills have no delay.
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
MOST_RECENT = 5000  # parts that are kept, of all queues together

_BOUNDS = struct.unpack(f"<{len(BUCKETS)}f", struct.pack(f"<{len(BUCKETS)}f", *BUCKETS))  # rounded as in a stored run
_NAMES = [f"{bound:g}" for bound in (*BUCKETS, math.inf)]
_LOST = OUTCOMES.index(Outcome.LOST)


def count(entries: Iterable[bytes]) -> Counter[str]:
    """Return what entries add to the counts, by field. Damaged entries add nothing."""
    return count_all(entries)[0]


def count_recent(entries: Iterable[bytes]) -> Counter[tuple[int, str]]:
    """Return how many runs of entries have ended, by (number of the part of `PART` seconds, queue)."""
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
    """Return the results of `count` and `count_recent`, but read each entry only once."""
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
            # How long a lost run took is unknown.
            counts[f"took:{_NAMES[bucket]}:{name}"] += number
    for queue, total in seconds.items():
        counts[f"microseconds::{batch.queues[queue]}"] += round(total * 1_000_000)
    for (queue, bucket), number in late.items():
        counts[f"delay:{_NAMES[bucket]}:{batch.queues[queue]}"] += number
    for queue, total in delays.items():
        counts[f"delays::{batch.queues[queue]}"] += round(total * 1_000_000)
    return counts, _name_queues(batch, parts)


def sum_minutes(recent: Counter[tuple[int, str]]) -> Counter[tuple[int, str]]:
    """Return the counts of `count_recent` by (number of the minute, queue)."""
    found = Counter[tuple[int, str]]()
    for (part, queue), number in recent.items():
        found[part * PART // MINUTE, queue] += number
    return found


def format_recent(
    kept_before: Counter[tuple[int, str]], added: Counter[tuple[int, str]], most: int = RECENT // PART
) -> str:
    """Return as JSON to store the ended runs of the newest added part, and of the `most` parts before it.

    Much later parts are left out, too: the clock was ahead when these runs ended.
    """
    newest = max((part for part, _ in added), default=0)
    kept: dict[str, dict[str, int]] = {}
    recent = {each: number for each, number in (kept_before + added).items() if abs(newest - each[0]) <= most}
    for (part, queue), number in Counter(recent).most_common(MOST_RECENT):
        kept.setdefault(queue, {})[str(part)] = number
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def parse_recent(text: str) -> Counter[tuple[int, str]]:
    """Read a text of `format_recent`; an empty counter for any other text."""
    found: Counter[tuple[int, str]] = Counter()
    with suppress(ValueError, TypeError, AttributeError, RecursionError):
        for queue, parts in json.loads(text).items():
            for part, number in parts.items():
                found[int(part), queue] += int(number)
    return found
