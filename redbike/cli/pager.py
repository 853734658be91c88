"""Print for people: on a terminal in its width, and what is longer than it through a pager, as git does."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

NOT_FOUND = 127  # what a shell exits with where there is no such program
WIDE = 200  # columns where there is no terminal


def open_console() -> Console:
    """Return what prints to standard output."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)


@contextmanager
def open_paged() -> Iterator[Console]:
    """Give the same; what has more lines than the terminal goes to the program that ``PAGER`` names, or to less."""
    console = open_console()
    if not console.is_terminal:
        yield console
        return
    with console.capture() as captured:
        yield console
    shown = captured.get()
    # Without less, as in a small container, the shell would complain of that.
    pager = os.environ.get("PAGER", "less" if shutil.which("less") else "")
    if shown.count("\n") < console.height or not _page(pager, shown):
        sys.stdout.write(shown)


def _page(command: str, shown: str) -> bool:
    """Show a text by a command line of the shell; return whether that could be started. "" is none."""
    if not command.strip():
        return False
    # As git has it: colours stay, less ends at once if all fits, and leaves what it has shown.
    environment = {"LESS": "FRX", **os.environ}
    # Ctrl-C is for the pager, which is in the foreground, too; a handler is not inherited.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        process = subprocess.run(command, shell=True, input=shown.encode(), env=environment, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    return process.returncode != NOT_FOUND
