"""The methods of `redbike.facade.redbike.Redbike` that read jobs, queues and processes, and change nothing."""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from redbike.config.labels import TagLike, read_filter
from redbike.config.settings import Settings
from redbike.errors import BadConfig, NoSuchJob, RedbikeError
from redbike.facade.part import Part, Whole
from redbike.facade.waiting import wait_for_run
from redbike.loop.alerts.late import find_late
from redbike.loop.host_jobs import replace_bases, say_where
from redbike.loop.worker_class import find_queue
from redbike.queries.blackouts import add_blackouts
from redbike.queries.check.findings import Finding
from redbike.queries.check.jobs import JobsCheck
from redbike.queries.check.surroundings import WorkerCheck
from redbike.queries.details import describe_jobs
from redbike.queries.forecast import MOST_HOURS, Forecast, make_forecast
from redbike.queries.health import MAX_LAG, MOST_LAG, Health, check_health
from redbike.queries.why.past import Reasons
from redbike.schedule.clock import Clock
from redbike.schedule.moments import DurationLike, InstantLike, read_duration, read_instant
from redbike.store.details import JobDetails
from redbike.store.enums import Event, EventName
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.job import Job, JobSearch, read_event
from redbike.store.log import LogEntry, LogSearch, check_who
from redbike.store.names import check_known_jobid, check_queue_name
from redbike.store.namespace import split
from redbike.store.patterns import check_pattern, compile_patterns, expand
from redbike.store.processes import Process
from redbike.store.totals import Queue
from redbike.text.parsing import is_number, is_whole_number
from redbike.text.printable import quote

TOGETHER = 200  # jobs that are read in one round trip, each with its data

_STARTED = attrgetter("started")


