"""A command on a terminal: a real pseudo-terminal of a given size."""

import fcntl
import os
import re
import signal
import struct
import termios
from collections.abc import Callable

from tests.commandline import Shell

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def run_on_terminal(
    shell: Shell,
    *arguments: str,
    columns: int = 80,
    lines: int = 24,
    meanwhile: Callable[[], None] | None = None,
    until: bytes = b"",
    **environment: str,
) -> str:
    """What `redbike` shows there, with its colours and what it complains of.

    `meanwhile` is called once it has started. When it has shown `until`, it is interrupted.
    """
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    own = {name: value for name, value in shell.environment.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = shell.spawn(
        arguments, writer, writer, writer, own | {"TERM": "xterm-256color", "PAGER": "cat"} | environment
    )
    os.close(writer)
    if meanwhile:
        meanwhile()
    shown = b""
    while chunk := _read(reader):
        shown += chunk
        if until and until in shown:
            process.send_signal(signal.SIGINT)
            until = b""
    os.close(reader)
    process.wait(timeout=60)
    return shown.decode().replace("\r\n", "\n")


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 65536)
    except OSError:
        # That is how Linux says that the other side has closed it.
        return b""


def plain(shown: str) -> list[str]:
    """Its lines without colours and blanks at the ends."""
    return [line.rstrip() for line in COLOUR.sub("", shown).splitlines()]
