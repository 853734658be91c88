"""``redbike fsck``: check the invariants, read-only. `redbike.control.repair` is ``--repair``.

1. A job whose schedule goes on is in exactly one of timeline, queue, in flight, held. Only a job that was set during
   its own run may be in flight and also on the timeline, or held. Only a paused job is held, and it is never on the
   timeline. It has a timer if its pause ends by itself.
2. Nothing exists for an unset job but the run that was in flight, tombstones, and the status ``BAD``.
3. No id is twice in the list of a queue. A job that has a tombstone in a queue has an entry in its list.
4. Each run in flight has a record with a tag, a deadline, its due time and the count of losses. The tag lists the runs
   in flight under it. It has a lease and, before the last deadline, an expiring key. A tag without runs has none of it.
5. A status agrees with the place.
6. Each run in flight from a queue with a limit at once has a slot there, and no other job has. A pause that ends by
   itself has a timer. So has each blackout; its job exists.
7. Each process that is registered has an entry, and the time when it was seen.
8. Only declared keys exist, and what 0.13.1 has left; only in-flight keys expire.

Jobs move meanwhile. So an entry of the listing is only a reason to look closer. One script then inspects a job, or a
tag, at one instant, and the verdict is about this instant.
"""

import logging
from collections import Counter
from collections.abc import Iterator

from redbike.store.blackouts import BlackoutState
from redbike.store.inspection.hosts import list_bad_hosts
from redbike.store.inspection.jobs import check_entries, check_job, find_bad_jobs, inspect_jobs, list_astray
from redbike.store.inspection.listing import Listing, find_wrong_types, list_all
from redbike.store.lease import AHEAD, GRACE, LEASE, SLACK
from redbike.store.namespace import PAGE, split
from redbike.store.questions import TagState
from redbike.store.queue_limits import QueueLimitsState
from redbike.store.store import Store
from redbike.store.timeline import is_ahead
from redbike.store.upkeep import MINE, REPAIR, Rewind

log = logging.getLogger("redbike")


def fsck(store: Store) -> Iterator[str]:
    """Yield a line for each thing that is wrong; none when all is well."""
    wrong = list(find_wrong_types(store))
    if wrong:
        yield from wrong
        return
    if ahead := find_instant_ahead(store):
        yield ahead
    for rewind in store.rewinds.list_all():
        yield f"{rewind.describe()}; {describe_remedy(rewind)}"
    yield from (f"the key {key!r} {how}" for key, _, how in (*store.rewinds.list_bad(), *store.links.list_bad()))
    listing = list_all(store)
    for key, how in listing.leftovers:
        log.info("the key %r %s", key, how)
    for page in find_bad_jobs(store, listing):
        moved = {state.jobid: state.entries for state in page if any(check_entries(state))}
        looked_at = {state.jobid: state for state in inspect_jobs(store, listing, moved)}
        for state in page:
            for problem in check_job(looked_at.get(state.jobid, state)):
                yield f"{state.jobid!r}: {problem}"
    yield from list_astray(store, listing)
    for tag in find_bad_tags(store, listing):
        yield f"the tag {tag.tag!r}: {'; '.join(check_tag(tag))}"
    for subject, problems in list_bad_limits(store, listing):
        yield f"{subject}: {'; '.join(problems)}"
    for jobid, problems in list_bad_backfills(store, listing):
        yield f"the backfill of {jobid!r}: {'; '.join(problems)}"
    yield from (f"{jobid!r}: {problem}" for jobid, problem in list_bad_hosts(store))
    yield from (f"the process {owner!r}: {problem}" for owner, problem in store.workers.list_bad())
    yield from (f"the key {key!r} {how}" for key, how in listing.keys)
    yield from (f"the key {key!r} {how}" for key, _, how in listing.damaged)


def find_instant_ahead(store: Store) -> str:
    """Return a complaint if the instant up to which all is dispatched is in the future, else ""."""
    now, dispatched = store.timeline.read_dispatched()
    if dispatched is None or not is_ahead(dispatched, now):
        return ""
    return (
        f"the key {store.keys.dispatched!r} says that all is dispatched up to {dispatched:.0f}, which is in the future"
    )


def describe_remedy(rewind: Rewind) -> str:
    """Return in words what to do about a server that went back in time."""
    if rewind.is_of_clock:
        return f"{REPAIR} brings them back"
    return f"look at the jobs, and acknowledge it: {MINE}"


def find_bad_tags(store: Store, listing: Listing) -> Iterator[TagState]:
    """Yield the tags with which something is wrong."""
    for page in split(listing.tags.items(), PAGE):
        for state in store.questions.inspect_tags(dict(page)):
            if any(check_tag(state)):
                yield state


def check_tag(state: TagState) -> Iterator[str]:
    """Yield what is wrong with a tag: with the data of the runs that were taken together under it."""
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


def list_bad_backfills(store: Store, listing: Listing, repairs: bool = False) -> Iterator[tuple[str, list[str]]]:
    """Yield each job whose backfills are damaged, with a line for each problem; repair them if it `repairs`."""
    for jobid, parts in listing.backfills.items():
        if problems := store.backfills.check(jobid, sorted(parts), repairs):
            yield jobid, problems


def list_bad_limits(store: Store, listing: Listing) -> Iterator[tuple[str, list[str]]]:
    """Yield each damaged thing (limits, a blackout or a key), with a line for each problem."""
    for name, jobids in listing.queue_limits.items():
        if problems := list(check_limits(store.queue_limits.inspect(name, sorted(jobids)))):
            yield f"the limits of the queue {name!r}" if name else "the limits of everything", problems
    for state in store.blackouts.inspect(sorted(listing.blackouts), together=True):
        if problem := check_blackout(state):
            yield f"the blackout of {state.name!r}", [problem]
    yield from ((f"the key {key!r}", [how]) for key, _, how in listing.strays)


def repair_limits(store: Store, listing: Listing) -> None:
    """Repair what `list_bad_limits` finds."""
    for name, jobids in listing.queue_limits.items():
        state = store.queue_limits.inspect(name, sorted(jobids))
        if state.stored is not None and state.limits is None:
            store.upkeep.discard(store.keys.queue_limits, name)
        if state.wrong:
            store.queue_limits.rebuild_slots(name, sorted(state.wrong))
        if _lacks_timer(state) or state.stored is None:
            store.queue_limits.open(name)
    for blackout in store.blackouts.inspect(sorted(listing.blackouts), together=True):
        if check_blackout(blackout):
            store.blackouts.repair(blackout)
    for key, member, _ in listing.strays:
        store.upkeep.discard(key, member)


def check_blackout(state: BlackoutState) -> str:
    """Return what is wrong with a blackout; "" if nothing is, or if the blackout is gone."""
    if state.record and state.blackout is None:
        return f"its record cannot be read: {state.record:.80}"
    if state.record and not state.has_job:
        return "there is no such job"
    window = state.blackout.find(state.now) if state.blackout else None
    if window and state.timer is not None and state.now < window.start < state.timer - SLACK:
        return "a dispatcher is told too late when it begins"
    if bool(state.record) != (state.timer is not None):
        return "nobody is told when it begins" if state.record else "it has a timer, but there is no such blackout"
    return ""


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
