"""Jobs that follow jobs of other shards: what is done before they are set, and how they are found."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any

from redbike.errors import BadConfig, Unreachable
from redbike.store.groups import see_whole
from redbike.store.inspected import JobState
from redbike.store.jobs import JobToSet, Refused, SetMode, closes_group
from redbike.store.links import find_subscribers
from redbike.store.sharded.grouping import place, read_groups, set_followers, tell_homes
from redbike.store.sharded.missing import describe_silent
from redbike.store.sharded.routes import Ask, Given, Named, Shards, by_jobs, merged, same, streamed, union
from redbike.store.store import Store
from redbike.text.group_names import MARK, is_group, is_jobid

LASTING = 30.0  # seconds within which jobs are set after a subscription; `lua/confirm.lua` waits for longer
MOST_CYCLE = 1000  # generations of parents, or of followers, that are searched for a cycle
MOST_ABOVE = 50_000  # jobs that are read for that
_OF = attrgetter("jobid")


@contextmanager
def link(shards: Shards, jobs: Sequence[JobToSet], *more: Any) -> Iterator[tuple[list[JobToSet], list[Refused]]]:
    """Yield the jobs to set now, and the refused ones; more may be added to these. Subscribe to parents first.

    Jobs that follow groups are set after the block, with `more` arguments. A job that would wait for itself is refused.
    """
    shards.note()
    # As in one shard: what is set before no longer counts for what is set after it.
    refused, strange, going_on = list[Refused](), set[str](), sorted(jobs, key=closes_group)
    # A refused job keeps its group and its parents. So another job may be in a cycle with it now.
    while found := _find_cycles(shards, going_on, {}):
        refused += found
        strange |= {each.job.jobid for each in found}
        going_on = [job for job in going_on if job.jobid not in strange]
    own = [place(shards, job) for job in jobs if job.jobid not in strange]
    wanted, began = _list_subscriptions(shards, own), time.monotonic()
    _subscribe(shards, wanted)
    first, last = list[JobToSet](), list[JobToSet]()
    for job in own:
        (last if closes_group(job) else first).append(job)
    yield first, refused
    tell_homes(shards, first)
    if last:
        refused += set_followers(shards, last, *more)
    if time.monotonic() - began > LASTING:
        _subscribe(shards, wanted)


def _list_parents(job: JobToSet) -> list[str]:
    return list((job.follows or {}).get("parents", ()))


def _list_subscriptions(shards: Shards, jobs: Iterable[JobToSet]) -> dict[tuple[int, int], dict[str, None]]:
    """Return the parents that are in other shards than their followers, by (shard of parent, shard of follower)."""
    found: dict[tuple[int, int], dict[str, None]] = {}
    for job in jobs:
        for parent in _list_parents(job):
            pair = shards.find(parent), shards.find(job.jobid)
            if pair[0] != pair[1]:
                found.setdefault(pair, {})[parent] = None
    return found


def _subscribe(shards: Shards, wanted: Mapping[tuple[int, int], Iterable[str]]) -> None:
    for (shard, other), parents in wanted.items():
        try:
            shards[shard].links.subscribe(other, parents)
        except Unreachable as error:
            raise describe_silent(shards[shard], error) from error


def preview_cycles(store: Store, jobs: Sequence[JobToSet], known: dict[str, list[str]]) -> list[Refused]:
    """Return the jobs that would be refused because they would wait for themselves, if they were set one by one.

    `known` has the parents of jobs, as if the jobs of earlier calls had been set; it is empty at the first call. When
    it has more than `MOST_ABOVE` jobs, return [].
    """
    if len(known) > MOST_ABOVE:
        return []
    shards = store.shards if isinstance(store.shards, Shards) else Shards(store.shards, lambda jobid: 0, lambda: None)
    return _find_cycles(shards, jobs, known)


def _find_cycles(shards: Shards, jobs: Sequence[JobToSet], known: dict[str, list[str]]) -> list[Refused]:
    """Return the jobs that would wait for themselves, each with the jobs from itself to itself.

    Jobs that others set at the same time are not seen, nor jobs of a shard that does not answer. The parents of all
    jobs that were read, and of `jobs`, are added to `known`.
    """
    _read_above(shards, chain.from_iterable(map(_list_parents, jobs)), known)
    refused = list[Refused]()
    followers = [job for job in jobs if _list_parents(job)]
    if any(map(is_group, chain(*known.values(), *map(_list_parents, followers)))):
        joining = {job.jobid: job.follows["member"] for job in jobs if job.follows and "member" in job.follows}
        _read_below(shards, [job.jobid for job in followers], joining, known)
    for job in jobs:
        parents = _list_parents(job)
        if member := (job.follows or {}).get("member"):
            known.setdefault(MARK + member, []).append(job.jobid)
        if path := find_path(job.jobid, parents, known):
            refused.append(Refused(job, "cycle", "\n".join(path)))
        elif job.mode != SetMode.KEEP_SCHEDULE:
            known[job.jobid] = parents
    return refused


def _read_above(shards: Shards, jobids: Iterable[str], known: dict[str, list[str]]) -> None:
    """Add to `known` the parents of these jobs and of all above them: one round trip to each shard a generation."""
    generation = [each for each in dict.fromkeys(jobids) if is_jobid(each) and each not in known]
    for _ in range(MOST_CYCLE):
        if not generation or len(known) > MOST_ABOVE:
            break
        known |= {each: [] for each in generation}
        for shard, own in shards.divide(generation, same):
            with suppress(Unreachable):
                known |= shard.links.read_parents(own)
        above = dict.fromkeys(parent for each in generation for parent in known[each])
        generation = [each for each in above if is_jobid(each) and each not in known]


def _read_below(shards: Shards, jobids: Sequence[str], joining: Mapping[str, str], known: dict[str, list[str]]) -> None:
    """Add to `known` what is below these jobs: for each group the jobs in it, for each follower its parents there.

    A job in `joining` gets the group named there, or "" for none. So the group that it is in now does not count.
    """
    set_before = frozenset(known)
    generation = [*jobids, *(MARK + name for jobid in jobids if (name := joining.get(jobid)))]
    visited = set(generation)
    for _ in range(MOST_CYCLE):
        if not generation or len(visited) > MOST_ABOVE:
            break
        below: dict[str, None] = {}
        for jobid, names in _list_below(shards, generation).items():
            for name in names:
                if is_group(name) and jobid in joining:
                    continue
                if is_group(name) or name not in set_before:
                    known.setdefault(name, []).append(jobid)
                if name not in visited:
                    below[name] = None
        visited |= below.keys()
        generation = list(below)


def _list_below(shards: Shards, jobids: Sequence[str]) -> dict[str, list[str]]:
    """Return for each of these jobs and groups its followers, and the groups that it is in."""
    found: dict[str, list[str]] = {}
    for shard, own in shards.divide(jobids, same):
        with suppress(Unreachable):
            found |= shard.links.list_links(own)
    elsewhere = {jobid: find_subscribers("\n".join(names)) for jobid, names in found.items()}
    for jobid, followers in _find_followers(shards, elsewhere).items():
        found[jobid] = [*found[jobid], *followers]
    return {jobid: [name for name in names if is_jobid(name) or is_group(name)] for jobid, names in found.items()}


def find_path(jobid: str, parents: Sequence[str], known: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the jobs from `jobid` up to itself, as if it followed `parents`; [] if it would not wait for itself."""
    path, visited = [(jobid, iter(parents))], set[str]()
    while path:
        parent = next(path[-1][1], None)
        if parent is None:
            path.pop()
        elif parent == jobid:
            return [*(each for each, _ in path), jobid]
        elif parent not in visited:
            visited.add(parent)
            path.append((parent, iter(known.get(parent, ()))))
    return []


