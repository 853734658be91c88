"""Standard output and standard error: what cannot be written never decides what becomes of a job.

- One that is closed from the start is the null device.
- Standard error never fails, in any command; standard output does not either in the commands that run jobs.
"""

import codecs
import contextlib
import errno
import io
import os
import select
import sys
from typing import Any

ERRORS = "redbike"  # the name of our error handler for encodings
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # may pass; everything else that fails is final


def prepare() -> None:
    """Make the standard streams of this process usable, whatever it was started with."""
    codecs.register_error(ERRORS, _escape)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _open_null(number, name)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)
            _watch(name, stream)
    for raw in _watched("stderr"):
        raw.is_forgiving = True


def forgive_output() -> None:
    """From now on, lose what cannot be written to standard output."""
    for raw in _watched("stdout"):
        raw.is_forgiving = True


def take_output_error() -> str | None:
    """Why standard output could not be written, or None if it could; from now on what goes there is lost."""
    error = next((raw.error for raw in _watched("stdout")), None)
    if error is None:
        return None
    # Otherwise the interpreter would try again, and complain, when it ends.
    replace_by_null(sys.stdout.fileno())
    return f"cannot write the output: {error.strerror}"


def is_final(error: OSError) -> bool:
    """Whether nothing can be written any more after `error`; a full disk may have room again."""
    return error.errno not in FULL


def replace_by_null(descriptor: int) -> None:
    """Let `descriptor` lead to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)


def write_when_ready(descriptor: int, data: Any) -> int:
    """`os.write`, also if somebody has made the descriptor non-blocking."""
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    # Bytes that were no UTF-8 go out as they came; other characters without an encoding are spelled out.
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def _open_null(number: int, name: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    with contextlib.suppress(OSError):
        if null != number:
            os.fstat(number)
            # It is open, for something else: that keeps it.
            number = null
    if null != number:
        os.dup2(null, number)
        os.close(null)
    os.set_inheritable(number, number <= 2)
    if name != "stdin":
        setattr(sys, name, io.TextIOWrapper(open(number, "wb", closefd=False), encoding="utf-8"))  # noqa: SIM115


class _Watched(io.FileIO):
    """A descriptor that remembers why it cannot be written to; a forgiving one loses that, and takes everything."""

    is_forgiving = False
    error: OSError | None = None

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
            if is_final(error):
                replace_by_null(self.fileno())
        return size


def _watched(name: str) -> list[_Watched]:
    """The descriptor of a standard stream, if it is watched: somebody may have put something else there."""
    buffer = getattr(getattr(sys, name), "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return [raw] if isinstance(raw, _Watched) else []


def _watch(name: str, stream: io.TextIOWrapper) -> None:
    try:
        raw: Any = _Watched(stream.fileno(), "wb", closefd=False)
    except (OSError, ValueError):
        # It has no descriptor.
        return
    with contextlib.suppress(OSError):
        stream.flush()
    watched = io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    setattr(sys, name, watched)
