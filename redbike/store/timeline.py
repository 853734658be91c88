"""The transitions of the dispatcher: it surveys due jobs, and moves jobs from the timeline to queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redbike.schedule.moments import AWAITED
from redbike.schedule.parser import is_one_off
from redbike.store.enums import Skip
from redbike.store.keys import OWNER
from redbike.store.lease import CLOCKS_DIFFER
from redbike.store.namespace import PAGE, Namespace, Part, number_queues, read_json, read_time
from redbike.store.processes import ProcessRecord
from redbike.store.records import RetryState, RunRecord, Waiting, decode, encode, pair_up, parse_number
from redbike.store.run import Run
from redbike.store.scripts import Call, Reply

MOST_DUE = 4 * PAGE  # due jobs in a survey
MOST_TIMERS = 100  # timers whose time has come, in a survey
MOST_COMING = 50  # jobs that are due next, in a survey
MOST_FORGOTTEN = 50  # one-offs that are forgotten in one step
# The most seconds until a due job is tried again that has no queue, or whose command no worker has.
PUT_OFF = 20.0

DueJob = tuple[str, str, str]  # job id, due time as Redis spells it, name of the queue; "" if it has none

# The columns of ``lua/survey.lua`` for the jobs of a lost tag.
_COLUMNS = ("jobs", "runs", "schedules", "retry_states", "options")


@dataclass(frozen=True, slots=True)
class Survey:
    """What a dispatcher has to do. Times are epoch seconds by Redis' clock."""

    now: float
    control: str
    dispatched: float | None
    next_lease: float | None
    due: list[tuple[str, str]]  # job id and due time, the latter as Redis spells it
    coming: list[tuple[str, str]]  # the same for some of the jobs that are due next, in order
    lost: list[Run]  # runs that were taken together follow each other
    strays: dict[str, list[str]]  # by lost tag: jobs in its list that are not in flight under it
    timers: list[str]  # those whose time has come, see ``-timers`` in `redbike.store.keys`
    next_timer: float | None
    journal: int  # entries in the journal
    is_ripe: bool = False  # whether there is a one-off to forget

    @property
    def next_due(self) -> float | None:
        """The instant at which the next job is due; None if there is none."""
        return float(self.coming[0][1]) if self.coming else None


@dataclass(frozen=True, slots=True)
class Expiring:
    """A job in a queue whose expiry timer has come. Times are epoch seconds by Redis' clock."""

    jobid: str
    now: float
    at: float  # the time of the timer
    found: dict[str, str]  # its schedule, queued, retry_state and pause, those that exist, as Redis spells them
    options: str  # as they are stored

    @classmethod
    def read(cls, jobid: str, text: bytes) -> "Expiring":
        """Read the JSON in the reply of ``lua/expire.lua``."""
        told = read_json(text)
        return cls(jobid, float(told["now"]), float(told["at"]), told["found"] or {}, told.get("options", ""))

    @property
    def waiting(self) -> Waiting | None:
        """Its place in a queue; None for a damaged record."""
        return Waiting.parse(self.found["queued"])


@dataclass(frozen=True, slots=True)
class Expiration:
    """The next state of a job whose expiry timer has come: it stays in the queue, or its occurrence is skipped."""

    job: Expiring
    never: bool = False  # it stays, and does not expire
    at: float | None = None  # it stays, and expires at this time
    due: float | None = None  # the next due time if it is skipped; None: never
    retry_state: str = ""  # its new retry state
    skipped: Mapping[Skip, int] = field(default_factory=dict)  # how many occurrences are skipped, by reason


def is_ahead(instant: float, now: float) -> bool:
    """Tell whether `instant` comes from a clock that was ahead of the clock of `now`, and so is wrong."""
    return instant > now + CLOCKS_DIFFER


