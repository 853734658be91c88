"""Programs on a terminal: a real pseudo-terminal of a given size."""

import codecs
import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.commandline import Shell
from tests.waiting import wait_until

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """A pseudo-terminal, with what was shown on it so far; a program has its `side`."""

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        self.own, self.side = os.openpty()
        os.set_blocking(self.own, False)
        self.resize(columns, lines)
        self.shown, self.is_over = "", False
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # strict: no program shows anything else

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def start(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        """Start a program of which this is the controlling terminal; nobody else has its side from then on."""
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=self.side,
            stdout=self.side,
            stderr=self.side,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(self.side)

    def type(self, keys: str) -> None:
        os.write(self.own, keys.encode())

    def read(self) -> str:
        """Read what is shown, as the program waits for that otherwise; return all of it so far."""
        try:
            while chunk := os.read(self.own, 65536):
                self.shown += self._decoder.decode(chunk)
        except BlockingIOError:
            pass
        except OSError:
            # That is how Linux says that the other side has closed it.
            self.is_over = True
        return self.shown

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in COLOUR.sub("", self.read()))

    def close(self) -> None:
        # And what it has started, such as an editor.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.own)


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
