"""Check tags: the list, the lease and the in-flight key of the runs that were taken together.

Check and repair pauses and limits of queues, too: their records, the slots of their runs, and their timers.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from redbike.store.inspected import TagState
from redbike.store.inspection.listing import Listing
from redbike.store.namespace import PAGE
from redbike.store.queue_limits import QueueLimitsState
from redbike.store.records import decode
from redbike.store.run import AHEAD, GRACE, LEASE, SLACK
from redbike.store.store import Store


def find_bad_tags(store: Store, listing: Listing) -> Iterator[TagState]:
    """Yield the tags with which something is wrong."""
    tags = iter(listing.tags.items())
    while page := dict(islice(tags, PAGE)):
        for state in store.questions.inspect_tags(page):
            if any(check_tag(state)):
                yield state


def check_tag(state: TagState) -> Iterator[str]:
    """Yield what is wrong with the data of the runs that were taken together."""
    if not state.deadlines:
        there = {
            "a lease": state.lease is not None,
            "a list of jobs": state.listed is not None,
            "an in-flight key": state.kind != "none",
        }
        if any(there.values()):
            yield f"it has {' and '.join(name for name in there if there[name])}, but no run is in flight under it"
        return
    last = max(state.deadlines.values())
    listed, own = set(state.listed or ()), set(state.deadlines)
    yield from (f"it lists {jobid!r} more than once" for jobid, times in Counter(state.listed).items() if times > 1)
    yield from (f"it lists {jobid!r}, which is not in flight under it" for jobid in sorted(listed - own))
    yield from (f"it does not list its run of {jobid!r}" for jobid in sorted(own - listed))
    if state.lease is None:
        yield "it has no lease: nobody would notice if its worker died"
    elif state.lease > max(last + GRACE, state.now + LEASE) + SLACK:  # the run with the last deadline may have ended
        yield "its lease goes on after the deadline"
    elif state.lease > state.now + LEASE + AHEAD:
        yield "its lease is of a clock that was ahead: nobody would notice if its worker died"
    if state.kind not in ("string", "none"):
        yield f"its in-flight key is a {state.kind}"
    elif state.kind == "string" and state.inflight_ms < 0:
        yield "its in-flight key does not expire"
    elif state.kind == "string" and not own.issubset(state.named):
        yield f"its in-flight key does not name {', '.join(map(repr, sorted(own.difference(state.named))))}"
    elif state.kind == "none" and state.now < last - SLACK:
        yield "its in-flight key is gone before the deadline"


def list_bad_limits(store: Store, listing: Listing) -> Iterator[tuple[str, list[str]]]:
    """Yield what the problems are about, and a line for each of them."""
    for name, jobids in listing.queue_limits.items():
        if problems := list(check_limits(store.queue_limits.inspect(name, sorted(jobids)))):
            yield _describe(name), problems
    keys = store.keys
    for name in listing.stray_limits:
        yield f"the key {keys.queue_limits!r}", [f"holds {name!r}, which no queue can have as its name"]
    for slot in listing.stray_slots:
        yield f"the key {keys.slots!r}", [f"holds {decode(slot)!r}, which names no queue and job"]
    for timer in listing.stray_timers:
        yield f"the key {keys.timers!r}", [f"holds {timer!r}, which names no limits"]


def repair_limits(store: Store, listing: Listing) -> None:
    """Repair what `list_bad_limits` finds."""
    for name, jobids in listing.queue_limits.items():
        state = store.queue_limits.inspect(name, sorted(jobids))
        if state.stored is not None and state.limits is None:
            store.queue_limits.forget(name)
        if state.wrong:
            store.queue_limits.rebuild_slots(name, sorted(state.wrong))
        if _lacks_timer(state) or state.stored is None:
            store.queue_limits.open(name)
    for name in listing.stray_limits:
        store.queue_limits.forget(name)
    for slot in listing.stray_slots:
        store.queue_limits.forget_slot(slot)
    for timer in listing.stray_timers:
        store.queue_limits.forget_timer(timer)


def check_limits(state: QueueLimitsState) -> Iterator[str]:
    """Yield what is wrong with the limits of a queue, and with its slots."""
    if state.stored is None and state.timer is not None:
        yield "it has a timer, but there are no limits"
    if state.stored is not None and state.limits is None:
        yield f"its record cannot be read: {state.stored:.80}"
    if _lacks_timer(state):
        yield "nobody is told when its pause ends"
    for jobid, has_slot in sorted(state.wrong.items()):
        yield f"{jobid!r} has a slot, but needs none" if has_slot else f"{jobid!r} is in flight, but has no slot"


def _lacks_timer(state: QueueLimitsState) -> bool:
    pause = state.limits.pause if state.limits else None
    return bool(pause and pause.until is not None and (state.timer is None or state.timer > pause.until))


def _describe(name: str) -> str:
    return f"the limits of the queue {name!r}" if name else "the limits of everything"
