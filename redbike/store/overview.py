"""The jobs as an operator sees them: where each is, when it runs next, and how its last run ended."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from redbike.schedule.moments import AWAITED
from redbike.schedule.parser import recurs
from redbike.store.enums import Event, Outcome
from redbike.store.history import PastRun, read_newest
from redbike.store.inspected import read_data
from redbike.store.journal import Journal
from redbike.store.namespace import DATA_PAGE, Namespace, find_queue, split
from redbike.store.queue_limits import Pause as QueuePause
from redbike.store.queue_limits import QueueLimiter
from redbike.store.records import Pause, RunRecord, Status, Waiting, decode, encode


@dataclass(frozen=True, slots=True)
class Job:
    """A job, at one instant. Times are epoch seconds by Redis' clock; None stands for what there is not."""

    jobid: str
    queue: str  #: in which it waits or from which it was taken, else that of its next run; "" if nobody knows
    status: Event | None
    since: int | None  #: when the status began
    next_run: float | None  #: when it is due on the timeline
    paused: float | None  #: since when
    last_started: float | None  #: the last run that has ended and is kept
    last_outcome: Outcome | None
    schedule: str | None
    has_failed: bool  #: for good, or its last run did
    is_overdue: bool  #: it is due, not paused, and does not run yet
    is_running: bool
    data: Any = field(default=None, hash=False)  #: for its worker, if they were asked for

    @property
    def never_ran(self) -> bool:
        """Tell whether nothing is known of a run; see the option ``history``."""
        return not self.is_running and self.last_started is None and self.status != Event.DIE

    @property
    def is_dead(self) -> bool:
        """Tell whether it has failed for good, though its schedule would go on."""
        return self.status == Event.DIE and self.schedule is not None and recurs(self.schedule)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs are asked for: those for which everything that is given here holds."""

    queue: str | None = None
    status: Event | None = None
    failed: bool = False
    paused: bool = False
    overdue: bool = False
    never_ran: bool = False

    def fits(self, job: Job) -> bool:
        """Tell whether `job` is one of them."""
        return (
            self.queue in (None, job.queue)
            and self.status in (None, job.status)
            and (job.has_failed or not self.failed)
            and (job.paused is not None or not self.paused)
            and (job.is_overdue or not self.overdue)
            and (job.never_ran or not self.never_ran)
        )


class JobReader:
    """Reads what there is of jobs whose ids are known."""

    def __init__(self, namespace: Namespace, queue_for: Callable[[str], str]) -> None:
        self._namespace = namespace
        self._queue_for = queue_for
        self._journal = Journal(namespace)
        self._limits = QueueLimiter(namespace)

    def list_soonest(self, number: int) -> list[Job]:
        """Return the jobs that are due first on the timeline. Their last runs are not told if they are not archived."""
        client, key = self._namespace.client, self._namespace.keys.timeline
        with self._namespace.translate((key, "zset")):
            soonest = client.zrange(key, "-inf", f"({AWAITED:.0f}", byscore=True, offset=0, num=number)
            jobids = [decode(jobid) for jobid in soonest]
        return self.read_named(jobids, {})

    def read_named(self, jobids: Sequence[str], newest: Mapping[str, PastRun | None] | None = None) -> list[Job]:
        """Return those of `jobids` that exist, in their order; all that it costs is for these.

        `newest` is what `Journal.read_newest` has told of late; without it, the journal is read for these jobs alone.
        """
        if not jobids:
            return []
        known = self._journal.read_newest(jobids) if newest is None else newest
        return list(self._read(jobids, known, self._list_pauses()))

    def _list_pauses(self) -> dict[str, QueuePause]:
        """Return the pauses of queues, by name; "" is everything."""
        return {limits.queue: limits.pause for limits in self._limits.list_all() if limits.pause}

    def _read(
        self, jobids: Sequence[str], newest: Mapping[str, PastRun | None], pauses: dict[str, QueuePause]
    ) -> Iterator[Job]:
        """Yield those of `jobids` that exist, as all of them are at one instant."""
        *columns, clock = self._fetch([encode(jobid) for jobid in jobids])
        now = self._namespace.now or clock[0] + clock[1] / 1e6
        for jobid, *values in zip(jobids, *columns, strict=True):
            stored = _Stored(*values)
            # Of a job that was unset since it was found, nothing is left.
            if stored.status is not None or stored.schedule is not None:
                last = newest[jobid] if jobid in newest else read_newest(jobid, stored.history or b"")
                yield self._make_job(jobid, stored, last, now, pauses)

    def _fetch(self, names: Sequence[bytes]) -> list[Any]:
        """Return the columns of `_Stored` for jobs, and the time."""
        client, keys = self._namespace.client, self._namespace.keys
        hashes = keys.statuses, keys.schedules, keys.queued, keys.running, keys.pauses, keys.history
        sets = keys.timeline, keys.failure_times
        kinds = [*((key, "hash") for key in hashes), *((key, "zset") for key in sets)]
        with self._namespace.translate(*kinds), client.pipeline(transaction=True) as pipeline:
            commands: Any = pipeline  # it takes bytes everywhere, but redis-py's types do not know that
            for key in hashes:
                commands.hmget(key, names)
            for key in sets:
                commands.zmscore(key, names)
            commands.time()
            return list(commands.execute())

    def _add_data(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """Yield jobs with their data, which are read in one round trip."""
        key, names = self._namespace.keys.data, [encode(job.jobid) for job in jobs]
        with self._namespace.translate((key, "hash")), self._namespace.client.pipeline(transaction=False) as pipeline:
            commands: Any = pipeline
            for page in split(names, DATA_PAGE):
                commands.hmget(key, page)
            texts = chain.from_iterable(commands.execute())
        for job, text in zip(jobs, texts, strict=True):
            yield job if text is None else replace(job, data=read_data(decode(text)))

    def _make_job(
        self, jobid: str, stored: "_Stored", last: PastRun | None, now: float, pauses: dict[str, QueuePause]
    ) -> Job:
        waiting, run = Waiting.parse(decode(stored.queued)), RunRecord.parse(decode(stored.running))
        status, pause = Status.parse(decode(stored.status)), Pause.parse(decode(stored.pause))
        is_due = waiting is not None or (stored.due is not None and stored.due <= now)
        queue = run.queue if run else waiting.queue if waiting else self.name_queue(jobid)
        is_closed = any(name in pauses and pauses[name].holds(now) for name in (queue, ""))
        return Job(
            jobid=jobid,
            queue=queue,
            status=status.event if status else None,
            since=int(status.time) if status else None,
            next_run=None if stored.due is None or stored.due >= AWAITED else stored.due,
            paused=pause.since if pause else None,
            last_started=last.started if last else None,
            last_outcome=last.outcome if last else None,
            schedule=None if stored.schedule is None else decode(stored.schedule),
            has_failed=stored.failed_at is not None or (status is not None and status.event == Event.DIE),
            is_overdue=is_due and run is None and not is_closed,  # what is held of a paused job is in no such place
            is_running=run is not None,
        )

    def name_queue(self, jobid: str) -> str:
        """Return the queue of the next run of a job; "" if nobody knows."""
        return find_queue(self._queue_for, jobid)


class _Stored(NamedTuple):
    """What the keys have of a job, in the order in which they are read."""

    status: bytes | None
    schedule: bytes | None
    queued: bytes | None
    running: bytes | None
    pause: bytes | None
    history: bytes | None
    due: float | None
    failed_at: float | None
