"""Make ``docs/pictures/terminal.svg``, a session in two terminals that moves: ``make pictures``.

The session is real: what Redbike prints, and when, is recorded. Only pauses, and the path of the folder, are shortened.
"""

import csv
import fcntl
import os
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

from rich.console import Console
from rich.segment import Segment
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE = Path(__file__).parent / "pictures" / "terminal.svg"
FOLDER = "~/tour"  # in place of one whose name is made up
PROGRAM = """\
import time
from redbike import Jobs

jobs = Jobs()


@jobs.job("hello", every="20s")
def hello() -> None:
    print("hello")


@jobs.job("backup", cron="30 3 * * *", tz="Europe/Berlin", retries=3)
def backup() -> None:
    time.sleep(8)
"""
COLUMNS, HIGH, WIDE, LEFT = 104, 17, 7.85, 14  # characters in a line; pixels of a line, a character, and the margin
LONGEST, AT_THE_END, PATIENCE = 1.8, 6, 60  # seconds: a pause as it is shown, before it begins anew, for a line


@dataclass
class Terminal:
    """What the programs on one pseudo-terminal print, and when."""

    title: str
    folder: Path
    lines: list[tuple[float, str]] = field(default_factory=list)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a command of Redbike behind a prompt; its lines are recorded as they come."""
        reader, writer = os.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        self.type(f"redbike {' '.join(command)}")
        program = (str(Path(sys.executable).parent / "redbike"), *command)
        environ = {**os.environ, "TERM": "xterm-256color", "PAGER": "cat"}
        process = subprocess.Popen(program, cwd=self.folder, stdout=writer, stderr=writer, env=environ)
        os.close(writer)
        threading.Thread(target=self._record, args=(reader,)).start()
        return process

    def run(self, *command: str) -> None:
        """Run a command to its end."""
        self.start(*command).wait()
        time.sleep(0.1)

    def type(self, line: str) -> None:
        """Show a command behind a prompt."""
        self.lines.append((time.monotonic(), f"\x1b[32m$\x1b[0m \x1b[1m{line}\x1b[0m"))

    def wait(self, words: str) -> None:
        """Wait until a line has `words`, and a second longer."""
        until = time.monotonic() + PATIENCE
        while not any(words in line for _, line in self.lines):
            if time.monotonic() > until:
                raise TimeoutError(f"nothing has printed {words!r}")
            time.sleep(0.1)
        time.sleep(1)

    def _record(self, reader: int) -> None:
        with os.fdopen(reader, "rb") as output:
            try:
                for line in output:
                    shown = line.decode().rstrip().replace(str(self.folder), FOLDER)
                    self.lines.append((time.monotonic(), shown))
            except OSError:  # that is how Linux says that the other side has closed it
                pass


def play(folder: Path) -> list[Terminal]:
    """Set and run two jobs, kill the worker that runs one of them, and ask why it does not run."""
    above, below = Terminal("one terminal", folder), Terminal("another terminal", folder)
    (folder / "tour.py").write_text(PROGRAM)
    up = above.start("up", "tour:jobs", "--processes=2")
    above.wait("dispatches")
    below.run("jobs")
    below.run("run", "backup")
    worker = find_worker(folder)
    below.run("why", "backup")
    below.type(f"kill -9 {worker}")
    os.kill(worker, signal.SIGKILL)
    above.wait("was lost")
    below.run("why", "backup")
    above.wait("backup: ok")
    below.run("runs", "backup")
    time.sleep(1)
    shown = [replace(each, lines=[*each.lines]) for each in (above, below)]
    up.send_signal(signal.SIGINT)
    up.wait()
    return shown


def find_worker(folder: Path) -> int:
    """Wait for the backup to run; return the id of its process."""
    command = (str(Path(sys.executable).parent / "redbike"), "workers", "--format=csv")
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
        for row in csv.DictReader(printed.splitlines()):
            if row["jobs"] == "backup":
                return int(row["pid"])
    raise TimeoutError("no worker runs the backup")


def draw(terminals: list[Terminal]) -> str:
    """Return the picture; a line appears when it was printed."""
    when = shorten(sorted(moment for terminal in terminals for moment, _ in terminal.lines))
    total = max(when.values()) + AT_THE_END
    parts: list[str] = []
    styles: list[str] = []
    y = 0
    for terminal in terminals:
        parts.append(f'<text x="{LEFT}" y="{y + HIGH + 4}" fill="#8a8f98">{terminal.title}</text>')
        y += 2 * HIGH + 8
        for moment, line in terminal.lines:
            share, name = 100 * when[moment] / total, f"l{len(styles)}"
            styles.append(f"@keyframes {name}{{0%,{share:.2f}%{{opacity:0}}{share + 0.01:.2f}%,100%{{opacity:1}}}}")
            for row in wrap(line):
                parts.append(f'<text x="{LEFT}" y="{y}" style="animation-name:{name}">{row}</text>')
                y += HIGH
    rules = f"text{{white-space:pre;animation:{total:.1f}s linear infinite}}{''.join(styles)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * WIDE + 2 * LEFT:.0f} {y}"'
        ' font-family="ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="13" fill="#d9d9d9">\n'
        f"<style>{rules}@media(prefers-reduced-motion:reduce){{text{{animation:none}}}}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#16181d"/>\n{chr(10).join(parts)}\n</svg>\n'
    )


def shorten(moments: list[float]) -> dict[float, float]:
    """Return when each line appears, with no pause that is longer than need be."""
    shown, last, now = {}, moments[0], LONGEST / 2
    for moment in moments:
        now += min(moment - last, LONGEST)
        shown[moment], last = now, moment
    return shown


def wrap(line: str) -> list[str]:
    """Return a line of a terminal as SVG: the rows that it takes there."""
    console = Console(width=COLUMNS, color_system="truecolor")
    rows = Text.from_ansi(line).wrap(console, COLUMNS)
    return ["".join(map(colour, row.render(console))) for row in rows]


def colour(segment: Segment) -> str:
    """Return a piece of a line as SVG."""
    style = segment.style
    fill = f' fill="{style.color.get_truecolor(MONOKAI).hex}"' if style and style.color else ""
    weight = ' font-weight="bold"' if style and style.bold else ""
    return f"<tspan{fill}{weight}>{escape(segment.text)}</tspan>"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        PICTURE.write_text(draw(play(Path(name))))
