"""List all jobs, tags and keys that are anywhere in Redis, page by page, while jobs move.

An entry of a `Listing` may be out of date as soon as it is made. So it is only a reason to inspect a job or a tag.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from redbike.connection.cluster import MOVES, MOVING
from redbike.connection.refusals import ON_THE_MOVE, translate_errors
from redbike.errors import Unreachable
from redbike.store.backfill import HEAD
from redbike.store.blackouts import is_blackout_name
from redbike.store.keys import FAMILIES, FIXED, OF_QUEUE
from redbike.store.misplaced import TIMER
from redbike.store.names import is_queue_name
from redbike.store.namespace import DATA_PAGE, PAGE, split
from redbike.store.patterns import escape
from redbike.store.prefixes import list_inflight, list_prefixes
from redbike.store.records import RunRecord, Waiting, decode, parse_batch
from redbike.store.sharded.missing import name_if_silent
from redbike.store.store import Store
from redbike.text.group_names import is_jobid

# What is wrong with a key, or what redbike 0.13.1 has left in it.
EXPIRES = "expires"
FORGOTTEN = "is a queue that is missing in the set of queues"
MEMBERS = "is left of redbike 0.13.1 and used no more; redbike fsck --repair removes it"
OLD_RUN = "is of a run that a worker of redbike 0.13.1 took; it expires at its timeout"
STRAY = "is not a key of Redbike, or of a queue that was never used"

# The names of keys of redbike 0.13.1 that are used no more; its other keys are still in use:
# ``<prefix>-<queue name>-members``: a set of the ids in the queue, so that none is twice in it. Today: ``-queued``.
# ``<prefix>-<queue name>-<job id>``: the tag of a run in flight, which expires. Today: ``-inflight-<tag>``.
OLD_SUFFIX = "-members"
OLD_TAG = re.compile(r"[0-9a-f]{30}")


@dataclass
class Listing:
    """All that is listed anywhere."""

    jobs: dict[str, dict[str, int] | None] = field(default_factory=dict)  # how often each is in the lists of queues
    tombstones: dict[str, frozenset[str]] = field(default_factory=dict)  # the queues in which jobs have them
    tags: dict[str, set[str]] = field(default_factory=dict)  # each with jobs that may be in flight under it
    tag_of: dict[str, str] = field(default_factory=dict)  # by job: the tag under which it most likely is
    # (key, what is damaged of it, what is wrong with that), as each `list_bad` yields it.
    damaged: list[tuple[str, str | bytes, str]] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)  # (key, what is wrong with it)
    leftovers: list[tuple[str, str]] = field(default_factory=list)  # (key of 0.13.1, what it is)
    # By queue: jobs that have a slot, or are in flight from it.
    queue_limits: dict[str, set[str]] = field(default_factory=dict)
    # By job: the fields of its backfills that exist; "" is the one under way.
    backfills: dict[str, set[str]] = field(default_factory=dict)
    blackouts: set[str] = field(default_factory=set)  # their names, also where only a timer is left
    strays: list[tuple[str, str | bytes, str]] = field(default_factory=list)  # the same for limits, slots and timers
    forgotten: list[str] = field(default_factory=list)  # names of queues that the set of queues lacks

    def add_tag(self, tag: str, jobids: Iterable[str]) -> None:
        """Note that these jobs may be in flight under `tag`. The first tag that is noted for a job counts."""
        # Each once: a damaged list may have one job a hundred thousand times.
        listed = dict.fromkeys(jobids)
        self.tags.setdefault(tag, set()).update(listed)
        for jobid in listed:
            self.jobs.setdefault(jobid, None)
            self.tag_of.setdefault(jobid, tag)

    def add_tombstone(self, jobid: str, name: str) -> None:
        """Note that a job has a tombstone in the queue `name`."""
        self.jobs.setdefault(jobid, None)
        self.tombstones[jobid] = self.tombstones.get(jobid, frozenset()) | {name}


def get_home(record: Waiting | RunRecord | None) -> str | None:
    """Return the queue that a record names. Return None if there is no record, or if it names no possible queue."""
    return record.queue if record and is_queue_name(record.queue) else None


def get_own_queue(store: Store, jobid: str) -> str:
    """Return the queue of `jobid`; "" if the worker class, which is the user's own, has none for it."""
    try:
        return store.queue_for(jobid)
    except Unreachable:
        raise
    except Exception:
        return ""


def find_wrong_types(store: Store) -> Iterator[str]:
    """Yield a line for each key of a wrong type; while there is one, jobs cannot be checked."""
    keys, client = store.keys, store.client
    with name_if_silent(store), translate_errors():
        kinds = {f"{keys.prefix}-{name}": kind for name, kind in FIXED.items()}
        if decode(client.type(keys.queues)) == kinds[keys.queues]:
            for name in map(decode, client.smembers(keys.queues)):
                kinds |= zip(keys.of_queue(name), OF_QUEUE, strict=True)
        for key, kind in kinds.items():
            found = decode(client.type(key))
            if found not in (kind, "none"):
                yield f"the key {key!r} is a {found}, not a {kind}, so the jobs cannot be checked"


