"""Merge the answers of several shards into that of one store: numbers are added, and sorted answers stay sorted."""

import heapq
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any, cast

from redbike.connection.line import has_room
from redbike.store.alerts import Known
from redbike.store.blackouts import OF_JOB
from redbike.store.jobs import Answers, Refused
from redbike.store.processes import MOST_JOBS, Process
from redbike.store.queue_limits import QueueLimits
from redbike.store.scripts import Call
from redbike.store.sharded.linking import link
from redbike.store.sharded.missing import ask_each, name_around
from redbike.store.sharded.routes import Ask, Given, Named, Shards, any_one, same, union
from redbike.store.timeline import is_ahead
from redbike.store.totals import Queue, Total

END = object()
IsIt = Callable[[], bool]


def add_totals(totals: Iterable[Total]) -> Total:
    """Add up numbers of jobs. `Total.dispatched` is the earliest of all shards, None if one has none.

    If a shard is ahead of its clock, it is as far ahead of `Total.now` as in the worst shard.
    """
    found = list(totals)
    names = ("jobs", "timeline", "due", "paused", "failing", "unarchived")
    sums = {name: sum(getattr(each, name) for each in found) for name in names}
    now = max(each.now for each in found)
    known = [each.dispatched for each in found if each.dispatched is not None]
    until = min(known) if len(known) == len(found) else None
    lead = max((each.dispatched - each.now for each in found if each.dispatched is not None), default=0.0)
    firsts = [each.first_due for each in found if each.first_due is not None]
    return Total(
        now=now,
        first_due=min(firsts, default=None),
        dispatched=now + lead if is_ahead(lead, 0.0) else until,
        **sums,
    )


def add_queues(lists: Iterable[Sequence[Queue]]) -> list[Queue]:
    """Add up the waiting jobs and those in flight of each queue over all shards; return the queues by name."""
    found: dict[str, Queue] = {}
    for each in (each for listed in lists for each in listed):
        found[each.queue] = _add_queue(found[each.queue], each) if each.queue in found else each
    return sorted(found.values(), key=lambda each: each.queue)


def _add_queue(one: Queue, other: Queue) -> Queue:
    oldest = min((each for each in (one, other) if each.since is not None), key=_get_since, default=one)
    pauses = [each.paused for each in (one, other) if each.paused is not None]
    return replace(
        one,
        waiting=one.waiting + other.waiting,
        oldest_due=oldest.oldest_due,
        since=oldest.since,
        first=oldest.first,
        in_flight=one.in_flight + other.in_flight,
        paused=min(pauses, default=None),
        at_once=other.at_once if one.at_once is None else one.at_once,
        rate=None if one.rate is None or other.rate is None else one.rate + other.rate,
        late=one.late + other.late,
    )


def _get_since(each: Queue) -> tuple[float, float]:
    return each.since or 0.0, each.oldest_due or 0.0


def join_limits(lists: Iterable[Sequence[QueueLimits]]) -> list[QueueLimits]:
    """Return the limits and the pause of each queue over all shards, by name."""
    found: dict[str, QueueLimits] = {}
    for each in (each for listed in lists for each in listed):
        found[each.queue] = add_limits([found[each.queue], each]) if each.queue in found else each
    return sorted(found.values(), key=lambda each: each.queue)


def add_limits(parts: Iterable[QueueLimits]) -> QueueLimits:
    """Return the limits and the pause of one queue, from the first shard that has them: each knows those over all."""
    one, *others = parts
    for other in others:
        at_once = other.at_once if one.at_once is None else one.at_once
        one = QueueLimits(one.queue, one.pause or other.pause, at_once, one.rate or other.rate)
    return one


def join_processes(lists: Iterable[Sequence[Process]]) -> list[Process]:
    """Return each process once. It is lost if any shard has lost it, and has the jobs of all shards.

    Unplaced jobs are joined, too: the dispatcher of each shard names its own.
    """
    found: dict[str, Process] = {}
    for each in (each for listed in lists for each in listed):
        known = found.get(each.id)
        if known:
            state = "lost" if "lost" in (known.state, each.state) else known.state
            jobs, unplaced = (known.jobs + each.jobs)[:MOST_JOBS], known.unplaced + each.unplaced
            each = replace(known, jobs=jobs, state=state, seen=min(known.seen, each.seen), unplaced=unplaced)
        found[each.id] = each
    return sorted(found.values(), key=lambda each: (each.state != "lost", each.kind, each.since, each.id))


def join_known(found: Iterable[Known]) -> Known:
    """Return what ``-alerts`` has in all shards; `Known.now` is the latest clock."""
    joined = Known()
    for each in found:
        joined.now = max(joined.now, each.now)
        joined.told |= each.told
        joined.pending += each.pending
        joined.idle += each.idle
    return joined


def join_counts(found: Iterable[dict[str, list[int]]]) -> dict[str, list[int]]:
    """Add up lists of numbers by their names."""
    sums: dict[str, list[int]] = {}
    for name, numbers in (pair for each in found for pair in each.items()):
        sums[name] = [a + b for a, b in zip(sums[name], numbers, strict=True)] if name in sums else numbers
    return sums


