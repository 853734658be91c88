"""Write the output of child processes, in bounded memory. No process ever waits for the reader of that output.

- `Lines` splits the output of a child into lines, and shortens long ones.
- `Outlet` takes lines and writes them in a thread of its own. It drops lines if its reader is too slow.
- `Reader` reads the output of a child and its reports, and gives the lines to an outlet.
"""

import contextlib
import io
import logging
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TextIO

from redbike.process.child import RUNNING
from redbike.process.streams import is_final, replace_by_null, write_when_ready

LINE_LIMIT = 16 * 1024  # bytes of a line; the rest is dropped
BATCH_SIZE = 100  # the most lines that one call writes
LINE_COST = 100  # bytes that a waiting line takes beside its text
BAD_INPUT = 2  # the exit status of a child for which a restart is useless
ERROR_PREFIX = b"redbike: "  # the beginning of a line that says why a child cannot begin
OUTPUT_TIMEOUT = 0.5  # seconds to wait for the rest of the output of a child that has ended
CHUNK = 64 * 1024  # bytes


class Lines:
    """Splits chunks of output into lines, without line ends."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._dropped = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take the next `chunk`; yield the lines that end in it."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._extend(piece)
            yield from self.finish(is_complete=True)
        self._extend(rest)

    def finish(self, is_complete: bool = False) -> Iterator[bytes]:
        """Yield the line that has begun. If none has begun, yield an empty line if it `is_complete`, else nothing."""
        if self._partial or is_complete:
            more = f" … {self._dropped} bytes more were left out" if self._dropped else ""
            yield bytes(self._partial) + more.encode()
        self._partial.clear()
        self._dropped = 0

    def _extend(self, piece: bytes) -> None:
        room = LINE_LIMIT - len(self._partial)
        self._partial += piece[:room]
        self._dropped += max(0, len(piece) - room)


class Outlet(io.TextIOBase):
    """Writes lines to `descriptor` in a thread of its own, so that callers never wait.

    At most `limit` bytes are pending; further lines are dropped and counted. If the descriptor cannot be written to,
    all lines are dropped.
    """

    def __init__(
        self,
        descriptor: int,
        limit: int = 4 * 1024 * 1024,
        encoding: str = "utf-8",
        errors: str = "backslashreplace",
    ) -> None:
        self._descriptor = descriptor
        self._process, self._is_terminal = os.getpid(), os.isatty(descriptor)
        self._encoding, self._errors = encoding, errors
        self._limit = limit
        self._lines: deque[bytes] = deque()
        self._size = self._dropped = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_lines, name="redbike-output", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Add a line, without its line end."""
        with self._changed:
            if self._size + len(line) + LINE_COST > self._limit:
                self._dropped += 1
                return
            self._report_dropped()
            self._append(line)
            self._changed.notify()

    def write(self, text: str) -> int:
        """Write whole lines, at once if that does not block: log handlers call this."""
        data = text.encode(self._encoding, self._errors)
        if os.getpid() != self._process:
            # A process that was forked has no thread that writes.
            self._write(data)
            return len(text)
        # At once, so that what this process prints next comes after it.
        while data and not (self._size or self._is_terminal) and _is_ready(self._descriptor):
            self._write(data[: select.PIPE_BUF])
            data = data[select.PIPE_BUF :]
        for line in data.removesuffix(b"\n").split(b"\n") if data else ():
            self.put(line)
        return len(text)

    def close(self, patience: float = 1.0) -> None:
        """Stop the thread. Wait until all lines are written, or until none was written for `patience` seconds."""
        with self._changed:
            self._report_dropped()
            self._is_closed = True
            self._changed.notify()
        if threading.current_thread() is self._thread:
            # A finalizer runs in any thread, also in this one.
            return
        last_change, size = time.monotonic(), -1
        while self._thread.is_alive() and time.monotonic() - last_change < patience:
            self._thread.join(0.05)
            if self._size != size:
                last_change, size = time.monotonic(), self._size

    def _report_dropped(self) -> None:
        if self._dropped:
            self._append(f"redbike: {self._dropped} lines were left out here: nobody read them in time".encode())
            self._dropped = 0

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line) + LINE_COST

    def _write_lines(self) -> None:
        while True:
            with self._changed:
                while not self._lines:
                    if self._is_closed:
                        return
                    self._changed.wait()
                lines = [self._lines.popleft()]
                while self._lines and len(lines) < BATCH_SIZE:
                    lines.append(self._lines.popleft())
            self._write(b"\n".join(lines) + b"\n")
            with self._changed:
                self._size -= sum(len(line) + LINE_COST for line in lines)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[write_when_ready(self._descriptor, data) :]
        except OSError as error:
            if is_final(error):
                replace_by_null(self._descriptor)