class Timeline(Part):
    """Surveys and dispatches due jobs."""

    def pack_survey(self, passed_over: int = 0) -> Call:
        """Return the call of a survey: `MOST_DUE` due jobs at most after the first `passed_over`, `PAGE` lost runs."""
        most: dict[str, Any] = {"due": MOST_DUE, "lost": PAGE, "coming": MOST_COMING, "timers": MOST_TIMERS}
        return self._namespace.pack("survey", passed_over=passed_over, **most)

    def read_survey(self, reply: Reply) -> Survey:
        """Return the survey from the reply to `pack_survey`."""
        found = read_json(reply[1])
        now, lost = float(found["now"]), list[Run]()
        strays: dict[str, list[str]] = {}
        # Lua has only one kind of table: an empty one becomes an object in JSON.
        for tag in found["lost"] or ():
            if not tag["jobs"]:
                strays[tag["tag"]] = []
                continue
            # By job: a damaged list may have a job twice.
            tag.setdefault("options", [False] * len(tag["jobs"]))
            rows = {row[0]: row for row in zip(*(tag[name] for name in _COLUMNS), strict=True)}
            read = (self._read_lost_run(*row) for row in rows.values())
            runs = [run for run in read if run and run.tag == tag["tag"]]
            process = ProcessRecord.parse(tag.get("worker", ""))
            for run in runs:
                run.received -= now - run.start
                run.worker = process.format_id(run.tag[:OWNER]) if process else ""
            lost += runs
            if len(runs) < len(rows):
                strays[tag["tag"]] = tag["jobs"]
        return Survey(
            now=now,
            control=found.get("control", ""),
            dispatched=parse_number(found.get("dispatched")),
            next_lease=parse_number(found.get("next_lease")),
            due=pair_up(found["due"] or ()),
            coming=[each for each in pair_up(found["coming"] or ()) if float(each[1]) < AWAITED],
            lost=lost,
            strays=strays,
            timers=found.get("timers") or [],
            next_timer=parse_number(found.get("next_timer")),
            journal=found["journal"],
            is_ripe=found["ripe"],
        )

    def _read_lost_run(self, jobid: str, record: str, schedule: str, retry_state: str, options: str) -> Run | None:
        # A missing record is False.
        found, kept = RunRecord.parse(record or ""), RetryState.parse(retry_state or "")
        if found is None:
            return None
        times = (found.due, found.tag, found.start, found.deadline)
        known = (jobid, *times, found.failures, found.losses, schedule or "", found.queue, self._namespace.keys.prefix)
        run = Run(*known, tries=kept.tries, after=kept.after, failed=kept.failed, options=options or "")
        run.take_own_due()
        return run

    def pack_dispatch(
        self,
        due: Sequence[DueJob],
        grace: float = 0.0,
        overlap: str = "skip",
        late_too: bool = False,
        expires: float = 0.0,
    ) -> Call:
        """Return the call that moves due jobs to their queues in one step. Jobs that are not due any more are skipped.

        `grace`, `overlap` and `expires` are the settings of these names, for jobs without such an option. Jobs that are
        late by more than their grace, or have expired, stay where they are, unless `late_too`.
        """
        numbers = number_queues(name for _, _, name in due if name)
        jobs, dues, homes = zip(*due, strict=True) if due else ((), (), ())
        own: dict[str, Any] = {"grace": grace, "expires": expires, "overlap": overlap if overlap != "skip" else ""}
        settings = {name: value for name, value in own.items() if value}
        given: dict[str, Any] = {"settings": settings} if settings else {}
        if late_too:
            given["late_too"] = True
        return self._namespace.pack("dispatch", numbers, jobs=jobs, dues=dues, homes=homes, **given)

    def read_dispatch(self, reply: Reply) -> int:
        """Return how many jobs were moved, from the reply to `pack_dispatch`."""
        return int(reply[1])

    def read_late(self, reply: Reply) -> list[tuple[str, str]]:
        """Return the jobs that were late or had expired, with due times as texts, from the reply to `pack_dispatch`."""
        return pair_up(list(map(decode, reply[2:])))

    def pack_skip(
        self,
        jobid: str,
        due: str,
        schedule: str,
        next_due: float | None,
        count: int,
        reason: Skip = Skip.MISSED,
    ) -> Call:
        """Return the call that skips `count` past occurrences of a job on the timeline, unless the job has moved."""
        given: dict[str, Any] = {"job": jobid, "due": due, "schedule": schedule, "count": count, "reason": reason}
        if next_due is not None:
            given["next"] = next_due
        elif is_one_off(schedule):
            given["spent"] = self._namespace.forget_after
        return self._namespace.pack("skip", **given)

    def read_expiring(self, jobids: Sequence[str]) -> list[Expiring]:
        """Return those of `jobids` that wait in a queue, and whose expiry timer has come."""
        replies = self._namespace.scripts.run_all([self._namespace.pack("expire", job=jobid) for jobid in jobids])
        told = ((jobid, reply[1]) for jobid, reply in zip(jobids, replies, strict=True) if reply[0] == "waits")
        return [Expiring.read(jobid, text) for jobid, text in told]

    def expire(self, expirations: Sequence[Expiration]) -> list[str]:
        """Skip expired occurrences, each in its own step; return a word of ``lua/expire.lua`` for each."""
        replies = self._namespace.scripts.run_all([self._pack_expire(each) for each in expirations])
        return [decode(reply[1]) if len(reply) > 1 else reply[0] for reply in replies]

    def _pack_expire(self, each: Expiration) -> Call:
        given: dict[str, Any] = {"job": each.job.jobid, "found": each.job.found, "skipped": each.skipped}
        if each.never or each.at is not None:
            given["at"] = False if each.never else each.at
        if each.due is not None:
            given["due"] = each.due
        elif is_one_off(each.job.found.get("schedule", "")):
            given["spent"] = self._namespace.forget_after
        if each.retry_state:
            given["retry_state"] = each.retry_state
        waiting = each.job.waiting
        return self._namespace.pack("expire", [waiting.queue] if waiting else [], **given)

    def forget(self) -> tuple[int, bool]:
        """Forget some one-offs that have ended long enough ago; return how many, and whether there may be more."""
        reply = self._namespace.run("forget", most=MOST_FORGOTTEN)
        return int(reply[2]), int(reply[1]) == MOST_FORGOTTEN

    def list_between(self, since: float, until: float) -> list[tuple[str, str]]:
        """Return the jobs that are due after `since` and by `until`, with their due times as texts."""
        bounds, span = (f"({since:.6f}", f"{until:.6f}"), {"byscore": True, "withscores": True}
        # As numbers: RESP3 has no other spelling.
        rows = self._namespace.ask("zrange", self._namespace.keys.timeline, *bounds, **span)
        return [(decode(jobid), repr(due)) for jobid, due in rows]

    def list_soonest(self, number: int) -> list[str]:
        """Return the ids of the `number` jobs that are due first, without followers that wait for their parents."""
        span, bounds = {"byscore": True, "offset": 0, "num": number}, ("-inf", f"({AWAITED:.0f}")
        return list(map(decode, self._namespace.ask("zrange", self._namespace.keys.timeline, *bounds, **span)))

    def advance(
        self,
        until: float,
        was_ahead: bool = False,
        known: float | None = None,
        owner: str = "",
        mine: float | None = None,
        ended: bool = False,
    ) -> tuple[str, str] | None:
        """Store that all jobs due by `until` were dispatched. The stored instant goes back only if a clock `was_ahead`.

        The script notes a rewind, and this returns its field and record, if a clock was ahead by much, or if the server
        has lost an instant: the one it has is before `known`, or the one it has of the dispatcher `owner` is before
        `mine`, which that has stored last. A dispatcher that has `ended` leaves no instant of its own.
        """
        given: dict[str, Any] = {"known": known, "owner": owner or None, "mine": mine, "ended": ended or None}
        given = {name: value for name, value in given.items() if value is not None}
        reply = self._namespace.run("advance", instant=until, ahead=was_ahead, **given)
        return (decode(reply[1]), decode(reply[2])) if len(reply) > 1 else None

    def read_clock(self) -> float:
        """Return Redis' clock in epoch seconds; if the store has a clock of its own, the time of that."""
        return self._namespace.read_clock()

    def read_dispatched(self) -> tuple[float, float | None]:
        """Return the time of `read_clock`, and until when all was dispatched; None if there was no dispatcher yet."""
        asked = ("time",), ("zscore", self._namespace.keys.dispatched, "until")
        clock, dispatched = self._namespace.ask_all(*asked, at_once=False)
        now = self._namespace.now
        return read_time(clock) if now is None else now, dispatched


def find_put_off(namespace: Namespace, dues: Mapping[str, float | None], now: float) -> dict[str, float]:
    """Return the due times of those jobs that were put off. `dues` has the instants of jobs on the timeline.

    A job is put off if nobody could name its queue, or if no worker has its command. Its instant is its next try.
    """
    jobids = [jobid for jobid, due in dues.items() if due is not None and now < due <= now + PUT_OFF]
    if not jobids:
        return {}
    texts = namespace.ask("hmget", namespace.keys.retry_states, list(map(encode, jobids)))
    found = zip(jobids, (RetryState.parse(decode(text)) for text in texts), strict=True)
    return {jobid: tried.due for jobid, tried in found if tried.due is not None and not tried.has_begun}
