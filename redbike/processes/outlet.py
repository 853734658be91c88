"""Pass the output of child processes on to a reader, in bounded memory; nobody ever waits for that reader.

- `Lines` splits the output of a child into lines, and shortens long ones.
- `Outlet` takes lines and writes them in a thread of its own. It drops lines if its reader is too slow.
"""

import io
import threading
import time
from collections import deque
from collections.abc import Iterator

from redbike.processes.streams import is_final, replace_by_null, write_when_ready

LINE_LIMIT = 16 * 1024  # bytes of a line that are kept
AT_ONCE = 100  # lines that are written with one call
LINE_COST = 100  # bytes that a waiting line takes beside its text


class Lines:
    """Splits chunks of output into lines, without line ends."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._left_out = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take the next `chunk`; yield the lines that end in it."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._extend(piece)
            yield from self.finish(even_empty=True)
        self._extend(rest)

    def finish(self, even_empty: bool = False) -> Iterator[bytes]:
        """Yield the line that has begun, as no more of it will come; nothing if there is none."""
        if self._partial or even_empty:
            more = f" … {self._left_out} bytes more were left out" if self._left_out else ""
            yield bytes(self._partial) + more.encode()
        self._partial.clear()
        self._left_out = 0

    def _extend(self, piece: bytes) -> None:
        room = LINE_LIMIT - len(self._partial)
        self._partial += piece[:room]
        self._left_out += max(0, len(piece) - room)


class Outlet(io.TextIOBase):
    """Writes to `descriptor` in a thread of its own, so nobody else waits; at most `limit` bytes are pending.

    Lines for which there is no room are dropped and counted. If the descriptor cannot be written to, all is dropped.
    """

    def __init__(self, descriptor: int, limit: int = 4 * 1024 * 1024) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._lines: deque[bytes] = deque()
        self._size = self._left_out = 0
        self._writing = self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_lines, name="redbike-output", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Take a line, without its end."""
        with self._changed:
            if self._size + len(line) + LINE_COST > self._limit:
                self._left_out += 1
                return
            self._note_left_out()
            self._append(line)
            self._changed.notify()

    def write(self, text: str) -> int:
        """Take whole lines, as a log handler writes them."""
        for line in text.removesuffix("\n").split("\n"):
            self.put(line.encode(errors="backslashreplace"))
        return len(text)

    def close(self, patience: float = 1.0) -> None:
        """Wait until all is written, or until nothing has been written for `patience` seconds."""
        with self._changed:
            self._note_left_out()
            self._closed = True
            self._changed.notify()
        waited, before = time.monotonic(), -1
        while self._thread.is_alive() and time.monotonic() - waited < patience:
            self._thread.join(0.05)
            if self._size != before:
                waited, before = time.monotonic(), self._size

    def _note_left_out(self) -> None:
        if self._left_out:
            self._append(f"redbike: {self._left_out} lines were left out here: nobody read them in time".encode())
            self._left_out = 0

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line) + LINE_COST

    def _write_lines(self) -> None:
        while True:
            with self._changed:
                while not self._lines:
                    if self._closed:
                        return
                    self._changed.wait()
                lines = [self._lines.popleft()]
                while self._lines and len(lines) < AT_ONCE:
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
