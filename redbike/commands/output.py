"""Log the output of a command line by line, and keep its end for a failure; all in bounded memory."""

import contextlib
import logging
import os
import re
import select
import subprocess
import threading
import time
from collections.abc import Iterable
from typing import IO

from redbike.text.printable import escape
from redbike.worker.live import Tap

log = logging.getLogger("redbike.commands")

LOG_LIMIT = 64 * 1024  # characters of log for one run
LINE_COST = 60  # characters that a line of a log has besides its text, such as its time and its level
LINE_LIMIT = 2000  # bytes; a longer line is logged in pieces
TAIL_LIMIT = 4 * 1024  # bytes of output that a failure shows
CHUNK = 64 * 1024  # bytes
PIPE_LIMIT = 1024 * 1024  # bytes that a pipe may hold
POLL_INTERVAL = 0.25  # seconds between two checks whether a silent command has exited, on systems without pidfds
MOST_LATE = 100  # ended commands whose output is still read, as they have left processes behind
MAX_WAIT = 1e6  # seconds, as a poll takes milliseconds in 32 bits

PIECE = re.compile(rb"[^\n]{0,%d}\n|[^\n]{%d}" % (LINE_LIMIT, LINE_LIMIT))
MASK = b"***"
LEAST = 4  # bytes of a secret: a shorter text occurs in many others, so it is not masked


class Output:
    """Reads the output of a process, logs it under the job id, and keeps its end in `tail`; all in bounded memory.

    `tail` has up to `kept` bytes, or `TAIL_LIMIT` if that is more. Secrets are masked. `tap` gets all output, too.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        jobid: str,
        kept: int = 0,
        secrets: Iterable[bytes] = (),
        tap: Tap | None = None,
    ) -> None:
        assert process.stdout is not None
        self.jobid = escape(jobid.encode())
        self.tail = b""
        self._tail_limit = max(kept, TAIL_LIMIT)
        self._mask = Mask(secrets)
        self._tap = tap
        self._process = process
        self._pipe: IO[bytes] = process.stdout
        self._poll = select.poll()  # opens no file, so it cannot fail once the process runs
        self._poll.register(self._pipe, select.POLLIN)
        self._pidfd = open_pidfd(process.pid)
        if self._pidfd is not None:
            self._poll.register(self._pidfd, select.POLLIN)
        self._is_at_end = False
        self._partial = b""
        self._log_left = LOG_LIMIT
        self._received = self._logged = self._late = 0

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *_: object) -> None:
        is_dry = self._drain()
        self._feed(b"", is_last=True)
        self._close_pidfd()
        if self._is_at_end or not is_dry:
            self.close()
        else:
            # A process that is left behind still runs. If nobody read its output, its next write would kill it.
            _late.add(self)

    def fileno(self) -> int:
        """Return the descriptor from which the output is read."""
        return self._pipe.fileno()

    def close(self) -> None:
        """Log what is left, and read no more."""
        self._pipe.close()
        self._feed(b"", is_last=True)
        if self._partial:
            self._log(self._partial)
        if self._received > self._logged:
            log.info("%s: … %d bytes more were left out", self.jobid, self._received - self._logged)

    def read_late(self) -> bool:
        """Read once the output of a process that a command has left behind; return False at the end.

        `PIPE_LIMIT` bytes count as the end, too: a process that prints for ever must not keep this one busy.
        """
        chunk = os.read(self.fileno(), CHUNK)
        self._feed(chunk)
        self._late += len(chunk)
        return bool(chunk) and self._late < PIPE_LIMIT

    def read_until_exit(self, deadline: float) -> bool:
        """Read until the process has exited; return False if it has not by `deadline` (of the monotonic clock)."""
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._pidfd is not None:
                self.read(left)
            elif not self._is_at_end:
                self.read(min(left, POLL_INTERVAL))
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(left)
        return True

    def read(self, seconds: float) -> int:
        """Read once, and return the number of bytes. Wait for up to `seconds`, or until the process exits."""
        if self._is_at_end and self._pidfd is None:
            time.sleep(seconds)
            return 0
        ready = dict(self._poll.poll(min(seconds, MAX_WAIT) * 1000))
        if self._pidfd in ready:
            self._close_pidfd()
        if self._pipe.fileno() not in ready:
            return 0
        chunk = os.read(self._pipe.fileno(), CHUNK)
        if not chunk:
            self._is_at_end = True
            self._poll.unregister(self._pipe)
        self._feed(chunk)
        return len(chunk)

    def _close_pidfd(self) -> None:
        if self._pidfd is not None:
            self._poll.unregister(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _drain(self) -> bool:
        """Read what is left of the output of the command; return False if a process prints for ever."""
        before = self._received
        while self._received - before < PIPE_LIMIT:
            if not self.read(0):
                return True
        return False

    def _feed(self, chunk: bytes, is_last: bool = False) -> None:
        chunk = self._mask.feed(chunk, is_last)
        self._received += len(chunk)
        self.tail = (self.tail + chunk)[-self._tail_limit :]
        if self._tap and chunk:
            self._tap.feed(chunk, self.tail)
        text, position = self._partial + chunk, 0
        while self._log_left > 0 and (piece := PIECE.match(text, position)):
            self._log(piece.group())
            position = piece.end()
        self._partial = text[position:] if self._log_left > 0 else b""

    def _log(self, piece: bytes) -> None:
        text = escape(piece.rstrip(b"\r\n"))
        # An empty line has a cost too: the log must not be flooded with them.
        self._log_left -= LINE_COST + len(self.jobid) + len(text)
        if self._log_left > 0:
            log.info("%s: %s", self.jobid, text)
            self._logged += len(piece)


class _LateOutput:
    """Reads the output of the last `MOST_LATE` ended commands, in a thread that starts with the first of them."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._changed = threading.Condition()
        self._wake: tuple[int, int] | None = None
        self._process = 0

    def add(self, output: Output) -> None:
        """Read `output` until its end."""
        with self._changed:
            if self._process != os.getpid():
                self._process, self._outputs, self._wake = os.getpid(), [], os.pipe()
                threading.Thread(target=self._read, name="redbike-late-output", daemon=True).start()
            self._outputs.append(output)
            assert self._wake is not None
            os.write(self._wake[1], b"!")

    def _read(self) -> None:
        assert self._wake is not None
        wake = self._wake[0]
        while True:
            with self._changed:
                while len(self._outputs) > MOST_LATE:
                    self._outputs.pop(0).close()
                waiting = {output.fileno(): output for output in self._outputs}
            poll = select.poll()
            for descriptor in (wake, *waiting):
                poll.register(descriptor, select.POLLIN)
            for descriptor, _ in poll.poll():
                if descriptor == wake:
                    os.read(wake, CHUNK)
                elif not waiting[descriptor].read_late():
                    with self._changed:
                        self._outputs.remove(waiting[descriptor])
                    waiting[descriptor].close()


