"""The transitions that repair damaged data, and the rewinds: when the server went back in time.

A server goes back if a replica takes over that had not received the last writes, or if its clock was ahead and is
corrected. Dispatchers detect both by the instant up to which all was dispatched, which goes back only then. A rewind is
stored until somebody has acknowledged it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from redbike.connection.refusals import translate_errors
from redbike.schedule.clock import Clock, format_length
from redbike.store.enums import Skip
from redbike.store.inspected import FOLLOWER, JobState
from redbike.store.lease import AHEAD, CLOCKS_DIFFER, GRACE, LEASE, SLACK
from redbike.store.namespace import PAGE, Part, split
from redbike.store.patterns import escape
from redbike.store.prefixes import is_shard, list_inflight
from redbike.store.records import REWIND, decode, encode, format_time
from redbike.store.scripts import Call

# The command that acknowledges a rewind, and the one that repairs times that a clock has put too late.
MINE, REPAIR = "redbike acknowledge", "redbike fsck --repair"

# What a repair may only remove: the name in ``lua/repair.lua``, and the field of `JobState` that says if it exists.
REMOVABLE = {
    **{name: name for name in ("options", "spent", "history", "failure")},
    "data": "has_data",
    "group": "membership",
    "output": "has_output",
    "saved": "has_saved",
    "progress": "progress",
}


class Upkeep(Part):
    """Repairs jobs and tags, and deletes everything."""

    def repair(self, pairs: Iterable[tuple[JobState, JobState]]) -> list[bool]:
        """Change jobs from the found to the wanted state, each in one step, all in one round trip.

        Return True for each job that was changed, False if it has changed meanwhile. Both states of a job must have the
        same queues in their `entries`. The wanted state may lack skips or have more; it may lack, but not change, what
        `REMOVABLE` lists. A damaged record is replaced or removed.
        """
        replies = self._namespace.scripts.run_all(self._pack_repair(found, wanted) for found, wanted in pairs)
        return [bool(reply[0] == "ok") for reply in replies]

    def _pack_repair(self, found: JobState, wanted: JobState) -> Call:
        home = wanted.waiting.queue if wanted.waiting and wanted.queued != found.queued else ""
        names = [
            name
            for name, count in wanted.entries.items()
            if count != found.entries[name] or name == home or name in found.tombstones - wanted.tombstones
        ]
        entries = [
            {
                "found": found.entries[name],
                "wanted": wanted.entries[name],
                "dead": int(name in found.tombstones),
                "buried": int(name in wanted.tombstones),
            }
            for name in names
        ]
        differences = ((reason, _count_more(found, wanted, reason)) for reason in Skip)
        skips = {f"{reason}:{found.jobid}": difference for reason, difference in differences if difference is not None}
        given = {"entries": entries, "wanted": _list_changes(found, wanted), "skips": skips}
        return self._namespace.pack("repair", names, job=found.jobid, found=found.stored, **given)

    def repair_tag(self, tag: str, jobids: Iterable[str]) -> None:
        """Correct what is stored of a tag by its runs in flight; `jobids` are further jobs that may run under it."""
        jobs = list(jobids)
        self._namespace.run("repair_tag", tag=tag, jobs=jobs, lease=LEASE, grace=GRACE, slack=SLACK, ahead=AHEAD)

    def discard(self, key: str, member: str | bytes) -> None:
        """Remove a field, member or entry, which may be damaged, from a key with a fixed name."""
        damaged = encode(member) if isinstance(member, str) else member
        commands: dict[str, tuple[str, *tuple[int, ...]]] = {"hash": ("hdel",), "zset": ("zrem",), "list": ("lrem", 0)}
        command, *given = commands[self._namespace.keys.get_kind(key)]
        self._namespace.ask(command, key, *given, damaged)

    def add_queue(self, name: str) -> None:
        """Add `name` to the set of queues that were ever used."""
        self._namespace.ask("sadd", self._namespace.keys.queues, name)

    def persist(self, key: str) -> None:
        """Remove the expiry of `key`."""
        self._namespace.ask("persist", key)

    def delete(self, key: str) -> None:
        """Delete `key`."""
        self._namespace.ask("delete", key)

    def flush(self) -> int:
        """Delete every key under the prefix and no other; return how many there were."""
        client, keys = self._namespace.client, self._namespace.keys
        with translate_errors():
            found: list[Any] = []
            for name in map(decode, client.smembers(keys.queues)):
                found += keys.of_queue(name)
            flying = map(decode, client.scan_iter(match=f"{escape(keys.inflight_base)}*", count=PAGE))
            found += list_inflight(client, keys, flying)
            # The set of queues goes after their keys: if this is interrupted, the next flush finds the rest by the set.
            found += keys.list_fixed()
            return sum(int(client.unlink(*page)) for page in split(found, PAGE))


def _list_changes(found: JobState, wanted: JobState) -> dict[str, Any]:
    """Return the changes that ``lua/repair.lua`` is to make to a job, by name; False removes a record."""
    changes: dict[str, Any] = {}
    if wanted.status != found.status:
        changes["status"] = (wanted.status or "").partition(":")[0] or False
    for name, field in (("timeline", "timeline"), ("timer", "timer"), ("expires", "expires_at")):
        if (moment := getattr(wanted, field)) != getattr(found, field):
            changes[name] = False if moment is None else format_time(moment)
    for name in ("queued", "running", "retry_state"):
        is_damaged = name.replace("_", " ") in found.unreadable
        if (record := getattr(wanted, name)) != getattr(found, name) or is_damaged:
            changes[name] = record or False
    if wanted.paused != found.paused or "pause" in found.unreadable:
        changes["pause"] = wanted.paused or False
    is_damaged = FOLLOWER in found.unreadable
    if is_damaged or wanted.follows != found.follows or wanted.is_listed != found.is_listed:
        changes["follows"] = wanted.follows or False
    if (wanted.member_of, wanted.is_counted) != (found.member_of, found.is_counted):
        changes |= {"member": found.member_of, "ends": not wanted.member_of}
    for name, field in REMOVABLE.items():
        if getattr(wanted, field) != getattr(found, field) or name.replace("_", " ") in found.unreadable:
            changes[name] = False
    return changes


def _count_more(found: JobState, wanted: JobState, reason: str) -> int | Literal[False] | None:
    """Return how many more occurrences to count for `reason`; False removes the count, None leaves it."""
    before, after = found.skipped.get(reason, 0), wanted.skipped.get(reason, 0)
    if reason in found.unreadable or after < before:
        return False
    return None if after == before else after - before


@dataclass(frozen=True, slots=True)
class Rewind:
    """The server went `back` from the instant that a dispatcher had `known`; this was `noted` then. In epoch seconds.

    `shard` is the prefix of the shard; "" if there is only one.
    """

    back: float
    known: float
    noted: float
    shard: str = ""

    @classmethod
    def parse(cls, back: str, record: str, prefix: str) -> "Rewind | None":
        """Read a record that is stored under `prefix`; None for a damaged one."""
        found = REWIND.fullmatch(f"{back} {record}")
        if found is None:
            return None
        instant, known, noted = map(float, found.groups())
        return cls(instant, known, noted, prefix if is_shard(prefix) else "")

    @property
    def is_of_clock(self) -> bool:
        """Tell whether the server's clock was ahead: then nothing is lost."""
        return self.known > self.noted + CLOCKS_DIFFER

    def describe(self) -> str:
        """Return what has happened, as a clause."""
        return f"the shard {self.shard}: {self._describe()}" if self.shard else self._describe()

    def _describe(self) -> str:
        length, moment = format_length(self.known - self.back), Clock(self.noted, "UTC").name(self.back)
        if self.is_of_clock:
            return f"the clock of the server was ahead by {length} until {moment}: jobs that came due then are late now"
        if not self.back:
            noted = Clock(self.noted, "UTC").name(self.noted)
            return f"the server had lost all of its data when a dispatcher looked at {noted}"
        return f"the server went back by {length} to {moment}: what was set or had run after that may be lost"


