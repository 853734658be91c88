"""A plain model of what the transitions do to jobs, written from the specification and not from the scripts.

A job is a record of where it is. Nothing here knows of keys, scripts or Redis.
"""

from dataclasses import dataclass, field


@dataclass
class Flight:
    tag: str
    due: float
    deadline: float
    lease: float
    anew: str = ""  # "", "set" or "once": what was set during the run
    owed: float | None = None


@dataclass
class Job:
    schedule: str | None = None
    status: str | None = None
    timeline: float | None = None
    queued: float | None = None
    flight: Flight | None = None
    losses: int = 0
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

    def set(self, now: float, jobid: str, schedule: str, due: float | None, once: bool) -> None:
        job = self.job(jobid)
        same, job.schedule, job.losses = job.schedule == schedule, schedule, 0
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
        overdue, job.timeline, job.losses = job.timeline, None, 0
        if job.flight:
            job.flight.owed, job.flight.anew = now, ""
        elif job.queued is None:
            self._put(now, jobid, now if overdue is None else min(now, overdue))
        return True

    def dispatch(self, now: float) -> int:
        due = sorted((job.timeline, jobid) for jobid, job in self.jobs.items() if (job.timeline or now + 1) <= now)
        moved = 0
        for moment, jobid in due:
            job = self.job(jobid)
            if not job.flight:
                self._put(now, jobid, moment)
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

    def end(self, now: float, jobid: str, tag: str, place: str, due: float | None, why: str, loss: bool) -> str:
        """`due` is computed from the schedule as it is now if `place` is next; if it is due, whatever the schedule."""
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
        elif flight.owed is not None:
            job.losses = 0
            again = place == "due" and due is not None and not job.schedule.startswith(("NOW", "AT:"))
            self._put(now, jobid, min(due, flight.owed) if again else flight.owed)
        elif job.timeline is not None:
            job.losses, job.status = 0, "TML"
        elif place == "unset":
            del self.jobs[jobid]
        elif place == "stop":
            job.schedule, job.status, job.losses = "STOP", "STP", 0
        elif place == "die":
            job.status, job.losses = "DIE", 0
        else:
            job.losses = job.losses + 1 if loss else 0
            self._put(now, jobid, due)
        return "ok"
