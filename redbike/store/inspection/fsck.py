"""``redbike fsck``: check the invariants, read-only. `redbike.control.repair` is ``--repair``.

1. A job whose schedule goes on is in exactly one of timeline, queue, in flight, held; only one that was set during its
   own run may be both in flight and on the timeline, or held. Only a paused job is held, and it is never on the
   timeline. It has a timer if its pause ends by itself.
2. Nothing exists for an unset job, but the run that was in flight, and tombstones.
3. No id is twice in the list of a queue. A job that has a tombstone in a queue has an entry in its list.
4. Each run in flight has a record with a tag, a deadline, its due time and the count of losses. The tag lists the runs
   in flight under it. It has a lease and, before the last deadline, an expiring key. A tag without runs has nothing.
5. A status agrees with the place.
6. Each run in flight from a queue with a limit at once has a slot there, and no other job has. A pause that ends by
   itself has a timer.
7. Each process that is registered has an entry, and the time when it was seen.
8. Only declared keys exist, and what 0.13.1 has left; only in-flight keys expire.


Jobs move meanwhile. So an entry of the listing is only a reason to look closer. One script then inspects a job, or a
tag, at one instant, and the verdict is about that.
"""

import logging
from collections.abc import Iterator

from redbike.store.inspection.jobs import check_entries, check_job, find_bad_jobs, inspect_jobs
from redbike.store.inspection.listing import find_wrong_types, list_all
from redbike.store.inspection.tags import check_tag, find_bad_tags, list_bad_limits
from redbike.store.records import decode
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
    yield from (f"the key {store.keys.rewinds!r} {describe_bad_rewind(back)}" for back in store.rewinds.list_bad())
    listing = list_all(store)
    for key, how in listing.leftovers:
        log.info("the key %r %s", key, how)
    for page in find_bad_jobs(store, listing):
        moved = {state.jobid: state.entries for state in page if any(check_entries(state))}
        looked_at = {state.jobid: state for state in inspect_jobs(store, listing, moved)}
        for state in page:
            for problem in check_job(looked_at.get(state.jobid, state)):
                yield f"{state.jobid!r}: {problem}"
    for tag in find_bad_tags(store, listing):
        yield f"the tag {tag.tag!r}: {'; '.join(check_tag(tag))}"
    for subject, problems in list_bad_limits(store, listing):
        yield f"{subject}: {'; '.join(problems)}"
    yield from (f"the process {owner!r}: {problem}" for owner, problem in store.workers.list_bad())
    yield from (f"the key {key!r} {how}" for key, how in listing.keys)
    yield from (f"the key {store.keys.log!r} {describe_entry(entry)}" for entry in listing.malformed_log)
    yield from (f"the key {key!r} {how}" for key, _, how in listing.bad_journal)
    yield from (f"the key {store.keys.untold!r} {how}" for _, how in listing.bad_outbox)


def find_instant_ahead(store: Store) -> str:
    """Return a complaint if the instant up to which all is dispatched is in the future, else ""."""
    now, dispatched = store.timeline.read_dispatched()
    if dispatched is None or not is_ahead(dispatched, now):
        return ""
    return f"the key {store.keys.dispatched!r} says that all is dispatched up to {dispatched:.0f}, which is to come"


def describe_remedy(rewind: Rewind) -> str:
    """Return what to do when the server went back."""
    if rewind.is_of_clock:
        return f"{REPAIR} brings them back"
    return f"look at the jobs, and acknowledge it: {MINE}"


def describe_bad_rewind(back: str) -> str:
    """Return what is wrong with a damaged record of when the server went back."""
    return f"holds {back!r:.80}, which is no instant to which the server went back"


def describe_entry(entry: bytes) -> str:
    """Return what is wrong with a damaged entry of the log."""
    return f"holds {decode(entry[:80])!r}, which is no entry of the log"
