"""A plain model of what the transitions do to jobs, written from the specification and not from the scripts.

A job is a record of where it is. Nothing here knows of keys, scripts or Redis.
"""

from dataclasses import dataclass, field, replace

JUST_BEFORE = 1e-6  # seconds before an instant, from where a schedule goes on with that


@dataclass
class Flight:
    tag: str
    due: float
    deadline: float
    lease: float
    anew: str = ""  # "", "set" or "once": what was set during the run
    owed: float | None = None


@dataclass(frozen=True)
class Tries:
    """What is known of an occurrence that was tried already."""

    failures: int = 0  # in a row
    losses: int = 0  # in a row
    tries: int = 0
    due: float | None = None  # None: the one that is waited for
    after: float | None = None  # after when the schedule goes on; None: after `due`


@dataclass
class Job:
    schedule: str | None = None
    status: str | None = None
    timeline: float | None = None
    queued: float | None = None
    flight: Flight | None = None
    tries: Tries = field(default_factory=Tries)
    failure: tuple[float, int] | None = None  # due time and number of the try
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


class Model:
    """Jobs by id, and one queue in which they wait in turn.

    In a `long` queue a job that is withdrawn leaves its place to itself, for when it is enqueued again.
    """

    def __init__(self, timeout: float, lease: float, grace: float, long: bool = False) -> None:
        self.timeout, self.lease, self.grace, self.long = timeout, lease, grace, long
        self.jobs: dict[str, Job] = {}
        self.queue: list[str] = []
        self.withdrawn: set[str] = set()

    def job(self, jobid: str) -> Job:
        return self.jobs.setdefault(jobid, Job())

    def set(self, now: float, jobid: str, schedule: str, due: float | None, once: bool, keeps: bool = False) -> None:
        job = self.job(jobid)
        somewhere = job.flight or job.queued is not None or job.timeline is not None
        if keeps and somewhere and job.schedule == schedule:
            return
        same, job.schedule, job.tries = job.schedule == schedule, schedule, Tries()
        if job.flight:
            job.status = job.status or "WRK"
            self._set_in_flight(job, now, due, once, same)
        elif job.queued is not None and due is not None and (due <= now or same):
            pass
        else:
            if job.queued is not None:
                self._withdraw(jobid)
                job.queued = None
                job.skip("withdrawn")
            self._put(now, jobid, due)

    def _set_in_flight(self, job: Job, now: float, due: float | None, once: bool, same: bool) -> None:
        flight = job.flight
        if once and due is not None and due <= now:
            flight.owed, flight.anew, job.timeline = due, "", None
        elif due is None or not same:
            later = due is not None and due > now
            if flight.owed is not None:
                flight.owed = None
                job.skip("withdrawn")
            flight.anew = "once" if once and later else "set"
            job.timeline = due if later else None

    def _put(self, now: float, jobid: str, due: float | None) -> None:
        job = self.job(jobid)
        job.timeline = None
        if due is None:
            job.status = "STP"
        elif due <= now:
            job.queued, job.status = due, "ENQ"
            self._enqueue(jobid)
        else:
            job.timeline, job.status = due, "TML"

    def _enqueue(self, jobid: str) -> None:
        if jobid in self.withdrawn:
            self.withdrawn.remove(jobid)
        else:
            self.queue.append(jobid)

    def _withdraw(self, jobid: str) -> None:
        if self.long:
            self.withdrawn.add(jobid)
        else:
            self.queue.remove(jobid)

    def unset(self, jobid: str) -> bool:
        job = self.jobs.get(jobid, Job())
        if job.schedule is None and job.status is None:
            return False
        if job.queued is not None:
            self._withdraw(jobid)
        flight = job.flight
        if flight:
            flight.anew, flight.owed = "", None
        self.jobs[jobid] = Job(flight=flight)
        return True

    def requeue(self, now: float, jobid: str) -> bool:
        job = self.job(jobid)
        if job.schedule is None:
            return False
        waited, job.timeline, failure, job.failure = job.timeline, None, job.failure, None
        before, tried = job.tries, job.tries.tries or job.tries.due is not None or job.tries.after is not None
        job.tries = replace(before, failures=0, losses=0) if tried else Tries()
        if job.flight:
            job.flight.owed, job.flight.anew = now, ""
        elif job.queued is None:
            self._put(now, jobid, self._asked(job, now, waited, failure))
        return True

    def _asked(self, job: Job, now: float, waited: float | None, failure: tuple[float, int] | None) -> float:
        """For which due time a job is run that was asked for."""
        goes_on = None if waited is None else waited - JUST_BEFORE
        if job.tries.due is not None:
            return job.tries.due
        if failure:
            job.tries = Tries(tries=failure[1], due=failure[0], after=goes_on)
            return failure[0]
        overdue = waited is not None and waited < now
        job.tries = Tries() if overdue else Tries(after=goes_on)
        return waited if overdue else now

    def dispatch(self, now: float) -> int:
        due = sorted((job.timeline, jobid) for jobid, job in self.jobs.items() if (job.timeline or now + 1) <= now)
        moved = 0
        for moment, jobid in due:
            job = self.job(jobid)
            if not job.flight:
                self._put(now, jobid, moment if job.tries.due is None else job.tries.due)
                moved += 1
            elif job.flight.anew == "once":
                job.flight.owed, job.flight.anew, job.timeline = moment, "", None
            else:
                job.timeline = None
                job.skip("running")
        return moved

    def take(self, now: float, tag: str) -> str | None:
        while self.queue and self.queue[0] in self.withdrawn:
            self.withdrawn.remove(self.queue.pop(0))
        if not self.queue:
            return None
        jobid = self.queue.pop(0)
        job = self.job(jobid)
        deadline = now + self.timeout
        job.flight = Flight(tag, job.queued, deadline, min(now + self.lease, deadline + self.grace))
        job.queued, job.status = None, "WRK"
        return jobid

    def release(self, jobids: list[str], tag: str) -> list[str]:
        """Give back what has not begun, in front of the queue and in its order."""
        words = [self._release(jobid, tag) for jobid in reversed(jobids)]
        return words[::-1]

    def _release(self, jobid: str, tag: str) -> str:
        job = self.job(jobid)
        flight = job.flight
        if flight is None or flight.tag != tag:
            return "stale"
        if job.schedule is None:
            del self.jobs[jobid]
            return "unset"
        if flight.anew or flight.owed is not None:
            return "kept"
        job.flight, job.queued, job.status = None, flight.due, "ENQ"
        self.queue.insert(0, jobid)
        return "queue"

    def heartbeat(self, now: float, jobid: str, tag: str) -> str:
        flight = self.job(jobid).flight
        if flight is None or flight.tag != tag:
            return "stale"
        if now >= flight.deadline:
            return "overrun"
        flight.lease = min(now + self.lease, flight.deadline + self.grace)
        return "ok"

    def end(
        self,
        now: float,
        jobid: str,
        tag: str,
        place: str,
        due: float | None,
        why: str,
        tries: Tries | None = None,
        failure: tuple[float, int] | None = None,
    ) -> str:
        """`due` is computed from the schedule as it is now if `place` is next; if it is due, whatever the schedule.

        `tries` are those of an occurrence that is tried again.
        """
        job = self.job(jobid)
        flight = job.flight
        if flight is None or flight.tag != tag:
            return "stale"
        over = now >= flight.deadline
        if why == "" and over:
            return "overrun"
        if (why == "overrun" and not over) or (why == "lost" and flight.lease > now):
            return "alive"
        if job.schedule and flight.owed is None and job.timeline is None and flight.anew and place != "next":
            return "changed"
        job.flight = None
        if job.schedule is None:
            del self.jobs[jobid]
            return "ok"
        if place == "unset" and flight.owed is None and job.timeline is None:
            del self.jobs[jobid]
            return "ok"
        if failure:
            job.failure = failure
        elif why == "" and place != "due":
            job.failure = None
        one_off = job.schedule.startswith(("NOW", "AT:"))
        if flight.owed is not None:
            again = place == "due" and not one_off and tries is not None
            goes_on = flight.due if place != "next" else None if due is None else due - JUST_BEFORE
            job.tries = tries if again else Tries(after=None if one_off else goes_on)
            self._put(now, jobid, tries.due if again else flight.owed)
        elif job.timeline is not None:
            job.tries, job.status = Tries(), "TML"
        elif place in ("stop", "die") or due is None:
            job.schedule = "STOP" if place == "stop" or one_off else job.schedule
            job.tries, job.status = Tries(), "DIE" if place == "die" else "STP"
        else:
            job.tries = tries or Tries()
            self._put(now, jobid, due)
        return "ok"
