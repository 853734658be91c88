"""``redbike fsck``: whether the invariants hold, read-only; see `redbike.keeping.repair` for what ``--repair`` does.

1. A job that its schedule keeps going is in exactly one of timeline, queue, in flight; only one that was set during its
   own run may be both in flight and on the timeline.
2. Nothing exists for an unset job, but the run that was in flight, and tombstones.
3. No id is twice in the list of a queue. A job that has a tombstone in a queue has an entry in its list.
4. Each run in flight has a record with a tag, a deadline, its due time and the count of losses. The tag lists the runs
   in flight under it. It has a lease and, before the last deadline, an expiring key. A tag without runs has nothing.
5. A status agrees with the place.
6. Only declared keys exist, and what 0.13.1 has left; only in-flight keys expire.

A run that an older version has kept in its own way, with a lease of its own, is not judged by 4.

Jobs move while this looks. So whatever is listed somewhere is only a suspect. One script then inspects a job, or a tag,
at one instant, and the verdict is about that.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from redbike.errors import RedbikeError
from redbike.keeping.leftovers import is_members, is_run
from redbike.schedule.kinds import END_OF_TIME
from redbike.schedule.parser import parse
from redbike.state.keys import FAMILIES, FIXED, OF_QUEUE, is_queue_name
from redbike.state.records import Held, RunRecord, State, Waiting, text
from redbike.state.scripts import translated
from redbike.state.store import GRACE, LEASE, PAGE, SLACK, Store, is_ahead, jobs_of, literal

log = logging.getLogger("redbike")

STATUS = re.compile(r"(TML|ENQ|WRK|STP|DIE|BAD):(\d{1,12})", re.ASCII)
PLACE_OF = {"TML": "timeline", "ENQ": "queue", "WRK": "in flight"}
EXPIRES = "expires"
FORGOTTEN = "is a queue that is missing in the set of queues"
MEMBERS = "is left of redbike 0.13.1 and used no more; redbike fsck --repair removes it"
OLD_RUN = "is of a run that a worker of redbike 0.13.1 took; it expires at its timeout"
OLD_LEASE = (
    "is in flight with a lease of its own, as an older version has it; a dispatcher adopts it when that has ended"
)
STRAY = "is none of ours, or of a queue that was never used"


def fsck(store: Store) -> Iterator[str]:
    """One line for each thing that is wrong; nothing when all is well."""
    wrong = list(wrong_types(store))
    if wrong:
        yield from wrong
        return
    if ahead := find_instant_ahead(store):
        yield ahead
    listing = look_around(store)
    for key, how in listing.leftovers:
        log.info("the key %r %s", key, how)
    for jobid in listing.old:
        log.info("%r %s", jobid, OLD_LEASE)
    for page in suspects(store, listing):
        moved = {state.jobid: state.entries for state in page if any(_judge_entries(state))}
        looked_at = {state.jobid: state for state in look_closely(store, listing, moved)}
        for state in page:
            for problem in judge(looked_at.get(state.jobid, state)):
                yield f"{state.jobid!r}: {problem}"
    for held in suspicious_tags(store, listing):
        yield f"the tag {held.tag!r}: {'; '.join(judge_tag(held))}"
    yield from (f"the key {key!r} {how}" for key, how in listing.keys)
    yield from (f"the key {store.keys.withdrawn!r} {holds(member)}" for member in listing.malformed)


def find_instant_ahead(store: Store) -> str:
    """Say that the instant up to which all is dispatched is in the future, "" if it is not."""
    now, dispatched = store.horizon()
    if dispatched is None or not is_ahead(dispatched, now):
        return ""
    return f"the key {store.keys.dispatched!r} says that all is dispatched up to {dispatched:.0f}, which is to come"


def holds(member: bytes) -> str:
    """What is wrong with a tombstone of an older version that names nothing."""
    return f"holds {text(member)!r}, which names no job and queue"


# Judging one job at one instant


def judge(state: State) -> Iterator[str]:
    """What is wrong with one job, and in the lists of those queues in which it was looked for."""
    yield from (f"its {what} cannot be read" for what in state.unreadable)
    if state.queued and home_of(state.waiting) is None:
        yield f"its queued record is malformed: {state.queued!r}"
        return
    if state.running and home_of(state.run) is None:
        yield f"its running record is malformed: {state.running!r}"
        return
    yield from _judge_entries(state)
    if state.schedule is None:
        yield from _judge_unknown(state)
    else:
        yield from _judge_place(state)


def home_of(record: Waiting | RunRecord | None) -> str | None:
    """The queue that a record names; None if there is none, or no such queue can be."""
    return record.queue if record and is_queue_name(record.queue) else None


def places(state: State) -> list[str]:
    """Where the job is."""
    found = {"in flight": state.running, "queue": state.queued, "timeline": state.timeline is not None}
    return [place for place, there in found.items() if there]


def _judge_entries(state: State) -> Iterator[str]:
    home = home_of(state.waiting)
    adopted = "a worker will adopt it" if state.schedule is not None else "a worker will throw it away"
    for name in state.entries:
        found = state.waits(name)
        if found < 0:
            yield f"it has a tombstone in the queue {name!r}, but is not in it"
        elif found and name in state.tombstones:
            yield f"it is in the queue {name!r} beside a tombstone that it has there"
        elif found > 1:
            yield f"it is {found} times in the queue {name!r}"
        elif found and name != home:
            yield f"it is in the queue {name!r} without a record; {adopted}"
        elif not found and name == home:
            yield f"it is recorded as queued, but is not in the queue {name!r}"


def _judge_unknown(state: State) -> Iterator[str]:
    here = [place for place in places(state) if place != "in flight"]
    if here:
        yield f"it was never set, or is unset, but is still in: {', '.join(here)}"
    if state.status and not state.status.startswith("BAD:"):
        yield f"it has no schedule, but the status {state.status}"
    if state.streak or state.skipped or state.failure is not None:
        yield "it has no schedule, but counts or a failure"


def _judge_place(state: State) -> Iterator[str]:
    here = places(state)
    run = state.run
    if len(here) > 1 and not (here == ["in flight", "timeline"] and run and run.next in ("set", "once")):
        yield f"it is in more than one place: {', '.join(here)}"
    if state.timeline is not None and not 0 <= state.timeline < END_OF_TIME:
        yield f"its due time on the timeline is out of bounds: {state.timeline:g}"
    yield from _judge_status(state, here)
    try:
        parse(state.schedule or "")
    except RedbikeError as error:
        yield f"its schedule cannot be read: {error}"


def _judge_status(state: State, here: list[str]) -> Iterator[str]:
    found = STATUS.fullmatch(state.status or "")
    if not found:
        yield f"it has no status, or a malformed one: {state.status!r}"
    elif found[1] in PLACE_OF:
        if not here:
            yield f"its status is {state.status}, but it is nowhere"
        elif PLACE_OF[found[1]] != here[0]:
            yield f"its status is {state.status}, but it is in: {here[0]}"
    elif here:
        yield f"its status is {state.status}, but it is in: {', '.join(here)}"


# Judging one tag at one instant


def judge_tag(held: Held) -> Iterator[str]:
    """What is wrong with what is kept of the runs that were taken together."""
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


# Looking around, while jobs move


@dataclass
class Listing:
    """Whatever is listed anywhere."""

    jobs: dict[str, dict[str, int] | None] = field(default_factory=dict)  # how often each is in the lists of queues
    tombstones: dict[str, frozenset[str]] = field(default_factory=dict)  # the queues in which jobs have them
    tags: dict[str, set[str]] = field(default_factory=dict)  # of runs, with jobs that may be in flight under them
    tag_of: dict[str, str] = field(default_factory=dict)  # the one under which a job most likely is, if it is at all
    old: set[str] = field(default_factory=set)  # jobs in flight that have a lease of their own, by an older version
    malformed: list[bytes] = field(default_factory=list)  # tombstones of an older version that name nothing
    keys: list[tuple[str, str]] = field(default_factory=list)  # those that are wrong, and how
    leftovers: list[tuple[str, str]] = field(default_factory=list)  # keys of 0.13.1, and what they are
    forgotten: list[str] = field(default_factory=list)  # names of queues that are missing in the set of them

    def add_tag(self, tag: str, jobids: Iterable[str]) -> None:
        """Note that these may be in flight under `tag`, if nothing that says so for another tag came first."""
        self.tags.setdefault(tag, set()).update(jobids)
        for jobid in jobids:
            self.jobs.setdefault(jobid, None)
            self.tag_of.setdefault(jobid, tag)

    def add_tombstone(self, jobid: str, name: str) -> None:
        """Note that a job has a tombstone in the queue `name`."""
        self.jobs.setdefault(jobid, None)
        self.tombstones[jobid] = self.tombstones.get(jobid, frozenset()) | {name}


def suspects(store: Store, listing: Listing) -> Iterator[list[State]]:
    """The jobs with which something seems to be wrong, some at a time.

    Each is as it is at one instant, but for its entries in lists: these are as they were listed, maybe before it moved.
    """
    jobids = iter(listing.jobs)
    while page := list(islice(jobids, PAGE)):
        states = (_as_listed(store, listing, state) for state in store.inspect(page, tags=listing.tag_of))
        yield [state for state in states if any(judge(state))]


def suspicious_tags(store: Store, listing: Listing) -> Iterator[Held]:
    """The tags with which something is wrong, as far as an older version has not kept their runs in its own way."""
    tags = iter(listing.tags.items())
    while page := dict(islice(tags, PAGE)):
        for held in store.held(page):
            apart = listing.old.difference(held.listed or ())
            deadlines = {jobid: deadline for jobid, deadline in held.deadlines.items() if jobid not in apart}
            if any(judge_tag(held := replace(held, deadlines=deadlines))):
                yield held


def _as_listed(store: Store, listing: Listing, state: State) -> State:
    """With how often it was listed in queues: with an entry, and where it should have, or may get one."""
    home = home_of(state.waiting) or (own_queue(store, state.jobid) if state.schedule is not None else "")
    tombstones = listing.tombstones.get(state.jobid, frozenset())
    entries = dict.fromkeys({home, *tombstones} - {""}, 0) | (listing.jobs[state.jobid] or {})
    return replace(state, entries=entries, tombstones=tombstones)


def look_closely(store: Store, listing: Listing, queues: Mapping[str, Iterable[str]]) -> list[State]:
    """Jobs as they are, also in the lists of the queues that are named, and in that where they belong."""
    names = {jobid: sorted({*found, own_queue(store, jobid)} - {""}) for jobid, found in queues.items()}
    return store.inspect(names, names, listing.tag_of)


def own_queue(store: Store, jobid: str) -> str:
    """The queue of `jobid`; "" if the worker class, which is the user's own, has none for it."""
    try:
        return store.queue_for(jobid)
    except Exception:
        return ""


