"""Waiting for conditions, in place of sleeping and hoping."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout: float = 10.0) -> None:
    """Return as soon as `condition` holds; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not hold within {timeout} s"
        time.sleep(0.005)