class Rewinds(Part):
    """Lists and acknowledges rewinds that dispatchers have noted."""

    def list_all(self) -> list[Rewind]:
        """Return the rewinds that nobody has acknowledged, the first noted first. Skip damaged ones."""
        prefix = self._namespace.keys.prefix
        found = (Rewind.parse(back, record, prefix) for back, record in self._read())
        return sorted((rewind for rewind in found if rewind), key=lambda rewind: rewind.noted)

    def list_bad(self) -> Iterator[tuple[str, str, str]]:
        """Yield for each damaged field: the key, the field, and in words what is wrong."""
        for back, record in self._read():
            if Rewind.parse(back, record, "") is None:
                how = f"holds {back!r:.80}, which is no instant to which the server went back"
                yield self._namespace.keys.rewinds, back, how

    def _read(self) -> list[tuple[str, str]]:
        found = self._namespace.ask("hgetall", self._namespace.keys.rewinds)
        return [(decode(back), decode(record)) for back, record in found.items()]

    def acknowledge(self, rewinds: Sequence[Rewind]) -> int:
        """Remove `rewinds`, as a person knows of them; return how many were still unacknowledged."""
        detail = "; ".join(rewind.describe() for rewind in rewinds)
        fields = [format_time(rewind.back) for rewind in rewinds]
        return int(self._namespace.run("acknowledge", rewinds=fields, detail=detail)[1]) if rewinds else 0
