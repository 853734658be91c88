"""The state of all jobs, in Redis: one method per transition.

A job is on the timeline, in a queue, in flight, or stopped. A method that moves jobs sends Lua scripts, each of which
moves them in one step: so no instant exists at which a job is nowhere. Python computes *when* a job runs next. The
scripts commit that only if nothing changed meanwhile. Only tests give `now`: None means the clock of Redis, so hosts
need not agree on time.

Runs that are taken together have one tag, and so one lease. `redbike.state.keys` describes what is kept of them, and
``docs/scripts.rst`` how the scripts are written.
"""

import base64
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, cast

import redis

from redbike.errors import BadJobId, BadQueueName, RedbikeError
from redbike.state.keys import SKIPS, Keys, check_queue_name, is_queue_name
from redbike.state.records import STREAK, Answer, Due, Entry, Held, Outcome, Run, RunRecord, State, Streak, Survey, text
from redbike.state.scripts import Call, Reply, Scripts, name_wrong_key, translated
from redbike.texts import describe

AHEAD = 2.0  # seconds by which two readings of Redis' clock may differ
LEASE = 12.0  # seconds without a sign of life after which a worker counts as dead
GRACE = 2.0  # seconds after its deadline in which a live worker says itself that a run is over
SLACK = 1.0  # seconds by which what was made from a deadline may differ from it
PAGE = 500  # entries of a hash or a list that are asked for
STEP = 100  # jobs that one script sets or moves: nobody else is served meanwhile
LOOK = 4 * PAGE  # due jobs that a survey tells of
NEXT = 50  # jobs that are due next that it tells of
COUNT = re.compile(r"\d{1,18}", re.ASCII)

_PLACES = ("timeline", "queue", "stopped", "unset")  # where `end` may bring a job


def literal(pattern: str) -> str:
    """`pattern` for SCAN, with nothing in it that stands for something else."""
    return re.sub(r"([\[\]*?\\])", r"\\\1", pattern)


def jobs_of(batch: str) -> list[str]:
    """The jobs of a batch as it is kept."""
    return [jobid for jobid in batch.split("\n") if jobid]


def new_tag() -> str:
    """A name for one request or run that no other will have."""
    return base64.urlsafe_b64encode(os.urandom(12)).decode()


def is_ahead(instant: float, now: float) -> bool:
    """Whether an instant in Redis is of a clock that was ahead of the one that says `now`: it is not to be believed."""
    return instant > now + AHEAD


def _moment(moment: float | None) -> str:
    return "" if moment is None else f"{moment:.6f}"


# Bytes that are not UTF-8 are passed on as they are.
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def _decoded(value: bytes) -> Any:
    """What a script has packed as JSON, for which the client needs a tenth of the time that many replies cost it."""
    return json.loads(text(value))