def list_all(store: Store) -> Listing:
    """List every id and every key, page by page. Raise `Unreachable` rather than leave out any."""
    with translate_errors():
        for _ in range(MOVES):
            # What one server has listed cannot be completed at another: begin again there.
            with suppress(*MOVING), store.hold_connection() as held:
                return _list_all(held)
    raise Unreachable(ON_THE_MOVE)


def _list_all(store: Store) -> Listing:
    listing, keys = Listing(), store.keys
    found = sorted(map(decode, store.client.scan_iter(match=f"{escape(keys.prefix)}-*", count=PAGE)))
    homes = {home for home in _list_jobs(store, listing) if home}
    homes.update(_list_tombstone_queues(store, found))
    _list_inflight(store, listing, found)
    _list_limits(store, listing)
    listing.damaged += chain(store.log.list_bad(), store.journal.list_bad(), store.outbox.list_bad())
    listing.damaged += store.hosts.list_bad()
    # Read after the keys, so that it has also a queue that was used for the first time just now.
    names = set(map(decode, store.client.smembers(keys.queues)))
    _list_keys(store, listing, found, names, homes)
    for name in {*names, *homes, *listing.forgotten}:
        _list_entries(store, listing, name)
    return listing


def _list_jobs(store: Store, listing: Listing) -> Iterator[str | None]:
    """List the ids in hashes and sorted sets, and the tags of runs; yield the queues that records name."""
    keys, client = store.keys, store.client
    hashes = (keys.schedules, keys.statuses, keys.queued, keys.running, keys.retry_states, keys.failures, keys.pauses)
    long = keys.data, keys.outputs, keys.saved
    for key in (*hashes, keys.options, keys.groups, keys.history, keys.progress, keys.following, *long):
        for jobid, value in client.hscan_iter(key, count=DATA_PAGE if key in long else PAGE):
            if key == keys.following and decode(jobid).startswith(HEAD):
                base, _, part = decode(jobid).removeprefix(HEAD).partition("\n")
                listing.backfills.setdefault(base, set()).add(part)
                continue
            if key == keys.following and not is_jobid(decode(jobid)):
                continue  # a group
            listing.jobs[decode(jobid)] = None
            if key == keys.queued:
                yield get_home(Waiting.parse(decode(value)))
            elif key == keys.running and (run := RunRecord.parse(decode(value))):
                listing.add_tag(run.tag, [decode(jobid)])
                listing.queue_limits.setdefault(run.queue, set()).add(decode(jobid))
                yield get_home(run)
    for key in (keys.timeline, keys.failure_times, keys.spent):
        for jobid, _ in client.zscan_iter(key, count=PAGE):
            listing.jobs[decode(jobid)] = None
    for jobid in store.groups.list_jobids():
        listing.jobs[jobid] = None
    for name, _ in client.hscan_iter(keys.skipped, count=PAGE):
        # Without an id it is the total of all jobs.
        if jobid := decode(name).partition(":")[2]:
            listing.jobs[jobid] = None
    for tag, batch in client.hscan_iter(keys.batches, count=PAGE):
        listing.add_tag(decode(tag), parse_batch(decode(batch)))
    for member, _ in client.zscan_iter(keys.leases, count=PAGE):
        listing.add_tag(decode(member), ())


def _list_limits(store: Store, listing: Listing) -> None:
    """List the limits, with the jobs in flight from their queues and those that have a slot there."""
    keys, client = store.keys, store.client
    flying, listing.queue_limits = listing.queue_limits, {}
    for name, _ in client.hscan_iter(keys.queue_limits, count=PAGE):
        if name and not is_queue_name(decode(name)):
            how = f"holds {decode(name)!r}, which no queue can have as its name"
            listing.strays.append((keys.queue_limits, name, how))
        else:
            listing.queue_limits[decode(name)] = flying.get(decode(name), set())
    for member, _ in client.zscan_iter(keys.slots, count=PAGE):
        name, newline, jobid = decode(member).partition("\n")
        if newline and jobid and is_queue_name(name):
            listing.queue_limits.setdefault(name, set()).add(jobid)
        else:
            listing.strays.append((keys.slots, member, f"holds {decode(member)!r}, which names no queue and job"))
    for name, _ in client.hscan_iter(keys.blackouts, count=PAGE):
        if is_blackout_name(decode(name)):
            listing.blackouts.add(decode(name))
        else:
            how = f"holds {decode(name)!r}, which names nothing that can be paused"
            listing.strays.append((keys.blackouts, name, how))
    for member, _ in client.zscan_iter(keys.timers, count=PAGE):
        kind, _, name = decode(member).partition(":")
        if kind in ("job", "expires"):
            listing.jobs.setdefault(name, None)
        elif kind == "blackout" and is_blackout_name(name):
            listing.blackouts.add(name)
        elif (kind == "queue" and not name) or (kind in ("queue", "quota") and is_queue_name(name)):
            listing.queue_limits.setdefault(name, set())
        elif decode(member) != TIMER:
            listing.strays.append((keys.timers, member, f"holds {decode(member)!r}, which names no limits"))


