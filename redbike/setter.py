"""Setting jobs: the text of a schedule becomes a job with its first due time, which the store commits.

Occurrences count from `after`, if the user says so, else from the instant in the timefile, else from now. What came due
since then, and was missed, is for the setting ``catchup``.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice

from redbike.config import Settings, check_zone
from redbike.errors import BadConfig, BadSchedule, NoSuchJob
from redbike.moving.rows import Source, read_rows
from redbike.running.policies import find_first_due
from redbike.running.timefile import Timefile
from redbike.schedule.kinds import Schedule, Stop
from redbike.schedule.parser import check_text, parse
from redbike.state.jobs import Due, Job
from redbike.state.keys import check_jobid, check_known_jobid
from redbike.state.questions import JobState
from redbike.state.store import Store
from redbike.state.timeline import is_ahead
from redbike.words import Event

log = logging.getLogger("redbike")

CHUNK = 500  # jobs that `Setter.set_many` sends in one round trip
CLOCK = 1.0  # seconds for which a reading of Redis' clock is reused


class Setter:
    """Sets and unsets jobs in `store`, for the methods of `redbike.redbike.Redbike` that have these names."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self._timefile = Timefile(settings.timefile) if settings.timefile else None
        self._read: tuple[float, float] | None = None  # Redis' clock, and the monotonic one then

    def enter(self, jobid: str, schedule: str | None, after: float | None, tz: str | None) -> bool:
        """`set`, and tell whether the job had a run to come."""
        # Before it is set too: nothing is changed if that could not be told, as with a key of another type.
        self.store.questions.inspect([jobid])
        job = self.set(jobid, schedule, after, tz)
        state = self.store.questions.inspect([jobid])[0]
        if after is None and self._timefile and job:
            _log_if_due_at_once(job, state)
        # A worker may have ended the only run already: a job without a run to come is both stopped and never due.
        return job is not None and not (job.due is None and state.has_event(Event.STP))

    def set(self, jobid: str, schedule: str | None, after: float | None, tz: str | None) -> Job | None:
        """Set one job, and return it; for None as its schedule unset it. Raise `BadSchedule`."""
        if schedule is None:
            self.unset(jobid)
            return None
        check_jobid(jobid)
        check_text(schedule)
        queue = self.store.queue_for(jobid)
        zone = self.settings.timezone if tz is None else check_zone(tz)
        now = self._clock()
        try:
            parsed = self._parse(schedule, zone, jobid, now)
        except BadSchedule:
            self.store.jobs.reject(jobid)
            raise
        since = self.compute_start(after, now)
        job = self._make_job(jobid, parsed, queue, now, since, given=after is not None)
        job.rests = False  # whoever sets this one job wants it to run
        self._set_jobs({jobid: job}, from_now=since == now)
        return job

    def unset(self, jobid: str) -> bool:
        """Unset a job; False if there is no such job."""
        check_known_jobid(jobid)
        try:
            self.store.jobs.unset(jobid)
        except NoSuchJob:
            log.debug("%s: nothing to unset", jobid)
            return False
        return True

    def set_many(
        self, pairs: Iterable[tuple[str, str | None]], after: float | None, tz: str | None
    ) -> Iterator[tuple[str, bool | ValueError]]:
        """Set a stream of (job id, schedule), a batch in each round trip."""
        stream = iter(pairs)
        while chunk := list(islice(stream, CHUNK)):
            for _, schedule in chunk:
                check_text(schedule)
            yield from self._set_chunk(chunk, after, tz)

    def load(self, source: Source, after: float | None, tz: str | None) -> Iterator[tuple[int, str, bool | ValueError]]:
        """Set the rows of a CSV file."""
        lines: deque[int] = deque()
        refused: deque[tuple[int, str, bool | ValueError]] = deque()

        def pairs() -> Iterator[tuple[str, str]]:
            for line, row in read_rows(source):
                if isinstance(row, BadConfig):
                    refused.append((line, "", row))
                else:
                    lines.append(line)
                    yield row

        for jobid, result in self.set_many(pairs(), after, tz):
            line = lines.popleft()
            while refused and refused[0][0] < line:
                yield refused.popleft()
            yield line, jobid, result
        yield from refused

    def compute_start(self, after: float | None, now: float) -> float:
        """Return from when occurrences count: `after`, the instant in the timefile, or now."""
        kept = self._timefile.read(now) if after is None and self._timefile else after
        return now if kept is None else kept

    def compute_repair_start(self) -> float:
        """Return from when occurrences count for a job of which no more is known than its schedule."""
        now, dispatched = self.store.timeline.read_dispatched()
        since = now if dispatched is None or is_ahead(dispatched, now) else dispatched
        return self.compute_start(None, since)

    def compute_first_due(self, schedule: Schedule, since: float, now: float) -> Due:
        """Return when a job is due first whose occurrences count from `since`, by the setting ``catchup``."""
        return find_first_due(schedule, since, now, self.settings)

    def _make_job(self, jobid: str, schedule: Schedule, queue: str, now: float, since: float, given: bool) -> Job:
        """A job to be set, whose occurrences count from `since`; `given` tells whether the user has said so."""
        if schedule.runs_once and not given:
            since = float("-inf")  # what is past is due at once
        due = self.compute_first_due(schedule, since, now)
        # A one-off that is never due would be, wherever its text is set again.
        text = Stop.text if due is None and schedule.runs_once else schedule.text
        keeps = not given and not schedule.is_command
        span = schedule.anchor_span if keeps else None
        return Job(jobid, text, due, schedule.runs_once, queue, keeps, rests=keeps, anchor_span=span)

    def _set_chunk(
        self, chunk: list[tuple[str, str | None]], after: float | None, tz: str | None
    ) -> list[tuple[str, bool | ValueError]]:
        zone = self.settings.timezone if tz is None else check_zone(tz)
        now = self._clock()
        since, given = self.compute_start(after, now), after is not None
        from_now = since == now
        results: list[tuple[str, bool | ValueError]] = []
        jobs: dict[str, Job] = {}
        for jobid, schedule in chunk:
            try:
                if schedule is None:
                    self._set_jobs(jobs, from_now)
                    self.unset(jobid)
                    results.append((jobid, True))
                    continue
                queue = self.store.queue_for(check_jobid(jobid))
                parsed = self._parse(schedule, zone, jobid, now)
            except ValueError as error:
                if isinstance(error, BadSchedule):
                    self._set_jobs(jobs, from_now)
                    self.store.jobs.reject(jobid)
                results.append((jobid, error))
            else:
                if jobid in jobs:
                    self._set_jobs(jobs, from_now)
                jobs[jobid] = self._make_job(jobid, parsed, queue, now, since, given)
                results.append((jobid, True))
        self._set_jobs(jobs, from_now)
        return results

    def _parse(self, schedule: str, zone: str, jobid: str, now: float) -> Schedule:
        parsed = parse(schedule, zone, jobid, now)
        if zone == "UTC" != self.settings.timezone:
            # Stored without a zone it would not mean the same when it is loaded again under these settings.
            return parsed.with_zone()
        return parsed

    def _set_jobs(self, jobs: dict[str, Job], from_now: bool) -> None:
        """Set those jobs, and forget them. If their occurrences count `from_now`, none is before they are set."""
        left = list(jobs.values())
        ahead = 0.0  # seconds, ever more, as a schedule may be faster than the way to the server
        while left:
            refused = self.store.jobs.set(left, from_now=from_now)
            for job, queue in refused:
                if queue:
                    job.queue = queue
                else:
                    job.due = parse(job.schedule).next(self.store.timeline.read_clock() + ahead)
            ahead = 2 * ahead + 0.001
            left = [job for job, _ in refused]
        jobs.clear()

    def _clock(self) -> float:
        """Redis' clock, asked for at most once a second."""
        asked = time.monotonic()
        if self._read is None or asked - self._read[1] > CLOCK:
            self._read = self.store.timeline.read_clock(), asked
        return self._read[0] + asked - self._read[1]


def _log_if_due_at_once(job: Job, state: JobState) -> None:
    """Say that a recurring job is due at once, because it came due after the time in the timefile."""
    if job.once or not isinstance(job.due, float):
        return
    if state.waiting and state.waiting.due == round(job.due, 6):
        when = datetime.fromtimestamp(job.due, UTC).isoformat()
        log.info("%s: due at once: it came due at %s, after the time in the timefile", job.jobid, when)
