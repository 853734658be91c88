"""Print for people: on a terminal in its width, and what is longer than it through a pager, as git does."""

import os
import pydoc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

WIDE = 200  # columns where there is no terminal


def open_console() -> Console:
    """Return what prints to standard output."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)


@contextmanager
def open_paged() -> Iterator[Console]:
    """Return the same; what has more lines than the terminal goes to the program that ``PAGER`` names, or to less."""
    console = open_console()
    if not console.is_terminal:
        yield console
        return
    with console.capture() as captured:
        yield console
    shown = captured.get()
    if shown.count("\n") < console.height:
        sys.stdout.write(shown)
        return
    # As git has it: colours stay, less ends at once if all fits, and leaves what it has shown.
    os.environ.setdefault("LESS", "FRX")
    pydoc.pager(shown)
