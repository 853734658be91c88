"""``redbike fsck``: whether the invariants hold, read-only.

1. A job that its schedule keeps going is in exactly one of timeline, queue, in flight; only one that was set during its
   own run may be both in flight and on the timeline.
2. Nothing exists for an unset job, but the run that was in flight.
3. No id is twice in a queue.
4. Each in-flight record has a tag, a deadline, its due time and the count of losses; a run before its deadline has its
   expiring key, with the same tag.
5. A status agrees with the place.
6. Only declared keys exist; only in-flight keys expire.

Jobs move while this looks. So whatever is listed somewhere is only a suspect: each is then inspected by one script, at
one instant, and judged by that.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from redbike.errors import RedbikeError
from redbike.keys import FAMILIES
from redbike.records import State, text
from redbike.schedule import parse
from redbike.scripts import translated
from redbike.store import PAGE, Store, literal

QUEUED = re.compile(r"\d+\.\d{6} .+", re.DOTALL)
RUNNING = re.compile(r"\S+( \d+\.\d{6}){3}( \d+){2} (-|set|once|due:\d+\.\d{6}) .+", re.DOTALL)
PLACE_OF = {"TML": "timeline", "ENQ": "queue", "WRK": "in flight"}


def fsck(store: Store) -> Iterator[str]:
    """One line for each thing that is wrong; nothing when all is well."""
    entries = _queue_entries(store)
    suspects = dict.fromkeys([*_jobids(store), *(jobid for jobid, _ in entries)])
    jobids = iter(suspects)
    while page := list(islice(jobids, PAGE)):
        for state in store.inspect(page):
            for problem in judge(state):
                yield f"{state.jobid!r}: {problem}"
    yield from _misplaced(store, entries)
    yield from _stray_keys(store)


def judge(state: State) -> Iterator[str]:
    """What is wrong with one job, whatever the queues hold."""
    if state.queued and not QUEUED.fullmatch(state.queued):
        yield f"its queued record is malformed: {state.queued!r}"
        return
    if state.running and not RUNNING.fullmatch(state.running):
        yield f"its running record is malformed: {state.running!r}"
        return
    yield from _judge_run(state)
    if state.schedule is None:
        yield from _judge_unknown(state)
    else:
        yield from _judge_place(state)


def places(state: State) -> list[str]:
    """Where the job is."""
    found = {"in flight": state.running, "queue": state.queued, "timeline": state.timeline is not None}
    return [place for place, there in found.items() if there]


def _judge_run(state: State) -> Iterator[str]:
    if not state.running:
        if state.lease is not None:
            yield "it has a lease, but no run is in flight"
        return
    tag = state.running.split(" ", 1)[0]
    if state.lease is None:
        yield "its run has no lease: it would not be found if its worker died"
    if state.inflight and state.inflight != tag:
        yield f"its in-flight key holds {state.inflight!r}, its record {tag!r}"
    if state.inflight and state.inflight_ms < 0:
        yield "its in-flight key does not expire"


def _judge_unknown(state: State) -> Iterator[str]:
    here = [place for place in places(state) if place != "in flight"]
    if here:
        yield f"it was never set, or is unset, but is still in: {', '.join(here)}"
    if state.status and not state.status.startswith("BAD:"):
        yield f"it has no schedule, but the status {state.status}"
    if state.streak or state.skipped or state.failure:
        yield "it has no schedule, but counts or a failure"


def _judge_place(state: State) -> Iterator[str]:
    here = places(state)
    if len(here) > 1 and not (here == ["in flight", "timeline"] and state.running.split(" ")[6] in ("set", "once")):
        yield f"it is in more than one place: {', '.join(here)}"
    event, _, moment = (state.status or "").partition(":")
    if not moment.isdecimal():
        yield f"it has no status, or a malformed one: {state.status!r}"
        return
    if event in PLACE_OF:
        if not here:
            yield f"its status is {state.status}, but it is nowhere"
        elif PLACE_OF[event] != here[0]:
            yield f"its status is {state.status}, but it is in: {here[0]}"
    elif here:
        yield f"its status is {state.status}, but it is in: {', '.join(here)}"
    try:
        parse(state.schedule or "")
    except RedbikeError as error:
        yield f"its schedule cannot be read: {error}"


def _jobids(store: Store) -> Iterator[str]:
    keys, client = store.keys, store.client
    with translated():
        for key in (keys.schedules, keys.statuses, keys.queued, keys.running, keys.streaks, keys.failures):
            yield from (text(name) for name, _ in client.hscan_iter(key, count=PAGE))
        for key in (keys.timeline, keys.leases, keys.failure_times):
            yield from (text(name) for name, _ in client.zscan_iter(key, count=PAGE))
        yield from (text(name).partition(":")[2] for name, _ in client.hscan_iter(keys.skipped, count=PAGE))


def _queue_entries(store: Store) -> Counter[tuple[str, str]]:
    """How often each (job id, queue) stands in a list. What moves while it looks is sorted out later."""
    entries: Counter[tuple[str, str]] = Counter()
    with translated():
        for name in map(text, store.client.smembers(store.keys.queues)):
            start = 0
            while page := store.client.lrange(store.keys.queue(name), start, start + PAGE - 1):
                entries.update((text(jobid), name) for jobid in page)
                start += PAGE
        for jobid, queued in store.client.hscan_iter(store.keys.queued, count=PAGE):
            entries.setdefault((text(jobid), text(queued).partition(" ")[2]), 0)
    return entries


def _misplaced(store: Store, entries: Counter[tuple[str, str]]) -> Iterator[str]:
    """Ids that are twice in a queue, or in one without a record, or recorded as queued without being there."""
    recorded: dict[str, str] = {}
    jobids = iter(dict.fromkeys(jobid for jobid, _ in entries))
    while page := list(islice(jobids, PAGE)):
        recorded |= {state.jobid: state.queued.partition(" ")[2] for state in store.inspect(page)}
    for (jobid, name), count in entries.items():
        expected = 1 if recorded[jobid] == name else 0
        if count != expected:
            found, expected = store.entries(jobid, name)
            if found > 1:
                yield f"{jobid!r}: it is {found} times in the queue {name!r}"
            elif found > expected:
                yield f"{jobid!r}: it is in the queue {name!r} without a record; a worker will adopt it"
            elif found < expected:
                yield f"{jobid!r}: it is recorded as queued, but is not in the queue {name!r}"


def _stray_keys(store: Store) -> Iterator[str]:
    keys, client = store.keys, store.client
    with translated():
        names = [text(name) for name in client.smembers(keys.queues)]
        ours = {*keys.fixed(), *map(keys.queue, names), *map(keys.wake, names)}
        for key in sorted(ours):
            if client.pttl(key) >= 0:
                yield f"the key {key!r} expires"
        found = sorted(text(key) for key in client.scan_iter(match=f"{literal(keys.prefix)}-*", count=PAGE))
        # A prefix that begins like ours (app beside app-x) has a hash of schedules of its own.
        others = tuple(key.removesuffix("schedules") for key in found if key.endswith("-schedules") and key not in ours)
        families = tuple(f"{keys.prefix}-{family}" for family in FAMILIES)
        for key in found:
            if key.startswith(keys.inflight_base):
                if client.pttl(key) == -1:
                    yield f"the key {key!r} does not expire"
            elif key not in ours and not key.startswith((*families, *others)):
                yield f"the key {key!r} is none of ours, or of a queue that was never used"
