"""The transitions that bring damaged or outdated data into order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from redbike.connection.refusals import translate_errors
from redbike.store.enums import Skip
from redbike.store.inspected import JobState
from redbike.store.keys import escape_pattern, is_queue_name
from redbike.store.namespace import PAGE, Namespace
from redbike.store.records import decode, format_time
from redbike.store.run import AHEAD, GRACE, LEASE, SLACK
from redbike.store.scripts import Call


class Upkeep:
    """Repairs jobs and tags, adopts what older versions have left, and deletes everything."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def repair(self, pairs: Iterable[tuple[JobState, JobState]]) -> list[bool]:
        """Bring jobs from how they were found to how they are wanted, each in one step, all in one round trip.

        Return False for one that has changed meanwhile. Both states of a job name the same queues in their `entries`.
        Of the wanted one, a streak, a failure, options, data, a group, the instant to forget it and what is damaged
        can only be gone, and skips be gone or have become more.
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
        """Make what is kept of a tag agree with the runs in flight under it, some of which `jobids` may be."""
        jobs = list(jobids)
        self._namespace.run("repair_tag", tag=tag, jobs=jobs, lease=LEASE, grace=GRACE, slack=SLACK, ahead=AHEAD)

    def adopt(self, jobids: Sequence[str] = (), buried: Mapping[str, Sequence[str]] | None = None) -> None:
        """Convert what an older version has left to today's form: the runs of `jobids`, and tombstones by queue."""
        buried = buried or {}
        self._namespace.run("adopt", buried, jobs=jobids, buried=list(buried.values()))

    def adopt_tombstones(self) -> None:
        """`adopt` the tombstones that an older version has left, if they name a job and a queue."""
        found = [entry for _, entry in self.list_withdrawn() if entry]
        for first in range(0, len(found), PAGE):
            buried: dict[str, list[str]] = {}
            for jobid, name in found[first : first + PAGE]:
                buried.setdefault(name, []).append(jobid)
            self.adopt(buried=buried)

    def list_withdrawn(self) -> list[tuple[bytes, tuple[str, str] | None]]:
        """List the tombstones of an older version, each as it is kept, and its job and queue; None if it has none."""
        client, key = self._namespace.client, self._namespace.keys.withdrawn
        with translate_errors():
            members = cast(set[bytes], self._namespace.fetch(client.smembers, key, "set"))
        return [(member, _parse_withdrawn(decode(member))) for member in members]

    def forget_withdrawn(self, member: bytes) -> None:
        """Remove one of `list_withdrawn`."""
        with translate_errors():
            self._namespace.client.srem(self._namespace.keys.withdrawn, member)

    def add_queue(self, name: str) -> None:
        """Put `name` into the set of queues that were ever used."""
        with translate_errors():
            self._namespace.client.sadd(self._namespace.keys.queues, name)

    def persist(self, key: str) -> None:
        """Let `key` not expire."""
        with translate_errors():
            self._namespace.client.persist(key)

    def flush(self) -> int:
        """Delete every key under the prefix and no other; return how many there were."""
        client, keys = self._namespace.client, self._namespace.keys
        with translate_errors():
            found: list[Any] = []
            for name in map(decode, client.smembers(keys.queues)):
                found += keys.of_queue(name)
            found += client.scan_iter(match=f"{escape_pattern(keys.inflight_base)}*", count=PAGE)
            # The names of the queues after these: if this is interrupted, the next flush finds the others by them.
            found += keys.list_fixed()
            return sum(int(client.unlink(*found[page : page + PAGE])) for page in range(0, len(found), PAGE))


def _parse_withdrawn(member: str) -> tuple[str, str] | None:
    jobid, _, name = member.partition("\n")
    return (jobid, name) if jobid and is_queue_name(name) else None


def _list_changes(found: JobState, wanted: JobState) -> dict[str, str | bool]:
    """Return what ``lua/repair.lua`` is to change of a job; False for what is to be gone."""
    changes: dict[str, str | bool] = {}
    if wanted.status != found.status:
        changes["status"] = (wanted.status or "").partition(":")[0] or False
    if wanted.timeline != found.timeline:
        changes["timeline"] = False if wanted.timeline is None else format_time(wanted.timeline)
    if wanted.queued != found.queued:
        changes["queued"] = wanted.queued or False
    if wanted.running != found.running:
        changes["running"] = wanted.running or False
    if wanted.paused != found.paused or "pause" in found.unreadable:
        changes["pause"] = wanted.paused or False
    if wanted.alarm != found.alarm:
        changes["alarm"] = False if wanted.alarm is None else format_time(wanted.alarm)
    if wanted.streak != found.streak or "streak" in found.unreadable:
        changes["streak"] = False
    if wanted.options != found.options or "options" in found.unreadable:
        changes["options"] = False
    if wanted.has_data != found.has_data:
        changes["data"] = False
    if wanted.membership != found.membership:
        changes["group"] = False
    if wanted.spent != found.spent:
        changes["spent"] = False
    if wanted.has_output != found.has_output:
        changes["output"] = False
    if wanted.history != found.history or "history" in found.unreadable:
        changes["history"] = False
    if wanted.failure != found.failure or "failure" in found.unreadable:
        changes["failure"] = False
    return changes


def _count_more(found: JobState, wanted: JobState, reason: str) -> int | Literal[False] | None:
    """Return how many occurrences more to count for `reason`; False if the count is to be gone, None to leave it."""
    before, after = found.skipped.get(reason, 0), wanted.skipped.get(reason, 0)
    if reason in found.unreadable or after < before:
        return False
    return None if after == before else after - before
