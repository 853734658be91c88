"""What can be asked of the state in Redis. Nothing here changes anything."""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from redbike.errors import Unreachable
from redbike.options import is_readable, list_texts, parse_options
from redbike.serving.cluster import MOVES, MOVING
from redbike.serving.connection import is_in_cluster
from redbike.serving.line import hold_connection
from redbike.serving.refusals import ON_THE_MOVE, translate_errors
from redbike.state.namespace import DATA_PAGE, PAGE, Namespace, read_json
from redbike.state.records import STREAK, Pause, RunRecord, Streak, Waiting, decode, parse_batch, parse_number
from redbike.state.scripts import Call, Reply
from redbike.words import Event, Skip

log = logging.getLogger("redbike")

STORED = ("schedule", "status", "timeline", "queued", "running", "pause", "alarm")  # what `repair` compares
COUNT = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobState:
    """All that is kept of one job, at one instant; what is missing is None, "" or 0."""

    jobid: str
    schedule: str | None
    status: str | None
    timeline: float | None
    queued: str
    running: str
    tag: str  # of its run, or else that under which it was said to be in flight; its lease and in-flight key follow
    lease: float | None
    inflight_ms: int  # left to the in-flight key; -1 if it does not expire, -2 if there is none
    streak: str
    skipped: dict[str, int]
    failure: dict[str, Any] | None
    now: float = field(compare=False)  # Redis' clock then
    entries: dict[str, int]  # how often it stands in the list of each queue in which it was looked for
    tombstones: frozenset[str] = frozenset()  # those of them in which it has one
    unreadable: tuple[str, ...] = ()  # of streak, failure, pause, options and the reasons of skips the damaged ones
    stored: dict[str, str] = field(default_factory=dict)  # those of `STORED` that are there, as Redis spells them
    paused: str = ""
    alarm: float | None = None  # when its pause ends by itself
    options: str = ""  # as they are stored
    has_data: bool = False
    data: str = field(default="", compare=False)  # JSON, if it was asked for

    def count_entries(self, name: str) -> int:
        """Return how often it is in the list of the queue `name`, not counting a tombstone."""
        return self.entries.get(name, 0) - (name in self.tombstones)

    @property
    def run(self) -> RunRecord | None:
        """Its run in flight; None if there is none, or a damaged record."""
        return RunRecord.parse(self.running)

    @property
    def waiting(self) -> Waiting | None:
        """Its place in a queue; None if there is none, or a damaged record."""
        return Waiting.parse(self.queued)

    @property
    def pause(self) -> Pause | None:
        """Its pause; None if it is not paused, or a damaged record."""
        return Pause.parse(self.paused)

    @property
    def held(self) -> float | None:
        """When what is held of a paused job would be due on the timeline, or has been since; None if nothing is."""
        return self.pause.due if self.pause else None

    def has_event(self, event: Event) -> bool:
        """Tell whether its status, which may be damaged, has this event."""
        return (self.status or "").startswith(f"{event}:")

    def to_dict(self) -> dict[str, Any]:
        """Return what there is of every job, and then what there is only of some."""
        found: dict[str, Any] = {
            "status": self.status,
            "next_run": self.timeline,
            "schedule": self.schedule,
            "working": bool(self.running),
        }
        if self.waiting:
            found["queued_for"] = self.waiting.due
        if self.pause:
            found["paused"] = self.pause.to_dict()
        if self.held is not None:
            found["held_for"] = self.held
        if run := self.run:
            found |= {"working_for": run.due, "working_since": run.start, "deadline": run.deadline}
            found |= {"cancelled": True} if run.cancelled else {}
        streak = Streak.parse(self.streak)
        if streak.failures:
            found["failures"] = streak.failures
        if streak.losses:
            found["losses"] = streak.losses
        if self.skipped:
            found["skipped"] = self.skipped
        if self.failure is not None:
            found["failure"] = self.failure
        if self.options:
            found["options"] = dict(parse_options(self.options))
        if self.data:
            found["data"] = json.loads(self.data)
        return found


