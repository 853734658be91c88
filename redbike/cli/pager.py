"""Print for people: in the width of the terminal, and through a pager if the output is long, as git does."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

NOT_FOUND = 127  # the exit status of a shell that does not find the program
WIDE = 200  # columns where there is no terminal


def open_console() -> Console:
    """Return a console that prints to standard output."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)


@contextmanager
def open_paged() -> Iterator[Console]:
    """Yield such a console. Output that is longer than the terminal goes to the pager: ``PAGER``, or else less."""
    console = open_console()
    if not console.is_terminal:
        yield console
        return
    with console.capture() as captured:
        yield console
    shown = captured.get()
    # If less is not installed, as in a small container, the shell would print an error.
    pager = os.environ.get("PAGER", "less" if shutil.which("less") else "")
    if shown.count("\n") < console.height or not _page(pager, shown):
        sys.stdout.write(shown)


def _page(command: str, shown: str) -> bool:
    """Show a text by a shell command. Return whether it could be started; False if `command` is empty."""
    if not command.strip():
        return False
    # As git sets it: less keeps colours, ends at once if all fits, and leaves its output on the screen.
    environment = {"LESS": "FRX", **os.environ}
    # The terminal sends Ctrl-C to the pager too, and only the pager handles it. A child does not inherit a handler.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        process = subprocess.run(command, shell=True, input=shown.encode(), env=environment, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    return process.returncode != NOT_FOUND
