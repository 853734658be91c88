"""What a follower waits for that is no job, or no job any more."""

from collections.abc import Iterator

from redbike.queries.following.family import Family
from redbike.store.store import Store

MOST_NAMED = 5  # parents


def describe_unknown(store: Store, jobid: str) -> Iterator[str]:
    """Yield a line if a follower waits for what is no job: it may be set later, or be misspelt."""
    family = Family(store)
    family.read_parents([jobid], levels=1)
    for group in family.groups.values():
        if not (group.counts.left or group.counts.is_open):
            yield f"{jobid}: no job of the group {group.name!r} is left, so it is due now"
        return
    if missing := [each for each in family.list_parents(jobid) if family.states.get(each) is None]:
        names = ", ".join(f"{each!r:.80}" for each in missing[:MOST_NAMED]) + ", …" * (len(missing) > MOST_NAMED)
        yield f"{jobid}: it waits for {names}, which {'is no job' if len(missing) == 1 else 'are no jobs'} yet"
