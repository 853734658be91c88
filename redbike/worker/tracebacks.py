"""Which tracebacks a worker logs in full: the same one once a minute, however many jobs fail in the same way.

Among ten thousand tracebacks nobody finds the one that differs. Each failure still gets a line in the log, and
``redbike failures`` shows its whole traceback.
"""

import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable

INTERVAL = 60.0  # seconds
MOST = 1000  # remembered tracebacks


class Tracebacks:
    """The tracebacks of the last minute. Two are the same if they lead through the same lines to the same exception."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: OrderedDict[Hashable, float] = OrderedDict()
        self._changing = threading.Lock()

    def keep_if_new(self, error: BaseException, queue: str) -> BaseException | None:
        """Return `error`, which a job of `queue` raised, for ``exc_info``; None if its traceback was logged lately."""
        lines = tuple((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))
        path, now = (queue, type(error), lines), self._clock()
        with self._changing:
            if now - self._logged.get(path, -INTERVAL) < INTERVAL:
                return None
            self._logged[path] = now
            self._logged.move_to_end(path)
            if len(self._logged) > MOST:
                self._logged.popitem(last=False)
            return error
