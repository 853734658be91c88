"""Groups whose jobs, and the jobs that follow them, are in several shards; see `redbike.store.links`.

The name of a group leads to one shard, its *home*. The home knows which other shards have jobs of the group: they post
it a message in the same step in which that changes. A process that sets such jobs delivers the messages before a
follower closes the group. So a group is never over while one of its jobs is set and has not ended.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from redbike.errors import Unreachable
from redbike.store.group_counts import GroupCounts
from redbike.store.groups import NAMED, GroupState
from redbike.store.jobs import JobToSet, Refused
from redbike.store.sharded.mail import deliver
from redbike.store.sharded.missing import ask_each, describe_silent
from redbike.store.sharded.routes import Ask, Given, Named, Shards
from redbike.store.store import Store
from redbike.text.group_names import MARK, is_group


def place(shards: Shards, job: JobToSet) -> JobToSet:
    """Add to the job what its shard must know of groups in other shards; return the job."""
    follows = dict(job.follows or {})
    here = shards.find(job.jobid)
    if (name := follows.get("member")) and (home := shards.find(MARK + name)) != here:
        follows["home"] = f"{home:02}"
    if any(shards.find(each) != here for each in list_groups([job])):
        follows["is_away"] = True
    job.follows = follows or job.follows
    return job


def list_groups(jobs: Iterable[JobToSet]) -> list[str]:
    """Return the groups among the parents of jobs, each with the mark before its name."""
    return [each for job in jobs for each in (job.follows or {}).get("parents", ()) if is_group(each)]


def tell_homes(shards: Shards, jobs: Iterable[JobToSet]) -> None:
    """Deliver to the homes of groups what was set in other shards. A dispatcher does so later if a home is away."""
    follows = ((job.jobid, job.follows or {}) for job in jobs)
    pairs = {(shards.find(jobid), int(each["home"])) for jobid, each in follows if "home" in each}
    for source, home in sorted(pairs):
        with suppress(Unreachable):
            deliver(shards, source, home)


def set_followers(shards: Shards, jobs: Sequence[JobToSet], *more: Any) -> list[Refused]:
    """Set jobs that follow groups, whose own jobs are set already, and close these groups. Return the refused jobs.

    Raise `Unreachable` if a shard is away: it may have jobs of a group that the home does not know of.
    """
    for home in sorted({shards.find(each) for each in list_groups(jobs)}):
        _hear_all(shards, home)
    refused: list[Refused] = []
    for shard, own in shards.divide(jobs, lambda job: job.jobid):
        refused += shard.jobs.set(own, *more)
    strange = {each.job.jobid for each in refused}
    for job in jobs:
        if job.jobid not in strange and (job.follows or {}).get("is_away"):
            for group in list_groups([job]):
                shards.of(group).groups.close(group.removeprefix(MARK))
                with suppress(Unreachable):
                    deliver(shards, shards.find(group), shards.find(job.jobid))
    return refused


def _hear_all(shards: Shards, home: int) -> None:
    """Deliver all messages to the shard `home`. Raise `Unreachable` if another shard is away: it may have more."""
    for number in range(len(shards)):
        if number != home:
            try:
                deliver(shards, number, home)
            except Unreachable as error:
                raise describe_silent(shards[number], error) from error


def open_group(shards: Shards, ask: Ask, given: Given, named: Named) -> None:
    """Open a group in its home. The other shards count their jobs of it anew."""
    home = shards.find(MARK + given[0])
    # Jobs that have ended before belong to an earlier round.
    _hear_all(shards, home)
    ask(shards[home])(*given)
    for number in range(len(shards)):
        if number != home:
            ask(shards[number])(*given, home=home)


def read_groups(shards: Shards, ask: Ask, given: Given, named: Named) -> dict[str, GroupState]:
    """Return groups by their names, with what all shards know of them.

    Each shard may have jobs of any group. So return {} if a shard is missing and the caller tolerates that.
    """
    names = list(given[0])
    if not names:
        return {}
    most = given[1] if len(given) > 1 else named.get("most", NAMED)
    homes = {shards.find(MARK + name) for name in names}

    def list_ended(shard: Store) -> list[tuple[str, GroupCounts]]:
        return list(chain.from_iterable(shard.links.list_ended(home) for home in homes if shards[home] is not shard))

    # Read before the counts: a message that is delivered in between counts twice, rather than not at all.
    told = list(ask_each(shards, list_ended))
    states = list(ask_each(shards, lambda shard: ask(shard)(names, most, shards=len(shards))))
    if min(len(told), len(states)) < len(shards):
        return {}
    ended: dict[str, list[GroupCounts]] = {}  # of jobs in other shards: not delivered to the homes yet
    for group, counts in chain.from_iterable(told):
        ended.setdefault(group, []).append(counts)
    return {
        name: _add(shards.find(MARK + name), [found[name] for found in states], ended.get(name, ()), most)
        for name in names
    }


def _add(home: int, states: Sequence[GroupState], ended: Sequence[GroupCounts], most: int) -> GroupState:
    whole, found = states[home], [*(each.counts for each in states), *ended]
    dues = [each.due for each in found if each.due is not None]
    left, total, failed, dropped = (
        sum(getattr(each, field) for each in found) for field in ("left", "total", "failed", "dropped")
    )
    counts = GroupCounts(left, total, failed, dropped, whole.counts.is_open, max(dues, default=None))
    jobids = sorted(jobid for each in states for jobid in each.jobids)[:most]
    followers = sorted(jobid for each in states for jobid in each.followers)
    return GroupState(whole.name, counts, tuple(jobids), tuple(followers), whole.parts)
