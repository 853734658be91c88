"""The timefile: a small local file with the instant up to which the dispatcher has dispatched.

It holds one line, epoch seconds with six decimals. It is replaced atomically, so a crash leaves the old or the new
line; whatever else is found there is reported and ignored, never fatal.
"""

import contextlib
import logging
import os
import re
import stat
from pathlib import Path

log = logging.getLogger("redbike.timefile")

LINE = re.compile(rb"\d{1,12}(\.\d{1,9})?\n")
SLACK = 2.0  # seconds that a timefile may be ahead of Redis' clock, which is read a moment later


def read(path: str | Path, now: float) -> float | None:
    """The instant in the file at `path`; None, with a warning unless there is no file, if it cannot be used.

    `now` is Redis' clock: an instant after it is of another clock or another time.
    """
    try:
        # Not blocking: a FIFO without a writer would hold us for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("timefile %s is ignored: %s", path, error.strerror)
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            log.warning("timefile %s is ignored: it is no regular file", path)
            return None
        content = os.read(handle, 64)
    finally:
        os.close(handle)
    if not LINE.fullmatch(content):
        log.warning("timefile %s is ignored: %r is no line with a timestamp", path, content[:32])
        return None
    if float(content) > now + SLACK:
        log.warning("timefile %s is ignored: %s is in the future", path, content.decode().strip())
        return None
    return float(content)


def write(path: str | Path, until: float) -> bool:
    """Replace the file at `path` by one that holds `until`; False, with a warning, if that cannot be done."""
    path = Path(os.path.realpath(path))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Left by a process of this number that was killed; or put there by someone, as a link to another file.
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(b"%.6f\n" % until)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        log.warning("timefile %s cannot be written: %s", path, error.strerror)
        with contextlib.suppress(OSError):
            draft.unlink()
        return False
    return True
