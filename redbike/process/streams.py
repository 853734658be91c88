"""Make standard output and standard error safe: no job ends differently because a write has failed.

- A stream that is closed from the start becomes the null device.
- Writing to standard error never fails. Writing to standard output never fails in the commands that run jobs.
"""

import codecs
import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import Any

ERRORS = "redbike"  # the name of our error handler for encodings
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # temporary errors; every other error is final


def prepare(by_lines: bool = False) -> None:
    """Make the standard streams of this process usable, even if they were closed when it was started.

    With `by_lines`, each ``print`` is one write, at its end: then no line of another stream comes between its text and
    its newline. Bytes that are written to ``sys.stdout.buffer`` are not held back.
    """
    codecs.register_error(ERRORS, _escape)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _open_null(number, name)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)
            _watch(name, stream, by_lines)
    for raw in _find_watched("stderr"):
        raw.is_forgiving = True


def forgive_output() -> None:
    """From now on, discard output that cannot be written to standard output."""
    for raw in _find_watched("stdout"):
        raw.is_forgiving = True


def encode_data() -> None:
    """From now on, write UTF-8 to standard output, whatever the locale is, unless that is a terminal."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and not stream.isatty() and codecs.lookup(stream.encoding).name != "utf-8":
        stream.reconfigure(encoding="utf-8", errors=ERRORS)


@contextlib.contextmanager
def buffer_output() -> Iterator[None]:
    """Buffer what the block writes to standard output, even if that is unbuffered, so that one write has many rows.

    On a terminal each line is still written at once.
    """
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or not stream.write_through:
        yield
        return
    stream.reconfigure(write_through=False)
    try:
        yield
    finally:
        # This writes the rest, too.
        stream.reconfigure(write_through=True)


def find_loss() -> str | None:
    """Return why output was discarded while its reader was still there, as on a full disk; None if none was."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    return next((_describe(raw.loss) for raw in _find_watched("stdout") if raw.loss), None)


def take_output_error() -> str | None:
    """Return why writing to standard output has failed; None if it has not. After a failure, discard further output."""
    error = next((raw.error for raw in _find_watched("stdout")), None)
    if error is None:
        return None
    # Otherwise the interpreter would retry when it ends, and print an error.
    replace_by_null(sys.stdout.fileno())
    return _describe(error)


def _describe(error: OSError) -> str:
    return f"cannot write the output: {error.strerror}"


def discard_output() -> None:
    """From now on, discard what has not reached standard output.

    After an interrupt in a write, nobody knows how much of its data was written: a retry would print that twice.
    """
    for raw in _find_watched("stdout"):
        replace_by_null(raw.fileno())


def is_final(error: OSError) -> bool:
    """Tell whether no later write can succeed after `error`. A full disk is not final."""
    return error.errno not in FULL


def replace_by_null(descriptor: int) -> None:
    """Redirect `descriptor` to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)


def write_when_ready(descriptor: int, data: Any) -> int:
    """Call `os.write`. Wait if the descriptor is full and another process has made it non-blocking."""
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    # Bytes that were not UTF-8 are written unchanged. Other characters that cannot be encoded are escaped.
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def _open_null(number: int, name: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    with contextlib.suppress(OSError):
        if null != number:
            os.fstat(number)
            # Another file uses the number.
            number = null
    if null != number:
        os.dup2(null, number)
        os.close(null)
    os.set_inheritable(number, number <= 2)
    if name != "stdin":
        setattr(sys, name, io.TextIOWrapper(open(number, "wb", closefd=False), encoding="utf-8"))  # noqa: SIM115


class _WatchedFile(io.FileIO):
    """A file that records why a write has failed. If it is forgiving, it discards the data instead."""

    is_forgiving = False
    error: OSError | None = None
    loss: OSError | None = None  # why it has discarded data although its reader is still there
    replaced: io.TextIOWrapper | None = None  # the stream whose descriptor it writes to

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:
                rest = rest[write_when_ready(self.fileno(), rest) :]
        except OSError as error:
            if not self.is_forgiving:
                self.error = error
                raise
            if error.errno != errno.EPIPE:
                self.loss = error
            if is_final(error):
                replace_by_null(self.fileno())
        return size


def _find_watched(name: str) -> list[_WatchedFile]:
    """Return the watched file of a standard stream; no file if a program has replaced the stream."""
    buffer = getattr(getattr(sys, name), "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return [raw] if isinstance(raw, _WatchedFile) else []


def _watch(name: str, stream: io.TextIOWrapper, by_lines: bool) -> None:
    try:
        raw: Any = _WatchedFile(stream.fileno(), "wb", closefd=False)
    except (OSError, ValueError):
        # It has no descriptor.
        return
    with contextlib.suppress(OSError):
        stream.flush()
    watched = io.TextIOWrapper(
        raw if by_lines or stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=by_lines or stream.line_buffering,
        # True with PYTHONUNBUFFERED, which many images of containers set.
        write_through=stream.write_through and not by_lines,
    )
    # This may be the only reference to the stream. Without it, Python would close its descriptor, and the next file or
    # connection that is opened would get that number, and then the output.
    raw.replaced = stream
    setattr(sys, name, watched)
