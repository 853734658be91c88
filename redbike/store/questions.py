"""Reads the state of jobs and tags in Redis. It changes nothing."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from redbike.config.options import Labels, list_labels
from redbike.connection.refusals import is_out_of_memory
from redbike.errors import Unreachable
from redbike.store.inspected import JobState, read_job
from redbike.store.namespace import PAGE, Part, read_json
from redbike.store.records import Pause, Progress, RunRecord, decode, encode, parse_batch, parse_number
from redbike.store.scripts import Call, Reply

log = logging.getLogger("redbike")

LOOKED_AT = 1000  # runs in flight that are read to find the oldest
MOST_SCANNED = 10_000  # jobs that one script reads if the pattern leaves out most of them


class PassedJob(NamedTuple):
    """A job with skipped occurrences: its last occurrence may be one of them."""

    jobid: str
    schedule: str
    options: str  # as they are stored
    started: float | None  # when its last archived run started, in epoch seconds


class Triage(NamedTuple):
    """The result of a quick check of a part of many jobs."""

    number: int  # of jobs
    bad: list[str]  # jobs that are not well, judged by archived runs
    passed: list[PassedJob]  # other jobs with skipped occurrences


class Refusal(NamedTuple):
    """Why the server refuses changes, in words. If its memory is full, it refuses only changes that need memory."""

    text: str
    is_full: bool


class InFlight(NamedTuple):
    """A run in flight, and its reported progress."""

    jobid: str
    run: RunRecord
    progress: Progress | None
    history: bytes  # the archived runs of its job


@dataclass(frozen=True, slots=True)
class TagState:
    """All that is stored of one tag, at one instant."""

    tag: str
    listed: list[str] | None  # the jobs in flight under it; None without such a list
    deadlines: dict[str, float]  # of the runs that have this tag, by job id
    lease: float | None
    inflight_ms: int  # until its in-flight key expires; -1 if the key does not expire, -2 if there is none
    kind: str  # the type of that key
    named: list[str]  # the jobs in that key: those that were taken under the tag
    now: float  # Redis' clock then


class Questions(Part):
    """Reads the state of jobs and tags."""

    def inspect(
        self, jobids: Iterable[str], queues: Mapping[str, Sequence[str]] | None = None,
        tags: Mapping[str, str] | None = None, with_data: bool = False,
    ) -> list[JobState]:  # fmt: skip
        """Return all that is stored of each of `jobids`, each at one instant, in one round trip.

        `queues` has, by job id, the queues whose lists are searched for the job: this takes longer for longer lists.
        `tags` has, by job id, the tag under which a job without a record of a run may be in flight. Data may be long:
        they are read only `with_data`.
        """
        jobids, lists, tags = list(jobids), queues or {}, tags or {}
        replies = self._namespace.scripts.run_all(
            self._pack_inspect(jobid, lists.get(jobid, ()), tags.get(jobid), with_data) for jobid in jobids
        )
        return [read_job(jobid, lists.get(jobid, ()), reply) for jobid, reply in zip(jobids, replies, strict=True)]

    def list_states(self, jobids: Iterable[str]) -> Iterator[JobState]:
        """Yield what `inspect` returns. Of several shards, the caller may do without a missing one."""
        yield from self.inspect(jobids)

    def _pack_inspect(self, jobid: str, queues: Sequence[str], tag: str | None, with_data: bool) -> Call:
        given: dict[str, Any] = {"job": jobid} if tag is None else {"job": jobid, "tag": tag}
        if with_data:
            given["data"] = True
        return self._namespace.pack("inspect", queues, **given)

    def inspect_tags(self, tags: Mapping[str, Iterable[str]]) -> list[TagState]:
        """Return what is stored of each of `tags`, each at one instant, in one round trip.

        The values are jobs that may be in flight under the tag, besides those in its list.
        """
        calls = (self._namespace.pack("inspect_tag", tag=tag, jobs=list(jobids)) for tag, jobids in tags.items())
        replies = self._namespace.scripts.run_all(calls)
        return [_read_tag(tag, reply) for tag, reply in zip(tags, replies, strict=True)]

    def list_missing_rights(self, commands: Iterable[str]) -> list[str]:
        """Return those of `commands`, spelled as in ACL rules, that the user may not run on the keys."""
        # A given time avoids the command TIME, as this needs a right, too.
        _, *missing = self._namespace.run("missing_rights", now=0.0, commands=list(commands))
        return list(map(decode, missing))

    def find_refusal(self) -> Refusal | None:
        """Return why the server refuses changes, or new jobs; None if it accepts both."""
        try:
            self._namespace.run("probe")
        except Unreachable as error:
            if not isinstance(error.__cause__, ResponseError):
                raise
            return Refusal(str(error), is_full=is_out_of_memory(error.__cause__))
        return None

    def read_schedule(self, jobid: str) -> str | None:
        """Return the stored schedule of `jobid`; None if it has none."""
        stored = self._namespace.ask("hget", self._namespace.keys.schedules, jobid)
        return None if stored is None else decode(stored)

    def read_pauses(self, jobids: Sequence[str]) -> dict[str, Pause]:
        """Return the pauses of those of `jobids` that are paused; damaged records are left out."""
        names = [encode(jobid) for jobid in jobids]
        kept = self._namespace.ask("hmget", self._namespace.keys.pauses, names) if names else ()
        found = {jobid: Pause.parse(decode(record)) for jobid, record in zip(jobids, kept, strict=True)}
        return {jobid: pause for jobid, pause in found.items() if pause}

    def list_in_flight(self, most: int) -> tuple[list[InFlight], int]:
        """Return up to `most` runs in flight, the oldest of about `LOOKED_AT` that it reads, and the number of all."""
        keys = self._namespace.keys
        number, (_, kept) = self._namespace.ask_all(
            ("hlen", keys.running), ("hscan", keys.running, 0, None, LOOKED_AT), at_once=False
        )
        known = ((name, run) for name, record in kept.items() if (run := RunRecord.parse(decode(record))))
        oldest = sorted(known, key=lambda each: each[1].start)[:most]
        if not oldest:
            return [], number
        names = [name for name, _ in oldest]
        reported, past = self._namespace.ask_all(*(("hmget", key, names) for key in (keys.progress, keys.history)))
        return [
            InFlight(decode(name), run, Progress.parse(decode(record), run.tag), history or b"")
            for (name, run), record, history in zip(oldest, reported, past, strict=True)
        ], number

    def read_schedules(self, jobids: Sequence[str]) -> list[tuple[str | None, str]]:
        """Return for each of `jobids` its stored schedule, or None, and its stored options, "" for none."""
        keys = self._namespace.keys
        hashes = keys.schedules, keys.options
        texts, options = self._namespace.ask_all(*(("hmget", key, jobids) for key in hashes), at_once=False)
        return [(None if text is None else decode(text), decode(own)) for text, own in zip(texts, options, strict=True)]

    def triage(self, pattern: str, latest: float) -> Iterator[Triage]:
        """Yield in parts which of the jobs that `pattern` matches may not be well; a part is one round trip.

        The server checks them: 100,000 jobs, if few are not well, take a second. A job is late if it should have run by
        `latest`, in epoch seconds. A job that is added or unset meanwhile may be missing, or there twice.
        """
        count = PAGE
        [reply] = self._namespace.scripts.run_all([self._pack_triage("0", pattern, count, latest)])
        while (part := read_json(reply[1]))["cursor"] != "0":
            # Jobs that the pattern leaves out cost little.
            count = min(MOST_SCANNED, 2 * count) if part["number"] < PAGE else count
            # The server checks the next part while the caller handles this one.
            call = self._pack_triage(part["cursor"], pattern, count, latest)
            with self._namespace.scripts.run_meanwhile([call]) as replies:
                yield _read_triage(part)
            [reply] = replies
        yield _read_triage(part)

    def _pack_triage(self, cursor: str, pattern: str, count: int, latest: float) -> Call:
        return self._namespace.pack("triage", cursor=cursor, pattern=pattern, count=count, latest=latest)

    def read_labels(self, jobids: Sequence[str]) -> dict[str, Labels]:
        """Return by id the labels of those of `jobids` that have labels."""
        names = [encode(jobid) for jobid in jobids]
        stored = self._namespace.ask("hmget", self._namespace.keys.options, names) if names else ()
        found = {jobid: list_labels(decode(own)) for jobid, own in zip(jobids, stored, strict=True)}
        return {jobid: labels for jobid, labels in found.items() if labels}


def _read_triage(part: dict[str, Any]) -> Triage:
    # Lua has only one kind of table: an empty one becomes an object in JSON.
    rows = iter(part["passed"] or ())
    passed = [
        PassedJob(jobid, schedule or "", options or "", parse_number(started or None))
        for jobid, started, schedule, options in zip(rows, rows, rows, rows, strict=True)
    ]
    return Triage(int(part["number"]), part["bad"] or [], passed)


def _read_tag(tag: str, reply: Reply) -> TagState:
    """Read the reply of ``lua/inspect_tag.lua``."""
    found = read_json(reply[1])
    records = {jobid: RunRecord.parse(record) for jobid, record in (found["runs"] or {}).items()}
    return TagState(
        tag=tag,
        listed=parse_batch(found["listed"]) if "listed" in found else None,
        deadlines={jobid: record.deadline for jobid, record in records.items() if record},
        lease=parse_number(found.get("lease")),
        inflight_ms=int(found["hold"]),
        kind=found["kind"],
        named=parse_batch(found.get("named", "")),
        now=float(found["now"]),
    )
