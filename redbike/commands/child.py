"""A child process whose use of time and memory is known when it has ended."""

import os
import resource
import subprocess
import sys
import threading
import time
from typing import Any

from redbike.store.history import Usage

UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, of the peak of memory
FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.05  # seconds between two checks


class Child(subprocess.Popen[bytes]):
    """A process that is waited for by wait4(2).

    The system counts a command, and those of its children for which it or another child has waited. The peak of memory
    also includes what this process had when it started the command. So a lower peak is not known.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.usage: Usage | None = None  # None while it runs, and if other code has waited for it
        self._reaping = threading.Lock()
        self._floor = 0
        super().__init__(*arguments, **options)
        # Read afterwards: it never falls, so it is at least what it was when the child was made.
        self._floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        # Never wait for the lock: a signal handler may have interrupted the thread that holds it.
        if self.returncode is None and self._reaping.acquire(blocking=False):
            try:
                if self.returncode is None:
                    self._reap()
            finally:
                self._reaping.release()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its exit status. Raise `subprocess.TimeoutExpired`."""
        until, pause = None if timeout is None else time.monotonic() + timeout, FIRST_PAUSE
        while (status := self.poll()) is None:
            left = LONGEST_PAUSE if until is None else until - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)
        return status

    def _reap(self) -> None:
        try:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        except ChildProcessError:
            # A job of this process has waited for any child, so the exit status is not known; see `Popen.poll`.
            self.returncode = 0
            return
        if pid:
            peak = usage.ru_maxrss if usage.ru_maxrss > self._floor else None
            self.usage = Usage(usage.ru_utime + usage.ru_stime, None if peak is None else peak * UNIT)
            self.returncode = os.waitstatus_to_exitcode(status)
