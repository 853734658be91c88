"""The state of all jobs, in Redis: one method per transition.

A job is on the timeline, in a queue, in flight, or stopped; every method that moves it is one Lua script, so that no
instant exists at which a job is nowhere. Python computes *when* a job runs next; the scripts commit that only if
nothing changed meanwhile. `now` is given by tests alone: None means Redis' own clock, so hosts need not agree on time.
"""

import base64
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import redis

from redbike.errors import BadJobId, BadQueueName, RedbikeError
from redbike.keys import SKIPS, Keys, check_queue_name
from redbike.records import STREAK, Due, Entry, Outcome, Run, State, Streak, Survey, text
from redbike.scripts import Call, Reply, Scripts, translated
from redbike.texts import describe

AHEAD = 2.0  # seconds by which two readings of Redis' clock may differ
LEASE = 12.0  # seconds without a sign of life after which a worker counts as dead
GRACE = 2.0  # seconds after its deadline in which a live worker says itself that a run is over
PAGE = 500  # entries of a hash or a list that are asked for
STEP = 100  # jobs that one script sets or moves: nobody else is served meanwhile
LOOK = 4 * PAGE  # due jobs that a survey tells of
NEXT = 50  # jobs that are due next that it tells of
COUNT = re.compile(r"\d{1,18}", re.ASCII)

_PLACES = ("timeline", "queue", "stopped", "unset")  # where `end` may bring a job


def literal(pattern: str) -> str:
    """`pattern` for SCAN, with nothing in it that stands for something else."""
    return re.sub(r"([\[\]*?\\])", r"\\\1", pattern)


def new_tag() -> str:
    """A name for one request or run that no other will have."""
    return base64.urlsafe_b64encode(os.urandom(12)).decode()


def is_ahead(instant: float, now: float) -> bool:
    """Whether an instant in Redis is of a clock that was ahead of the one that says `now`: it is not to be believed."""
    return instant > now + AHEAD


def _moment(now: float | None) -> str:
    return "" if now is None else f"{now:.6f}"


def _decoded(value: bytes) -> list[Any]:
    """What a script has packed as JSON, for which the client needs a tenth of the time that many replies cost it."""
    return cast(list[Any], json.loads(text(value)))


