"""The runs in flight: when each began, how long it usually takes, and its worker."""

from collections.abc import Iterable
from dataclasses import dataclass

from redbike.config.definitions import MAX_SECONDS
from redbike.queries.unusual import LONGER, SLOW, measure_durations
from redbike.store.archived import read_runs
from redbike.store.processes import Process
from redbike.store.questions import InFlight
from redbike.store.records import Progress, RunRecord


@dataclass(frozen=True, slots=True)
class Running:
    """A run in flight. Times are epoch seconds, durations seconds."""

    jobid: str
    due: float
    start: float
    deadline: float | None  #: None if it has no timeout
    worker: str  #: the id of its process; "" if it is not known
    progress: Progress | None  #: as the job reports it
    is_cancelled: bool  #: its worker is to stop it
    usual: float | None  #: the median duration of the kept successful runs of its job; None if none is kept

    def is_slow(self, now: float) -> bool:
        """Tell whether it goes on after its deadline, or takes very much longer than usual."""
        took = now - self.start
        is_longer = self.usual is not None and took > SLOW * self.usual and took > self.usual + LONGER
        return is_longer or self.is_late(now)

    def is_late(self, now: float) -> bool:
        """Tell whether it goes on after its deadline."""
        return self.deadline is not None and now > self.deadline


def find_deadline(run: RunRecord) -> float | None:
    """Return the deadline of a run; None for a command without a timeout."""
    return run.deadline if run.deadline - run.start < MAX_SECONDS - 1 else None


def list_running(found: Iterable[InFlight], processes: Iterable[Process]) -> list[Running]:
    """Return the details of runs in flight. `processes` are the workers that may run them."""
    workers = {jobid: each.id for each in processes for jobid in each.jobs}
    return [
        Running(
            jobid,
            run.due,
            run.start,
            find_deadline(run),
            workers.get(jobid, ""),
            progress,
            run.cancelled,
            measure_durations(read_runs(jobid, history) or ()).median,
        )
        for jobid, run, progress, history in found
    ]
