"""Waiting for conditions, in place of sleeping and hoping."""

import time
from collections.abc import Callable

from tests.surroundings import measure

# How much slower this machine is than an idle one: measured once, at the start of each process of the suite.
SLOWNESS = measure()


def wait_until(condition: Callable[[], object], timeout: float = 20.0) -> None:
    """Return as soon as `condition` holds; fail after `timeout` seconds, or as many more as this machine is slower."""
    deadline = time.monotonic() + timeout * SLOWNESS
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not hold within {timeout * SLOWNESS:.0f} s"
        time.sleep(0.005)
