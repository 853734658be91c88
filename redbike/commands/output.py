"""What a command prints: it is logged line by line, and its end is kept for the failure; all in bounded memory."""

import contextlib
import logging
import os
import re
import select
import subprocess
import time
from typing import IO

from redbike.texts import harmless

log = logging.getLogger("redbike.commands")

LOG_LIMIT = 64 * 1024  # characters of log for one run
LINE_COST = 60  # characters; a time, a level and the like stand before each line of a log
LINE_LIMIT = 2000  # bytes; a longer line is logged in pieces
TAIL_LIMIT = 4 * 1024  # bytes of output that a failure shows
CHUNK = 64 * 1024  # bytes
PIPE_LIMIT = 1024 * 1024  # bytes that a pipe may hold
LOOK = 0.25  # seconds between two looks at a silent command, where the system does not tell that it has exited
LONGEST_WAIT = 1e6  # seconds; a poll takes milliseconds, in 32 bits

PIECE = re.compile(rb"[^\n]{0,%d}\n|[^\n]{%d}" % (LINE_LIMIT, LINE_LIMIT))


class Output:
    """Reads what a process prints, logs it under its job id, and keeps the end of it; all in bounded memory."""

    def __init__(self, process: subprocess.Popen[bytes], jobid: str) -> None:
        assert process.stdout is not None
        self.jobid = harmless(jobid.encode())
        self.tail = b""
        self._process = process
        self._pipe: IO[bytes] = process.stdout
        self._ready = select.poll()  # needs no file of its own, so it cannot fail once the process runs
        self._ready.register(self._pipe, select.POLLIN)
        self._exit = open_exit(process.pid)
        if self._exit is not None:
            self._ready.register(self._exit, select.POLLIN)
        self._ended = False
        self._partial = b""
        self._room = LOG_LIMIT
        self._seen = self._logged = 0

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *_: object) -> None:
        self._drain()
        self._pipe.close()
        self._close_exit()
        if self._partial:
            self._log(self._partial)
        if self._seen > self._logged:
            log.info("%s: … %d bytes more were left out", self.jobid, self._seen - self._logged)

    def follow(self, until: float) -> bool:
        """Read until the process has exited; False if it has not by `until` (of the monotonic clock)."""
        while self._process.poll() is None:
            left = until - time.monotonic()
            if left <= 0:
                return False
            if self._exit is not None:
                self.read(left)
            elif not self._ended:
                self.read(min(left, LOOK))
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(left)
        return True

    def read(self, seconds: float) -> int:
        """Take in what is there, or comes within `seconds` or until the process exits; how many bytes."""
        if self._ended and self._exit is None:
            time.sleep(seconds)
            return 0
        ready = dict(self._ready.poll(min(seconds, LONGEST_WAIT) * 1000))
        if self._exit in ready:
            self._close_exit()
        if self._pipe.fileno() not in ready:
            return 0
        chunk = os.read(self._pipe.fileno(), CHUNK)
        if not chunk:
            self._ended = True
            self._ready.unregister(self._pipe)
        self._feed(chunk)
        return len(chunk)

    def _close_exit(self) -> None:
        if self._exit is not None:
            self._ready.unregister(self._exit)
            os.close(self._exit)
            self._exit = None

    def _drain(self) -> None:
        # What the command printed is in the pipe; another process may hold that open, and print for ever.
        before = self._seen
        while self._seen - before < PIPE_LIMIT and self.read(0):
            pass

    def _feed(self, chunk: bytes) -> None:
        self._seen += len(chunk)
        self.tail = (self.tail + chunk)[-TAIL_LIMIT:]
        text, position = self._partial + chunk, 0
        while self._room > 0 and (piece := PIECE.match(text, position)):
            self._log(piece.group())
            position = piece.end()
        self._partial = text[position:] if self._room > 0 else b""

    def _log(self, piece: bytes) -> None:
        text = harmless(piece.rstrip(b"\r\n"))
        # A flood of empty lines is a flood too.
        self._room -= LINE_COST + len(self.jobid) + len(text)
        if self._room > 0:
            log.info("%s: %s", self.jobid, text)
            self._logged += len(piece)


def open_exit(pid: int) -> int | None:
    """A descriptor that is ready to be read once the process has exited; None where the system has no such thing."""
    pidfd_open = getattr(os, "pidfd_open", None)  # Linux alone has it
    try:
        return None if pidfd_open is None else int(pidfd_open(pid))
    except OSError:
        return None
