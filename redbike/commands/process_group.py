"""Commands as processes: each is started as a process group of its own, which is ended as a whole.

The groups that run are known to the module, so that no way in which Python can end leaves one behind: not an exception,
not ``sys.exit``, and not a signal whose handler calls `end_all`.
"""

import atexit
import contextlib
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

FAREWELL = 1.0  # seconds between SIGTERM and SIGKILL when the worker itself is about to end
TICK = 0.02  # seconds between two looks at a process group that is being ended

# No lock guards these: `end_all` is called by a signal handler, which may have interrupted whoever would hold it.
_starting: set["ProcessGroup"] = set()
_running: set["ProcessGroup"] = set()
_ending = False


class ProcessGroup:
    """A command that was started, with all that it starts itself and that does not leave its group.

    As a context manager it ends the group if an exception passes through. Raises `OSError` for what cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[bytes],
        env: Mapping[bytes, bytes],
        cwd: bytes | None,
        inherited: Sequence[int] = (),
    ) -> None:
        self.process: subprocess.Popen[bytes]

        def start() -> None:
            _starting.add(self)
            try:
                self.process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    bufsize=0,
                    cwd=cwd,
                    env=env,
                    start_new_session=True,
                    pass_fds=inherited,
                )
                _running.add(self)
            finally:
                _starting.discard(self)

        _call_beside_signals(start)
        if _ending:
            # It was started while the others were ended already.
            self._send(signal.SIGKILL)

    def __enter__(self) -> "ProcessGroup":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is not None and self.process.returncode is None:
            self._kill()
        _running.discard(self)

    @property
    def number(self) -> int:
        """The number of the process group, which is that of its first process."""
        return self.process.pid

    def is_left(self) -> bool:
        """Whether anything is left of it: its number is not given to others for so long."""
        self.process.poll()
        return exists(self.number)

    def end(self, grace: float, wait: Callable[[float], object]) -> None:
        """End it: SIGTERM, then SIGKILL for what is left after `grace` seconds; `wait(seconds)` is called meanwhile."""
        try:
            self._send(signal.SIGTERM)
            until = time.monotonic() + grace
            while self.is_left() and time.monotonic() < until:
                wait(TICK)
        finally:
            self._kill()

    def _kill(self) -> None:
        if self.is_left():
            self._send(signal.SIGKILL)
        # Bounded, as one that changed its user or hangs in the kernel cannot be ended by us.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.number, number)


def exists(group: int) -> bool:
    """Whether there is a process group of this number."""
    try:
        os.killpg(group, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def _call_beside_signals(action: Callable[[], None]) -> None:
    """Call `action` where no signal handler interrupts it: these run in the main thread."""
    if threading.current_thread() is threading.main_thread():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(action).result()
    else:
        action()


def end_all() -> None:
    """End every group that runs, within about `FAREWELL`, because this process is about to end.

    It takes no lock and logs nothing, so a signal handler may call it.
    """
    global _ending
    _ending = True
    until = time.monotonic() + FAREWELL
    while _starting and time.monotonic() < until:
        time.sleep(TICK)
    groups = list(_running)
    for group in groups:
        group._send(signal.SIGTERM)
    while any(group.is_left() for group in groups) and time.monotonic() < until:
        time.sleep(TICK)
    for group in groups:
        if group.is_left():
            group._send(signal.SIGKILL)


def wait_if_ending() -> None:
    """Do not return once `end_all` was called: a command that it ended has neither failed nor is it done."""
    while _ending:
        time.sleep(1.0)


def _forget() -> None:
    """In a fork of this process: the groups are the parent's."""
    global _ending
    _starting.clear()
    _running.clear()
    _ending = False


atexit.register(end_all)
os.register_at_fork(after_in_child=_forget)
