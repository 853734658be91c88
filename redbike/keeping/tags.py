"""Check tags: the list, the lease and the in-flight key of the runs that were taken together."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from redbike.keeping.listing import Listing
from redbike.state.records import Held
from redbike.state.store import GRACE, LEASE, PAGE, SLACK, Store


def find_bad_tags(store: Store, listing: Listing) -> Iterator[Held]:
    """Yield the tags with which something is wrong, without the runs that an older version keeps in its own way."""
    tags = iter(listing.tags.items())
    while page := dict(islice(tags, PAGE)):
        for held in store.held(page):
            apart = listing.old.difference(held.listed or ())
            deadlines = {jobid: deadline for jobid, deadline in held.deadlines.items() if jobid not in apart}
            if any(check_tag(held := replace(held, deadlines=deadlines))):
                yield held


def check_tag(held: Held) -> Iterator[str]:
    """Yield what is wrong with the data of the runs that were taken together."""
    if not held.deadlines:
        there = {
            "a lease": held.lease is not None,
            "a list of jobs": held.listed is not None,
            "an in-flight key": held.kind != "none",
        }
        if any(there.values()):
            yield f"it has {' and '.join(name for name in there if there[name])}, but no run is in flight under it"
        return
    last = max(held.deadlines.values())
    listed, own = set(held.listed or ()), set(held.deadlines)
    yield from (f"it lists {jobid!r} more than once" for jobid, times in Counter(held.listed).items() if times > 1)
    yield from (f"it lists {jobid!r}, which is not in flight under it" for jobid in sorted(listed - own))
    yield from (f"it does not list its run of {jobid!r}" for jobid in sorted(own - listed))
    if held.lease is None:
        yield "it has no lease: nobody would notice if its worker died"
    elif held.lease > max(last + GRACE, held.now + LEASE) + SLACK:  # the run with the last deadline may have ended
        yield "its lease goes on after the deadline"
    if held.kind not in ("string", "none"):
        yield f"its in-flight key is a {held.kind}"
    elif held.kind == "string" and held.hold_ms < 0:
        yield "its in-flight key does not expire"
    elif held.kind == "string" and not own.issubset(held.named):
        yield f"its in-flight key does not name {', '.join(map(repr, sorted(own.difference(held.named))))}"
    elif held.kind == "none" and held.now < last - SLACK:
        yield "its in-flight key is gone before the deadline"
