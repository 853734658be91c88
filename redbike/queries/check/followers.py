"""Check the jobs that follow others: whether each of their parents may still end as they wait for it."""

from collections.abc import Iterator, Sequence

from redbike.queries.check.findings import Finding, note
from redbike.queries.following.family import Family, find_after
from redbike.queries.following.words import describe_hopeless
from redbike.store.store import Store


def check_followers(store: Store, jobids: Sequence[str]) -> Iterator[Finding]:
    """Yield which of these followers wait for what is no job, or does not run any more."""
    family = Family(store)
    family.read_parents(jobids, levels=1)
    for jobid in jobids:
        state = family.states.get(jobid)
        after = find_after(state.schedule) if state else None
        if state is None or after is None:
            continue
        for parent in state.waits_for if state.follows else after.parents:
            if parent in family.states and family.states[parent] is None:
                yield Finding(f"{jobid!r}: it waits for {parent!r}, which is no job")
            elif why := describe_hopeless(family, parent, after.ending):
                yield note(f"{jobid!r}: it waits for {parent!r}, which {why}")
