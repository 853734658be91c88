"""Notify a service manager, or a health check, that this process works: by systemd's protocol, and by a file.

Completed turns of loops feed it, never a timer. So a process that runs but hangs does not feed it:

1. A dispatcher and an idle worker feed it in every turn, at least once in a few seconds.
2. A worker that runs a job feeds it by the heartbeats of runs before their deadline. A job that continues after its
   deadline has none.
3. While the server is away, each attempt to reach it counts: a restart would not bring the server back.
4. With shards, a dispatcher has a loop for each shard, and each of these loops has to feed it.

Only the command line enables this, as the variables are meant for one process. They are taken out of the environment:
a job, a command or the embedded server must not speak for this process. See sd_notify(3).
"""

import faulthandler
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, MutableMapping

from redbike.errors import BadConfig

log = logging.getLogger("redbike")

SOCKET, LIMIT, PID, FILE = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "REDBIKE_WATCHDOG_FILE"
INTERVAL = 1.0  # seconds at least between two feedings


class Watchdog:
    """Notifies the manager at `address`, if there is one, and sets the time of `file`, if there is one."""

    def __init__(self, address: str = "", file: str = "", is_watched: bool = False) -> None:
        self._file = file
        self._is_watched = is_watched
        self._fed = float("inf")  # when it notified last, by the monotonic clock; not before `begin`
        self._loops: set[int] = set()  # the threads whose loops run
        self._silent: set[int] = set()  # the threads that have not fed it since it notified last
        self._is_ready = False  # the manager was told that this process has begun
        self._failing: set[str] = set()  # what cannot be notified, after a warning
        self._socket: socket.socket | None = None
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            # A manager that does not read must not delay jobs.
            self._socket.setblocking(False)
            # An address that begins with @ is no path: Linux has a zero byte there.
            self._address = address if address[0] == "/" else f"\0{address[1:]}"

    def begin(self) -> None:
        """Notify that this process, or one more of its loops, has begun to work."""
        self._loops.add(threading.get_ident())
        self._fed = float("-inf")
        self.feed()

    def feed(self) -> None:
        """Note that a turn was completed; notify, at most once a second, when all loops have completed one."""
        now = time.monotonic()
        if now - self._fed < INTERVAL:
            return
        if self._silent:
            self._silent.discard(threading.get_ident())
            if self._silent & self._loops:
                return
        self._fed = now
        # The loop of a worker is silent while it runs a job: other threads feed for it.
        self._silent = set(self._loops) if len(self._loops) > 1 else set()
        if not self._is_ready:
            # Repeated until it succeeds: without it, the manager would wait for ever.
            self._is_ready = self._tell("READY=1")
        if self._is_watched:
            self._tell("WATCHDOG=1")
        if self._file:
            self._warn_once(self._file, lambda: _touch(self._file))

    def end(self) -> None:
        """Notify that this process ends after its current jobs. The loop of this thread need not feed any more."""
        self._loops.discard(threading.get_ident())
        self._tell("STOPPING=1")

    def _tell(self, state: str) -> bool:
        if self._socket is None:
            return True
        sender, address = self._socket, self._address
        return self._warn_once(SOCKET, lambda: sender.sendto(state.encode(), address))

    def _warn_once(self, name: str, action: Callable[[], object]) -> bool:
        try:
            action()
        except OSError as error:
            if name not in self._failing:
                log.warning("cannot notify the watchdog: %s: %s", name, error.strerror or error)
            self._failing.add(name)
            return False
        self._failing.discard(name)
        return True


_watchdog = Watchdog()


def begin() -> None:
    """Notify that this process has begun to work."""
    _watchdog.begin()


def feed() -> None:
    """Note that a turn of a loop was completed."""
    _watchdog.feed()


def end() -> None:
    """Notify that this process is about to end."""
    _watchdog.end()


def enable(environment: MutableMapping[str, str], feeds: bool) -> None:
    """Notify from now on as the variables of `environment` say. `feeds`: whether this process itself runs a loop.

    Raise `BadConfig` for invalid variables. If systemd ends a process that hangs, the log shows where each thread was.
    """
    global _watchdog
    address, limit, pid, file = (environment.pop(name, "") for name in (SOCKET, LIMIT, PID, FILE))
    is_watched = bool(limit) and pid in ("", str(os.getpid()))
    if (is_watched or file) and not feeds:
        name = FILE if file else "WatchdogSec"
        raise BadConfig(f"{name} is for one process: use 'dispatch' and 'work', without --processes")
    if address and address[0] not in "/@":
        raise BadConfig(f"bad {SOCKET} {address!r}: the path of a socket is needed")
    if file:
        try:
            _touch(file)
        except (OSError, ValueError) as error:
            raise BadConfig(f"bad {FILE} {file!r}: {getattr(error, 'strerror', error)}") from None
    if is_watched:
        faulthandler.enable()
    _watchdog = Watchdog(address, file, is_watched)


def _touch(file: str) -> None:
    """Set the time of `file`; make the file if there is none. Raise `OSError`."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        os.utime(descriptor)
    finally:
        os.close(descriptor)
