"""Run the command import: make rows for `load` of what another program has. Each format has a module of its own."""

from redbike.cli.arguments import Arguments, Command
from redbike.cli.calendars import import_ics
from redbike.cli.import_crontab import import_crontab
from redbike.config.file import Config

FORMATS: dict[str, Command] = {"crontab": import_crontab, "ics": import_ics}


def import_file(arguments: Arguments, config: Config) -> int:
    """Import a file of the format that is named."""
    return next(run for name, run in FORMATS.items() if arguments[name])(arguments, config)


COMMANDS: dict[str, Command] = {"import": import_file}
