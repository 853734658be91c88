"""The timefile: a small local file with the instant up to which the dispatcher has dispatched.

It holds one line, epoch seconds with six decimals. It is replaced atomically, so a crash leaves the old or the new
line; whatever else is found there is reported once and ignored, never fatal, and never replaced unless it is a file.
"""

import contextlib
import logging
import os
import re
import stat
from pathlib import Path

log = logging.getLogger("redbike.timefile")

# Without a line end the line may be torn. Ten digits are what redbike 0.13.1 leaves, and with less than that gone from
# a line of ours, they are still the right second.
LINE = re.compile(rb"\d{1,12}(\.\d{1,9})?\n|\d{10}")
SLACK = 2.0  # seconds that a timefile may be ahead of Redis' clock, which is read a moment later


class Timefile:
    """The timefile at `path`. Each complaint about it is logged once, until it is well again."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self._complaints: set[str] = set()

    def read(self, now: float) -> float | None:
        """Return the instant in the file; None if there is no file, or one that cannot be used.

        `now` is Redis' clock: an instant after it is of another clock or another time.
        """
        try:
            content = self._content()
        except FileNotFoundError:
            return None
        except OSError as error:
            content, wrong = None, error.strerror
        else:
            wrong = _judge(content, now)
        if content is None or wrong:
            self._complain(f"is ignored: {wrong}")
            return None
        return float(content)

    def write(self, until: float) -> bool:
        """Replace the file by one that holds `until`; return False if that cannot be done."""
        path = Path(os.path.realpath(self.path))
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        if path.exists() and not path.is_file():
            # A device would be replaced by a file as readily as a file.
            return self._complain("is not written: it is no regular file")
        try:
            # Left by a process of this number that was killed; or put there by someone, as a link to another file.
            draft.unlink(missing_ok=True)
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(b"%.6f\n" % until)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            return self._complain(f"cannot be written: {error.strerror}")
        self._complaints.clear()
        return True

    def _content(self) -> bytes | None:
        """The first bytes of the file; None if it is no regular file."""
        # Not blocking: a FIFO without a writer would hold us for ever.
        handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(handle, 64) if stat.S_ISREG(os.fstat(handle).st_mode) else None
        finally:
            os.close(handle)

    def _complain(self, complaint: str) -> bool:
        if complaint not in self._complaints:
            self._complaints.add(complaint)
            log.warning("timefile %s %s", self.path, complaint)
        return False


def _judge(content: bytes | None, now: float) -> str:
    """Say why the content of a timefile cannot be used; "" if it can."""
    if content is None:
        return "it is no regular file"
    if not LINE.fullmatch(content):
        return f"{content[:32]!r} is no line with a timestamp"
    return f"{content.decode().strip()} is in the future" if float(content) > now + SLACK else ""