def wrong_types(store: Store) -> Iterator[str]:
    """The keys that are of another type than ours; while there is one, nothing can be said of the jobs."""
    keys, client = store.keys, store.client
    with translated():
        kinds = {f"{keys.prefix}-{name}": kind for name, kind in FIXED.items()}
        if text(client.type(keys.queues)) == kinds[keys.queues]:
            for name in map(text, client.smembers(keys.queues)):
                kinds |= zip(keys.of_queue(name), OF_QUEUE, strict=True)
        for key, kind in kinds.items():
            found = text(client.type(key))
            if found not in (kind, "none"):
                yield f"the key {key!r} is a {found}, not a {kind}: nothing can be said of the jobs"


def look_around(store: Store) -> Listing:
    """Every id and every key that stands anywhere, read page by page."""
    listing, keys = Listing(), store.keys
    with translated():
        found = sorted(map(text, store.client.scan_iter(match=f"{literal(keys.prefix)}-*", count=PAGE)))
        homes = {home for home in _list_jobs(store, listing) if home}
        homes |= {*_list_withdrawn(store, listing), *_buried(store, found)}
        _list_inflight(store, listing, found)
        # Asked for after the keys, so that no queue is missing that was used for the first time just now.
        names = set(map(text, store.client.smembers(keys.queues)))
        _list_keys(store, listing, found, names, homes)
        for name in {*names, *homes, *listing.forgotten}:
            _list_entries(store, listing, name)
    return listing