def _pairs_of(flat: list[str]) -> list[tuple[str, str]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _how(outcome: Outcome) -> str:
    """How a run ended, for ``lua/end.lua``: "" for the usual, that the worker is done and the next time is known."""
    plain = outcome.place == "next" and not (outcome.why or outcome.streak or outcome.missed or outcome.overlapped)
    if plain and outcome.failure is None:
        return ""
    how = {name: getattr(outcome, name) for name in ("place", "why", "streak", "missed", "overlapped")}
    return json.dumps(how | {"failure": "" if outcome.failure is None else json.dumps(outcome.failure)})


def _when(entry: Entry) -> str:
    """When a job is due, and what else ``lua/set.lua`` must know of that."""
    moment = entry.due if entry.due == "now" else _moment(entry.due)
    if entry.anchor_span is not None:
        moment += f"@{entry.anchor_span[0]},{entry.anchor_span[1]}"
    return f"{moment}{'!' if entry.once else ''}{'=' * (entry.keeps + (entry.keeps and entry.rests))}"


def _number(value: bytes) -> float | None:
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
        self._skips = {name: f"{name}:" for name in SKIPS}

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
            elsewhere.update(_pairs_of(list(map(text, reply[1:]))))
        return [(entry, elsewhere[entry.jobid]) for entry in entries if entry.jobid in elsewhere] if elsewhere else []

    def _set_call(self, entries: Sequence[Entry], now: float | None, from_now: bool) -> Call:
        names, keys = self._queues(entry.queue for entry in entries)
        arguments: list[str] = [_moment(now), new_tag(), "1" if from_now else "", str(len(names)), *names]
        for entry in entries:
            arguments += (entry.jobid, entry.schedule, _when(entry), str(names[entry.queue]))
        return Call("set", [*self.keys.common, self.keys.requests, *keys], arguments)

    def _queues(self, found: Iterable[str]) -> tuple[dict[str, int], list[str]]:
        """The names of queues with their numbers, from 1, and the keys of each: its list and its tokens."""
        names = {name: number for number, name in enumerate(dict.fromkeys(found), 1)}
        return names, [key for name in names for key in (self.keys.queue(name), self.keys.wake(name))]

    def bad(self, jobid: str, now: float | None = None) -> None:
        """Leave the status ``BAD`` for a job that was never set."""
        self.scripts.run(Call("bad", self.keys.common, [_moment(now), jobid]))

    def unset(self, jobid: str) -> None:
        """Forget `jobid`; a run in flight completes. Raises `NoSuchJob` if there is nothing to forget."""

        def call(name: str) -> Call:
            keys = [*self.keys.common, self.keys.queue(name), self.keys.failures, self.keys.failure_times]
            return Call("unset", keys, [jobid, name, *self._skip_fields(jobid)])

        self._at_home(call, jobid)

    def requeue(self, jobid: str, now: float | None = None) -> None:
        """Run `jobid` once now, whatever its schedule, and forget its failure. Raises `NoSuchJob`."""
        name = self.queue_for(jobid)
        own = [self.keys.queue(name), self.keys.wake(name), self.keys.requests]
        keys = [*self.keys.common, *own, self.keys.failures, self.keys.failure_times]
        self.scripts.run(Call("requeue", keys, [_moment(now), jobid, name, new_tag()]))

    def _at_home(self, call: Callable[[str], Call], jobid: str) -> Reply:
        # Another worker class may have put the job into a queue of another name: then that one is declared instead.
        try:
            name = self.queue_for(jobid)
        except BadJobId:
            # An older version may have stored an id for which there is no queue: then any will do.
            name = "-"
        reply = self.scripts.run(call(name))
        while reply[0] == "elsewhere":
            reply = self.scripts.run(call(text(reply[1])))
        return reply

    # What the dispatcher does

    def survey(self, now: float | None = None) -> Survey:
        """What is due, `LOOK` jobs at most, and which runs are lost, `PAGE` at most."""
        return self.surveyed(self.scripts.run(self.survey_call(now)))

    def survey_call(self, now: float | None = None, passed_over: int = 0) -> Call:
        """`survey`, without the first `passed_over` due jobs, as a call for a `Conversation`; see `surveyed`."""
        keys = [*self.keys.common, self.keys.control, self.keys.dispatched]
        return Call("survey", keys, [_moment(now), str(LOOK), str(passed_over), str(PAGE), str(NEXT)])

    def surveyed(self, reply: Reply) -> Survey:
        """What a reply to `survey_call` says."""
        _, moment, control, dispatched, next_lease, due, coming, lost = reply
        return Survey(
            now=float(moment),
            control=text(control),
            dispatched=_number(dispatched),
            next_lease=_number(next_lease),
            due=_pairs_of(_decoded(due) if due else []),
            coming=_pairs_of(_decoded(coming) if coming else []),
            lost=list(self._lost_runs(zip(lost[::4], lost[1::4], lost[2::4], lost[3::4], strict=True))),
        )

    def _lost_runs(self, rows: Iterable[tuple[bytes, bytes, bytes, bytes]]) -> Iterator[Run]:
        for jobid, record, schedule, streak in rows:
            try:
                tag, start, deadline, due, failures, losses, _, queue = text(record).split(" ", 7)
                times = (float(due), tag, float(start), float(deadline))
                counts = (int(failures), int(losses))
            except ValueError:
                # None at all, or a damaged one, which is for fsck: the dispatcher must not fail because of it.
                continue
            kept = Streak.parse(text(streak))
            known = (text(jobid), *times, *counts, text(schedule), queue, self.keys.prefix)
            yield Run(*known, tries=kept.tries, after=kept.after)

    def dispatch(self, due: Sequence[tuple[str, str, str]], now: float | None = None) -> int:
        """Move jobs (id, due time, queue name; "" where it has none) to their queues, `STEP` in each step; how many."""
        steps = (due[first : first + STEP] for first in range(0, len(due), STEP))
        return sum(int(reply[1]) for reply in self.scripts.run_all(self.dispatch_call(step, now) for step in steps))

    def dispatch_call(self, due: Sequence[tuple[str, str, str]], now: float | None = None) -> Call:
        """`dispatch` as a call for a `Conversation`."""
        groups: dict[str, list[str]] = {}
        for jobid, score, name in due:
            groups.setdefault(name, []).extend((jobid, score))
        nowhere = groups.pop("", [])
        _, keys = self._queues(groups)
        arguments: list[str] = [_moment(now), str(len(groups))]
        for name, group in groups.items():
            arguments += (name, str(len(group) // 2))
        arguments.append(str(len(nowhere) // 2))
        for group in (*groups.values(), nowhere):
            arguments += group
        return Call("dispatch", [*self.keys.common, *keys], arguments)

    def skip(
        self, jobid: str, due: str, schedule: str, next_due: float | None, count: int, now: float | None = None
    ) -> bool:
        """Give up `count` past occurrences of a job on the timeline; False if it has moved on meanwhile."""
        arguments = (_moment(now), jobid, due, schedule, _moment(next_due), str(count))
        return bool(self.scripts.run(Call("skip", self.keys.common, arguments))[0] == "ok")

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
        self.scripts.run(Call("advance", [self.keys.dispatched], [_moment(until), "1" if ahead else ""]))

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
        keys = [*self.keys.common, self.keys.control, self.keys.inflight_base]
        again = "1" if repeated else ""
        arguments: list[str] = [_moment(now), tag, seen, str(LEASE), str(GRACE), again, str(most), str(len(queues))]
        for name, timeout in queues:
            keys += (self.keys.queue(name), self.keys.wake(name))
            arguments += (name, str(timeout))
        arguments += map(str, turns)
        return Call("take", keys, arguments)

    def taken(self, reply: Reply, tag: str) -> list[Run] | Literal["halted"]:
        """The runs in a reply to `take_call`; what was left to a further call counts as none here."""
        if reply[0] != "ok":
            return "halted" if reply[0] == "halted" else []
        start, received, prefix = float(reply[1]), time.monotonic(), self.keys.prefix
        flat, runs = _decoded(reply[2]), []
        for jobid, due, deadline, streak, queue, schedule in zip(*(flat[place::6] for place in range(6)), strict=True):
            times = (float(due), tag, start, float(deadline))
            run = Run(jobid, *times, 0, 0, schedule, queue, prefix, received)
            if streak != "0 0":
                kept = Streak.parse(streak)
                run.failures, run.losses, run.tries, run.after = kept.failures, kept.losses, kept.tries, kept.after
            runs.append(run)
        return runs

    def end(self, run: Run, outcome: Outcome, now: float | None = None, late: float = 0.0) -> tuple[str, str]:
        """End `run`; ``ok`` and the place, or another word, with the schedule if it changed: see ``lua/end.lua``.

        `late` is for how many seconds it has been over; it must have been in time then.
        """
        return self.ended(self.scripts.run(self.end_call([(run, outcome)], now, late)))[0]

    def end_call(self, ended: Sequence[tuple[Run, Outcome]], now: float | None = None, late: float = 0.0) -> Call:
        """`end` for runs that were taken together, as a call for `Scripts.run_all`; `ended` reads its reply."""
        names, keys = self._queues(run.queue for run, _ in ended)
        arguments = [_moment(now), ended[0][0].tag, str(late), str(self.failures_limit), str(len(names)), *names]
        for run, outcome in ended:
            due = outcome.due if isinstance(outcome.due, str) else _moment(outcome.due)
            arguments += (run.jobid, run.schedule, due, _how(outcome))
        own = [self.keys.inflight_base + run.jobid for run, _ in ended]
        return Call("end", [*self.keys.common, self.keys.failures, self.keys.failure_times, *keys, *own], arguments)

    def ended(self, reply: Reply) -> list[tuple[str, str]]:
        """For each run in a reply to `end_call`, what `end` returns."""
        schedules = iter(reply[2:])
        words = text(reply[1]).split(" ")
        return [
            ("ok", word) if word in _PLACES else (word, text(next(schedules)) if word == "changed" else "")
            for word in words
        ]

    def release(self, runs: Sequence[Run], now: float | None = None) -> list[str]:
        """Give back runs that were taken together and have not begun; the words of ``lua/release.lua``."""
        names, keys = self._queues(run.queue for run in runs)
        own = [self.keys.inflight_base + run.jobid for run in runs]
        arguments: list[str] = [_moment(now), runs[0].tag, str(len(names)), *names, *(run.jobid for run in runs)]
        reply = self.scripts.run(Call("release", [*self.keys.common, *keys, *own], arguments))
        return text(reply[1]).split(" ")

    def heartbeat(self, runs: Sequence[Run], now: float | None = None) -> list[str]:
        """Say that the worker of `runs` lives; ``ok``, ``overrun`` or ``stale`` for each."""
        arguments: list[str] = [_moment(now), str(LEASE), str(GRACE)]
        for run in runs:
            arguments += [run.jobid, run.tag]
        return [text(word) for word in self.scripts.run(Call("heartbeat", self.keys.common, arguments))[1:]]

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
        keys = [*self.keys.common, self.keys.control, self.keys.halt]
        self.scripts.run(Call("halt", keys, [_moment(now), signal]))

    def control(self) -> str:
        """The control signal with its time, or ""."""
        with translated():
            return text(self.client.get(self.keys.control))

    # Repairing

    def repair(self, pairs: Iterable[tuple[State, State]], now: float | None = None) -> list[bool]:
        """Bring jobs from how they were found to how they are wanted, each in one step, all in one round trip.

        False for one that has changed meanwhile. Both states of a job name the same queues in their `entries`. Of the
        wanted one, a streak, a failure and what cannot be read can only be gone, and skips be gone or have become more.
        """
        replies = self.scripts.run_all(self._repair_call(found, wanted, now) for found, wanted in pairs)
        return [bool(reply[0] == "ok") for reply in replies]

    def _repair_call(self, found: State, wanted: State, now: float | None) -> Call:
        home = wanted.queued.partition(" ")[2] if wanted.queued != found.queued else ""
        names, keys = self._queues(
            name
            for name, count in wanted.entries.items()
            if count != found.entries[name] or name == home or name in found.withdrawn - wanted.withdrawn
        )
        keys = [self.keys.inflight(found.jobid), self.keys.failures, self.keys.failure_times, *keys]
        arguments = [_moment(now), found.jobid, *found.seen, *_wanted(found, wanted), str(len(names))]
        for name in names:
            noted = (str(int(name in state.withdrawn)) for state in (found, wanted))
            arguments += (name, str(found.entries[name]), str(wanted.entries[name]), *noted)
        for reason, head in self._skips.items():
            if (difference := _difference(found, wanted, reason)) != "=":
                arguments += (head + found.jobid, difference)
        return Call("repair", [*self.keys.common, *keys], arguments)

    def forget_withdrawn(self, member: bytes) -> None:
        """Take `member` out of the notes of what was left behind in queues."""
        with translated():
            self.client.srem(self.keys.withdrawn, member)

    def know_queue(self, name: str) -> None:
        """Put `name` into the set of queues that were ever used."""
        with translated():
            self.client.sadd(self.keys.queues, name)

    def persist(self, key: str) -> None:
        """Let `key` not expire."""
        with translated():
            self.client.persist(key)

    # Looking

    def inspect(self, jobids: Iterable[str], queues: Mapping[str, Sequence[str]] | None = None) -> list[State]:
        """All that is kept of each of `jobids`, each at one instant, in one round trip.

        `queues` names, by job id, those in whose lists it is looked for too: that takes the longer the longer they are.
        """
        jobids, lists = list(jobids), queues or {}
        replies = self.scripts.run_all(self._inspect_call(jobid, lists.get(jobid, ())) for jobid in jobids)
        return [_state(jobid, lists.get(jobid, ()), reply) for jobid, reply in zip(jobids, replies, strict=True)]

    def _inspect_call(self, jobid: str, queues: Sequence[str]) -> Call:
        keys = [*self.keys.common, self.keys.inflight(jobid), self.keys.failures, *map(self.keys.queue, queues)]
        return Call("inspect", keys, [jobid, str(len(queues)), *queues, *self._skip_fields(jobid)])

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
                    failure = _failure(kept)
                    if failure is not None:
                        yield failure

    def flush(self) -> int:
        """Delete every key under the prefix and no other; returns how many there were."""
        with translated():
            keys: list[Any] = []
            for name in map(text, self.client.smembers(self.keys.queues)):
                keys += [self.keys.queue(name), self.keys.wake(name)]
            keys += self.client.scan_iter(match=f"{literal(self.keys.inflight_base)}*", count=PAGE)
            # The names of the queues after these: if this is interrupted, the next flush finds the others by them.
            keys += self.keys.fixed()
            return sum(int(self.client.unlink(*keys[page : page + PAGE])) for page in range(0, len(keys), PAGE))

    def _pairs(self, key: str) -> Iterator[tuple[str, str]]:
        with translated():
            for name, value in self.client.hscan_iter(key, count=PAGE):
                yield text(name), text(value)

    def _skip_fields(self, jobid: str) -> list[str]:
        return [head + jobid for head in self._skips.values()]


def _state(jobid: str, queues: Sequence[str], reply: Reply) -> State:
    schedule, status, timeline, queued, running, inflight = seen = tuple(map(text, reply[1:7]))
    lease, left, streak, skips, failure, now, entries, withdrawn = reply[7:]
    kept, counts = _failure(failure), dict(zip(SKIPS, map(text, skips), strict=True))
    unreadable = [reason for reason, count in counts.items() if not COUNT.fullmatch(count)]
    unreadable += ["streak"] if streak and not STREAK.fullmatch(text(streak)) else []
    unreadable += ["failure"] if failure and kept is None else []
    return State(
        jobid=jobid,
        schedule=schedule or None,
        status=status or None,
        timeline=float(timeline) if timeline else None,
        queued=queued,
        running=running,
        lease=_number(lease),
        inflight=inflight,
        inflight_ms=int(left),
        streak="" if "streak" in unreadable else text(streak),
        skipped={reason: int(count) for reason, count in counts.items() if reason not in unreadable and int(count)},
        failure=kept,
        now=float(now),
        entries=dict(zip(queues, map(int, entries), strict=True)),
        withdrawn=frozenset(name for name, left in zip(queues, withdrawn, strict=True) if left),
        unreadable=tuple(unreadable),
        seen=seen,
    )


def _wanted(found: State, wanted: State) -> Iterator[str]:
    """What ``lua/repair.lua`` is told of how a job is to be: "=" where it is so."""
    yield "=" if wanted.status == found.status else (wanted.status or "").partition(":")[0]
    yield "=" if wanted.timeline == found.timeline else _moment(wanted.timeline)
    yield "=" if wanted.queued == found.queued else wanted.queued
    yield "=" if wanted.running == found.running else wanted.running
    yield "=" if wanted.lease == found.lease else _moment(wanted.lease)
    hold = (wanted.inflight, wanted.inflight_ms)
    end = f"{wanted.inflight} {wanted.now * 1000 + wanted.inflight_ms:.0f}" if wanted.inflight else ""
    yield "=" if hold == (found.inflight, found.inflight_ms) else end
    yield "=" if wanted.streak == found.streak and "streak" not in found.unreadable else ""
    yield "=" if wanted.failure == found.failure and "failure" not in found.unreadable else ""


def _difference(found: State, wanted: State, reason: str) -> str:
    before, after = found.skipped.get(reason, 0), wanted.skipped.get(reason, 0)
    if reason in found.unreadable or after < before:
        return ""
    return "=" if after == before else str(after - before)


def _failure(kept: Any) -> dict[str, Any] | None:
    """What is kept of a failure, None if nothing is, or nothing that can be read."""
    try:
        found = json.loads(text(kept))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
