"""The facade of a test: a `Redbike` whose clock stands still, and moves from one due time to the next."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NoReturn

from redbike.config.settings import KeywordSettings
from redbike.errors import BadConfig, TooManyRuns
from redbike.facade.redbike import Redbike
from redbike.importers.rows import Source
from redbike.schedule.objects.instants import InstantLike
from redbike.store.run import Run
from redbike.testing.clock import Clock, name, read_instant
from redbike.testing.worker import SimulatedWorker
from redbike.text.printable import quote


class BikeSettings(KeywordSettings, total=False):
    """The settings that a test may give, as `Redbike` has them."""

    default_timeout: float


class SimulatedRedbike(Redbike):
    """A `Redbike` for tests. All that it does happens at the instant `now`, which only `run_due` moves.

    While a job runs, ``current_run().now()`` goes on from there.
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
        one due time to the next, so retries, pauses that end, and rates of queues come at their instants.

        What `work` raises is raised here, after the run has ended as its policies say. Then the clock stays there, and
        the next call goes on. With `reraise` false, it is not raised: `runs` and `failures` tell of it. A run that took
        longer than its timeout raises `Overrun`.

        Raise `TooManyRuns` if more than `limit` runs were due, `TypeError` for another `until`, and `BadConfig` for
        one that is past, and for another `limit` than a whole number.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
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
        return runs

    def _run_now(self, runs: list[Run], limit: int, reraise: bool) -> None:
        """Run what is due at this instant, until nothing is."""
        worker = self._find_worker()
        while True:
            self.dispatch_due(self.now)
            before = len(runs)
            while worker.work_one() is not None:
                run = worker.ran
                if run is None or not run.began:
                    # It was not to begin: it was cancelled, or missed while its queue was paused.
                    continue
                runs.append(run)
                if reraise and (error := worker.find_error(run)):
                    error.add_note(f"in the run of the job {run.jobid!r} that was due at {name(run.due)}")
                    raise error
                if len(runs) > limit:
                    raise TooManyRuns(self._explain(runs, limit))
            if len(runs) == before:
                return

    def _find_worker(self) -> SimulatedWorker:
        if self._worker is None:
            self._worker = SimulatedWorker(self.store, self.worker, self.settings)
        return self._worker

    def _find_next(self) -> float | None:
        """Return the next instant at which something is to happen; None if there is none."""
        timeline = self.store.timeline
        survey = timeline.read_survey(self.store.scripts.run(timeline.pack_survey()))
        moments = (survey.next_due, survey.next_alarm)
        return min((moment for moment in moments if moment is not None and moment > self.now), default=None)

    def _explain(self, runs: Sequence[Run], limit: int) -> str:
        [(jobid, number)] = Counter(run.jobid for run in runs).most_common(1)
        which = f"the job {jobid!r} alone ran {number} times"
        return f"more than {limit} runs were due by {name(self.now)}: {which}; give a higher limit or an earlier until"

    def work(self, concurrency: int | None = None) -> NoReturn:
        """Raise `BadConfig`: a test calls `run_due`."""
        raise BadConfig("the clock of a test stands still: call run_due() in place of work()")

    def dispatch(
        self, after: InstantLike | None = None, csvfilename: Source | None = None, ping_url: str | None = None
    ) -> NoReturn:
        """Raise `BadConfig`: a test calls `run_due`."""
        raise BadConfig("the clock of a test stands still: call run_due() in place of dispatch()")

    def finish(self) -> None:
        """End the threads, and give back the connections. The fixture calls it."""
        if self._worker is not None:
            self._worker.close()
        self.store.scripts.close()
