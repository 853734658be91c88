"""Show on a terminal how far it is, where many jobs are read before the first line can be printed."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Report = Callable[[int, int], None]  # hears how many jobs, or bytes, of how many were looked at

MANY = 20_000  # jobs from which on it is worth showing that
MANY_BYTES = 1_000_000


def open_progress(in_bytes: bool = False) -> AbstractContextManager[Report | None]:
    """Return a context that gives what hears how far it is; None where there is nobody to see it."""
    return _Progress(in_bytes) if sys.stderr.isatty() else nullcontext()


class _Progress(AbstractContextManager[Report]):
    """A bar that goes away when all is done."""

    def __init__(self, in_bytes: bool) -> None:
        # Imported here, as only a terminal needs the library for bars.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn

        self._many = MANY_BYTES if in_bytes else MANY
        columns = (TextColumn("jobs"), BarColumn(), TaskProgressColumn() if in_bytes else MofNCompleteColumn())
        # What is printed meanwhile goes to standard output, not to where the bar is.
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self._task = self._bar.add_task("jobs", total=None)

    def __enter__(self) -> Report:
        return self._report

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _report(self, done: int, number: int) -> None:
        if number >= self._many:
            self._bar.start()
            self._bar.update(self._task, completed=done, total=number)
