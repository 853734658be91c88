"""One process of a job at a time on this host, also when its last worker was killed and could not end the command.

1. A command inherits the lock on a file, and so do its children: the kernel releases it when they are gone.
2. A run that ends in order removes the file: what it leaves behind in the background keeps nobody waiting.
3. So a lock that is held was left by a worker that was killed or cut off, and the job's next run waits for it.
4. Only processes of the command's group count. A daemon that it started, which has left the group, may run for years.
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
from collections.abc import Iterator

from redbike.commands.process_group import exists
from redbike.errors import Overrun

log = logging.getLogger("redbike.commands")

POLL = 0.5  # seconds between two looks at a lock that is held
LEFT = "(whose worker was killed or cut off)"
HIGH = 64  # no descriptor below: scripts use small numbers themselves, as in ``exec 9> lockfile``


class JobLock:
    """The lock of one job; without a descriptor where the system has none to give."""

    def __init__(self, path: str = "", descriptor: int | None = None) -> None:
        self._path = path
        self._descriptor = descriptor
        self._kept = False

    @property
    def inherited(self) -> list[int]:
        """The descriptors that the command must inherit."""
        return [] if self._descriptor is None else [self._descriptor]

    def note(self, group: int) -> None:
        """The command runs, as process group `group`."""
        if self._descriptor is not None:
            # Without the number the lock alone counts.
            with contextlib.suppress(OSError):
                os.pwrite(self._descriptor, b"%d" % group, 0)

    def keep(self) -> None:
        """Something is left of the command: let the next run wait for it."""
        self._kept = True

    def release(self) -> None:
        """The run has ended."""
        if self._descriptor is not None:
            if not self._kept:
                _remove(self._path, self._descriptor)
            os.close(self._descriptor)


@contextlib.contextmanager
def held(name: str, until: float, jobid: str) -> Iterator[JobLock]:
    """Hold the lock `name`, for which it is waited until `until` of the monotonic clock, then `Overrun` is raised.

    Where no file can be locked it goes on without, and says so once.
    """
    lock = _acquire(name, until, jobid)
    try:
        yield lock
    finally:
        lock.release()


def name_of(*parts: str) -> str:
    """A file name for a lock that is the same for the same `parts`."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]


def _acquire(name: str, until: float, jobid: str) -> JobLock:
    told = False
    while True:
        try:
            lock = _try(os.path.join(_folder(), name))
        except OSError as error:
            _warn(f"a command whose worker is killed may run beside the job's next run: {error}")
            return JobLock()
        if lock is not None:
            return lock
        left = until - time.monotonic()
        if left <= 0:
            raise Overrun(f"the command of its last run {LEFT} has not ended")
        if not told:
            told = True
            log.warning("%s: waits until the command of its last run %s has ended", jobid, LEFT)
        time.sleep(min(POLL, left))


def _folder() -> str:
    """A folder of this user alone; raises `OSError` if there can be none."""
    path = os.path.join(tempfile.gettempdir(), f"redbike-commands-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "it is no private folder of this user", path)
    return path


def _try(path: str) -> JobLock | None:
    """The lock on the file at `path`, or None if another process of the job holds it."""
    while True:
        descriptor = _open(path)
        try:
            if _lock(descriptor):
                if _is_at(path, descriptor):
                    os.ftruncate(descriptor, 0)
                    lock, descriptor = JobLock(path, descriptor), -1
                    return lock
            elif not _is_left_behind(descriptor):
                return None
            else:
                _remove(path, descriptor)
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def _open(path: str) -> int:
    low = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH)
    finally:
        os.close(low)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_left_behind(descriptor: int) -> bool:
    """Whether those who hold the lock are none of the command's process group any more."""
    group = os.pread(descriptor, 20, 0)
    return group.isdigit() and not exists(int(group))


def _is_at(path: str, descriptor: int) -> bool:
    """Whether the file is still the one at `path`: it may have been removed since it was opened."""
    try:
        there, own = os.stat(path), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)


def _remove(path: str, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        if _is_at(path, descriptor):
            os.unlink(path)


@functools.cache
def _warn(message: str) -> None:
    """Log `message`, once."""
    log.warning("%s", message)
