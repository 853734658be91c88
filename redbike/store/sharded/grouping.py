"""Groups whose jobs, and the jobs that follow them, are in several shards; see `redbike.store.links`.

The shard that the name of a group leads to, its *home*, knows which others have jobs of it. They tell it so by messages
in the step that changes it. Whoever sets such jobs delivers these messages before a job that follows the group closes
it. So a group is never over while a job of it is set and has not ended.
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
    """Return the job, and let it have what its shard has to know of groups that are in others."""
    follows = dict(job.follows or {})
    here = shards.find(job.jobid)
    if (name := follows.get("member")) and (home := shards.find(MARK + name)) != here:
        follows["home"] = f"{home:02}"
    if any(shards.find(each) != here for each in list_groups([job])):
        follows["is_away"] = True
    job.follows = follows or job.follows
    return job


def list_groups(jobs: Iterable[JobToSet]) -> list[str]:
    """Return the groups that jobs follow, as they stand among their parents."""
    return [each for job in jobs for each in (job.follows or {}).get("parents", ()) if is_group(each)]


def tell_homes(shards: Shards, jobs: Iterable[JobToSet]) -> None:
    """Let the shards of groups hear of jobs that were set in others: a dispatcher tells those that are away."""
    follows = ((job.jobid, job.follows or {}) for job in jobs)
    pairs = {(shards.find(jobid), int(each["home"])) for jobid, each in follows if "home" in each}
    for source, home in sorted(pairs):
        with suppress(Unreachable):
            deliver(shards, source, home)


def set_followers(shards: Shards, jobs: Sequence[JobToSet], *more: Any) -> list[Refused]:
    """Set jobs that follow groups, and close these, when all of their own jobs are set; return those that were not set.

    Raise `Unreachable` if a shard is away: it may have jobs of a group that nobody knows of.
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
    """Deliver all messages to a shard. Raise `Unreachable` if one is away, which may have more of them."""
    for number in range(len(shards)):
        if number != home:
            try:
                deliver(shards, number, home)
            except Unreachable as error:
                raise describe_silent(shards[number], error) from error


def open_group(shards: Shards, ask: Ask, given: Given, named: Named) -> None:
    """Open a group in its home; other shards with jobs of it count anew."""
    home = shards.find(MARK + given[0])
    # What has ended before is of an earlier round.
    _hear_all(shards, home)
    ask(shards[home])(*given)
    for number in range(len(shards)):
        if number != home:
            ask(shards[number])(*given, home=home)


def read_groups(shards: Shards, ask: Ask, given: Given, named: Named) -> dict[str, GroupState]:
    """Return groups by their names, with what all shards know of them.

    Each shard may have jobs of any group. So if one is missing, and the caller tolerates that, nothing is known of any.
    """
    names = list(given[0])
    if not names:
        return {}
    most = given[1] if len(given) > 1 else named.get("most", NAMED)
    homes = {shards.find(MARK + name) for name in names}

    def list_ended(shard: Store) -> list[tuple[str, GroupCounts]]:
        return list(chain.from_iterable(shard.links.list_ended(home) for home in homes if shards[home] is not shard))

    # Before the counts: what is delivered meanwhile counts twice rather than not at all.
    told = list(ask_each(shards, list_ended))
    states = list(ask_each(shards, lambda shard: ask(shard)(names, most, shards=len(shards))))
    if min(len(told), len(states)) < len(shards):
        return {}
    ended: dict[str, list[GroupCounts]] = {}  # of jobs in other shards, of which their homes have not heard
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
