"""What a command says on standard error, and its exit status: neither is its output."""

import logging
import sys
import time
from typing import Any, TextIO

from redbike.texts import harmless, trace_of

DONE, FAILED, BAD, INTERRUPTED = 0, 1, 2, 130


def complain(message: str) -> None:
    """Print `message` to standard error, in one line."""
    print(f"redbike: {_visible(' '.join(message.splitlines()))}", file=sys.stderr)


def log_to(stream: TextIO, level: str) -> None:
    """Write what is logged, from `level` on, to `stream` alone."""
    formatter = _Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class _Formatter(logging.Formatter):
    """One line for each message of ours: whoever writes to Redis may put ids there that would forge or colour lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        return _visible(line) if record.name.partition(".")[0] == "redbike" else line

    def formatException(self, ei: Any) -> str:
        return trace_of(ei[1]).rstrip("\n") if ei[1] else super().formatException(ei)


def _visible(line: str) -> str:
    return line if line.isprintable() else harmless(line.encode(errors="backslashreplace"))