class Queries(Part):
    """Reads the jobs and processes of `store`."""

    def __init__(self, bike: Whole, settings: Settings, is_closing: Callable[[], bool]) -> None:
        super().__init__(bike)
        self.settings, self._is_closing = settings, is_closing

    def tell(self, jobid: str) -> JobDetails:
        """Return what is known of `jobid`, see `redbike.JobDetails`. Raises `BadJobId`; an unknown job is no error."""
        return describe_jobs(self.store, [self._inspect(jobid)])[0]

    def get_many(self, jobids: Iterable[str]) -> Iterator[tuple[str, JobDetails | None]]:
        """Yield (job id, what `tell` returns) for each of `jobids`, in their order; (job id, None) for an unknown job.

        `jobids` are ids, not patterns, in a stream of any length. 200 ids are read in four round trips; each job for
        every host takes two more. While the results are read, a bad id raises `BadJobId`, and a text in place of
        several ids raises `TypeError`.
        """
        if isinstance(jobids, str):
            raise TypeError(f"bad jobids {jobids!r:.80}: several are needed; tell() takes one")
        for page in split(map(check_known_jobid, jobids), TOGETHER):
            states = self.store.questions.inspect(page, with_data=True)
            for state, found in zip(states, describe_jobs(self.store, states), strict=True):
                is_there = state.schedule is not None or state.status is not None or state.running
                yield state.jobid, found if is_there else None

    def wait(self, jobid: str, timeout: DurationLike | None = None) -> PastRun:
        """Wait until a run of `jobid` ends that is not retried, and return it.

        If no run is to come, return the last run at once. If a further run was requested while one goes on, wait for
        the further run. For an id that ``enqueue`` returned, only runs count that began after that call. Raises
        `TimeoutError` after `timeout`, such as ``2m``, `Unreachable` if the server goes away, and `RedbikeError` if
        this Redbike is closed meanwhile. Raises `NoSuchJob` if there is no such job, if the job is for every host, or
        if none of its runs is kept; also some seconds after the run to come was withdrawn or cancelled, or expired.
        """
        return self.wait_until(jobid, timeout, lambda: False)

    def wait_until(self, jobid: str, timeout: DurationLike | None, is_over: Callable[[], bool]) -> PastRun:
        """`wait`, but raise `TimeoutError` soon after `is_over` returns true."""
        if why := say_where(self.store, check_known_jobid(jobid)):
            raise NoSuchJob(f"no run of {jobid!r} will come: {why}")
        try:
            return wait_for_run(self.store, jobid, timeout, lambda: is_over() or self._is_closing(), self._inspect)
        except TimeoutError:
            if self._is_closing():
                raise RedbikeError(f"no run of {jobid!r} has ended: this Redbike was closed") from None
            raise

    def _inspect(self, jobid: str) -> JobState:
        return self.store.questions.inspect([check_known_jobid(jobid)], with_data=True)[0]

    def is_working(self, jobid: str) -> bool:
        """Whether a run of `jobid` is in flight."""
        return self._inspect(jobid).to_dict()["working"]

    def get_statuses(
        self, before: InstantLike | None = None, tag: TagLike | None = None
    ) -> Iterator[tuple[str, EventName, int]]:
        """Yield (job id, last event, epoch seconds) of every job, or of those whose last event was before `before`.

        With `tag`, only of jobs that have one of these tags.
        """
        return self.store.catalog.list_events(read_instant("before", before), self._find((), tag))

    def get_schedules(self, *patterns: str, tag: TagLike | None = None) -> Iterator[tuple[str, str]]:
        """Yield (job id, schedule in its complete form) of every job, or of those that `patterns` name.

        With `tag`, only of jobs that have one of these tags. A pattern may match nothing. Occurrences of backfills are
        left out, and so are the jobs on single hosts that Redbike sets for a job for every host.
        """
        return self.store.backfills.leave_out(self.store.catalog.list_schedules(self._find(patterns, tag)), True)

    def get_rows(self, *patterns: str, tag: TagLike | None = None) -> Iterator[tuple[str, ...]]:
        """Yield the columns of ``schedules --full`` for each job of `get_schedules`, as texts that `load` can read."""
        return self.store.rows.list_all(self._find(patterns, tag))

    def _find(self, patterns: Sequence[str], tag: TagLike | None) -> Iterator[str] | None:
        """Return the ids of the jobs that patterns and tags name; None if neither is given."""
        tags = read_filter(tag)
        if not (patterns or tags):
            return None
        return expand(self.store.catalog, patterns, may_miss=True, tags=tags)

    def jobs(
        self, *patterns: str, queue: str | None = None, status: Event | EventName | None = None,
        failed: bool = False, paused: bool = False, overdue: bool = False, never_ran: bool = False, late: bool = False,
        report: Callable[[int, int], None] | None = None, with_data: bool = False, tag: TagLike | None = None,
        planned: bool = False
    ) -> Iterator[Job]:  # fmt: skip
        """Yield jobs in no order, streamed: all, or those that `patterns` name. All other conditions must hold, too.

        `queue` is the full name of a queue; the stock workers allow a short name. `status` is an event such as DIE.
        `failed`: for good, or in the last run. `overdue`: due, and neither running nor paused. `never_ran`: no run is
        known. `late`: not begun, or not ended, in the time that its options allow. `planned`: it has a due time. `tag`
        is a text or a list; the job has one of these tags. `with_data` adds the data of each job. If all jobs must be
        read, `report` is called from time to time with the number of jobs read so far, and of all jobs. A pattern may
        match nothing. Raises `BadConfig` for an invalid status, and `BadQueueName`. A bad pattern raises `BadJobId`
        while the jobs are read.
        """
        name = None if queue is None else self._find_queue(queue)
        event = None if status is None else read_event(status)
        search = JobSearch(name, event, failed, paused, overdue, never_ran, planned, read_filter(tag))
        jobids = expand(self.store.catalog, patterns, also_bad=True, may_miss=True) if patterns else None
        if late:
            found = [each.jobid for each in find_late(self.store, self.settings)]
            jobids = iter(found) if jobids is None else filter(frozenset(found).__contains__, jobids)
        return self.store.overview.list_jobs(search, jobids, report, with_data)

    def _find_queue(self, name: str) -> str:
        return find_queue(self.worker, check_queue_name(name), self.store.queue_limits.list_queues())

    def why(self, jobid: str, at: InstantLike | None = None) -> str:
        """Return one sentence: why `jobid` does not run now, or why it did not run when it was last due until `at`.

        Times are in the setting ``timezone``. Raises `NoSuchJob`, `BadJobId`, and `BadConfig` for a future `at`.
        """
        shard, then = self.store.find_shard(check_known_jobid(jobid)), read_instant("at", at)
        return Reasons(shard, self.settings).explain(jobid, then)

    def runs(
        self, *patterns: str, since: InstantLike | None = None, failed: bool = False, limit: int = 100,
        tag: TagLike | None = None
    ) -> list[PastRun]:  # fmt: skip
        """Return the last `limit` ended runs that are kept, newest first: of all jobs, or of those of `patterns`.

        Only runs count that started at `since` or later. With `failed`, only failed runs count; with `tag`, only runs
        of jobs that have one of these tags now. The option ``history`` says how many runs are kept. A pattern may match
        nothing. Raises `BadJobId` for a bad pattern, and `BadConfig` for another bad argument.
        """
        if not is_whole_number(limit) or limit < 1:
            raise BadConfig(f"bad limit {quote(limit)}: a whole number from 1 is needed")
        start = read_instant("since", since)
        jobids = self._find(patterns, tag)
        found = self.store.journal.list_runs(jobids)
        wanted = (run for run in found if (start is None or run.started >= start) and (run.has_failed or not failed))
        return heapq.nlargest(limit, wanted, key=_STARTED)

    def events(self) -> Iterator[PastRun | LogEntry]:
        """Listen from now on until `close`: yield each run that ends, and each change by a person, as it happens.

        Events that happen while nobody listens are lost here: see `runs` and `log`. Raises `Unreachable` if the server
        goes away; then listen again.
        """
        return self.store.events.listen(is_over=self._is_closing)

    def failures(self, *patterns: str, tag: TagLike | None = None) -> Iterator[dict[str, Any]]:
        """Yield the last failure of each job that has not succeeded since, oldest first; see ``failures-limit``.

        Of all jobs, or of those that `patterns` name; with `tag`, only of jobs that have one of these tags. A failure
        also has the options ``tags`` (a list), ``owner`` and ``note`` of its job. Raises `BadJobId`.
        """
        return self.store.past.list_failures(compile_patterns(list(map(check_pattern, patterns))), read_filter(tag))

    def queues(self) -> list[Queue]:
        """Return all queues, sorted by name: each that was ever used, or has a pause, a limit or a blackout.

        Each `Queue` says how many jobs wait and run in it, and how many runs ended in the last minute.
        """
        return list(add_blackouts(self.store, self.store.depths.list_all()))

    def workers(self) -> list[Process]:
        """Return each dispatcher and worker: first lost ones, then dispatchers. Lost ones are listed for a day."""
        return self.store.workers.list_all()

    def health(self, *patterns: str, max_lag: DurationLike = MAX_LAG) -> Health:
        """Return whether all is well. Problems are, for example, no dispatcher, a wait over `max_lag`, a lost worker.

        With `patterns`, each job that they name must have succeeded when it was last to run. A pattern without a job is
        a problem. Raises `BadJobId` for a bad pattern, `BadConfig` for a bad `max_lag`, and `ServerError`.
        """
        if not 0 < (lag := read_duration("max_lag", max_lag)) <= MOST_LAG:
            raise BadConfig(f"bad max_lag {quote(max_lag)}: more than 0 and up to {MOST_LAG:g} seconds are needed")
        return check_health(self.store, [check_pattern(text) for text in patterns], lag, self.settings)

    def metrics(self) -> str:
        """Return the metrics for Prometheus, in its text format. Needs the extra ``metrics``.

        If the server does not answer, the only metrics are ``redbike_up``, which is 0, and ``redbike_build_info``.
        """
        # Imported here, as this needs a package that is not always there.
        from redbike.queries.metrics import Metrics

        return Metrics(lambda: self.store, self.settings.prefix, self.settings).format()

    def agenda(
        self, *patterns: str, hours: float = 24, after: InstantLike | None = None, queue: str | None = None,
        report: Callable[[int, int], None] | None = None, tag: TagLike | None = None,
        every: DurationLike | None = None
    ) -> Forecast:  # fmt: skip
        """Return what will run in `hours` from now, or from `after`: by quarters of an hour, and the densest minutes.

        `patterns`, `tag`, `queue` and `report` are as with `jobs`. The forecast ends with a whole quarter of an hour.
        A pattern may match nothing. Jobs that run more often than `every`, such as ``5m``, are left out. Raises
        `BadJobId`, `BadQueueName`, and `BadConfig` for bad `hours` (at most a week), or an `after` that is past.
        """
        if not is_number(hours) or not 0 < hours <= MOST_HOURS:
            raise BadConfig(f"bad hours {quote(hours)}: a number up to {MOST_HOURS} is needed")
        given = read_instant("after", after)
        now = self.store.timeline.read_clock()
        start = now if given is None else given
        if start < now:
            raise BadConfig(
                f"bad after {after!r:.40}: {Clock(0.0, 'UTC').name(start)} is past; redbike runs and why show the past"
            )
        # The forecast counts in whole minutes.
        start = max(now, math.floor(start / 60) * 60)
        found = self._find(patterns, tag)
        jobids = None if found is None else replace_bases(self.store, found)
        name = None if queue is None else self._find_queue(queue)
        seconds = 0.0 if every is None else read_duration("every", every)
        return make_forecast(self.store, start, hours, now, jobids, report, name, self.settings, seconds)

    def check(self, report: Callable[[int, int], None] | None = None) -> Iterator[Finding]:
        """Yield problems of the stored jobs, and remarks on them, streamed; nothing is changed.

        Problems are damaged schedules, options and data; rules that have run out; jobs whose queue neither the worker
        class nor a worker works; jobs for which there is no command or function. `report` is called from time to time
        with the number of jobs read so far, and of all jobs. `fsck` checks where the jobs are.
        """
        worker = WorkerCheck(self.worker)
        # Problems of the worker class itself are left out.
        for _ in worker.run(self.settings):
            pass
        checks = (JobsCheck(shard, worker.queues, worker.needed) for shard in self.store.shards)
        return chain.from_iterable(check.run(report) for check in checks)

    def log(
        self, jobid: str | None = None, since: InstantLike | None = None, who: str | None = None
    ) -> Iterator[LogEntry]:
        """Yield the changes by people, of all jobs or of `jobid`; the newest first, streamed.

        Only changes `since` this instant count, and only by people whose names contain `who`, in upper or lower case.
        The commands of the command line note their changes here, and so does a `Redbike` with ``noted_as``. 10,000
        entries are kept, each of up to 100 jobs that were changed together. Raises `BadJobId`, and `BadConfig` for
        another bad argument.
        """
        one, name = None if jobid is None else check_known_jobid(jobid), check_who(who, "who") or ""
        return self.store.log.list_entries(LogSearch(one, read_instant("since", since), who=name))
