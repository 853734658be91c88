"""The timefile: a small local file with the instant up to which the dispatcher has dispatched.

It holds one line: epoch seconds with six decimals. It is replaced atomically, so a crash leaves the old or the new
line. Invalid content is logged once and ignored. Nothing but a regular file is ever replaced.
"""

import contextlib
import logging
import math
import os
import re
import stat
import time
from pathlib import Path

from redbike.text.paths import make_absolute

log = logging.getLogger("redbike.timefile")

# A line without its end may be torn. But ten digits are what redbike 0.13.1 writes, and the first ten digits of a line
# of ours are still the right second.
LINE = re.compile(rb"\d{1,12}(\.\d{1,9})?\n|\d{10}")
REMINDER = 60.0  # seconds after which a complaint is logged again
SLACK = 2.0  # seconds that a timefile may be ahead of Redis' clock


class Timefile:
    """The timefile at `path`. Each problem with it is logged at most once in `REMINDER` seconds."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self._place = make_absolute(os.fspath(path))
        self._complaints: dict[str, float] = {}  # when each was logged, by the monotonic clock

    def read(self, now: float) -> float | None:
        """Return the instant in the file; None if there is no file, or an invalid one.

        `now` is Redis' clock. An instant after it was written by another clock.
        """
        try:
            content, wrong = self._read_content(now)
        except FileNotFoundError:
            return None
        if content is None or wrong:
            self._complain(f"is ignored: {wrong}")
            return None
        return float(content)

    def find_problem(self, now: float) -> str:
        """Return why the file cannot be used, with its path; "" if it can, or if a dispatcher can make it."""
        folder = os.path.dirname(os.path.realpath(self._place))
        try:
            _, wrong = self._read_content(now)
        except FileNotFoundError:
            wrong = "" if os.path.isdir(folder) else f"the folder {folder!r} does not exist"
        return f"the timefile {os.fspath(self.path)!r}: {wrong}" if wrong else ""

    def _read_content(self, now: float) -> tuple[bytes | None, str]:
        """Return the content, and why it is invalid; "" if it is not. Raise `FileNotFoundError`."""
        try:
            content = self._read_start()
        except FileNotFoundError:
            raise
        except OSError as error:
            return None, error.strerror or str(error)
        return content, _judge(content, now)

    def write(self, until: float) -> bool:
        """Replace the file by one that holds `until`; return False if that cannot be done."""
        path = Path(os.path.realpath(self._place))
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            if path.exists() and not path.is_file():
                # `os.replace` would replace a device as readily as a file.
                return self._complain("is not written: it is no regular file")
            # A process with this number was killed and left it; or somebody has put a link to another file there.
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

    def _read_start(self) -> bytes | None:
        """Return the first bytes of the file; None if it is no regular file."""
        # Not blocking: a FIFO without a writer would hold us for ever.
        handle = os.open(self._place, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(handle, 64) if stat.S_ISREG(os.fstat(handle).st_mode) else None
        finally:
            os.close(handle)

    def _complain(self, complaint: str) -> bool:
        now = time.monotonic()
        if now - self._complaints.get(complaint, -math.inf) >= REMINDER:
            self._complaints[complaint] = now
            log.warning("timefile %s %s", self.path, complaint)
        return False


def _judge(content: bytes | None, now: float) -> str:
    """Return why the content of a timefile is invalid; "" if it is valid."""
    if content is None:
        return "it is no regular file"
    if not LINE.fullmatch(content):
        return f"{content[:32]!r} is no line with a timestamp"
    return f"{content.decode().strip()} is in the future" if float(content) > now + SLACK else ""
