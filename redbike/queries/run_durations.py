"""How long runs take: the usual time, and the runs that took much longer."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from redbike.store.enums import Outcome
from redbike.store.history import PastRun

LEAST = 4  # runs that succeeded, below which nothing is unusual
TIMES, SECONDS = 3.0, 0.05  # a run is unusual that took so many times the median, and so many seconds more


@dataclass(frozen=True, slots=True)
class Durations:
    """Of runs of a job; in seconds."""

    median: float | None  #: of those that succeeded; None if none has
    longest: float
    unusual: frozenset[int]  #: numbers of the runs that took much longer than the others


def measure_durations(runs: Sequence[PastRun]) -> Durations:
    """Return how long `runs` took."""
    good = [run.took for run in runs if run.outcome is Outcome.OK]
    usual = median(good) if good else None
    unusual = frozenset(
        number
        for number, run in enumerate(runs)
        if usual is not None and len(good) >= LEAST and run.took > max(TIMES * usual, usual + SECONDS)
    )
    return Durations(usual, max((run.took for run in runs), default=0.0), unusual)
