"""Run the command import: make rows for `load` of what another program has. Each format has a module of its own."""

from collections.abc import Callable

from redbike.cli.arguments import Arguments, Command
from redbike.cli.calendars import import_ics
from redbike.config import Config


def import_jobs(arguments: Arguments, config: Config) -> int:
    """Import a file in the format that the command line names."""
    return next(run for name, run in FORMATS.items() if arguments[name])(arguments, config)


FORMATS: dict[str, Callable[[Arguments, Config], int]] = {"ics": import_ics}
COMMANDS: dict[str, Command] = {"import": import_jobs}
