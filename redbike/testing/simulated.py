"""A `Redbike` for tests: its clock stands still, and only `run_due` moves it, from one due time to the next.

Its worker keeps the last run, and what ``work`` raised in this run.
"""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import NoReturn

from redbike.config.settings import KeywordSettings, Settings
from redbike.errors import Again, BadConfig, Overrun, TooManyRuns
from redbike.facade.redbike import Redbike
from redbike.importers.rows import Source
from redbike.loop.every_host import EveryHost
from redbike.loop.host_queues import LOOK, HostQueues
from redbike.loop.pings import Pings
from redbike.loop.queues import Queues, apply_limits
from redbike.loop.worker_class import WorkerClass
from redbike.schedule.moments import END_OF_TIME, InstantLike, format_utc
from redbike.store.enums import Outcome
from redbike.store.next_state import NextState
from redbike.store.run import Run
from redbike.store.store import Store
from redbike.text.parsing import is_number, is_whole_number
from redbike.text.printable import quote
from redbike.worker.heartbeat import INTERVAL, Heartbeat
from redbike.worker.runner import Runner
from redbike.worker.worker import Worker


class _Pings(Pings):
    """Calls no URL: a service that watches a job must not take a test for a run of it."""

    def send(self, jobid: str, url: str, outcome: str = "") -> None:
        """Do nothing."""


class SimulatedWorker(Worker):
    """A worker for a clock that stands still. It has no loop: each call of `work_one` runs one job."""

    pings_class = _Pings

    def __init__(self, store: Store, worker: WorkerClass, settings: Settings) -> None:
        super().__init__(store, worker, settings)
        seconds = count()
        self._looks = 0.0  # the clock that says when to ask again for the queues of the host
        self.hosts = HostQueues(self.hosts.host, store.queue_limits.find_used, lambda: self._looks)
        # Each poll is one second later by this clock, so a change of the queues takes effect at once.
        self.queues = Queues(worker, settings.default_timeout, lambda: float(next(seconds)), self.hosts)
        self.runner: _Runner = _Runner(worker, settings, self.pings)
        self.runner.saver = self.saver
        self.heartbeat = _Heartbeat(store, self.ends.end_overrun, self.runner.cancel)
        self.ran: Run | None = None  # the last one
        next(self.queues.polls())
        apply_limits(store, worker, self.queues.names(), self.queues.list_for_host())

    def look_for_host(self) -> None:
        """Let the next `work_one` ask again which queues of the host are in use."""
        self._looks += LOOK

    def register(self) -> None:
        """Register this worker as alive at this instant."""
        self.store.workers.register(self.presence.owner, self.presence.format_entry())

    def close(self) -> None:
        """End the threads, and release the connections."""
        super().close()
        self.loop.close()

    def find_error(self, run: Run) -> BaseException | None:
        """Return what ``work`` raised in the last run, `run`; `Overrun` if it raised nothing, but took too long."""
        if self.runner.raised is None and run.began and not run.was_in_time:
            return Overrun(f"it overran its timeout of {run.timeout:g} s")
        return self.runner.raised

    def _run(self, run: Run) -> NextState:
        self.ran, self.runner.raised = run, None
        return super()._run(run)


class _Runner(Runner):
    """Keeps the exception of a failed run; `Again` is no failure."""

    def __init__(self, worker: WorkerClass, settings: Settings, pings: Pings) -> None:
        super().__init__(worker, settings, pings)
        self.raised: BaseException | None = None

    def _decide_raised(self, run: Run, error: BaseException, settings: Settings) -> NextState:
        next_state = super()._decide_raised(run, error, settings)
        failures = Outcome.RETRY, Outcome.FAILED, Outcome.OVERRUN, Outcome.LOST
        if next_state.outcome in failures and not isinstance(error, Again):
            self.raised = error
        return next_state


class _Heartbeat(Heartbeat):
    """Never ends a run at its deadline. `find_error` detects after the run that it was late."""

    def _find_due(self, run: Run) -> float:
        return time.monotonic() + INTERVAL


class Clock:
    """A clock that stands at `now`, in epoch seconds."""

    def __init__(self, now: float) -> None:
        self.now = now

    def read(self) -> float:
        """Return the instant at which it stands."""
        return self.now

    def move(self, instant: float) -> None:
        """Set the clock to `instant`, in epoch seconds. Raise `BadConfig` if it is before `now`."""
        if instant < self.now:
            raise BadConfig(
                f"the clock of a test only goes forward: {format_utc(instant)} is before {format_utc(self.now)}"
            )
        self.now = instant


def read_instant(given: "float | datetime | timedelta", now: float) -> float:
    """Return the epoch seconds of an instant; a timedelta counts from `now`. Raise `TypeError` or `BadConfig`."""
    if isinstance(given, timedelta):
        instant = now + given.total_seconds()
    elif isinstance(given, datetime):
        if given.tzinfo is None:
            raise TypeError(f"{given!r} has no zone: an aware datetime is needed")
        instant = given.timestamp()
    elif not is_number(given):
        raise TypeError(f"{given!r:.80} is no instant: epoch seconds, an aware datetime or a timedelta is needed")
    else:
        instant = given
    if not 0 <= instant < END_OF_TIME:
        raise BadConfig(f"bad instant {quote(given)}: it is before 1970 or after 9999")
    return round(float(instant), 6)