def merge_sorted(
    key: Callable[[Any], Any], reverse: bool = False
) -> Callable[[Iterable[Iterable[Any]]], Iterator[Any]]:
    """Return a function that merges streams which are sorted by `key`."""
    return lambda streams: heapq.merge(*streams, key=key, reverse=reverse)


# ---- what is more than a merge


@contextmanager
def set_meanwhile(shards: Shards, ask: Ask, given: Given, named: Named) -> Iterator[Answers]:
    """Set jobs in their shards, and run further scripts, while the caller's block runs; see `Jobs.set_meanwhile`."""
    jobs, *more = given
    if len(more) > 2:
        *more, named["also"] = more
    also = list(named.pop("also", ()))
    scripts: dict[int, list[int]] = {}
    for place, call in enumerate(also):
        scripts.setdefault(find_shard_of(shards, call), []).append(place)
    with link(shards, jobs, *more[:2]) as (jobs, refused):
        answers, parts = Answers(refused), dict[int, Answers]()
        places = shards.group(jobs, lambda job: job.jobid)
        with ExitStack() as stack:
            for shard in sorted(places.keys() | scripts.keys()):
                own = [jobs[each] for each in places.get(shard, ())]
                calls = [also[each] for each in scripts.get(shard, ())]
                setting = ask(shards[shard])(own, *more, **named, also=calls)
                parts[shard] = stack.enter_context(name_around(shards[shard], setting))
                if not has_room(shards[shard].client):
                    # There may be only one connection for all shards.
                    stack.close()
            yield answers
        for part in parts.values():
            refused += part.refused
    replies: list[Any] = [None] * len(also)
    for shard, part in parts.items():
        for place, reply in zip(scripts.get(shard, ()), part.others, strict=True):
            replies[place] = reply
    answers.others += replies


def set_jobs(shards: Shards, ask: Ask, given: Given, named: Named) -> list[Refused]:
    """Set jobs in their shards; return the refused ones, which stay as they are."""
    with link(shards, *given) as (jobs, refused):
        for shard, own in shards.divide(jobs, lambda job: job.jobid):
            refused += ask(shard)(own, *given[1:], **named)
    return refused


def find_shard_of(shards: Shards, call: Call) -> int:
    """Return the number of the shard whose keys a script has."""
    key = call.keys[0]
    prefix = key[: key.index("-", key.index("}"))]
    return next(number for number, shard in enumerate(shards) if shard.keys.prefix == prefix)


def pack_rows(shards: Shards, ask: Ask, given: Given, named: Named) -> list[Call]:
    """Return scripts that read rows, in the order of the jobs. Neighbours in one shard share a script."""
    jobids, *more = given
    groups = groupby(list(jobids), key=shards.find)
    calls = list[Call]()
    for shard, own in groups:
        calls += ask(shards[shard])(list(own), *more, **named)
    return calls


def listen(shards: Shards, ask: Ask, given: Given, named: Named) -> Iterator[Any]:
    """Yield the events of all shards as they happen; a thread listens to each shard."""

    def begin(wants: IsIt | None = None, is_over: IsIt = lambda: False) -> Iterator[Any]:
        end = threading.Event()
        return _join_streams([ask(shard)(wants, lambda: end.is_set() or is_over()) for shard in shards], end)

    return begin(*given, **named)


def listen_to_jobs(shards: Shards, ask: Ask, given: Given, named: Named) -> Iterator[Any]:
    """Yield what jobs print, as they print it, from all of their shards."""

    def begin(jobids: Sequence[str], is_over: IsIt = lambda: False) -> Iterator[Any]:
        owns = dict(shards.divide(jobids, same))
        if len(owns) == 1:
            return cast(Iterator[Any], ask(*owns)(jobids, is_over))
        end = threading.Event()
        streams = [ask(shard)(own, lambda: end.is_set() or is_over()) for shard, own in owns.items()]
        return _join_streams(streams, end)

    return begin(*given, **named)


def _join_streams(streams: Sequence[Iterator[Any]], end: threading.Event) -> Iterator[Any]:
    """Yield what all streams yield; each has a thread. `end` is set when the reader stops, and ends the streams."""
    told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def pass_on(stream: Iterator[Any]) -> None:
        try:
            for each in stream:
                told.put((each, None))
            told.put((END, None))
        except BaseException as error:
            told.put((END, error))

    for stream in streams:
        threading.Thread(target=pass_on, args=(stream,), name="redbike-listener", daemon=True).start()

    def receive() -> Iterator[Any]:
        left = len(streams)
        try:
            yield None
            while left:
                each, error = told.get()
                if error is not None:
                    raise error
                if each is END:
                    left -= 1
                else:
                    yield each
        finally:
            end.set()

    received = receive()
    next(received)  # a generator that has begun runs its `finally` when its reader drops it
    return received


def read_blackouts(shards: Shards, ask: Ask, given: Given, named: Named) -> dict[str, Any]:
    """Return blackouts by name: those of jobs are in their shards, those of queues are the same in all."""
    jobs = [name for name in given[0] if name.startswith(OF_JOB)]
    others = [name for name in given[0] if not name.startswith(OF_JOB)]
    owns = dict(shards.divide(jobs, lambda name: name[len(OF_JOB) :]))
    found = union(ask_each(owns, lambda shard: ask(shard)(owns[shard], *given[1:], **named)))
    return found | any_one()(shards, ask, (others, *given[1:]), named) if others else found