def _is_ready(descriptor: int) -> bool:
    """Tell whether `select.PIPE_BUF` bytes can be written without blocking. Not for a terminal, which takes fewer."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


@contextlib.contextmanager
def open_outlets() -> Iterator[Outlet]:
    """Yield an outlet for standard output. Meanwhile log handlers write to outlets, so that logging never blocks.

    A handler that writes to a file of its own stays as it is: it may have to rotate that file.
    """
    sys.stdout.flush()
    output = _open(sys.stdout)
    errors = output if os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno()) else _open(sys.stderr)
    outlets = {sys.stdout.fileno(): output, sys.stderr.fileno(): errors}
    streams = [each for each in logging.getLogger().handlers if isinstance(each, logging.StreamHandler)]
    handlers = {each: outlets[number] for each in streams if (number := _find_descriptor(each.stream)) in outlets}
    before = [each.setStream(outlet) for each, outlet in handlers.items()]
    try:
        yield output
    finally:
        for handler, stream in zip(handlers, before, strict=True):
            handler.setStream(stream)
        for outlet in {output, errors}:
            outlet.close()


def log_without_waiting() -> AbstractContextManager[object]:
    """Let log handlers write to outlets, unless a program has replaced its output by an object that is no file."""
    is_file = None not in (_find_descriptor(sys.stdout), _find_descriptor(sys.stderr))
    return open_outlets() if is_file else contextlib.nullcontext()


def _open(stream: TextIO) -> Outlet:
    return Outlet(stream.fileno(), encoding=stream.encoding, errors=stream.errors or "strict")


def _find_descriptor(stream: Any) -> int | None:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        # A file that is not open yet, or an object that is no file.
        return None


@dataclass(frozen=True, slots=True)
class End:
    """The end of a child: its exit status, its reports, and, if it could not begin, the error that it printed."""

    status: int
    reports: bytes
    reason: str


class Reader(threading.Thread):
    """Prints the output of a child, and reads its reports, as long as any process keeps the output open."""

    def __init__(self, name: str, output: int, reports: int, outlet: Outlet) -> None:
        super().__init__(name=f"redbike-{name}", daemon=True)
        self._tag = f"{name:<8} | ".encode() if name else b""
        self._output = output
        self._reports: int | None = reports
        self._outlet = outlet
        self._received = b""
        self._reason: bytes | None = None
        self._reports_lock = threading.Lock()
        self.start()

    def run(self) -> None:
        """Print the output until it ends."""
        lines = Lines()
        with open(self._output, "rb", buffering=0) as output:
            while chunk := output.read(CHUNK):
                for line in lines.feed(chunk):
                    self._print(line)
        for line in lines.finish():
            self._print(line)

    def is_running(self) -> bool:
        """Tell whether the child has reported that it runs."""
        return RUNNING in self._read_reports()

    def finish(self, status: int) -> End:
        """Return the end of the child, which has exited with `status`."""
        self.join(OUTPUT_TIMEOUT)
        reports = self._reports
        assert reports is not None
        received = self._read_reports()
        reason = (self._reason or b"").removeprefix(ERROR_PREFIX).decode(errors="backslashreplace")
        if RUNNING in received or status not in (BAD_INPUT, -signal.SIGTERM):
            self._print_reason()
        with self._reports_lock:
            os.close(reports)
            self._reports = None
        return End(status, received, reason)

    def _print(self, line: bytes) -> None:
        self._print_reason()
        if line.startswith(ERROR_PREFIX) and RUNNING not in self._read_reports():
            # This may be the reason why the child cannot begin, which is printed only once, at the end.
            self._reason = line
        else:
            self._outlet.put(self._tag + line)

    def _print_reason(self) -> None:
        reason, self._reason = self._reason, None
        if reason is not None:
            self._outlet.put(self._tag + reason)

    def _read_reports(self) -> bytes:
        with self._reports_lock, contextlib.suppress(BlockingIOError):
            if self._reports is not None:
                self._received += os.read(self._reports, 1024)
        return self._received
