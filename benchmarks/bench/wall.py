"""From the workers' clock to the one on the wall, which is Redis' too, for all run on one host."""

import time

from bench.record import Runs
from bench.site import Failed


def lateness(due: dict[int, float], runs: list[Runs]) -> list[float]:
    """Seconds from when each job was due to when it ran, the least late first; negative is early."""
    offset = wall_offset()
    return sorted(moment / 1e9 + offset - due[number] for each in runs for number, moment in each)


def wall_offset() -> float:
    """Seconds from the monotonic clock's zero to the epoch, by the sample that took the shortest."""
    return min(_sample() for _ in range(1000))[1]


def _sample() -> tuple[int, float]:
    before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return after - before, (wall - (before + after) / 2) / 1e9


def check_in_time(due: float) -> None:
    """Raises `Failed` when the instant is past for which jobs have just been set."""
    if time.time() > due - 0.2:
        raise Failed("the jobs could not be set before they were due")


def quantile(ordered: list[float], share: float) -> float:
    """The one of `ordered` that so large a share of them is not above."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
