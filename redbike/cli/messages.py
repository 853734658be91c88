"""Write to standard error: messages and the log. Define the exit statuses."""

import logging
import sys
import time
from typing import Any, TextIO

from redbike.texts import escape, format_traceback

DONE, FAILED, BAD, INTERRUPTED = 0, 1, 2, 130


def complain(message: str) -> None:
    """Print `message` to standard error, as one line."""
    print(f"redbike: {_escape(' '.join(message.splitlines()))}", file=sys.stderr)


def log_to(stream: TextIO, level: str) -> None:
    """Write log records of `level` or higher to `stream`, and nowhere else."""
    formatter = _Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class _Formatter(logging.Formatter):
    """Formats each message of Redbike as one line, so that no job id can forge a line or control a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        return _escape(line) if record.name.partition(".")[0] == "redbike" else line

    def formatException(self, ei: Any) -> str:
        return format_traceback(ei[1]).rstrip("\n") if ei[1] else super().formatException(ei)


def _escape(line: str) -> str:
    return line if line.isprintable() else escape(line.encode(errors="backslashreplace"))
