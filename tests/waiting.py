"""Waiting for conditions, in place of sleeping and hoping."""

import time
from collections.abc import Callable

from tests.surroundings import measure

# How much slower this machine is than an idle one, at the start of each process of the suite.
SLOWNESS = measure()


def wait_until(condition: Callable[[], object], timeout: float = 20.0) -> None:
    """Return as soon as `condition` holds; fail after `timeout` seconds, or as many more as this machine is slower."""
    began, slowness = time.monotonic(), SLOWNESS
    while not condition():
        if time.monotonic() - began > timeout * slowness:
            # It may have become slower since.
            before, slowness = slowness, measure()
            assert slowness > before or condition(), f"{condition} did not hold within {timeout * before:.0f} s"
        time.sleep(0.005)
