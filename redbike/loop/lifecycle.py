"""The calls that run in the threads of one `Redbike`: so it can stop them, and close what it opened after the last one.

`OwnLoops.stop` takes no lock: a signal handler may call it while its own thread runs code of this module.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redbike.errors import Unreachable
from redbike.process.signals import StopFlag

log = logging.getLogger("redbike")


class Stay:
    """A call that runs a loop, or one turn of it."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.thread = 0  # the one that runs it
        self.over = threading.Event()
        self._flag: StopFlag | None = None

    def attach(self, flag: StopFlag) -> None:
        """Let `stop` set the flag of this loop; set it at once if `stop` was called before."""
        self._flag = flag
        if self.is_stopped:
            flag.set()

    @property
    def is_stopped_loop(self) -> bool:
        """Tell whether it runs a loop that was stopped, also by a signal."""
        return self._flag is not None and self._flag.is_set()

    def stop(self) -> None:
        """Let the loop end after its current job."""
        self.is_stopped = True
        if self._flag is not None:
            self._flag.set()


class OwnLoops:
    """The calls that run. `release` is called when all are over, after `close`."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._is_stopped = False
        self.is_closing = False  # `close` was called
        self._release = release
        self._stays: dict[int, Stay] = {}

    @contextmanager
    def run(self, stay: Stay | None = None) -> Iterator[Stay]:
        """Count a call while the ``with`` lasts. A loop that is stopped while Redis is away ends without an error."""
        stay = stay or Stay()
        stay.thread = threading.get_ident()
        self._stays[id(stay)] = stay
        if self._is_stopped:
            stay.stop()
        try:
            yield stay
        except Unreachable:
            if not stay.is_stopped_loop:
                raise
            log.warning("stopped while Redis did not answer")
        finally:
            self._stays.pop(id(stay), None)
            self._release_if_over()
            stay.over.set()

    def stop(self) -> None:
        """Stop the loops that run, and those that are still to begin."""
        self._is_stopped = True
        for stay in list(self._stays.values()):
            stay.stop()

    def forget_all(self) -> None:
        """Forget the calls, in a forked process: they run in its parent, and share their flags with it."""
        self._stays = {}

    def close(self, waits: bool) -> None:
        """Stop; release when all calls are over. With `waits`, wait for those of other threads."""
        self.stop()
        self.is_closing = True
        for stay in list(self._stays.values()) if waits else ():
            if stay.thread != threading.get_ident():
                stay.over.wait()
        self._release_if_over()

    def _release_if_over(self) -> None:
        if self.is_closing and not self._stays:
            self._release()
