"""From the workers' clock to the one on the wall."""

import time

from bench.record import Runs
from bench.site import Failed, Site


def lateness(site: Site, due: dict[int, float], runs: list[Runs]) -> list[float]:
    """Seconds from when each job was due to when it ran, in order; raises `Failed` when one was early.

    Redis' clock is the system's, and so is the one of all processes: its distance from the monotonic one is read now.
    """
    offset = min(_offset() for _ in range(100))
    late = sorted(moment / 1e9 + offset - due[number] for each in runs for number, moment in each)
    return late