# ---- followers that are elsewhere


def unset(shards: Shards, ask: Ask, given: Given, named: Named) -> list[str]:
    """Unset a job; return its followers, without those of a shard that does not answer."""
    return _name_followers(shards, {given[0]: ask(shards.of(given[0]))(*given, **named)})[given[0]]


def unset_rows(shards: Shards, ask: Ask, given: Given, named: Named) -> dict[str, list[str]]:
    """Unset jobs that are rows of a group; return them with their followers, without those of a missing shard."""
    return _name_followers(shards, merged(union)(shards, ask, given, named))


def _name_followers(shards: Shards, found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the followers of jobs by id; `found` has what the own shard of each job knows of them."""
    elsewhere = _find_followers(shards, {jobid: find_subscribers("\n".join(names)) for jobid, names in found.items()})
    return {jobid: sorted([*filter(is_jobid, names), *elsewhere.get(jobid, ())]) for jobid, names in found.items()}


def inspect(shards: Shards, ask: Ask, given: Given, named: Named) -> list[JobState]:
    """Return the states of jobs with their followers, without those of a shard that does not answer."""
    return _add_elsewhere(shards, by_jobs()(shards, ask, given, named))


def list_states(shards: Shards, ask: Ask, given: Given, named: Named) -> Iterator[JobState]:
    """Yield the states of jobs with their followers, without jobs of a missing shard if the caller tolerates that."""
    yield from _add_elsewhere(shards, list(streamed("jobids", 0, _OF)(shards, ask, given, named)))


def _add_elsewhere(shards: Shards, states: list[JobState]) -> list[JobState]:
    """Return states with what other shards know: of groups for which jobs wait, and of followers."""
    states = see_whole(states, lambda names: read_groups(shards, lambda shard: shard.groups.read, (names,), {}))
    found = _find_followers(shards, {state.jobid: state.subscribers for state in states if state.subscribers})
    return [
        replace(state, followers=tuple(sorted([*state.followers, *found[state.jobid]])))
        if state.jobid in found
        else state
        for state in states
    ]


def list_tree(shards: Shards, ask: Ask, given: Given, named: Named) -> list[str]:
    """Return the jobs that follow a job, directly or not. Raise `BadConfig` if one of them is in another shard."""
    jobid, shard = given[0], shards.of(given[0])
    found: list[str] = ask(shard)(*given, **named)
    for state in shard.questions.inspect([jobid, *found]):
        for other in _find_followers(shards, {state.jobid: state.subscribers}).get(state.jobid, ()):
            raise BadConfig(
                f"{other!r} follows {state.jobid!r} from another shard, where a backfill of {jobid!r} does not reach: "
                "--alone runs it without followers"
            )
    return found


def _find_followers(shards: Shards, subscribers: Mapping[str, Iterable[int]]) -> dict[str, list[str]]:
    """Return the followers of jobs in those shards that have subscribed to them."""
    asked: dict[int, list[str]] = {}
    for jobid, numbers in subscribers.items():
        for number in numbers:
            asked.setdefault(number, []).append(jobid)
    found: dict[str, list[str]] = {}
    for number, jobids in asked.items():
        with suppress(Unreachable):
            for jobid, followers in shards[number].links.list_followers(jobids).items():
                found.setdefault(jobid, []).extend(followers)
    return found