class BikeSettings(KeywordSettings, total=False):
    """The settings that a test may give, as `Redbike` has them."""

    default_timeout: float


class SimulatedRedbike(Redbike):
    """A `Redbike` for tests. All that it does happens at the instant `now`, which only `run_due` moves.

    While a job runs, ``current_run().now()`` starts at `now` and advances with real time.
    """

    _clock: Clock
    _worker: SimulatedWorker | None = None

    def follow(self, clock: Clock) -> None:
        """Do everything by this clock."""
        self._clock = clock
        self._compose(self.store.follow(clock.read), self._noted.follow(clock.read), self.worker)

    @property
    def now(self) -> float:
        """The instant at which the clock stands, in epoch seconds."""
        return self._clock.now

    def run_due(
        self, until: float | datetime | timedelta | None = None, limit: int = 10_000, *, reraise: bool = True
    ) -> list[Run]:
        """Run all jobs that are due by `until`, each at its due time; return their runs, in this order.

        `until` is epoch seconds, an aware datetime, or a timedelta from `now` on; None is `now`. The clock moves from
        one due time to the next. So retries, ends of pauses, and rates of queues take effect at their exact instants.

        If ``work`` raises an exception, the run ends as its policies say, and then this method raises the exception.
        The clock stays at this due time, and the next call continues from there. With `reraise` false, nothing is
        raised: `runs` and `failures` show failed runs. A run longer than its timeout raises `Overrun`, unless ``work``
        raised. Raise `TooManyRuns` if more than `limit` runs were due, `TypeError` for an `until` of another type, and
        `BadConfig` if `until` is before `now`, or `limit` is not a whole number from 0 on.
        """
        if not is_whole_number(limit) or limit < 0:
            raise BadConfig(f"bad limit {quote(limit)}: a whole number is needed")
        end = self.now if until is None else read_instant(until, self.now)
        if end < self.now:
            self._clock.move(end)  # raises
        runs: list[Run] = []
        moment: float | None = self.now
        while moment is not None and moment <= end:
            self._clock.move(moment)
            self._run_now(runs, limit, reraise)
            moment = self._find_next()
        self._clock.move(end)
        self._spread(self._find_worker())
        return runs

    def _run_now(self, runs: list[Run], limit: int, reraise: bool) -> None:
        """Run the jobs that are due at this instant, again and again until none is due. Add their runs to `runs`."""
        worker = self._find_worker()
        while True:
            self._spread(worker)
            self.dispatch_due(self.now)
            worker.look_for_host()
            before = len(runs)
            while worker.work_one() is not None:
                run = worker.ran
                if run is None or not run.began:
                    # The run did not begin: it was cancelled, or missed while its queue was paused.
                    continue
                runs.append(run)
                if reraise and (error := worker.find_error(run)):
                    error.add_note(f"in the run of the job {run.jobid!r} that was due at {format_utc(run.due)}")
                    raise error
                if len(runs) > limit:
                    raise TooManyRuns(self._explain(runs, limit))
            if len(runs) == before:
                return

    def _spread(self, worker: SimulatedWorker) -> None:
        """Create the jobs of this host from the jobs for every host. In a simulation, this is the only host."""
        if self.store.hosts.read_all():
            worker.register()
            EveryHost(self.store, self.settings).spread_all()

    def _find_worker(self) -> SimulatedWorker:
        if self._worker is None:
            self._worker = self._loops.equip(SimulatedWorker(self.store, self.worker, self.settings))
        return self._worker

    def _find_next(self) -> float | None:
        """Return when the next job or timer is due after `now`, in epoch seconds; None if nothing is."""
        timeline = self.store.timeline
        survey = timeline.read_survey(self.store.scripts.run(timeline.pack_survey()))
        moments = (survey.next_due, survey.next_timer)
        return min((moment for moment in moments if moment is not None and moment > self.now), default=None)

    def _explain(self, runs: Sequence[Run], limit: int) -> str:
        [(jobid, number)] = Counter(run.jobid for run in runs).most_common(1)
        which = f"the job {jobid!r} alone ran {number} times; give a higher limit or an earlier until"
        return f"more than {limit} runs were due by {format_utc(self.now)}: {which}"

    def work(self, concurrency: int | None = None) -> NoReturn:
        """Raise `BadConfig`: a test calls `run_due`."""
        raise BadConfig("the clock of a test stands still: call run_due() in place of work()")

    def dispatch(
        self, after: InstantLike | None = None, csvfilename: Source | None = None, ping_url: str | None = None
    ) -> NoReturn:
        """Raise `BadConfig`: a test calls `run_due`."""
        raise BadConfig("the clock of a test stands still: call run_due() in place of dispatch()")

    def finish(self) -> None:
        """Close this `Redbike`, and end the threads of its worker. The fixture calls it."""
        if self._worker is not None:
            self._worker.close()
        self.close()