def _list_tombstone_queues(store: Store, found: list[str]) -> Iterator[str]:
    """Yield the queues that have tombstones, also queues that were never used, if their name and keys allow."""
    base, others = store.keys.tombstones(""), _list_other_prefixes(store, found)
    for name in (key.removeprefix(base) for key in found if key.startswith(base) and not key.startswith(others)):
        kinds = [decode(store.client.type(key)) for key in store.keys.of_queue(name)]
        if is_queue_name(name) and all(kind in (own, "none") for kind, own in zip(kinds, OF_QUEUE, strict=True)):
            yield name


def _list_inflight(store: Store, listing: Listing, found: list[str]) -> None:
    """List the tags that have in-flight keys, with the jobs that were taken under them."""
    base, held = store.keys.inflight_base, list[tuple[int, str, list[str]]]()
    for page in split(list_inflight(store.client, store.keys, found), PAGE):
        with store.client.pipeline(transaction=False) as pipeline:
            for key in page:
                pipeline.pttl(key)
                pipeline.get(key)
            replies = pipeline.execute(raise_on_error=False)
        for key, left, batch in zip(page, replies[::2], replies[1::2], strict=True):
            if isinstance(batch, Exception) and not str(batch).startswith("WRONGTYPE"):
                raise batch
            held.append((left, key, [] if isinstance(batch, Exception) else parse_batch(decode(batch))))
    # A job may have ended and have been taken again: the key of its later run lasts longer.
    for _, key, jobids in sorted(held, reverse=True):
        listing.add_tag(key.removeprefix(base), jobids)


def _list_other_prefixes(store: Store, found: list[str]) -> tuple[str, ...]:
    """Return what the keys of other prefixes begin with, such as those of app-x beside app."""
    return tuple(f"{each}-" for each in list_prefixes(store.client, found) if each != store.keys.prefix)


def _list_keys(store: Store, listing: Listing, found: list[str], names: set[str], homes: set[str]) -> None:
    keys, client = store.keys, store.client
    ours = {*keys.list_fixed(), *(key for name in names for key in keys.of_queue(name))}
    others = _list_other_prefixes(store, found)
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
            if decode(client.type(key)) == "list" and (name in homes or _is_filled_queue(store, name)):
                listing.forgotten.append(name)
                listing.keys.append((key, FORGOTTEN))
            elif _is_members(store, key, {*names, *homes}, partial(get_own_queue, store)):
                listing.leftovers.append((key, MEMBERS))
            elif _is_run(store, key, partial(get_own_queue, store)):
                listing.leftovers.append((key, OLD_RUN))
            else:
                listing.keys.append((key, STRAY))


def _is_filled_queue(store: Store, name: str) -> bool:
    """Tell whether the first job of the list `name` belongs there; an older version may have filled it."""
    return get_own_queue(store, decode(store.client.lindex(store.keys.queue(name), 0))) == name


def _list_entries(store: Store, listing: Listing, name: str) -> None:
    for jobid in store.client.sscan_iter(store.keys.tombstones(name), count=PAGE):
        listing.add_tombstone(decode(jobid), name)
    start = 0
    while page := store.client.lrange(store.keys.queue(name), start, start + PAGE - 1):
        for jobid in map(decode, page):
            counts = listing.jobs[jobid] = listing.jobs.get(jobid) or {}
            counts[name] = counts.get(name, 0) + 1
        start += PAGE


def _is_members(store: Store, key: str, queues: Collection[str], queue_for: Callable[[str], str]) -> bool:
    """Tell whether `key` is the set of ids that 0.13.1 kept beside a queue; nothing reads it any more."""
    name = key.removeprefix(f"{store.keys.prefix}-")
    if not name.endswith(OLD_SUFFIX) or decode(store.client.type(key)) != "set":
        return False
    queue = name.removesuffix(OLD_SUFFIX)
    first = next(store.client.sscan_iter(key, count=1), None)
    return queue in queues or (first is not None and queue_for(decode(first)) == queue)


def _is_run(store: Store, key: str, queue_for: Callable[[str], str]) -> bool:
    """Tell whether `key` is the tag of a run of a worker of 0.13.1; it expires at the timeout of the run."""
    name = key.removeprefix(f"{store.keys.prefix}-")
    if not any(queue_for(name[dash.end() :]) == name[: dash.start()] for dash in re.finditer("-", name)):
        return False
    if decode(store.client.type(key)) != "string" or store.client.pttl(key) < 0:
        return False
    return OLD_TAG.fullmatch(decode(store.client.get(key))) is not None
