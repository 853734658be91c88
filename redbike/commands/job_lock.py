"""Run one process of a job at a time on this host, also after a killed worker has left a command behind.

1. A command inherits the lock on a file, and so do its children. The kernel releases it when they have all exited.
2. A run that ends in order removes the file. So a background process that it leaves behind blocks no later run.
3. So if a lock is held, a worker was killed or cut off. The job's next run waits until the lock is free.
4. Only processes in the command's group count. A daemon that has left the group may run for years.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator

from redbike.commands.process_group import is_group_alive
from redbike.errors import Again, CommandFailed, Overrun

log = logging.getLogger("redbike.commands")

POLL_INTERVAL = 0.5  # seconds between two attempts to take a lock
REASON = "(whose worker was killed or cut off)"
MIN_DESCRIPTOR = 64  # scripts use small numbers themselves, as in ``exec 9> lockfile``


class JobLock:
    """The lock of one job. It has no descriptor if no file could be locked."""

    def __init__(self, path: str = "", descriptor: int | None = None) -> None:
        self._path = path
        self._descriptor = descriptor
        self._is_kept = False

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that the command must inherit."""
        return [] if self._descriptor is None else [self._descriptor]

    def record_group(self, pgid: int) -> None:
        """Write the process group of the command to the file."""
        if self._descriptor is not None:
            # If that fails, the lock still works, but a daemon that has left the group holds it too.
            with contextlib.suppress(OSError):
                os.pwrite(self._descriptor, b"%d" % pgid, 0)

    def keep(self) -> None:
        """Keep the file at `release`: a process of the command is left, and the next run must wait for it."""
        self._is_kept = True

    def release(self) -> None:
        """Release the lock, as the run has ended."""
        if self._descriptor is not None:
            if not self._is_kept:
                _remove(self._path, self._descriptor)
            os.close(self._descriptor)


@contextlib.contextmanager
def hold_lock(
    name: str,
    deadline: float,
    jobid: str,
    is_cancelled: Callable[[], bool] = lambda: False,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Iterator[JobLock]:
    """Hold the lock `name`. Raise `Overrun` if it is not free by `deadline` (of the monotonic clock).

    If it is not free, raise `CommandFailed` when the run is cancelled, and `Again` when the worker is to stop: the
    command has not begun. If the system can lock no file, log that once, and continue without a lock.
    """
    lock = _acquire(name, deadline, jobid, is_cancelled, is_stopping)
    try:
        yield lock
    finally:
        lock.release()


def make_name(*parts: str) -> str:
    """Return a file name for a lock: a hash of `parts`."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]


def _acquire(
    name: str, deadline: float, jobid: str, is_cancelled: Callable[[], bool], is_stopping: Callable[[], bool]
) -> JobLock:
    has_warned = False
    while True:
        try:
            lock = _try_lock(os.path.join(_make_folder(), name))
        except OSError as error:
            _warn_once(f"a command whose worker is killed may run beside the job's next run: {error}")
            return JobLock()
        if lock is not None:
            return lock
        left = deadline - time.monotonic()
        if left <= 0:
            raise Overrun(f"the command of its last run {REASON} has not ended")
        if is_cancelled():
            raise CommandFailed("cancelled before it was started")
        if is_stopping():
            log.warning(
                "%s: the command of its last run %s still runs: this worker leaves the job to another one",
                jobid,
                REASON,
            )
            raise Again
        if not has_warned:
            has_warned = True
            log.warning("%s: the job waits until the command of its last run %s has ended", jobid, REASON)
        time.sleep(min(POLL_INTERVAL, left))


def _make_folder() -> str:
    """Return the folder of the lock files, which only this user can enter; make it if needed. Raise `OSError`."""
    path = os.path.join(tempfile.gettempdir(), f"redbike-commands-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "it is not a private folder of this user", path)
    return path


def _try_lock(path: str) -> JobLock | None:
    """Return the lock on the file at `path`; None if another process of the job holds it."""
    while True:
        descriptor = _open(path)
        try:
            if _lock(descriptor):
                if _is_same_file(path, descriptor):
                    os.ftruncate(descriptor, 0)
                    lock, descriptor = JobLock(path, descriptor), -1
                    return lock
            elif not _is_stale(descriptor):
                return None
            else:
                _remove(path, descriptor)
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def _open(path: str) -> int:
    low = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, MIN_DESCRIPTOR)
    finally:
        os.close(low)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_stale(descriptor: int) -> bool:
    """Tell whether the command's group is gone, so that only processes that have left the group hold the lock."""
    pgid = os.pread(descriptor, 20, 0)
    return pgid.isdigit() and not is_group_alive(int(pgid))


def _is_same_file(path: str, descriptor: int) -> bool:
    """Tell whether the open file is still the one at `path`: another process may have removed that."""
    try:
        there, own = os.stat(path), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)


def _remove(path: str, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        if _is_same_file(path, descriptor):
            os.unlink(path)


@functools.cache
def _warn_once(message: str) -> None:
    """Log `message`, but only the first time."""
    log.warning("%s", message)
