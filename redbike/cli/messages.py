"""Write to standard error: messages, the log, and the progress of a long command. Define the exit statuses."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

from redbike.process import command_log
from redbike.text.printable import escape, format_traceback

DONE, FAILED, BAD, INTERRUPTED = 0, 1, 2, 130
Report = Callable[[int, int], None]  # is called with the jobs, or bytes, that are done, and with their total

MANY = 20_000  # the least number of jobs for which progress is shown
MANY_BYTES = 1_000_000


def complain(message: str) -> None:
    """Print `message` to standard error, as one line."""
    print(f"redbike: {_escape(' '.join(message.splitlines()))}", file=sys.stderr)


def log_to(stream: TextIO, level: str, style: str = "text", process: str = "") -> None:
    """Write log records of `level` or higher to `stream`, and nowhere else.

    `style` is ``text`` or ``json``. `process` is the name of this process at its supervisor, or "".
    """
    formatter: logging.Formatter = _JsonFormatter(process)
    if style == "text":
        formatter = _Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        formatter.converter = time.gmtime
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    command_log.enable(handler, level.upper())


class _JsonFormatter(logging.Formatter):
    """Formats each message as a JSON object on one line: time in epoch seconds, level, message, and optional fields."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {"time": round(record.created, 6), "level": record.levelname.lower()}
        if self._process:
            entry["process"] = self._process
        entry["message"] = record.getMessage()
        entry |= getattr(record, "fields", {})
        if record.name.partition(".")[0] != "redbike":
            entry["logger"] = record.name
        if record.exc_info and record.exc_info[1]:
            entry["traceback"] = format_traceback(record.exc_info[1]).rstrip("\n")
        # As ASCII, so that any locale can write it, and also half of a surrogate pair.
        return json.dumps(entry)


class _Formatter(logging.Formatter):
    """Formats each message of Redbike as one line, so that no job id can forge a line or control a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        return _escape(line) if record.name.partition(".")[0] == "redbike" else line

    def formatException(self, ei: Any) -> str:
        text = format_traceback(ei[1]).rstrip("\n") if ei[1] else super().formatException(ei)
        return "\n".join(map(_escape, text.split("\n")))


def _escape(line: str) -> str:
    return line if line.isprintable() else escape(line.encode(errors="backslashreplace"))


def open_progress(in_bytes: bool = False) -> AbstractContextManager[Report | None]:
    """Return a context manager that yields a `Report`, which shows a bar; None if standard error is no terminal."""
    return _show_progress(in_bytes) if sys.stderr.isatty() else nullcontext()


@contextmanager
def _show_progress(in_bytes: bool) -> Iterator[Report]:
    """Show a progress bar, which disappears at the end."""
    # Imported here, because only a terminal needs the library for bars.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn

    many = MANY_BYTES if in_bytes else MANY
    columns = (TextColumn("jobs"), BarColumn(), TaskProgressColumn() if in_bytes else MofNCompleteColumn())
    # Standard output is not redirected to the bar, which is on standard error.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    task = bar.add_task("jobs", total=None)

    def report(done: int, number: int) -> None:
        if number >= many:
            bar.start()
            bar.update(task, completed=done, total=number)

    try:
        yield report
    finally:
        bar.stop()
