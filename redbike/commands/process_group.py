"""Start each command as a process group of its own, and end it as a whole.

The module keeps a list of the running groups. So no group outlives this process if that ends by an exception, by
``sys.exit``, or by a signal whose handler calls `end_all`.
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

from redbike.commands.child import Child

ABORT_GRACE = 1.0  # seconds between SIGTERM and SIGKILL when the worker itself is about to end
POLL_INTERVAL = 0.02  # seconds between two checks whether a process group has ended

# No lock guards these: a signal handler calls `end_all`, and the code that it interrupts may hold the lock.
_starting: set["ProcessGroup"] = set()
_running: set["ProcessGroup"] = set()
_is_ending = False


class ProcessGroup:
    """A running command, and all of its children that have not left its process group.

    As a context manager, it ends the group if an exception passes through. Raise `OSError` if the command cannot be
    started.
    """

    def __init__(
        self,
        argv: Sequence[bytes],
        env: Mapping[bytes, bytes],
        cwd: bytes | None,
        descriptors: Sequence[int] = (),
        stdin: int = subprocess.DEVNULL,
        umask: int = -1,
        ending: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.ending = ending
        self.process: Child
        self._is_told = False  # whether the signal `ending` was sent

        def start() -> None:
            _starting.add(self)
            try:
                self.process = Child(
                    argv,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    bufsize=0,
                    cwd=cwd,
                    env=env,
                    start_new_session=True,
                    pass_fds=descriptors,
                    umask=umask,
                )
                _running.add(self)
            finally:
                _starting.discard(self)

        _call_without_signals(start)
        if _is_ending:
            # `end_all` did not see this group, as it started meanwhile.
            self._send(signal.SIGKILL)

    def __enter__(self) -> "ProcessGroup":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is not None and self.process.returncode is None:
            self._kill()
        _running.discard(self)

    @property
    def pgid(self) -> int:
        """The process group id, which is the process id of the command."""
        return self.process.pid

    def is_alive(self) -> bool:
        """Tell whether any process of the group exists. Until then, the system gives its id to no other group."""
        self.process.poll()
        return is_group_alive(self.pgid)

    def end(self, grace: float, wait: Callable[[float], object]) -> None:
        """Send the signal `ending`, and SIGKILL to the processes that are left after `grace` seconds.

        Call `wait(seconds)` between two checks. Of several threads only the first sends `ending`.
        """
        try:
            if not self._is_told:
                self._is_told = True
                self._send(self.ending)
            deadline = time.monotonic() + grace
            while self.is_alive() and time.monotonic() < deadline:
                wait(POLL_INTERVAL)
        finally:
            self._kill()

    def _kill(self) -> None:
        if self.is_alive():
            self._send(signal.SIGKILL)
        # With a timeout: a process that has changed its user, or hangs in the kernel, cannot be killed from here.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pgid, number)


def is_group_alive(pgid: int) -> bool:
    """Tell whether a process group with this id exists."""
    try:
        os.killpg(pgid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def _call_without_signals(action: Callable[[], None]) -> None:
    """Call `action` outside the main thread, so that no signal handler can interrupt it."""
    if threading.current_thread() is threading.main_thread():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(action).result()
    else:
        action()


def end_all() -> None:
    """End every group that runs, within about `ABORT_GRACE` seconds, as this process is about to end.

    A signal handler may call it: it takes no lock and logs nothing.
    """
    global _is_ending
    _is_ending = True
    deadline = time.monotonic() + ABORT_GRACE
    while _starting and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL)
    groups = list(_running)
    for group in groups:
        group._send(group.ending)
    while any(group.is_alive() for group in groups) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL)
    for group in groups:
        if group.is_alive():
            group._send(signal.SIGKILL)


def wait_if_ending() -> None:
    """Never return once `end_all` was called: a command that it has ended did neither fail nor succeed."""
    while _is_ending:
        time.sleep(1.0)


def _reset_in_child() -> None:
    """Forget the groups in a fork of this process: they belong to the parent."""
    global _is_ending
    _starting.clear()
    _running.clear()
    _is_ending = False


atexit.register(end_all)
os.register_at_fork(after_in_child=_reset_in_child)
