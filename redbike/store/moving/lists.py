"""Copy what has an order: queues and the log. Several shards are merged by time; the order in each stays."""

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from redbike.errors import RedbikeError
from redbike.store.enums import Event
from redbike.store.log import parse_entry
from redbike.store.moving.copying import find_target
from redbike.store.moving.shard import list_queues
from redbike.store.namespace import PAGE, Namespace, split
from redbike.store.records import Waiting, decode, encode
from redbike.text.parsing import load_json
from redbike.text.printable import name_some

ENTRIES = 10_000  # of the log at most, as in lua/_log.lua
MOST_NAMED = 3
Timed = tuple[float, bytes]
Divide = Callable[[bytes], list[tuple[int, bytes]]]


def check_queues(places: Sequence[Namespace]) -> None:
    """Raise `RedbikeError` if jobs wait where `copy_queue` would not find them, such as jobs left by 0.13.1."""
    found = [jobid for place in places for jobid in _list_unknown(place)]
    if found:
        raise RedbikeError(
            "cannot move: by their status, these jobs wait in a queue, but nothing says in which one: "
            f"{name_some(found, MOST_NAMED)}; run redbike fsck --repair first"
        )


def _list_unknown(place: Namespace) -> Iterator[str]:
    """Yield jobs that wait by their status, but have no record, or one whose queue the set of queues lacks."""
    queues, waiting = set(list_queues(place)), f"{Event.ENQ}:"
    names = (jobid for jobid, status in place.scan(place.keys.statuses) if status.startswith(waiting))
    for page in split(names, PAGE):
        records, pauses = place.ask_all(("hmget", place.keys.queued, page), ("hmget", place.keys.pauses, page))
        for jobid, record, pause in zip(page, records, pauses, strict=True):
            home = Waiting.parse(decode(record))
            # A paused job waits only if somebody has asked for it, and then it has a record.
            is_found = home.queue in queues if home else pause is not None
            if not is_found:
                yield jobid


def copy_queue(name: str, sources: Sequence[Namespace], targets: Sequence[Namespace]) -> None:
    """Copy the jobs that wait in a queue, in the order of their due times."""
    waiting = heapq.merge(*(_read_queue(source, name) for source in sources), key=lambda each: each[0])
    for number, page in _divide(
        waiting, len(targets), lambda entry: [(find_target(decode(entry), len(targets)), entry)]
    ):
        target, (jobids, at) = targets[number], page
        key, wake, _ = target.keys.of_queue(name)
        # To repeat it does no harm. Workers take jobs from the right.
        start = ("ltrim", key, -at, -1) if at else ("delete", key)
        target.ask_all(start, ("lpush", key, *jobids), ("delete", wake), ("rpush", wake, "1"))


def _read_queue(source: Namespace, name: str) -> Iterator[Timed]:
    """Yield (due time, job id) of the jobs that wait there, in the order in which they are taken."""
    key, _, tombstones = source.keys.of_queue(name)
    dead, end = set(source.ask("smembers", tombstones)), int(source.ask("llen", key))
    while end > 0:
        page = source.ask("lrange", key, max(0, end - PAGE), end - 1)[::-1]
        end -= PAGE
        for jobid, record in zip(page, source.ask("hmget", source.keys.queued, page), strict=True):
            found = Waiting.parse(decode(record))
            if jobid not in dead and found and found.queue == name:
                yield found.due, jobid


def copy_log(sources: Sequence[Namespace], targets: Sequence[Namespace]) -> None:
    """Copy the log, newest entries first. An entry of several jobs is divided; one of none goes to the first shard."""
    number = len(targets)
    entries = heapq.merge(*(_read_log(source) for source in sources), key=lambda each: -each[0])
    for place, (page, at) in _divide(entries, number, lambda entry: divide_entry(entry, number)):
        target = targets[place]
        if at < ENTRIES:
            start = ("ltrim", target.keys.log, 0, at - 1) if at else ("delete", target.keys.log)
            target.ask_all(start, ("rpush", target.keys.log, *page[: ENTRIES - at]))


def _read_log(source: Namespace) -> Iterator[Timed]:
    for first in range(0, int(source.ask("llen", source.keys.log)), PAGE):
        for entry in source.ask("lrange", source.keys.log, first, first + PAGE - 1):
            found = parse_entry(entry)
            yield found[0].time if found else 0.0, entry


def divide_entry(entry: bytes, number: int) -> list[tuple[int, bytes]]:
    """Divide an entry of the log among `number` shards: return (shard, the entry with only its own jobs)."""
    jobids = [each.jobid for each in reversed(parse_entry(entry) or ()) if each.jobid]
    own: dict[int, list[str]] = {}
    for jobid in jobids:
        own.setdefault(find_target(jobid, number), []).append(jobid)
    if len(own) < 2:
        return [(next(iter(own), 0), entry)]
    head = load_json(decode(entry))[:4]
    return [
        (place, encode(json.dumps([*head, *listed], separators=(",", ":"), ensure_ascii=False)))
        for place, listed in own.items()
    ]


def _divide(entries: Iterable[Timed], number: int, find: Divide) -> Iterator[tuple[int, tuple[list[bytes], int]]]:
    """Yield pages for shards: which one, its entries, and how many it has had before."""
    waiting: list[list[bytes]] = [[] for _ in range(number)]
    before = [0] * number
    for page in split(entries, PAGE):
        for _, entry in page:
            for place, own in find(entry):
                waiting[place].append(own)
        for place, listed in enumerate(waiting):
            if len(listed) >= PAGE:
                yield place, (listed, before[place])
                before[place] += len(listed)
                waiting[place] = []
    for place, listed in enumerate(waiting):
        if listed:
            yield place, (listed, before[place])
