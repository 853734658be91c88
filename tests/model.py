"""A plain model of what the transitions do to jobs, written from the specification and not from the scripts.

A job is a record of where it is, a batch the runs that were taken together under one tag. Nothing here knows of keys,
scripts or Redis.

An end is modelled twice: `Model.end` is one request, which is refused when something was set during the run, and
`Model.conclude` is what it comes to in the end, when whoever asks goes on until it is not refused any more.
"""

import json
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

JUST_BEFORE = 1e-6  # seconds before an instant, from where a schedule goes on with that
MOST_LOSSES = 3  # in a row
PAUSE = 2.0  # seconds until a job without a queue is tried again
SLACK = 1.0  # seconds by which a lease may be too long


@dataclass(frozen=True)
class Tries:
    """What is known of an occurrence that was tried already."""

    failures: int = 0  # in a row
    losses: int = 0  # in a row
    tries: int = 0
    due: float | None = None  # None: the one that is waited for
    after: float | None = None  # after when the schedule goes on; None: after `due`
    alone: bool = False  # it is not taken with others
    failed: int = 0  # occurrences in a row

    @property
    def has_begun(self) -> bool:
        """Whether the occurrence may have begun before."""
        return self.tries > 0 or self.alone


@dataclass
class Flight:
    tag: str
    queue: str
    schedule: str  # when it was taken
    start: float
    deadline: float
    due: float
    failures: int
    losses: int
    tries: int = 0  # of the same occurrence, before this one
    kept: int = 0  # so many of the runs of the job
    anew: str = ""  # "", "set" or "once": what was set during the run
    owed: float | None = None
    missed: float | None = None  # from when on a schedule is due that was set during the run
    cancelled: bool = False
    expires: float = 0.0  # the option of the job then
    begun: Tries = field(default_factory=Tries)  # of the job then

    @property
    def next(self) -> str:
        """What was set during the run, for its end."""
        if self.missed is not None:
            return f"from:{self.missed:.6f}"
        return self.anew or "-" if self.owed is None else f"due:{self.owed:.6f}"


@dataclass
class Batch:
    """Runs that were taken together."""

    taken: list[str]
    jobs: list[str]  # those that are still in flight
    lease: float
    is_held: bool = True  # by the key that expires at the last deadline


@dataclass(frozen=True)
class End:
    """How a run ended."""

    # next: `due` is computed from the schedule; due: whatever the schedule; else stop, die, unset
    place: str
    due: float | None = None
    why: str = ""  # "", "overrun" or "lost"
    tries: Tries | None = None  # of an occurrence that is tried again
    failure: tuple[float, int] | None = None
    retried: bool = False
    is_pause: bool = False  # `due` is meant as so many seconds from now
    missed: int = 0
    running: int = 0
    outcome: str | None = "ok"  # None: it had not begun
    output: str | None = None  # what it has printed, if that is kept
    failed_try: tuple[float, int] | None = None  # the failure that it is if it is not tried again


@dataclass
class QueueLimits:
    """What stands before a queue, or before all of them."""

    since: float | None = None  # when its pause began; None if it is not paused
    until: float = math.inf  # when it goes on by itself
    at_once: int | None = None
    rate: tuple[int, int] | None = None  # so many jobs in so many seconds
    full_at: float = 0.0  # when the bucket has all of its tokens
    last: tuple[float, float] | None = None  # the first and the last instant of the pause that ended last

    def list_pauses(self) -> Iterator[tuple[float, float, float]]:
        """When the pause that ended last began and ended, and its last instant; the same of the present one."""
        if self.last:
            yield *self.last, self.last[1]
        if self.since is not None:
            yield self.since, self.until, self.until - JUST_BEFORE

    def is_paused(self, now: float) -> bool:
        return self.since is not None and now < self.until


@dataclass
class Job:
    schedule: str | None = None
    status: str | None = None
    timeline: float | None = None
    queued: float | None = None
    queue: str = ""  # in which it waits
    flight: Flight | None = None
    tries: Tries = field(default_factory=Tries)
    failure: tuple[float, int] | None = None  # due time and number of the try
    skipped: dict[str, int] = field(default_factory=dict)
    paused: float | None = None  # since when
    until: float | None = None
    dark: bool = False  # whether that is the pause of a blackout
    own_end: float | None = None  # when its pause was to end before a blackout has lengthened it
    held: float | None = None  # in place of the timeline, or of a queue
    options: str = ""  # JSON
    data: str = ""
    membership: str = ""  # of whose rows it is
    output: str | None = None  # of the last run that has kept it
    expires_at: float | None = None  # a timer; what waited may have gone since

    @property
    def expires(self) -> float:
        """Seconds in which an occurrence must begin; 0 for no limit."""
        return self.option("expires", 0.0)

    def option(self, name: str, default: Any = None) -> Any:
        return json.loads(self.options or "{}").get(name, default)

    @property
    def kept(self) -> int:
        """How many of its runs."""
        return self.option("history", 10)

    @property
    def is_touchy(self) -> bool:
        """Whether it is not taken with others for its options."""
        return self.option("on-lost", "requeue") != "requeue"

    @property
    def left(self) -> str:
        """What was set during its run, as an end is told of it."""
        mark = "cancelled+" if self.flight.cancelled else ""
        waits = self.held is not None or (self.flight.next != "-" and self.timeline is not None)
        paused = "" if self.paused is None else f"+paused:{self.paused:.6f}"
        return mark + self.flight.next + ("+timeline" if waits else "") + paused

    def wait(self, due: float | None) -> None:
        """Wait for `due` on the timeline, or held; None: for nothing."""
        self.timeline, self.held = (due, None) if self.paused is None else (None, due)

    @property
    def runs_once(self) -> bool:
        return self.schedule.startswith(("NOW", "AT:"))

    def skip(self, reason: str, count: int = 1) -> None:
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count


