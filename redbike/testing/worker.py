"""The worker of a test: it keeps what it has run, and what was raised."""

import time
from itertools import count

from redbike.config.settings import Settings
from redbike.errors import Again, Overrun
from redbike.loop.limits import apply_limits
from redbike.loop.pings import Pings
from redbike.loop.queues import Queues
from redbike.loop.worker_class import WorkerClass
from redbike.store.enums import Outcome
from redbike.store.run import Placement, Run
from redbike.store.store import Store
from redbike.worker.heartbeat import INTERVAL, Heartbeat
from redbike.worker.runner import Runner
from redbike.worker.worker import Worker


class SimulatedWorker(Worker):
    """Works jobs by a clock that stands still. It uses no more of a worker than `work_one` does."""

    def __init__(self, store: Store, worker: WorkerClass, settings: Settings) -> None:
        super().__init__(store, worker, settings)
        seconds = count()
        # Each look is a second later: so queues that come and go count at once.
        self.queues = Queues(worker, settings.default_timeout, lambda: float(next(seconds)))
        self.runner: _Runner = _Runner(worker, settings, self.pings)
        self.heartbeat = _Heartbeat(store, self.ends.end_overrun, self.runner.cancel)
        self.ran: Run | None = None  # the last one
        next(self.queues.looks())
        apply_limits(store, worker, self.queues.names())

    def close(self) -> None:
        """End the threads, and give back the connections."""
        super().close()
        self.loop.close()

    def find_error(self, run: Run) -> BaseException | None:
        """Return what `work` raised in this last run; `Overrun` if it took too long."""
        if self.runner.raised is None and run.began and not run.was_in_time:
            return Overrun(f"it overran its timeout of {run.timeout:g} s")
        return self.runner.raised

    def _run(self, run: Run) -> Placement:
        self.ran, self.runner.raised = run, None
        return super()._run(run)


class _Runner(Runner):
    """Keeps what a failed run has raised."""

    def __init__(self, worker: WorkerClass, settings: Settings, pings: Pings) -> None:
        super().__init__(worker, settings, pings)
        self.raised: BaseException | None = None

    def _place_raised(self, run: Run, error: BaseException, settings: Settings) -> Placement:
        placement = super()._place_raised(run, error, settings)
        if placement.outcome in (Outcome.RETRY, Outcome.FAILED, Outcome.OVERRUN) and not isinstance(error, Again):
            self.raised = error
        return placement


class _Heartbeat(Heartbeat):
    """Finds no run that is over its deadline: by a clock that stands still, none is. Its end says that it was."""

    def _find_due(self, run: Run) -> float:
        return time.monotonic() + INTERVAL