_late = _LateOutput()


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor that is readable once the process has exited; None if the system has no pidfds."""
    pidfd_open = getattr(os, "pidfd_open", None)  # only Linux has it
    try:
        return None if pidfd_open is None else int(pidfd_open(pid))
    except OSError:
        return None


class Mask:
    """Replaces each of `secrets` by `MASK`, even if it arrives in pieces; in a secret of several lines, each line."""

    def __init__(self, secrets: Iterable[bytes] = ()) -> None:
        lines = {line for secret in secrets for line in map(bytes.strip, secret.splitlines()) if len(line) >= LEAST}
        self._words = sorted(lines, key=len, reverse=True)  # the longest first: another one may be a part of it
        self._pattern = re.compile(b"|".join(map(re.escape, self._words))) if lines else None
        self._held = b""

    def feed(self, chunk: bytes, is_last: bool = False) -> bytes:
        """Return the text that may be shown now. What may be the beginning of a secret waits for the next chunk."""
        if self._pattern is None:
            return chunk
        text, self._held = self._held + chunk, b""
        end = len(text) if is_last else self._find_beginning(text)
        for match in self._pattern.finditer(text):
            if match.start() < end < match.end():
                end = match.start()
        self._held = text[end:]
        return self._pattern.sub(MASK, text[:end])

    def _find_beginning(self, text: bytes) -> int:
        """Return where a secret may begin that does not end in `text`; the end of `text` if there is none."""
        for start in range(max(0, len(text) - len(self._words[0]) + 1), len(text)):
            rest = text[start:]
            if any(len(word) > len(rest) and word.startswith(rest) for word in self._words):
                return start
        return len(text)