def queue_of(jobid: str) -> str:
    return "work-" + jobid.rpartition(":")[2]


def next_of(schedule: str, after: float) -> float | None:
    """The first occurrence after `after`; None if there is none. EVERY is counted from the epoch here."""
    if schedule.startswith("EVERY:"):
        period = float(schedule.removeprefix("EVERY:").removesuffix("@0.0"))
        return (math.floor(after / period) + 1) * period
    if schedule.startswith("AT:"):
        instant = float(schedule.removeprefix("AT:"))
        return instant if instant > after else None
    return None


class Model:
    """Jobs by id, queues in which they wait in turn, and batches by tag.

    A job that is withdrawn leaves its entry in the queue as a tombstone, for when it is enqueued there again.
    """

    def __init__(self, timeouts: dict[str, float], lease: float, grace: float) -> None:
        self.timeouts, self.lease, self.grace = timeouts, lease, grace
        self.jobs: dict[str, Job] = {}
        self.queues: dict[str, list[str]] = {name: [] for name in timeouts}
        self.tombstones: dict[str, set[str]] = {name: set() for name in timeouts}
        self.batches: dict[str, Batch] = {}
        self.queue_limits: dict[str, QueueLimits] = {name: QueueLimits() for name in ("", *timeouts)}
        self.past: dict[str, list[tuple[float, str, int]]] = {}  # the runs of each job, the newest first
        self.counts: Counter[str] = Counter()  # of them, by outcome and queue
        self.told: Counter[tuple[str, str]] = Counter()  # of them, those that are to be told

    def job(self, jobid: str) -> Job:
        return self.jobs.setdefault(jobid, Job())

    # Entering and removing jobs

    def set(
        self,
        now: float,
        jobid: str,
        schedule: str,
        due: float | None,
        once: bool,
        mode: str = "replace",
        queue: str | None = None,
        options: str | None = None,
        data: str | None = None,
        new_jitter: bool = False,
        group: str | None = None,
        expires: float = 0.0,
        begins: bool = False,  # a run of CONTINUE begins whenever one has ended
    ) -> None:
        job = self.job(jobid)
        job.membership = job.membership if group is None else group
        new_jitter = new_jitter and options != job.options  # it may have them already
        has_other_data = data not in (None, job.data)
        job.options, job.data = job.options if options is None else options, job.data if data is None else data
        if job.queued is not None and options is not None and job.expires and expires:
            job.expires_at = job.queued + job.expires
        if mode == "keep_schedule" and job.schedule is not None:
            return
        somewhere = job.flight or any(place is not None for place in (job.queued, job.timeline, job.held))
        if mode in ("keep", "keep_place") and somewhere and job.schedule == schedule and not new_jitter:
            return
        waits_again = job.tries.due is not None and (job.timeline, job.held) != (None, None)
        same, job.schedule, job.tries = job.schedule == schedule, schedule, Tries()
        # One that waits elsewhere is set there.
        queue = job.queue if job.queued is not None else queue or queue_of(jobid)
        if job.flight:
            job.status = job.status or "WRK"
            self._set_in_flight(job, now, due, once, same, new_jitter, begins, has_other_data)
        elif (job.queued is not None or self._waited(job)) and due is not None and same:
            pass
        elif job.queued is not None and due is not None and due <= now:
            # It keeps its turn, but goes on from the first occurrence of its new schedule.
            job.queued = due
            job.expires_at = due + expires if expires else job.expires_at
            job.skip("withdrawn")
        else:
            is_late = job.timeline is not None and job.timeline <= now and (due is None or due > now)
            waits = self._waited(job) or (job.held is not None and job.held <= now) or waits_again
            if job.queued is None and (waits or is_late):
                job.skip("withdrawn")
            if job.queued is not None:
                self._bury(jobid)
                job.skip("withdrawn")
            self._put(now, jobid, due, queue, expires=expires)

    def _waited(self, job: Job) -> bool:
        """Whether what is held of a job has left a queue."""
        return job.held is not None and job.status == "ENQ"

    def _set_in_flight(
        self,
        job: Job,
        now: float,
        due: float | None,
        once: bool,
        same: bool,
        new_jitter: bool,
        begins: bool,
        has_other_data: bool,
    ) -> None:
        flight, is_past = job.flight, due is not None and due <= now
        at_once, before = is_past and once, (flight.missed, flight.owed)
        if at_once and job.paused is None and same and (has_other_data or flight.missed is not None):
            # It is no further try of what runs.
            flight.owed, flight.missed, flight.anew, job.timeline = None, due, "", None
            return
        if at_once and job.paused is None:
            flight.owed, flight.missed, flight.anew, job.timeline = due, None, "", None
        elif is_past and not (once or same or begins):
            flight.owed, flight.missed, flight.anew = None, due, ""
            job.wait(None)
        elif due is None or not same or at_once or new_jitter:
            later = due is not None and (due > now or at_once)
            flight.owed = flight.missed = None
            flight.anew = "once" if once and later else "set"
            job.wait(due if later else None)
        else:
            return
        missed, owed = before
        if missed is not None or (owed is not None and not (at_once and job.paused is None)):
            job.skip("withdrawn")

    def _put(
        self,
        now: float,
        jobid: str,
        due: float | None,
        queue: str,
        occurrence: float | None = None,
        asked: bool = False,
        expires: float = 0.0,
    ) -> str:
        """Put a job where it belongs if it is due at `due`; an `occurrence` that is tried again keeps its due time.

        In a queue it `expires` so many seconds after that.

        A paused job is held, unless somebody has `asked` for the run.
        """
        job = self.job(jobid)
        job.wait(None)
        if due is None:
            job.status = "STP"
            return "stopped"
        if job.paused is not None and (due > now or not asked):
            job.held, job.status = due, "TML"
            return "held"
        if due > now:
            job.timeline, job.status = due, "TML"
            return "timeline"
        job.queued, job.queue, job.status = due if occurrence is None else occurrence, queue, "ENQ"
        job.expires_at = job.queued + expires if expires else job.expires_at
        if jobid in self.tombstones[queue]:
            self.tombstones[queue].remove(jobid)
        else:
            self.queues[queue].append(jobid)
        return "queue"

    def _bury(self, jobid: str) -> None:
        job = self.job(jobid)
        self.tombstones[job.queue].add(jobid)
        job.queued = None

    def unset(self, jobid: str) -> bool:
        job = self.jobs.get(jobid, Job())
        if job.schedule is None and job.status is None:
            return False
        if job.queued is not None:
            self._bury(jobid)
        del self.jobs[jobid]
        self.past.pop(jobid, None)
        if flight := job.flight:
            flight.anew, flight.owed, flight.missed = "", None, None
            self.jobs[jobid] = Job(flight=flight)
        return True

    def own(self, jobid: str, membership: str) -> None:
        job = self.job(jobid)
        if job.schedule is not None or not membership:
            job.membership = membership

    def unset_row(self, jobid: str, group: str) -> bool:
        """Whether it is gone: one that is a row of another group stays."""
        job = self.job(jobid)
        is_there = job.schedule is not None or job.status is not None
        if is_there and job.membership.partition("\n")[0] != group:
            return False
        self.unset(jobid)
        return True

    def run(self, now: float, jobid: str) -> bool:
        job = self.job(jobid)
        if job.schedule is None:
            return False
        waited = job.timeline if job.held is None else job.held
        paused, failure = job.held is not None, job.failure
        job.timeline = job.held = job.failure = None
        before, tried = job.tries, job.tries.tries or job.tries.due is not None or job.tries.after is not None
        job.tries = replace(before, failures=0, losses=0, alone=False) if tried else Tries()
        if job.flight:
            if job.flight.missed is not None:
                job.skip("withdrawn")
            job.flight.owed, job.flight.missed, job.flight.anew = now, None, ""
        elif job.queued is None:
            moment = self._asked(job, now, waited, failure, paused)
            self._put(now, jobid, moment, queue_of(jobid), asked=True)
            if job.expires and not job.tries.tries:
                job.expires_at = now + job.expires
                job.tries = replace(job.tries, after=moment if job.tries.after is None else job.tries.after)
        elif job.expires and not job.tries.tries:
            job.expires_at = now + job.expires
            job.tries = replace(job.tries, after=job.queued if job.tries.after is None else job.tries.after)
        return True

    def pause(self, now: float, jobid: str, until: float | None) -> str:
        job = self.job(jobid)
        if job.schedule is None:
            return "missing"
        if job.paused is not None:
            if not job.dark or job.until is None or (until is not None and until <= job.until):
                return "unchanged"
            job.until, job.dark, job.own_end = until, False, None
            return "paused" if job.held is None else "held"
        job.dark, job.held = False, job.timeline if job.queued is None else job.queued
        if job.queued is not None:
            self._bury(jobid)
        job.paused, job.until, job.own_end, job.timeline = now, until, None, None
        return "paused" if job.held is None else "held"

    def begin(self, now: float, jobid: str, until: float) -> str:
        """A blackout begins that ends at `until`: a pause that ends earlier goes on until then.

        That of another blackout ends with this one, and one that another has lengthened with the later of both.
        """
        job = self.job(jobid)
        if job.paused is None:
            word = self.pause(now, jobid, until)
            job.dark = True
            return word
        if job.until is None:
            return "unchanged"
        before, job.until = job.until, until
        if not job.dark:
            own = before if job.own_end is None else job.own_end
            job.until = max(until, own)
            job.own_end = own if until > own else None
        return "unchanged" if job.until == before else "extended" if job.until > before else "shortened"

    def resume(self, now: float, jobid: str) -> None:
        """End a pause. Of what came due meanwhile and is not late, the first is run and the others are counted."""
        job = self.job(jobid)
        due, since = job.held, job.paused
        # A pause that ends by itself ends before that time, whenever somebody sees it.
        last = now if job.until is None or job.until > now else job.until - JUST_BEFORE
        was_queued, until = self._waited(job), job.until
        job.paused = job.until = job.held = None
        if since is None or due is None:
            return
        if job.flight:
            if due > now:
                job.timeline = due
            elif job.flight.anew == "once":
                job.flight.owed, job.flight.anew = due, ""
            return
        missed = paused = 0
        recurs = not job.runs_once and job.schedule != "CONTINUE"
        tried = job.tries.due is not None
        if not (was_queued or tried or job.tries.after is not None or job.tries.alone or job.schedule == "CONTINUE"):
            held, due = due, self._pass_late(now, job, due)
            if due is None:
                job.tries = Tries(due=held, after=held) if job.runs_once else job.tries
                job.status, job.schedule = "STP", "STOP" if job.runs_once else job.schedule
                return
        elif self._is_expired(job, due if job.tries.due is None else job.tries.due, now):
            # What came due since the pause began is decided as if nothing had waited.
            job.paused, job.until, status = since, until, job.status
            self._drop(job, due if job.tries.due is None else job.tries.due, since)
            if job.held is None:
                job.paused = job.until = None
                return
            job.status = None
            self.resume(now, jobid)
            job.status = job.status or status
            return
        if recurs and (tried or due <= max(since, last)):
            goes_on = next(each for each in (job.tries.after, job.tries.due, due) if each is not None)
            goes_on = goes_on if tried or due <= since else due
            for moment in self._between(job.schedule, goes_on, now):
                missed, paused = missed + (moment <= since), paused + (moment > since)
        job.skip("missed", missed)
        job.skip("paused", paused)
        if missed or paused:
            job.tries = replace(job.tries, after=now)
        begins = due if job.tries.due is None else job.tries.due
        expires = 0.0 if job.tries.has_begun else job.expires
        self._put(now, jobid, due, queue_of(jobid), job.tries.due, expires=expires)
        if expires and job.queued is not None and job.tries.after == begins:
            job.expires_at = now + expires

    def _is_expired(self, job: Job, due: float, now: float) -> bool:
        """Whether an occurrence that has waited in a queue has not begun in time."""
        counts = job.expires and not job.tries.has_begun and job.tries.after != due and job.schedule != "CONTINUE"
        return bool(counts) and now > due + job.expires - JUST_BEFORE

    def _drop(self, job: Job, due: float, until: float) -> None:
        """Go on without an occurrence that has expired."""
        end, tries = self._after(job, job.schedule, due, until, until), Tries(failed=job.tries.failed)
        if end.due is None and (job.runs_once or job.tries.after == due):
            tries = replace(tries, due=due, after=due)
        self._go_on(job, end)
        job.tries = tries
        job.skip("expired")

    def expire(self, now: float) -> None:
        """Look at the jobs whose timers have come, and skip what has expired in its queue."""
        come = [(job.expires_at, jobid) for jobid, job in self.jobs.items() if (job.expires_at or math.inf) <= now]
        for at, jobid in sorted(come):
            job = self.job(jobid)
            due, job.expires_at = job.queued, None
            if due is None or not job.expires or job.tries.has_begun or job.schedule == "CONTINUE":
                continue
            expiry = at if job.tries.after == due else due + job.expires
            if now < expiry - JUST_BEFORE:
                job.expires_at = expiry
                continue
            if self.queues[job.queue][0] == jobid:
                self.queues[job.queue].pop(0)
            else:
                self.tombstones[job.queue].add(jobid)
            job.queued = None
            self._drop(job, due, now if job.paused is None else job.paused)

    def _pass_late(self, now: float, job: Job, due: float | None) -> float | None:
        """Count the occurrences from `due` on that are late by more than their grace, or have expired; the next one."""
        bound = min(job.option("grace", math.inf), job.expires or math.inf)
        while due is not None and now - due > bound:
            job.skip("expired" if job.expires else "late")
            due = next_of(job.schedule, due)
        return due

    def _between(self, schedule: str, after: float, until: float) -> Iterator[float]:
        due = next_of(schedule, after)
        while due is not None and due <= until:
            yield due
            due = next_of(schedule, due)

    def ring(self, now: float) -> None:
        """End the pauses that are over."""
        over = [(job.until, jobid) for jobid, job in self.jobs.items() if (job.until or math.inf) <= now]
        for _, jobid in sorted(over):
            self.resume(now, jobid)

    def cancel(self, now: float, jobid: str) -> str:
        """Drop the occurrence that waits, is overdue, is to be tried again or runs; the schedule goes on."""
        job = self.job(jobid)
        if job.schedule is None:
            return "missing"
        if job.flight:
            if job.flight.cancelled:
                return "unchanged"
            job.flight.cancelled = True
        else:
            waits = job.timeline if job.paused is None else job.held
            tried = waits if waits is None or job.tries.due is None else job.tries.due
            due = job.queued if job.queued is not None else tried
            if due is None or (job.queued is None and job.tries.due is None and due > now):
                return "idle"
            # What came due since the job was paused is for whoever resumes it.
            until = now if job.paused is None else job.paused
            end = self._after(job, job.schedule, due, until, until)
            paused = 0 if end.is_pause else self._count_paused(jobid, due, until)
            end = replace(end, due=now) if end.is_pause else replace(end, missed=end.missed - paused)
            job.skip("paused", paused)
            if job.queued is not None:
                self._bury(jobid)
            self._go_on(job, end)
        job.skip("cancelled")
        return "cancelled"

    def _count_paused(self, jobid: str, due: float, until: float) -> int:
        """How many came due after an occurrence of a job while its queue was paused, or everything."""
        job = self.job(jobid)
        names = [job.queue if job.queued is not None else queue_of(jobid), ""]
        pauses = [each for name in names for each in self.queue_limits[name].list_pauses()]
        if not pauses:
            return 0
        # Of two that end together, the one that began first.
        since, _, last = max(pauses, key=lambda pause: (pause[1], -pause[0]))
        after = due if job.tries.after is None else job.tries.after
        return len(list(self._between(job.schedule, max(after, since), min(until, last))))

    def _go_on(self, job: Job, end: End) -> None:
        job.skip("missed", end.missed)
        job.tries = Tries()
        job.wait(end.due)
        job.status = "STP" if end.due is None else "TML"
        if end.due is None and job.runs_once:
            job.schedule = "STOP"

    def _after(self, job: Job, schedule: str, due: float, now: float, began: float) -> End:
        """Where the schedule goes on behind an occurrence, and what is passed over until then."""
        if schedule == "CONTINUE":
            return End("next", now, is_pause=True, retried=True)
        found, missed, running = next_of(schedule, due if job.tries.after is None else job.tries.after), 0, 0
        while found is not None and found <= now:
            missed, running = missed + (found <= began), running + (found > began)
            found = next_of(schedule, found)
        return End("next", found, missed=missed, running=running, retried=True)

    def _asked(
        self, job: Job, now: float, waited: float | None, failure: tuple[float, int] | None, paused: bool
    ) -> float:
        """For which due time a job is run that was asked for."""
        goes_on = None if waited is None else waited - JUST_BEFORE
        if job.tries.due is not None:
            return job.tries.due
        if failure:
            job.tries = Tries(tries=failure[1], due=failure[0], after=goes_on)
            return failure[0]
        if waited is not None and waited < now:
            kept = job.tries if paused else Tries()
            job.tries = replace(kept, after=waited if kept.after is None else kept.after)
            return waited
        job.tries = Tries(after=now if goes_on is None else goes_on)
        return now

    # What the dispatcher does

    def dispatch(self, now: float, homeless: str | None = None) -> int:
        """Move what is due; the job `homeless` has no queue."""
        if self.queue_limits[""].is_paused(now):
            return 0
        due = sorted((job.timeline, jobid) for jobid, job in self.jobs.items() if (job.timeline or now + 1) <= now)
        moved = 0
        for moment, jobid in due:
            job = self.job(jobid)
            occurrence = moment if job.tries.due is None else job.tries.due
            expires = 0.0 if job.tries.has_begun else job.expires
            bound = min(job.option("grace", math.inf), expires or math.inf)
            if not job.flight and job.tries.due is None and now - moment > bound:
                continue
            if not job.flight and jobid == homeless:
                job.tries, job.timeline = replace(job.tries, due=occurrence), now + PAUSE
            elif not job.flight:
                self._put(now, jobid, occurrence, queue_of(jobid), expires=expires)
                moved += 1
            elif job.flight.anew == "once" or (job.flight.owed is None and job.option("overlap") == "queue"):
                job.flight.owed, job.flight.anew, job.timeline = moment, "", None
            else:
                job.timeline = None
                job.skip("running")
        return moved

    def skip(self, due: float, jobid: str, schedule: str, next_due: float | None, count: int, reason: str) -> bool:
        job = self.jobs.get(jobid, Job())
        if job.timeline != due or job.schedule != schedule or job.tries.due is not None:
            return False
        job.skip(reason, count)
        job.timeline = next_due
        if not job.flight:
            job.status = "STP" if next_due is None else "TML"
        return True

    def lost(self, now: float) -> list[tuple[str, str]]:
        """The runs whose worker is not heard of any more, as tag and job, those that were taken together in a row."""
        tags = sorted((batch.lease, tag) for tag, batch in self.batches.items() if batch.lease <= now)
        return [(tag, jobid) for _, tag in tags for jobid in self.batches[tag].jobs]

    def recover(self, now: float) -> None:
        """End the lost runs: which of several has killed the worker is not known, so it counts for none of them."""
        lost = self.lost(now)
        tags = [tag for tag, _ in lost]
        for tag, jobid in lost:
            job = self.job(jobid)
            flight, kept = job.flight, job.tries
            if tags.count(tag) > 1 and job.option("on-lost", "requeue") == "requeue":
                due = flight.due if kept.tries else None
                tries = Tries(flight.failures, flight.losses, kept.tries, due, kept.after, alone=True)
                end = End("due", flight.due, "lost", tries)
            elif flight.losses + 1 < MOST_LOSSES and job.option("on-lost") != "stop":
                tries = Tries(flight.failures, flight.losses + 1, kept.tries + 1, flight.due, kept.after)
                end = End("due", flight.due, "lost", tries, failed_try=(flight.due, kept.tries + 1))
            else:
                end = End("die", why="lost", failure=(flight.due, kept.tries + 1))
            # What it was taken with is not known any more.
            flight.schedule, flight.tries, flight.kept = job.schedule or "", kept.tries, job.kept
            flight.expires = job.expires
            self.conclude(now, jobid, tag, replace(end, outcome="lost"))

    # What a worker does

    def take(self, now: float, tag: str, turns: Iterable[str], most: int, strict: bool = False) -> list[str]:
        """Take up to `most` jobs; a tag that has some already is given these."""
        if tag in self.batches:
            return list(self.batches[tag].jobs)
        taken: list[str] = []
        seen = -1
        # If all that it has looked at is thrown away, it looks again.
        while not taken and seen:
            taken, seen = self._take_once(now, tag, list(turns), most, strict)
        if taken:
            last = max(self.job(jobid).flight.deadline for jobid in taken)
            self.batches[tag] = Batch(taken, list(taken), min(now + self.lease, last + self.grace))
        return list(taken)

    def _take_once(self, now: float, tag: str, turns: list[str], most: int, strict: bool) -> tuple[list[str], int]:
        taken: list[str] = []
        room = {name: self._room(now, name) for name in turns}
        looked = list(self._line_up(turns, room, strict))
        for name, jobid in looked:
            job = self.job(jobid)
            alone = jobid not in self.tombstones[name] and (job.tries.alone or job.is_touchy)
            if len(taken) == most or (alone and taken):
                break
            self.queues[name].remove(jobid)
            if jobid in self.tombstones[name]:
                self.tombstones[name].remove(jobid)
            else:
                self._fly(now, tag, jobid)
                taken.append(jobid)
            if alone:
                break
        for jobid in taken:
            self._spend(now, self.job(jobid).flight.queue, 1)
        return taken, len(looked)

    def _room(self, now: float, name: str) -> int:
        """How many jobs of a queue may be taken."""
        limits, room = self.queue_limits[name], 1000
        if limits.is_paused(now) or self.queue_limits[""].is_paused(now):
            return 0
        if limits.at_once is not None:
            room = limits.at_once - len(self.flying(name))
        if limits.rate:
            lacks = self._lack(now, limits)
            room = min(room, math.floor((limits.rate[1] - lacks) * limits.rate[0] / limits.rate[1] + 1e-6))
        return max(0, room)

    def _spend(self, now: float, name: str, number: int) -> None:
        limits = self.queue_limits[name]
        if limits.rate:
            limits.full_at = round(now + self._lack(now, limits) + number * limits.rate[1] / limits.rate[0], 6)

    def _lack(self, now: float, limits: QueueLimits) -> float:
        return min(max(limits.full_at - now, 0.0), limits.rate[1])

    def flying(self, name: str) -> frozenset[str]:
        """The jobs in flight from a queue."""
        return frozenset(jobid for jobid, job in self.jobs.items() if job.flight and job.flight.queue == name)

    # What an operator does to queues; the name of all of them is ""

    def pause_queue(self, now: float, name: str, until: float | None) -> bool:
        if self.queue_limits[name].is_paused(now):
            return False
        self.queue_limits[name].since, self.queue_limits[name].until = now, math.inf if until is None else until
        return True

    def open(self, now: float, name: str, resume: bool) -> bool:
        limits = self.queue_limits[name]
        was_paused = limits.since is not None
        if was_paused and (resume or not limits.is_paused(now)):
            limits.last = limits.since, now if limits.is_paused(now) else limits.until - JUST_BEFORE
            limits.since, limits.until = None, math.inf
        return was_paused

    def limit(self, now: float, name: str, at_once: int | None, rate: tuple[int, int] | None) -> None:
        limits = self.queue_limits[name]
        limits.at_once, limits.rate = at_once, rate
        limits.full_at = min(limits.full_at, round(now + rate[1], 6)) if rate else 0.0

    def _line_up(self, turns: list[str], room: dict[str, int], strict: bool) -> Iterator[tuple[str, str]]:
        """The entries of queues in the order of their turns, the oldest first; a queue that has no more loses none."""
        waiting = {name: deque(self.queues[name][: room[name]]) for name in turns}
        for name in turns if strict else ():
            while waiting[name]:
                yield name, waiting[name].popleft()
        while any(waiting.values()):
            for name in turns:
                if waiting[name]:
                    yield name, waiting[name].popleft()

    def _fly(self, now: float, tag: str, jobid: str) -> None:
        job = self.job(jobid)
        deadline = now + job.option("timeout", self.timeouts[job.queue])
        counts = job.tries.failures, job.tries.losses, job.tries.tries, job.kept
        job.flight = Flight(tag, job.queue, job.schedule, now, deadline, job.queued, *counts)
        job.flight.expires, job.flight.begun = job.expires, job.tries
        job.queued, job.status = None, "WRK"

    def _land(self, jobid: str) -> None:
        job = self.job(jobid)
        batch = self.batches[job.flight.tag]
        batch.jobs.remove(jobid)
        if not batch.jobs:
            del self.batches[job.flight.tag]
        job.flight = None

    def _flight(self, jobid: str, tag: str) -> Flight | None:
        flight = self.jobs.get(jobid, Job()).flight
        return flight if flight and flight.tag == tag else None

    def release(self, now: float, jobids: list[str], tag: str) -> list[str]:
        """Give back what has not begun, in front of its queue and in its order."""
        return [self._release(now, jobid, tag) for jobid in reversed(jobids)][::-1]

    def _release(self, now: float, jobid: str, tag: str) -> str:
        flight, job = self._flight(jobid, tag), self.job(jobid)
        if flight is None:
            return "stale"
        if job.schedule is not None and (flight.next != "-" or flight.cancelled):
            return "kept"
        self._land(jobid)
        if job.schedule is None:
            del self.jobs[jobid]
            return "unset"
        job.status = "ENQ"
        if job.paused is not None and flight.start <= job.paused:
            job.held = flight.due
            return "held"
        job.queued, job.queue = flight.due, flight.queue
        if flight.expires and not flight.begun.has_begun:
            job.expires_at = (flight.start if flight.begun.after == flight.due else flight.due) + flight.expires
        self.queues[flight.queue].insert(0, jobid)
        self._spend(now, flight.queue, -1)
        return "queue"

    def heartbeat(self, now: float, runs: list[tuple[str, str]]) -> list[str]:
        """A sign of life for runs, each as tag and job: the tag lives until the last deadline of those that go on."""
        words, last = [], {}
        for tag, jobid in runs:
            flight = self._flight(jobid, tag)
            lives = flight is not None and now < flight.deadline
            going_on = "cancelled" if lives and flight.cancelled else "ok"
            words.append("stale" if flight is None else going_on if lives else "overrun")
            if lives:
                last[tag] = max(last.get(tag, 0.0), flight.deadline)
        for tag, deadline in last.items():
            self.batches[tag].lease = min(now + self.lease, deadline + self.grace)
        return words

    def hold(self, now: float, tag: str) -> None:
        """A tag has no more than its runs need: those with later deadlines may have ended."""
        batch = self.batches.get(tag)
        if batch:
            last = max(self.job(jobid).flight.deadline for jobid in batch.jobs)
            batch.is_held = batch.is_held and last > now
            if batch.lease > last + self.grace + SLACK:
                batch.lease = min(now + self.lease, last + self.grace)

    def end(
        self, now: float, tag: str, ended: list[tuple[str, str, End]], whole: bool = False
    ) -> list[tuple[str, str, str, str]]:
        """One request to end runs, each as its job, the schedule that it was computed from, and how it ended.

        For each run the word, the place or the schedule, what was left behind, and the options if that is told; as a
        `whole` all end, or none.
        """
        refused = [self._refusal(now, tag, *each) for each in ended]
        if whole and any(refusal and refusal[0] == "changed" for refusal in refused):
            return [refusal if refusal and refusal[0] == "changed" else ("kept", "", "-", "") for refusal in refused]
        return [
            refusal or ("ok", self._finish(now, jobid, end), "-", "")
            for refusal, (jobid, _, end) in zip(refused, ended, strict=True)
        ]

    def _refusal(self, now: float, tag: str, jobid: str, schedule: str, end: End) -> tuple[str, str, str, str] | None:
        flight = self._flight(jobid, tag)
        if flight is None:
            return "stale", "", "-", ""
        over = now >= flight.deadline
        if end.why == "" and over:
            return "overrun", "", "-", ""
        if (end.why == "overrun" and not over) or (end.why == "lost" and self.batches[tag].lease > now):
            return "alive", "", "-", ""
        job = self.job(jobid)
        if job.schedule is not None and (job.left != "-" or job.schedule != schedule):
            return "changed", job.schedule, job.left, job.options
        return None

    def conclude(self, now: float, jobid: str, tag: str, end: End, overrun: End | None = None) -> tuple[str, str]:
        """What an end comes to, as the word and the place: what was set during the run counts, not how that ended.

        A run that is over its time ends as `overrun` says.
        """
        flight, job = self._flight(jobid, tag), self.job(jobid)
        if flight and overrun and not end.why and now >= flight.deadline:
            end = overrun
        if flight and job.schedule is not None:
            why = end.why
            if flight.cancelled and (end.place in ("die", "due") or why):
                # It is the run that was cancelled, and not how it ended: it has not failed.
                after = self._after(job, flight.schedule, flight.due, now, flight.start)
                end = replace(after, why=why, outcome="cancelled", output=end.output)
            # What would be tried again is of the schedule before: if it is given up, it is a failure.
            given_up = replace(end, failure=end.failed_try or end.failure)
            if flight.missed is not None:
                end = replace(given_up, place="due", due=flight.missed, tries=Tries(), is_pause=False)
            elif flight.owed is not None:
                end = self._owed(job, end)
            elif job.held is not None or (flight.anew and job.timeline is not None):
                end = replace(given_up, place="stay", tries=None)
            elif job.paused is not None and not flight.anew and job.schedule == flight.schedule:
                end = self._paused(job, end)
            elif flight.anew:
                end = self._anew(job, given_up, now)
        word, place, *_ = self._refusal(now, tag, jobid, job.schedule, end) or ("ok", "")
        if word in ("ok", "changed"):
            # What has changed is what it was computed from just now.
            return "ok", self._finish(now, jobid, end)
        return word, place

    def _remember(self, jobid: str, flight: Flight, outcome: str | None) -> None:
        """Count a run, and keep it before the last ones of its job."""
        if outcome is not None:
            self.counts[f"runs:{outcome}:{flight.queue}"] += 1
            if flight.tag.endswith("+"):
                self.told[flight.tag, jobid] += 1
            run = (flight.due, outcome, 1 + flight.tries)
            self.past[jobid] = [run, *self.past.get(jobid, [])][: flight.kept]

    def _paused(self, job: Job, end: End) -> End:
        """What came due before the pause is counted, and what came due since is left to whoever ends the pause."""
        if end.place != "next" or end.is_pause:
            return end
        flight, after = job.flight, job.tries.after
        after = flight.due if after is None else after
        began = min(flight.start, job.paused)
        counted = list(self._between(job.schedule, after, job.paused))
        due = next_of(job.schedule, max(after, job.paused))
        missed = sum(moment <= began for moment in counted)
        return replace(end, due=due, missed=missed, running=len(counted) - missed)

    def _owed(self, job: Job, end: End) -> End:
        """The run that was asked for comes first; it is also the one that is to happen again."""
        flight = job.flight
        if end.place == "due" and end.tries and not (job.runs_once and job.schedule != flight.schedule):
            return replace(end, due=end.due if end.tries.due is None else end.tries.due, is_pause=False)
        goes_on = flight.due
        if end.place == "next":
            goes_on = None if end.due is None or end.is_pause else end.due - JUST_BEFORE
        if job.runs_once or job.schedule != flight.schedule:
            goes_on = None
        return replace(end, place="due", due=flight.owed, tries=Tries(after=goes_on), is_pause=False)

    def _anew(self, job: Job, end: End, now: float) -> End:
        """The schedule that was set has no occurrence before that; those during which this run went on are counted."""
        if job.schedule == "CONTINUE":
            return replace(end, place="next", due=now, tries=None, missed=0, running=0, is_pause=True)
        due, running = next_of(job.schedule, max(job.flight.due, job.flight.start)), 0
        while due is not None and due <= (now if job.paused is None else job.paused):
            due, running = next_of(job.schedule, due), running + 1
        return replace(end, place="next", due=due, tries=None, missed=0, running=running)

    def _finish(self, now: float, jobid: str, end: End) -> str:
        job, flight = self.job(jobid), self.job(jobid).flight
        self._land(jobid)
        self._remember(jobid, flight, end.outcome)
        if job.schedule is None or end.place == "unset":
            del self.jobs[jobid]
            self.past.pop(jobid, None)
            return "unset"
        job.skip("missed", end.missed)
        job.skip("running", end.running)
        # A run that had not begun has printed nothing.
        keeps = end.output is not None and end.outcome is not None and job.kept
        job.output = end.output if keeps else job.output
        if end.failure:
            job.failure = end.failure
        elif end.why == "" and not end.retried:
            job.failure = None
        job.tries = end.tries or Tries()
        if end.place == "stay":
            job.status = "TML"
            return "timeline" if job.paused is None else "held"
        if end.place in ("stop", "die") or end.due is None:
            job.schedule = "STOP" if end.place == "stop" or job.runs_once else job.schedule
            job.status = "DIE" if end.place == "die" else "STP"
            return "stopped"
        since = math.inf if job.paused is None else job.paused
        asked = end.place == "due" and flight.missed is None and max(flight.start, flight.owed or 0.0) > since
        expires = 0.0 if end.is_pause or job.tries.has_begun else flight.expires
        place = self._put(now, jobid, end.due, flight.queue, job.tries.due, asked)
        if expires and place == "queue":
            job.expires_at = end.due + expires
        return place
