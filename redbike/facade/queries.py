"""The methods of `redbike.facade.redbike.Redbike` that tell what is there, and change nothing."""

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
    """Looks at the jobs and processes of `store`."""

    def __init__(self, bike: Whole, settings: Settings, is_closing: Callable[[], bool]) -> None:
        super().__init__(bike)
        self.settings, self._is_closing = settings, is_closing

    def tell(self, jobid: str) -> JobDetails:
        """What is known of `jobid`, see `redbike.JobDetails`. Raises `BadJobId`; an unknown job is no error."""
        return describe_jobs(self.store, [self._inspect(jobid)])[0]

    def get_many(self, jobids: Iterable[str]) -> Iterator[tuple[str, JobDetails | None]]:
        """(job id, what `tell` returns of it) for each of `jobids`, in their order; None for a job that is not there.

        These are ids, and no patterns. They may be a stream of any length: 200 are read in four round trips. Each
        job for every host takes two more. Raises `BadJobId` for a bad one, and `TypeError` for a single text, while it
        is read.
        """
        if isinstance(jobids, str):
            raise TypeError(f"bad jobids {jobids!r:.80}: several are needed; tell() takes one")
        for page in split(map(check_known_jobid, jobids), TOGETHER):
            states = self.store.questions.inspect(page, with_data=True)
            for state, found in zip(states, describe_jobs(self.store, states), strict=True):
                is_there = state.schedule is not None or state.status is not None or state.running
                yield state.jobid, found if is_there else None

    def wait(self, jobid: str, timeout: DurationLike | None = None) -> PastRun:
        """Wait until a run of `jobid` has ended that is not tried again, and return it; at once if none is to come.

        Then it is the last one. If somebody has asked for a further run while one goes on, that is waited for. Raises
        `TimeoutError` after `timeout`, such as ``2m``, `Unreachable` where the server goes away, `RedbikeError` if this
        Redbike is closed meanwhile, and `NoSuchJob` if there is no such job, if it is one for every host, if no run of
        it is kept, and some seconds after what was to come was withdrawn or cancelled, or has expired. Of what
        ``enqueue`` returns, only runs count that began after that.
        """
        return self.wait_until(jobid, timeout, lambda: False)

    def wait_until(self, jobid: str, timeout: DurationLike | None, is_over: Callable[[], bool]) -> PastRun:
        """`wait`, but raise `TimeoutError` soon when `is_over`."""
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
        """(job id, event, epoch seconds) of every job, or of those whose last event was before `before`.

        With `tag`, only of jobs that have one of these tags.
        """
        return self.store.catalog.list_events(read_instant("before", before), self._find((), tag))

    def get_schedules(self, *patterns: str, tag: TagLike | None = None) -> Iterator[tuple[str, str]]:
        """(job id, schedule in its complete form) of every job, or of those that `patterns` name.

        With `tag`, only of jobs that have one of these tags. What matches nothing is left out, and so are occurrences
        of backfills, and what a job for every host has on its hosts.
        """
        return self.store.backfills.leave_out(self.store.catalog.list_schedules(self._find(patterns, tag)), True)

    def get_rows(self, *patterns: str, tag: TagLike | None = None) -> Iterator[tuple[str, ...]]:
        """The columns of ``schedules --full``, as texts, which `load` reads back; of the jobs of `get_schedules`."""
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
        """Jobs as they are, streamed, in no order: all, or those that `patterns` name and for which all else holds.

        `queue` is the full name of a queue, with the stock workers also a short one; `status` an event such as DIE.
        `failed`: for good, or in the last run. `overdue`: due, and neither running nor paused. `never_ran`: nothing is
        known of a run. `late`: not begun, or not ended, in the time that its options give it. `planned`: it has a due
        time. Where all jobs have to be read, `report` hears now and then how many of how many were looked at.
        `with_data`: with the data of each. `tag` is a tag, or several of which a job has one: a text or a list. What
        matches nothing is left out. Raises `BadConfig` for another status, `BadQueueName`, and while it is read
        `BadJobId` for a bad pattern.
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
        """One sentence: why `jobid` does not run now, or did not when it was due last, `at` or before.

        Times are in the setting ``timezone``. Raises `NoSuchJob`, `BadJobId`, and `BadConfig` for an instant to come.
        """
        shard, then = self.store.find_shard(check_known_jobid(jobid)), read_instant("at", at)
        return Reasons(shard, self.settings).explain(jobid, then)

    def runs(
        self, *patterns: str, since: InstantLike | None = None, failed: bool = False, limit: int = 100,
        tag: TagLike | None = None
    ) -> list[PastRun]:  # fmt: skip
        """The last `limit` ended runs that are kept, the newest first: of all jobs, or of those that `patterns` name.

        Only those that started at `since` or later, with `failed` only those that went wrong, and with `tag` only those
        of jobs that have this tag, or one of these, by now. See the option ``history``. What matches nothing is left
        out. Raises `BadJobId` for a bad pattern, and `BadConfig` for another bad argument.
        """
        if not is_whole_number(limit) or limit < 1:
            raise BadConfig(f"bad limit {quote(limit)}: a whole number from 1 is needed")
        start = read_instant("since", since)
        jobids = self._find(patterns, tag)
        found = self.store.journal.list_runs(jobids)
        wanted = (run for run in found if (start is None or run.started >= start) and (run.has_failed or not failed))
        return heapq.nlargest(limit, wanted, key=_STARTED)

    def events(self) -> Iterator[PastRun | LogEntry]:
        """Listen from now on: yield each run that ends, and what people change, as it happens, until `close`.

        What happens while nobody listens is not repeated: see `runs` and `log`. Raises `Unreachable` where the server
        goes away; then listen again.
        """
        return self.store.events.listen(is_over=self._is_closing)

    def failures(self, *patterns: str, tag: TagLike | None = None) -> Iterator[dict[str, Any]]:
        """The last failure of each job that has not succeeded since, oldest first; see ``failures-limit``.

        Of all jobs, or of those that `patterns` name, and with `tag` of those that have this tag, or one of these. What
        its options say of a job comes too: ``tags``, a list, ``owner`` and ``note``. Raises `BadJobId`.
        """
        return self.store.past.list_failures(compile_patterns(list(map(check_pattern, patterns))), read_filter(tag))

    def queues(self) -> list[Queue]:
        """All queues, sorted by name: those that were ever used, and those with a pause, a limit or a blackout.

        Each `Queue` says what waits and runs in it, and how many runs ended in the last minute.
        """
        return list(add_blackouts(self.store, self.store.depths.list_all()))

    def workers(self) -> list[Process]:
        """Every dispatcher and worker: lost ones first, then dispatchers. One is lost for a day, then forgotten."""
        return self.store.workers.list_all()

    def health(self, *patterns: str, max_lag: DurationLike = MAX_LAG) -> Health:
        """Whether all is well: a dispatcher is running, nothing waits for longer than `max_lag`, and nobody was lost.

        With `patterns`, also whether each job that they name has succeeded when it was last to run. A pattern without a
        job is a problem. Raises `BadJobId` for a bad pattern, `BadConfig` for another `max_lag`, and `ServerError`.
        """
        if not 0 < (lag := read_duration("max_lag", max_lag)) <= MOST_LAG:
            raise BadConfig(f"bad max_lag {quote(max_lag)}: more than 0 and up to {MOST_LAG:g} seconds are needed")
        return check_health(self.store, [check_pattern(text) for text in patterns], lag, self.settings)

    def metrics(self) -> str:
        """The metrics for Prometheus, in its text format. Needs the extra ``metrics``.

        If the server does not answer, ``redbike_up`` is 0, and the others are missing but ``redbike_build_info``.
        """
        # Imported here, as this needs a package that is not always there.
        from redbike.queries.metrics import Metrics

        return Metrics(lambda: self.store, self.settings.prefix, self.settings).format()

    def agenda(
        self, *patterns: str, hours: float = 24, after: InstantLike | None = None, queue: str | None = None,
        report: Callable[[int, int], None] | None = None, tag: TagLike | None = None,
        every: DurationLike | None = None
    ) -> Forecast:  # fmt: skip
        """What will run in the next `hours`, or from `after` on: by quarters, and the densest minutes.

        Of all jobs, or of those that `patterns` and `tag` name, and of `queue` alone, as `jobs` takes them. It ends
        with a whole quarter of an hour. `report` hears now and then how many jobs of how many were looked at. What
        matches nothing is left out, and so are jobs that run more often than `every`, such as ``5m``. Raises
        `BadJobId`, `BadQueueName`, and `BadConfig` for bad hours, at most a week, or an instant that is past.
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
        # Minutes are what is counted.
        start = max(now, math.floor(start / 60) * 60)
        found = self._find(patterns, tag)
        jobids = None if found is None else replace_bases(self.store, found)
        name = None if queue is None else self._find_queue(queue)
        seconds = 0.0 if every is None else read_duration("every", every)
        return make_forecast(self.store, start, hours, now, jobids, report, name, self.settings, seconds)

    def check(self, report: Callable[[int, int], None] | None = None) -> Iterator[Finding]:
        """Yield what is wrong with the stored jobs, and what one should know of them, streamed; nothing is changed.

        Damaged schedules, options and data; rules that have run out; jobs whose queue neither the worker class nor a
        worker works, or for which it has no command or function. `report` hears now and then how many jobs of how many
        were looked at. See `fsck` for their places.
        """
        worker = WorkerCheck(self.worker)
        # What is wrong with the worker class itself is not asked for.
        for _ in worker.run(self.settings):
            pass
        checks = (JobsCheck(shard, worker.queues, worker.needed) for shard in self.store.shards)
        return chain.from_iterable(check.run(report) for check in checks)

    def log(
        self, jobid: str | None = None, since: InstantLike | None = None, who: str | None = None
    ) -> Iterator[LogEntry]:
        """Yield what people have changed, or what they have changed of `jobid`; the newest first, streamed.

        Only `since` an instant, and only by those in whose names `who` is a part, in either case. The commands of the
        command line note what they change, and so does a `Redbike` with ``noted_as``. 10,000 entries are kept, each of
        up to 100 jobs that were changed together. Raises `BadJobId`, and `BadConfig` for another bad argument.
        """
        one, name = None if jobid is None else check_known_jobid(jobid), check_who(who, "who") or ""
        return self.store.log.list_entries(LogSearch(one, read_instant("since", since), who=name))