@dataclass(frozen=True, slots=True)
class TagState:
    """All that is kept of one tag, at one instant."""

    tag: str
    listed: list[str] | None  # the jobs in flight under it; None without such a list
    deadlines: dict[str, float]  # of the runs that have this tag, by job id
    lease: float | None
    inflight_ms: int  # left to its in-flight key; -1 if that does not expire, -2 if there is none
    kind: str  # the type of that key
    named: list[str]  # the jobs that it has, which were taken under the tag
    now: float  # Redis' clock then


class Questions:
    """Reads what is kept of jobs and tags."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def inspect(
        self,
        jobids: Iterable[str],
        queues: Mapping[str, Sequence[str]] | None = None,
        tags: Mapping[str, str] | None = None,
        with_data: bool = False,
    ) -> list[JobState]:
        """Return all that is kept of each of `jobids`, each at one instant, in one round trip.

        `queues` names, by job id, those in whose lists it is looked for too: that takes the longer the longer they are.
        `tags` are those under which jobs may be in flight that have no record of that. Data may be long: they are read
        only `with_data`.
        """
        jobids, lists, tags = list(jobids), queues or {}, tags or {}
        replies = self._namespace.scripts.run_all(
            self._pack_inspect(jobid, lists.get(jobid, ()), tags.get(jobid), with_data) for jobid in jobids
        )
        return [_read_job(jobid, lists.get(jobid, ()), reply) for jobid, reply in zip(jobids, replies, strict=True)]

    def _pack_inspect(self, jobid: str, queues: Sequence[str], tag: str | None, with_data: bool) -> Call:
        given: dict[str, Any] = {"job": jobid} if tag is None else {"job": jobid, "tag": tag}
        if with_data:
            given["data"] = True
        return self._namespace.pack("inspect", queues, **given)

    def inspect_tags(self, tags: Mapping[str, Iterable[str]]) -> list[TagState]:
        """Return what is kept of each of `tags`, each at one instant, in one round trip.

        The values are jobs that may be in flight under a tag, besides those that it lists.
        """
        calls = (self._namespace.pack("inspect_tag", tag=tag, jobs=list(jobids)) for tag, jobids in tags.items())
        replies = self._namespace.scripts.run_all(calls)
        return [_read_tag(tag, reply) for tag, reply in zip(tags, replies, strict=True)]

    def list_missing_rights(self, commands: Iterable[str]) -> list[str]:
        """Return those of `commands`, as rules of an ACL spell them, that the user may not run on the keys."""
        # The server's clock is not asked for, as that takes a right too.
        _, *missing = self._namespace.run("missing_rights", now=0.0, commands=list(commands))
        return list(map(decode, missing))

    def read_schedule(self, jobid: str) -> str | None:
        """Return the schedule of `jobid` as it is stored, or None."""
        client, key = self._namespace.client, self._namespace.keys.schedules
        with translate_errors():
            stored = self._namespace.fetch(lambda key: client.hget(key, jobid), key, "hash")
        return None if stored is None else decode(stored)

    def has_options(self) -> bool:
        """Tell whether any job has options."""
        with translate_errors():
            return bool(self._namespace.client.hlen(self._namespace.keys.options))

    def read_schedules(self, jobids: Sequence[str]) -> list[tuple[str | None, str]]:
        """Return the schedule of each of `jobids` as it is stored, or None, and its options, "" for none."""
        keys = self._namespace.keys
        with translate_errors(), self._namespace.client.pipeline(transaction=False) as pipeline:
            pipeline.hmget(keys.schedules, jobids)
            pipeline.hmget(keys.options, jobids)
            texts, options = pipeline.execute()
        return [(None if text is None else decode(text), decode(own)) for text, own in zip(texts, options, strict=True)]

    def list_statuses(self, pattern: str | None = None) -> Iterator[tuple[str, str]]:
        """Yield every job id, or each that `pattern` matches, with its status as it is stored."""
        return self._scan(self._namespace.keys.statuses, pattern)

    def list_events(self, before: float | None) -> Iterator[tuple[str, str, int]]:
        """Yield the id of every job, its last event and the time of that; or of those with no event since `before`."""
        for jobid, status in self.list_statuses():
            event, _, moment = status.partition(":")
            if not moment.isdecimal():
                log.warning("%s: %r is no status", jobid, status)
            elif before is None or int(moment) < before:
                yield jobid, event, int(moment)

    def list_rows(self) -> Iterator[tuple[str, ...]]:
        """Yield for every job the texts of `redbike.options.COLUMNS`; "" for an option that it does not have."""
        client, keys, jobs = self._namespace.client, self._namespace.keys, self.list_schedules()
        while page := list(islice(jobs, DATA_PAGE)):
            jobids = [jobid for jobid, _ in page]
            with translate_errors(), client.pipeline(transaction=False) as pipeline:
                pipeline.hmget(keys.options, jobids)
                pipeline.hmget(keys.data, jobids)
                options, data = pipeline.execute()
            for job, own, value in zip(page, options, data, strict=True):
                yield (*job, *list_texts(decode(own)), decode(value))

    def list_schedules(self) -> Iterator[tuple[str, str]]:
        """Yield every job id with its schedule."""
        return self._scan(self._namespace.keys.schedules)

    def list_matching(self, pattern: str) -> Iterator[str]:
        r"""Yield the ids of the jobs that `pattern` matches: ``*``, ``?``, ``[…]``, with ``\`` before a literal one."""
        return (jobid for jobid, _ in self._scan(self._namespace.keys.schedules, pattern))

    def list_failures(self) -> Iterator[dict[str, Any]]:
        """Yield the failures that are kept, oldest first."""
        client, keys = self._namespace.client, self._namespace.keys
        with translate_errors():
            jobids = [decode(jobid) for jobid in client.zrange(keys.failure_times, 0, -1)]
            for page in range(0, len(jobids), PAGE):
                for kept in client.hmget(keys.failures, jobids[page : page + PAGE]):
                    failure = _parse_failure(decode(kept))
                    if failure is not None:
                        yield failure

    def _scan(self, key: str, pattern: str | None = None) -> Iterator[tuple[str, str]]:
        client, seen = self._namespace.client, set[bytes]()
        may_move = is_in_cluster(client)
        with translate_errors():
            for _ in range(MOVES):
                # The cursor of one server means nothing to another: begin again there, without what was yielded.
                with suppress(*MOVING), hold_connection(client, key) as held:
                    for name, value in held.hscan_iter(key, match=pattern, count=PAGE):
                        if name not in seen:
                            yield decode(name), decode(value)
                        if may_move:
                            seen.add(name)
                    return
        raise Unreachable(ON_THE_MOVE)


def _read_job(jobid: str, queues: Sequence[str], reply: Reply) -> JobState:
    found = read_json(reply[1])
    streak, failure = found.get("streak", ""), found.get("failure", "")
    kept = _parse_failure(failure)
    counts = dict(zip(map(str, Skip), (count or "0" for count in found["skipped"]), strict=True))
    unreadable: list[str] = [reason for reason, count in counts.items() if not COUNT.fullmatch(count)]
    unreadable += ["streak"] if streak and not STREAK.fullmatch(streak) else []
    unreadable += ["failure"] if failure and kept is None else []
    unreadable += ["pause"] if "pause" in found and Pause.parse(found["pause"]) is None else []
    unreadable += [] if is_readable(found.get("options", "")) else ["options"]
    return JobState(
        jobid=jobid,
        schedule=found.get("schedule"),
        status=found.get("status"),
        timeline=parse_number(found.get("timeline")),
        queued=found.get("queued", ""),
        running=found.get("running", ""),
        tag=found.get("tag", ""),
        lease=parse_number(found.get("lease")),
        inflight_ms=int(found.get("hold", -2)),
        streak="" if "streak" in unreadable else streak,
        skipped={reason: int(count) for reason, count in counts.items() if reason not in unreadable and int(count)},
        failure=kept,
        now=float(found["now"]),
        entries=dict(zip(queues, found["entries"] or (), strict=True)),
        tombstones=frozenset(name for name, dead in zip(queues, found["dead"] or (), strict=True) if dead),
        unreadable=tuple(unreadable),
        paused=found.get("pause", ""),
        alarm=parse_number(found.get("alarm")),
        options="" if "options" in unreadable else found.get("options", ""),
        has_data=found["has_data"],
        data=found.get("data", ""),
        stored={name: found[name] for name in STORED if name in found},
    )


def _read_tag(tag: str, reply: Reply) -> TagState:
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


def _parse_failure(kept: str) -> dict[str, Any] | None:
    """Return what is kept of a failure, None if nothing is, or if it is damaged."""
    try:
        found = json.loads(kept)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
