"""What one `Redbike` runs in its threads: so that it can stop its loops, and close what it opened after the last one.

`OwnLoops.stop` takes no lock, as a signal handler may call it, also while its own thread is in here.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redbike.errors import Unreachable
from redbike.processes.signals import StopFlag

log = logging.getLogger("redbike")


class Stay:
    """A call that runs a loop, or one turn of it, in the thread that makes this."""

    def __init__(self, loops: "OwnLoops") -> None:
        self._loops = loops
        self._flag: StopFlag | None = None
        self.thread = threading.get_ident()
        self.over = threading.Event()

    def attach(self, flag: StopFlag) -> None:
        """Let `OwnLoops.stop` set the flag of this loop; set it at once if that was called before."""
        self._flag = flag
        if self._loops.is_stopped:
            flag.set()

    def stop(self) -> None:
        """Set the flag, if there is one."""
        if self._flag is not None:
            self._flag.set()

    @property
    def is_stopped(self) -> bool:
        """Tell whether its flag is set."""
        return self._flag is not None and self._flag.is_set()


class OwnLoops:
    """The calls that run. `release` is called once they are over, after `close`."""

    def __init__(self, release: Callable[[], None]) -> None:
        self.is_stopped = False
        self._is_closing = False
        self._release = release
        self._stays: dict[int, Stay] = {}

    @contextmanager
    def run(self) -> Iterator[Stay]:
        """Count a call while the ``with`` lasts. It ends without an error if Redis is away when its loop is stopped."""
        stay = Stay(self)
        self._stays[id(stay)] = stay
        try:
            yield stay
        except Unreachable:
            if not stay.is_stopped:
                raise
            log.warning("stopped while Redis was away")
        finally:
            del self._stays[id(stay)]
            self._release_if_over()
            stay.over.set()

    def stop(self) -> None:
        """Stop the loops that run, and those that are still to begin."""
        self.is_stopped = True
        for stay in list(self._stays.values()):
            stay.stop()

    def close(self, waits: bool) -> None:
        """Stop; release when all calls are over. With `waits`, wait for those of other threads."""
        self.stop()
        self._is_closing = True
        for stay in list(self._stays.values()) if waits else ():
            if stay.thread != threading.get_ident():
                stay.over.wait()
        self._release_if_over()

    def _release_if_over(self) -> None:
        if self._is_closing and not self._stays:
            self._release()