def _pairs_of(flat: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _how(outcome: Outcome) -> dict[str, Any]:
    """How a run ended, for ``lua/end.lua``; nothing if the worker is done and the job goes where its schedule says."""
    how: dict[str, Any] = {}
    if outcome.place != "next":
        how["place"] = outcome.place
    if outcome.why:
        how["why"] = outcome.why
    if outcome.left != "-":
        how["left"] = outcome.left
    if outcome.streak:
        how["streak"] = outcome.streak
        if (tried := Streak.parse(outcome.streak).due) is not None:
            how["tried"] = _moment(tried)
    if outcome.failure is not None:
        how["failure"] = json.dumps(outcome.failure)
    if outcome.missed or outcome.overlapped:
        skipped = {"missed": outcome.missed, "running": outcome.overlapped}
        how["skipped"] = {reason: number for reason, number in skipped.items() if number}
    if outcome.retried:
        how["retried"] = True
    return how


def _to_set(entry: Entry, queue: int) -> dict[str, Any]:
    """A job for ``lua/set.lua``."""
    job: dict[str, Any] = {"id": entry.jobid, "schedule": entry.schedule, "queue": queue}
    if entry.due is not None:
        job["due"] = entry.due
    for name in ("once", "keeps", "rests"):
        if getattr(entry, name):
            job[name] = True
    if entry.anchor_span is not None:
        job["span"] = entry.anchor_span
    return job


def _number(value: str | None) -> float | None:
    return float(value) if value else None


class Store:
    """The jobs under one prefix. `queue_for` names the queue of a job id."""

    def __init__(
        self,
        client: "redis.Redis",
        prefix: str,
        queue_for: Callable[[str], str],
        failures_limit: int = 1000,
    ) -> None:
        self.client = client
        self.keys = Keys(prefix)
        self.scripts = Scripts(client)
        self.failures_limit = failures_limit
        self._queue_for = queue_for
        self._keys_with = lru_cache(1024)(self._keys_of)

    def queue_for(self, jobid: str) -> str:
        """The queue of `jobid`, checked; raises `BadQueueName`, or what Redbike's own `queue_for` raises."""
        try:
            name = self._queue_for(jobid)
        except RedbikeError:
            raise
        except Exception as error:
            raise BadQueueName(f"no queue for {jobid!r}: queue_for() raised {describe(error)}") from error
        try:
            return check_queue_name(name)
        except BadQueueName as error:
            raise BadQueueName(f"no queue for {jobid!r}: queue_for() gave a {error}") from None

    # Entering and removing jobs

    def set(self, jobid: str, schedule: str, due: Due, once: bool = False, now: float | None = None) -> None:
        """Enter `jobid` with its complete `schedule`, first due at `due`; None means that it does not run.

        `once` says that the run is owed if it comes due while an earlier one is in flight.
        """
        self.set_entry(Entry(jobid, schedule, due, once, self.queue_for(jobid)), now)

    def set_entry(self, entry: Entry, now: float | None = None) -> None:
        """Enter one job, also if it waits in another queue than its own."""
        while elsewhere := self.set_many([entry], now):
            entry.queue = elsewhere[0][1]

    def set_many(
        self, entries: Sequence[Entry], now: float | None = None, from_now: bool = False
    ) -> list[tuple[Entry, str]]:
        """Enter jobs, none of them twice, in one round trip, `STEP` in each step.

        Returns those that were left as they are, each with the queue in which it waits, which is not its own: another
        worker class may have put it there. With that queue in place of its own it can be set. If occurrences count
        `from_now`, those whose due time has passed meanwhile are left too, with "" for the queue.
        """
        steps = (entries[first : first + STEP] for first in range(0, len(entries), STEP))
        elsewhere: dict[str, str] = {}
        for reply in self.scripts.run_all(self._set_call(step, now, from_now) for step in steps):
            if len(reply) > 1:
                elsewhere.update(_pairs_of(list(map(text, reply[1:]))))
        return [(entry, elsewhere[entry.jobid]) for entry in entries if entry.jobid in elsewhere] if elsewhere else []

    def _set_call(self, entries: Sequence[Entry], now: float | None, from_now: bool) -> Call:
        names = _numbers(entry.queue for entry in entries)
        jobs = [_to_set(entry, names[entry.queue]) for entry in entries]
        return self._call("set", now, names, request=new_tag(), from_now=from_now, jobs=jobs)

    def _call(self, verb: str, now: float | None = None, queues: Iterable[str] = (), **given: Any) -> Call:
        """A script with what it is given, by name, and with the keys of `queues`."""
        if now is not None:
            given["now"] = now
        names = tuple(queues)
        if names:
            given["queues"] = names
        return Call(verb, self._keys_with(names), _encode(given))

    def _keys_of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return (*self.keys.given, *(key for name in names for key in self.keys.of_queue(name)))

    def bad(self, jobid: str, now: float | None = None) -> None:
        """Leave the status ``BAD`` for a job that was never set."""
        self.scripts.run(self._call("bad", now, job=jobid))

    def unset(self, jobid: str) -> None:
        """Forget `jobid`; a run in flight completes. Raises `NoSuchJob` if there is nothing to forget."""
        # Another worker class may have put the job into a queue of another name: then that one is declared instead.
        try:
            name = self.queue_for(jobid)
        except BadJobId:
            # An older version may have stored an id for which there is no queue: then any will do.
            name = "-"
        reply: Reply = ["elsewhere", name.encode()]
        while reply[0] == "elsewhere":
            queues = [text(reply[1])]
            reply = self.scripts.run(self._call("unset", None, queues, job=jobid, skips=_skip_fields(jobid)))

    def requeue(self, jobid: str, now: float | None = None) -> None:
        """Run `jobid` once now, whatever its schedule, and forget its failure. Raises `NoSuchJob`."""
        self.scripts.run(self._call("requeue", now, [self.queue_for(jobid)], job=jobid, request=new_tag()))

    # What the dispatcher does

    def survey(self, now: float | None = None) -> Survey:
        """What is due, `LOOK` jobs at most, and which runs are lost, `PAGE` at most."""
        return self.surveyed(self.scripts.run(self.survey_call(now)))

    def survey_call(self, now: float | None = None, passed_over: int = 0) -> Call:
        """`survey`, without the first `passed_over` due jobs, as a call for a `Pipeline`; see `surveyed`."""
        return self._call("survey", now, due=LOOK, passed_over=passed_over, lost=PAGE, coming=NEXT)

    def surveyed(self, reply: Reply) -> Survey:
        """What a reply to `survey_call` says."""
        told = _decoded(reply[1])
        lost: list[Run] = []
        strays: dict[str, list[str]] = {}
        old: list[str] = []
        # Lua has one kind of table: an empty one is an object.
        for held in told["lost"] or ():
            if not held["jobs"]:
                old.append(held["tag"])
                continue
            # By job: a damaged list may have one twice.
            rows = {row[0]: row for row in zip(*(held[name] for name in _OF_TAG), strict=True)}
            runs = [self._lost_run(*row) for row in rows.values()]
            found = [run for run in runs if run is not None and run.tag == held["tag"]]
            lost += found
            if len(found) < len(runs):
                strays[held["tag"]] = held["jobs"]
        return Survey(
            now=float(told["now"]),
            control=told.get("control", ""),
            dispatched=_number(told.get("dispatched")),
            next_lease=_number(told.get("next_lease")),
            due=_pairs_of(told["due"] or ()),
            coming=_pairs_of(told["coming"] or ()),
            lost=lost,
            strays=strays,
            old=old,
        )

    def _lost_run(self, jobid: str, record: str, schedule: str, streak: str) -> Run | None:
        # What is not there is False.
        found, kept = RunRecord.parse(record or ""), Streak.parse(streak or "")
        if found is None:
            return None
        times = (found.due, found.tag, found.start, found.deadline)
        known = (jobid, *times, found.failures, found.losses, schedule or "", found.queue, self.keys.prefix)
        return Run(*known, tries=kept.tries, after=kept.after)

    def dispatch(self, due: Sequence[tuple[str, str, str]], now: float | None = None) -> int:
        """Move jobs (id, due time, queue name; "" where it has none) to their queues, `STEP` in each step; how many."""
        steps = (due[first : first + STEP] for first in range(0, len(due), STEP))
        return sum(int(reply[1]) for reply in self.scripts.run_all(self.dispatch_call(step, now) for step in steps))

    def dispatch_call(self, due: Sequence[tuple[str, str, str]], now: float | None = None) -> Call:
        """`dispatch` as a call for a `Pipeline`."""
        names = _numbers(name for _, _, name in due if name)
        jobs, dues, homes = zip(*due, strict=True) if due else ((), (), ())
        return self._call("dispatch", now, names, jobs=jobs, dues=dues, homes=homes)

    def skip(
        self, jobid: str, due: str, schedule: str, next_due: float | None, count: int, now: float | None = None
    ) -> bool:
        """Give up `count` past occurrences of a job on the timeline; False if it has moved on meanwhile."""
        given: dict[str, Any] = {"job": jobid, "due": due, "schedule": schedule, "count": count}
        if next_due is not None:
            given["next"] = next_due
        return bool(self.scripts.run(self._call("skip", now, **given))[0] == "ok")

    def hold(self, tag: str, jobids: Iterable[str], now: float | None = None) -> None:
        """Make what is kept of a tag agree with the runs in flight under it, some of which `jobids` may be."""
        jobs = list(jobids)
        self.scripts.run(self._call("hold", now, tag=tag, jobs=jobs, lease=LEASE, grace=GRACE, slack=SLACK))

    def adopt(
        self,
        jobids: Sequence[str] = (),
        buried: Mapping[str, Sequence[str]] | None = None,
        now: float | None = None,
    ) -> None:
        """Keep as it is kept now what an older version has left: the runs of `jobids`, tombstones by queue."""
        buried = buried or {}
        self.scripts.run(self._call("adopt", now, buried, jobs=jobids, buried=list(buried.values())))

    def adopt_tombstones(self) -> None:
        """`adopt` all tombstones that an older version has left, but for those that name no job and queue."""
        found = [entry for _, entry in self.withdrawn() if entry]
        for first in range(0, len(found), PAGE):
            buried: dict[str, list[str]] = {}
            for jobid, name in found[first : first + PAGE]:
                buried.setdefault(name, []).append(jobid)
            self.adopt(buried=buried)

    def withdrawn(self) -> list[tuple[bytes, tuple[str, str] | None]]:
        """The tombstones of an older version, each as it is kept, and its job and queue; None if it names none."""
        with translated():
            members = cast(set[bytes], self._fetch(self.client.smembers, self.keys.withdrawn, "set"))
        return [(member, _withdrawn(text(member))) for member in members]

    def forget_withdrawn(self, member: bytes) -> None:
        """Remove one of `withdrawn`."""
        with translated():
            self.client.srem(self.keys.withdrawn, member)

    def missed(self, since: float, until: float) -> list[tuple[str, str]]:
        """The jobs on the timeline, with their due times as texts, due after `since` and by `until`."""
        with translated():
            bounds = (f"({since:.6f}", f"{until:.6f}")
            # As numbers: RESP3 has no other spelling.
            rows = self.client.zrange(self.keys.timeline, *bounds, byscore=True, withscores=True)
        return [(text(jobid), repr(due)) for jobid, due in cast(list[tuple[bytes, float]], rows)]

    def schedule(self, jobid: str) -> str | None:
        """The schedule of `jobid` as it is stored, or None."""
        with translated():
            stored = self.client.hget(self.keys.schedules, jobid)
        return None if stored is None else text(stored)

    def advance(self, until: float, ahead: bool = False) -> None:
        """Note that everything due by `until` was dispatched; never goes back, unless the clock was `ahead` before."""
        self.scripts.run(self._call("advance", until, ahead=ahead))

    def clock(self) -> float:
        """Redis' clock."""
        with translated():
            seconds, micros = self.client.time()
        return float(seconds + micros / 1e6)

    def horizon(self) -> tuple[float, float | None]:
        """Redis' clock, and the instant up to which a dispatcher has dispatched."""
        with translated():
            pipeline = self.client.pipeline(transaction=False)
            pipeline.time()
            pipeline.zscore(self.keys.dispatched, "until")
            (seconds, micros), dispatched = pipeline.execute()
        return seconds + micros / 1e6, dispatched

    # What a worker does

    def take(
        self,
        queues: Sequence[tuple[str, float]],
        tag: str,
        seen: str = "",
        repeated: bool = False,
        now: float | None = None,
    ) -> Run | Literal["empty", "halted"]:
        """Take the oldest job of the first of `queues` (name, timeout in seconds) that has one.

        `tag` names the run; repeating a request whose reply was lost, with `repeated`, gives the same run again.
        `seen` is the control signal that was there when the worker started, and does not concern it.
        """
        taken = self.take_many(queues, range(1, len(queues) + 1), tag, 1, seen, repeated, now)
        return taken if taken == "halted" else taken[0] if taken else "empty"

    def take_many(
        self,
        queues: Sequence[tuple[str, float]],
        turns: Sequence[int],
        tag: str,
        most: int,
        seen: str = "",
        repeated: bool = False,
        now: float | None = None,
    ) -> list[Run] | Literal["halted"]:
        """Take up to `most` jobs in one step, all under `tag`, in the order in which they are to be run.

        `turns` says by numbers from 1 which of `queues` is looked into first for each of them, over and over.
        """
        call = self.take_call(queues, turns, tag, most, seen, repeated, now)
        reply = self.scripts.run(call)
        while reply[0] == "again":
            reply = self.scripts.run(call)
        return self.taken(reply, tag)

    def take_call(
        self,
        queues: Sequence[tuple[str, float]],
        turns: Sequence[int],
        tag: str,
        most: int,
        seen: str = "",
        repeated: bool = False,
        now: float | None = None,
    ) -> Call:
        """`take_many` as a call for `Scripts.run_all`; `taken` reads its reply."""
        names, timeouts = [name for name, _ in queues], [timeout for _, timeout in queues]
        given = {"tag": tag, "seen": seen, "most": most, "repeated": repeated, "lease": LEASE, "grace": GRACE}
        return self._call("take", now, names, timeouts=timeouts, turns=list(turns), **given)

    def taken(self, reply: Reply, tag: str) -> list[Run] | Literal["halted"]:
        """The runs in a reply to `take_call`; what was left to a further call counts as none here."""
        if reply[0] != "ok":
            return "halted" if reply[0] == "halted" else []
        received, prefix = time.monotonic(), self.keys.prefix
        start, ends, streaks, jobids, dues, schedules, homes = _decoded(reply[1])
        began, runs = float(start), []
        deadlines = {name: float(deadline) for name, deadline in ends.items()}
        columns = (jobids, dues, homes if len(deadlines) > 1 else [*deadlines] * len(jobids), schedules)
        for jobid, due, home, schedule in zip(*columns, strict=True):
            run = Run(jobid, float(due), tag, began, deadlines[home], 0, 0, schedule, home, prefix, received)
            if jobid in streaks:
                kept = Streak.parse(streaks[jobid])
                run.failures, run.losses, run.tries, run.after = kept.failures, kept.losses, kept.tries, kept.after
            runs.append(run)
        return runs

    def end(self, run: Run, outcome: Outcome, now: float | None = None, late: float = 0.0) -> Answer:
        """End `run`. `late` is for how many seconds it has been over; it must have been in time then."""
        return self.ended(self.scripts.run(self.end_call([(run, outcome)], now, late)))[0]

    def end_call(
        self, ended: Sequence[tuple[Run, Outcome]], now: float | None = None, late: float = 0.0, whole: bool = False
    ) -> Call:
        """`end` for runs that were taken together, as a call for `Scripts.run_all`; `ended` reads its reply.

        If they are to end as a `whole`, none does for as long as the place of one must be computed again.
        """
        names = _numbers(run.queue for run, _ in ended)
        jobs, homes, schedules, dues, hows = [], [], [], [], {}
        for run, outcome in ended:
            jobs.append(run.jobid)
            if len(names) > 1:
                homes.append(run.queue)
            schedules.append(run.schedule)
            dues.append(outcome.due if isinstance(outcome.due, str) else _moment(outcome.due))
            if how := _how(outcome):
                hows[run.jobid] = how
        deadline = min(run.deadline for run, _ in ended)
        given = {"tag": ended[0][0].tag, "late": late, "most": self.failures_limit, "how": hows, "deadline": deadline}
        if whole:
            given["whole"] = True
        return self._call("end", now, names, jobs=jobs, homes=homes, schedules=schedules, dues=dues, **given)

    def ended(self, reply: Reply) -> list[Answer]:
        """For each run in a reply to `end_call`, what `end` returns."""
        changed = iter(reply[2:])
        return [
            Answer(word, text(next(changed)), text(next(changed)))
            if word == "changed"
            else Answer("kept")
            if reply[0] == "kept"
            else Answer("ok", word)
            if word in _PLACES
            else Answer(word)
            for word in text(reply[1]).split(" ")
        ]

    def release(self, runs: Sequence[Run], now: float | None = None) -> list[str]:
        """Give back runs that were taken together and have not begun; the words of ``lua/release.lua``."""
        names = _numbers(run.queue for run in runs)
        call = self._call("release", now, names, tag=runs[0].tag, jobs=[run.jobid for run in runs])
        return text(self.scripts.run(call)[1]).split(" ")

    def heartbeat(self, runs: Sequence[Run], now: float | None = None) -> list[str]:
        """Say that the worker of `runs` lives; ``ok``, ``overrun`` or ``stale`` for each."""
        jobs, tags = [run.jobid for run in runs], [run.tag for run in runs]
        call = self._call("heartbeat", now, jobs=jobs, tags=tags, lease=LEASE, grace=GRACE)
        return [text(word) for word in self.scripts.run(call)[1:]]

    # Control

    def halt(self, now: float | None = None) -> None:
        """Tell every dispatcher and worker that runs now to stop after its current job."""
        self._halt("HALT", now)

    def clear_control(self) -> None:
        """Take back a HALT for those that have not seen it yet."""
        with translated():
            self.client.delete(self.keys.control, self.keys.halt)

    def pass_halt_on(self) -> None:
        """Leave the token that woke this process to the next one."""
        self._halt("", None)

    def _halt(self, signal: str, now: float | None) -> None:
        self.scripts.run(self._call("halt", now, **({"signal": signal} if signal else {})))

    def control(self) -> str:
        """The control signal with its time, or ""."""
        with translated():
            return text(self._fetch(self.client.get, self.keys.control, "string"))

    def _fetch(self, command: Callable[[str], Any], key: str, kind: str) -> Any:
        """What a command replies for a key; an error for one of another type names it."""
        try:
            return command(key)
        except redis.ResponseError as error:
            raise name_wrong_key(self.client, [(key, kind)], error) from error

    # Repairing

    def repair(self, pairs: Iterable[tuple[State, State]], now: float | None = None) -> list[bool]:
        """Bring jobs from how they were found to how they are wanted, each in one step, all in one round trip.

        False for one that has changed meanwhile. Both states of a job name the same queues in their `entries`. Of the
        wanted one, a streak, a failure and what cannot be read can only be gone, and skips be gone or have become more.
        """
        replies = self.scripts.run_all(self._repair_call(found, wanted, now) for found, wanted in pairs)
        return [bool(reply[0] == "ok") for reply in replies]

    def _repair_call(self, found: State, wanted: State, now: float | None) -> Call:
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
        differences = ((reason, _difference(found, wanted, reason)) for reason in SKIPS)
        skips = {f"{reason}:{found.jobid}": difference for reason, difference in differences if difference is not None}
        given = {"entries": entries, "wanted": _wanted(found, wanted), "skips": skips}
        return self._call("repair", now, names, job=found.jobid, found=found.seen, **given)

    def held(self, tags: Mapping[str, Iterable[str]]) -> list[Held]:
        """What is kept of each of `tags`, each at one instant, in one round trip.

        The values are jobs that may be in flight under a tag, besides those that it lists.
        """
        calls = (self._call("held", tag=tag, jobs=list(jobids)) for tag, jobids in tags.items())
        return [_held(tag, reply) for tag, reply in zip(tags, self.scripts.run_all(calls), strict=True)]

    def know_queue(self, name: str) -> None:
        """Put `name` into the set of queues that were ever used."""
        with translated():
            self.client.sadd(self.keys.queues, name)

    def persist(self, key: str) -> None:
        """Let `key` not expire."""
        with translated():
            self.client.persist(key)

    # Looking

    def inspect(
        self,
        jobids: Iterable[str],
        queues: Mapping[str, Sequence[str]] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> list[State]:
        """All that is kept of each of `jobids`, each at one instant, in one round trip.

        `queues` names, by job id, those in whose lists it is looked for too: that takes the longer the longer they are.
        `tags` are those under which jobs may be in flight that have no record of that.
        """
        jobids, lists, tags = list(jobids), queues or {}, tags or {}
        replies = self.scripts.run_all(
            self._inspect_call(jobid, lists.get(jobid, ()), tags.get(jobid)) for jobid in jobids
        )
        return [_state(jobid, lists.get(jobid, ()), reply) for jobid, reply in zip(jobids, replies, strict=True)]

    def _inspect_call(self, jobid: str, queues: Sequence[str], tag: str | None) -> Call:
        given: dict[str, Any] = {"job": jobid, "skips": _skip_fields(jobid)}
        if tag is not None:
            given["tag"] = tag
        return self._call("inspect", None, queues, **given)

    def statuses(self) -> Iterator[tuple[str, str]]:
        """Every job id with its status as it is stored, streamed."""
        return self._pairs(self.keys.statuses)

    def schedules(self) -> Iterator[tuple[str, str]]:
        """Every job id with its schedule, streamed."""
        return self._pairs(self.keys.schedules)

    def failures(self) -> Iterator[dict[str, Any]]:
        """The failures that are kept, oldest first."""
        with translated():
            jobids = [text(jobid) for jobid in self.client.zrange(self.keys.failure_times, 0, -1)]
            for page in range(0, len(jobids), PAGE):
                for kept in self.client.hmget(self.keys.failures, jobids[page : page + PAGE]):
                    failure = _failure(text(kept))
                    if failure is not None:
                        yield failure

    def flush(self) -> int:
        """Delete every key under the prefix and no other; returns how many there were."""
        with translated():
            keys: list[Any] = []
            for name in map(text, self.client.smembers(self.keys.queues)):
                keys += self.keys.of_queue(name)
            keys += self.client.scan_iter(match=f"{literal(self.keys.inflight_base)}*", count=PAGE)
            # The names of the queues after these: if this is interrupted, the next flush finds the others by them.
            keys += self.keys.fixed()
            return sum(int(self.client.unlink(*keys[page : page + PAGE])) for page in range(0, len(keys), PAGE))

    def _pairs(self, key: str) -> Iterator[tuple[str, str]]:
        with translated():
            for name, value in self.client.hscan_iter(key, count=PAGE):
                yield text(name), text(value)


# What `lua/survey.lua` tells of each job of a lost tag.
_OF_TAG = ("jobs", "runs", "schedules", "streaks")


def _numbers(names: Iterable[str]) -> dict[str, int]:
    """The names of queues, each once, with the numbers by which scripts know them."""
    return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}


def _skip_fields(jobid: str) -> list[str]:
    return [f"{reason}:{jobid}" for reason in SKIPS]


def _state(jobid: str, queues: Sequence[str], reply: Reply) -> State:
    told = _decoded(reply[1])
    streak, failure = told.get("streak", ""), told.get("failure", "")
    kept, counts = (
        _failure(failure),
        {reason: count or "0" for reason, count in zip(SKIPS, told["skipped"], strict=True)},
    )
    unreadable = [reason for reason, count in counts.items() if not COUNT.fullmatch(count)]
    unreadable += ["streak"] if streak and not STREAK.fullmatch(streak) else []
    unreadable += ["failure"] if failure and kept is None else []
    return State(
        jobid=jobid,
        schedule=told.get("schedule"),
        status=told.get("status"),
        timeline=_number(told.get("timeline")),
        queued=told.get("queued", ""),
        running=told.get("running", ""),
        tag=told.get("tag", ""),
        lease=_number(told.get("lease")),
        inflight_ms=int(told.get("hold", -2)),
        streak="" if "streak" in unreadable else streak,
        skipped={reason: int(count) for reason, count in counts.items() if reason not in unreadable and int(count)},
        failure=kept,
        now=float(told["now"]),
        entries=dict(zip(queues, told["entries"] or (), strict=True)),
        tombstones=frozenset(name for name, dead in zip(queues, told["dead"] or (), strict=True) if dead),
        unreadable=tuple(unreadable),
        seen={name: told[name] for name in ("schedule", "status", "timeline", "queued", "running") if name in told},
    )


def _withdrawn(member: str) -> tuple[str, str] | None:
    jobid, _, name = member.partition("\n")
    return (jobid, name) if jobid and is_queue_name(name) else None


def _held(tag: str, reply: Reply) -> Held:
    told = _decoded(reply[1])
    records = {jobid: RunRecord.parse(record) for jobid, record in (told["runs"] or {}).items()}
    return Held(
        tag=tag,
        listed=jobs_of(told["listed"]) if "listed" in told else None,
        deadlines={jobid: record.deadline for jobid, record in records.items() if record},
        lease=_number(told.get("lease")),
        hold_ms=int(told["hold"]),
        kind=told["kind"],
        named=jobs_of(told.get("named", "")),
        now=float(told["now"]),
    )


def _wanted(found: State, wanted: State) -> dict[str, str | bool]:
    """What ``lua/repair.lua`` is to change of a job; False for what is to be gone."""
    changes: dict[str, str | bool] = {}
    if wanted.status != found.status:
        changes["status"] = (wanted.status or "").partition(":")[0] or False
    if wanted.timeline != found.timeline:
        changes["timeline"] = _moment(wanted.timeline) or False
    if wanted.queued != found.queued:
        changes["queued"] = wanted.queued or False
    if wanted.running != found.running:
        changes["running"] = wanted.running or False
    if wanted.streak != found.streak or "streak" in found.unreadable:
        changes["streak"] = False
    if wanted.failure != found.failure or "failure" in found.unreadable:
        changes["failure"] = False
    return changes


def _difference(found: State, wanted: State, reason: str) -> int | Literal[False] | None:
    """How many occurrences more are to be counted for `reason`; False if the count is to be gone, None to leave it."""
    before, after = found.skipped.get(reason, 0), wanted.skipped.get(reason, 0)
    if reason in found.unreadable or after < before:
        return False
    return None if after == before else after - before


def _failure(kept: str) -> dict[str, Any] | None:
    """What is kept of a failure, None if nothing is, or nothing that can be read."""
    try:
        found = json.loads(kept)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