def _list_jobs(store: Store, listing: Listing) -> Iterator[str | None]:
    """List the ids in hashes and sorted sets, and the tags of runs; the queues that records name."""
    keys, client = store.keys, store.client
    runs: dict[str, RunRecord] = {}
    for key in (keys.schedules, keys.statuses, keys.queued, keys.running, keys.streaks, keys.failures):
        for jobid, value in client.hscan_iter(key, count=PAGE):
            listing.jobs[text(jobid)] = None
            if key == keys.queued:
                yield home_of(Waiting.parse(text(value)))
            elif key == keys.running and (run := RunRecord.parse(text(value))):
                runs[text(jobid)] = run
                listing.add_tag(run.tag, [text(jobid)])
                yield home_of(run)
    for key in (keys.timeline, keys.failure_times):
        for jobid, _ in client.zscan_iter(key, count=PAGE):
            listing.jobs[text(jobid)] = None
    for name, _ in client.hscan_iter(keys.skipped, count=PAGE):
        listing.jobs[text(name).partition(":")[2]] = None
    listed: set[str] = set()
    for tag, batch in client.hscan_iter(keys.batches, count=PAGE):
        jobids = jobs_of(text(batch))
        listed.update((text(tag), *jobids))
        listing.add_tag(text(tag), jobids)
    for member, lease in client.zscan_iter(keys.leases, count=PAGE):
        old = runs.get(text(member))
        if old and text(member) not in listed and lease <= old.deadline + GRACE + SLACK:
            listing.old.add(text(member))
        else:
            listing.add_tag(text(member), ())


