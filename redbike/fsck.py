"""``redbike fsck``: whether the invariants hold, read-only; what ``--repair`` does about it is in `redbike.repair`.

1. A job that its schedule keeps going is in exactly one of timeline, queue, in flight; only one that was set during its
   own run may be both in flight and on the timeline.
2. Nothing exists for an unset job, but the run that was in flight, and an entry that it left behind in a long queue.
3. No id is twice in a queue, and what is noted as left behind in one is there.
4. Each in-flight record has a tag, a deadline, its due time and the count of losses; a run before its deadline has its
   expiring key, with the same tag.
5. A status agrees with the place.
6. Only declared keys exist, and what 0.13.1 has left; only in-flight keys expire.

Jobs move while this looks. So whatever is listed somewhere is only a suspect: each is then inspected by one script, at
one instant, and judged by that.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from redbike.errors import BadQueueName, RedbikeError
from redbike.keys import FAMILIES, TYPES, check_queue_name
from redbike.leftovers import is_members, is_run
from redbike.records import State, text
from redbike.schedule import END_OF_TIME, parse
from redbike.scripts import translated
from redbike.store import GRACE, PAGE, Store, is_ahead, literal

log = logging.getLogger("redbike")

QUEUED = re.compile(r"\d{1,12}\.\d{6} (.+)", re.ASCII | re.DOTALL)
RUNNING = re.compile(
    r"\S+( \d{1,12}\.\d{6}){3}( \d{1,9}){2} (-|set|once|due:\d{1,12}\.\d{6}) (.+)", re.ASCII | re.DOTALL
)
WITHDRAWN = re.compile(r"([^\n]+)\n([^\n]+)")
STATUS = re.compile(r"(TML|ENQ|WRK|STP|DIE|BAD):(\d{1,12})", re.ASCII)
PLACE_OF = {"TML": "timeline", "ENQ": "queue", "WRK": "in flight"}
SLACK = 1.0  # seconds by which what was made from a deadline may differ from it
EXPIRES = "expires"
FORGOTTEN = "is a queue that is missing in the set of queues"
MEMBERS = "is left of redbike 0.13.1 and used no more; redbike fsck --repair removes it"
OLD_RUN = "is of a run that a worker of redbike 0.13.1 took; it expires at its timeout"
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
    for page in suspects(store, listing):
        moved = {state.jobid: state.entries for state in page if any(_judge_entries(state))}
        looked_at = {state.jobid: state for state in look_closely(store, moved)}
        for state in page:
            for problem in judge(looked_at.get(state.jobid, state)):
                yield f"{state.jobid!r}: {problem}"
    yield from (f"the key {key!r} {how}" for key, how in listing.keys)
    yield from (f"the key {store.keys.withdrawn!r} {holds(member)}" for member in listing.malformed)


def find_instant_ahead(store: Store) -> str:
    """Say that the instant up to which all is dispatched is in the future, "" if it is not."""
    now, dispatched = store.horizon()
    if dispatched is None or not is_ahead(dispatched, now):
        return ""
    return f"the key {store.keys.dispatched!r} says that all is dispatched up to {dispatched:.0f}, which is to come"


def holds(member: bytes) -> str:
    """What is wrong with a note of what was left behind."""
    return f"holds {text(member)!r}, which names no job and queue"


# Judging one job at one instant


def judge(state: State) -> Iterator[str]:
    """What is wrong with one job, and in the lists of those queues in which it was looked for."""
    yield from (f"its {what} cannot be read" for what in state.unreadable)
    if state.queued and home_of(state.queued, QUEUED) is None:
        yield f"its queued record is malformed: {state.queued!r}"
        return
    if state.running and home_of(state.running, RUNNING) is None:
        yield f"its running record is malformed: {state.running!r}"
        return
    yield from _judge_run(state)
    yield from _judge_entries(state)
    if state.schedule is None:
        yield from _judge_unknown(state)
    else:
        yield from _judge_place(state)


def home_of(record: str, form: re.Pattern[str]) -> str | None:
    """The queue that a record of this form names; None if it is malformed."""
    found = form.fullmatch(record)
    try:
        return check_queue_name(found[found.re.groups]) if found else None
    except BadQueueName:
        return None


def places(state: State) -> list[str]:
    """Where the job is."""
    found = {"in flight": state.running, "queue": state.queued, "timeline": state.timeline is not None}
    return [place for place, there in found.items() if there]


def _judge_run(state: State) -> Iterator[str]:
    if not state.running:
        if state.lease is not None:
            yield "it has a lease, but no run is in flight"
        if state.inflight:
            yield "it has an in-flight key, but no run is in flight"
        return
    tag, deadline = state.running.split(" ")[0], float(state.running.split(" ")[2])
    if state.lease is None:
        yield "its run has no lease: it would not be found if its worker died"
    elif state.lease > deadline + GRACE + SLACK:
        yield "the lease of its run goes on after its deadline"
    if state.inflight and state.inflight != tag:
        yield f"its in-flight key holds {state.inflight!r}, its record {tag!r}"
    elif state.inflight and state.inflight_ms < 0:
        yield "its in-flight key does not expire"
    elif not state.inflight and state.now < deadline - SLACK:
        yield "its in-flight key is gone before its deadline"


def _judge_entries(state: State) -> Iterator[str]:
    home = home_of(state.queued, QUEUED)
    adopted = "a worker will adopt it" if state.schedule is not None else "a worker will throw it away"
    for name in state.entries:
        found = state.waits(name)
        if found < 0:
            yield f"it is noted to have left an entry behind in the queue {name!r}, but is not in it"
        elif found and name in state.withdrawn:
            yield f"it is in the queue {name!r} beside an entry that it has left behind there"
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
    if len(here) > 1 and not (here == ["in flight", "timeline"] and state.running.split(" ")[6] in ("set", "once")):
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


# Looking around, while jobs move


@dataclass
class Listing:
    """Whatever is listed anywhere."""

    jobs: dict[str, dict[str, int] | None] = field(default_factory=dict)  # how often each is in the lists of queues
    withdrawn: dict[str, frozenset[str]] = field(default_factory=dict)  # the queues in which jobs have left entries
    keys: list[tuple[str, str]] = field(default_factory=list)  # those that are wrong, and how
    malformed: list[bytes] = field(default_factory=list)  # notes of what was left behind that name no job and queue
    leftovers: list[tuple[str, str]] = field(default_factory=list)  # keys of 0.13.1, and what they are
    forgotten: list[str] = field(default_factory=list)  # names of queues that are missing in the set of them


def suspects(store: Store, listing: Listing) -> Iterator[list[State]]:
    """The jobs with which something seems to be wrong, some at a time.

    Each is as it is at one instant, but for its entries in lists: these are as they were listed, maybe before it moved.
    """
    jobids = iter(listing.jobs)
    while page := list(islice(jobids, PAGE)):
        states = (_as_listed(store, listing, state) for state in store.inspect(page))
        yield [state for state in states if any(judge(state))]


def _as_listed(store: Store, listing: Listing, state: State) -> State:
    """With how often it was listed in queues: with an entry, and where it should have, or may get one."""
    home = home_of(state.queued, QUEUED) or (own_queue(store, state.jobid) if state.schedule is not None else "")
    withdrawn = listing.withdrawn.get(state.jobid, frozenset())
    entries = dict.fromkeys({home, *withdrawn} - {""}, 0) | (listing.jobs[state.jobid] or {})
    return replace(state, entries=entries, withdrawn=withdrawn)


def look_closely(store: Store, queues: Mapping[str, Iterable[str]]) -> list[State]:
    """Jobs as they are, also in the lists of the queues that are named, and in that where they belong."""
    names = {jobid: sorted({*found, own_queue(store, jobid)} - {""}) for jobid, found in queues.items()}
    return store.inspect(names, names)


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
        kinds = {f"{keys.prefix}-{name}": kind for name, kind in TYPES.items()}
        if text(client.type(keys.queues)) == kinds[keys.queues]:
            for name in map(text, client.smembers(keys.queues)):
                kinds |= {keys.queue(name): "list", keys.wake(name): "list"}
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
        # Asked for after the keys, so that no queue is missing that was used for the first time just now.
        names = set(map(text, store.client.smembers(keys.queues)))
        _list_keys(store, listing, found, names, homes)
        for name in {*names, *homes, *listing.forgotten}:
            _list_entries(store, listing, name)
    return listing


def _list_jobs(store: Store, listing: Listing) -> Iterator[str | None]:
    """List the ids in hashes and sorted sets; the queues that records name."""
    keys, client = store.keys, store.client
    for key in (keys.schedules, keys.statuses, keys.queued, keys.running, keys.streaks, keys.failures):
        form = {keys.queued: QUEUED, keys.running: RUNNING}.get(key)
        for jobid, value in client.hscan_iter(key, count=PAGE):
            listing.jobs[text(jobid)] = None
            if form:
                yield home_of(text(value), form)
    for key in (keys.timeline, keys.leases, keys.failure_times):
        for jobid, _ in client.zscan_iter(key, count=PAGE):
            listing.jobs[text(jobid)] = None
    for name, _ in client.hscan_iter(keys.skipped, count=PAGE):
        listing.jobs[text(name).partition(":")[2]] = None
    for member in client.sscan_iter(keys.withdrawn, count=PAGE):
        jobid, home = text(member).partition("\n")[0], home_of(text(member), WITHDRAWN)
        if home:
            listing.jobs[jobid] = None
            listing.withdrawn[jobid] = listing.withdrawn.get(jobid, frozenset()) | {home}
            yield home
        else:
            listing.malformed.append(member)


def _list_keys(store: Store, listing: Listing, found: list[str], names: set[str], homes: set[str]) -> None:
    keys, client = store.keys, store.client
    ours = {*keys.fixed(), *map(keys.queue, names), *map(keys.wake, names)}
    # A prefix that begins like ours (app beside app-x) has a hash of schedules of its own.
    others = tuple(key.removesuffix("schedules") for key in found if key.endswith("-schedules") and key not in ours)
    families = tuple(f"{keys.prefix}-{family}" for family in FAMILIES)
    for key in found:
        name = key.removeprefix(f"{keys.prefix}-")
        if key.startswith(keys.inflight_base):
            listing.jobs[key.removeprefix(keys.inflight_base)] = None
        elif key in ours:
            if client.pttl(key) >= 0:
                listing.keys.append((key, EXPIRES))
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
    start = 0
    while page := store.client.lrange(store.keys.queue(name), start, start + PAGE - 1):
        for jobid in map(text, page):
            counts = listing.jobs[jobid] = listing.jobs.get(jobid) or {}
            counts[name] = counts.get(name, 0) + 1
        start += PAGE