def _list_withdrawn(store: Store, listing: Listing) -> Iterator[str]:
    """List the tombstones of an older version; the queues that these name."""
    for member, found in store.withdrawn():
        if found:
            listing.add_tombstone(*found)
            yield found[1]
        else:
            listing.malformed.append(member)


def _buried(store: Store, found: list[str]) -> Iterator[str]:
    """The queues that have tombstones: also those that were never used, if they may be queues."""
    base, others = store.keys.tombstones(""), _others(found, {store.keys.schedules})
    for name in (key.removeprefix(base) for key in found if key.startswith(base) and not key.startswith(others)):
        kinds = [text(store.client.type(key)) for key in store.keys.of_queue(name)]
        if is_queue_name(name) and all(kind in (own, "none") for kind, own in zip(kinds, OF_QUEUE, strict=True)):
            yield name


def _list_inflight(store: Store, listing: Listing, found: list[str]) -> None:
    """List the tags that have in-flight keys, with the jobs that were taken under them."""
    base, held = store.keys.inflight_base, list[tuple[int, str, list[str]]]()
    # That of an older version has the id of a job in its name, and a tag in it.
    keys = [key for key in found if key.startswith(base) and key.removeprefix(base) not in listing.old]
    for first in range(0, len(keys), PAGE):
        page = keys[first : first + PAGE]
        with store.client.pipeline(transaction=False) as pipeline:
            for key in page:
                pipeline.pttl(key)
                pipeline.get(key)
            replies = pipeline.execute(raise_on_error=False)
        for key, left, batch in zip(page, replies[::2], replies[1::2], strict=True):
            if isinstance(batch, Exception) and not str(batch).startswith("WRONGTYPE"):
                raise batch
            held.append((left, key, [] if isinstance(batch, Exception) else jobs_of(text(batch))))
    # A job may have ended, and have been taken anew since: that key lasts longer.
    for _, key, jobids in sorted(held, reverse=True):
        listing.add_tag(key.removeprefix(base), jobids)


def _others(found: list[str], ours: set[str]) -> tuple[str, ...]:
    """What the keys of other prefixes begin with: one like ours (app beside app-x) has schedules of its own."""
    return tuple(key.removesuffix("schedules") for key in found if key.endswith("-schedules") and key not in ours)


def _list_keys(store: Store, listing: Listing, found: list[str], names: set[str], homes: set[str]) -> None:
    keys, client = store.keys, store.client
    ours = {*keys.fixed(), *(key for name in names for key in keys.of_queue(name))}
    others = _others(found, ours)
    families = tuple(f"{keys.prefix}-{family}" for family in FAMILIES)
    for key in found:
        name = key.removeprefix(f"{keys.prefix}-")
        if key in ours:
            if client.pttl(key) >= 0:
                listing.keys.append((key, EXPIRES))
        elif key.startswith(keys.tombstones("")) and not key.startswith(others):
            if key.removeprefix(keys.tombstones("")) not in homes:
                listing.keys.append((key, STRAY))
        elif not key.startswith((*families, *others)):
            if text(client.type(key)) == "list" and (name in homes or _is_home(store, name)):
                listing.forgotten.append(name)
                listing.keys.append((key, FORGOTTEN))
            elif is_members(store, key, {*names, *homes}, partial(own_queue, store)):
                listing.leftovers.append((key, MEMBERS))
            elif is_run(store, key, partial(own_queue, store)):
                listing.leftovers.append((key, OLD_RUN))
            else:
                listing.keys.append((key, STRAY))


def _is_home(store: Store, name: str) -> bool:
    """Whether the list of this name is a queue, as the worker class has it: one that an older version filled, say."""
    return own_queue(store, text(store.client.lindex(store.keys.queue(name), 0))) == name


def _list_entries(store: Store, listing: Listing, name: str) -> None:
    for jobid in store.client.sscan_iter(store.keys.tombstones(name), count=PAGE):
        listing.add_tombstone(text(jobid), name)
    start = 0
    while page := store.client.lrange(store.keys.queue(name), start, start + PAGE - 1):
        for jobid in map(text, page):
            counts = listing.jobs[jobid] = listing.jobs.get(jobid) or {}
            counts[name] = counts.get(name, 0) + 1
        start += PAGE
