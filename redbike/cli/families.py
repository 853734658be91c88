"""Which module of this folder runs a command."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redbike.cli.arguments import Command

# For each command, the module that runs it, with others of its family.
COMMANDS = {
    "set": "set",
    "unset": "set",
    "load": "load",
    "import": "importing",
    "dispatch": "run",
    "work": "run",
    "up": "run",
    "statuses": "look",
    "schedules": "look",
    "tell": "look",
    "next": "next",
    "failures": "look",
    "jobs": "list",
    "show": "show",
    "why": "look",
    "health": "watch",
    "metrics": "watch",
    "web": "web",
    "runs": "list",
    "queues": "list",
    "workers": "list",
    "agenda": "agenda",
    "log": "list",
    "top": "top",
    "tail": "tail",
    "run": "steer",
    "cancel": "steer",
    "pause": "steer",
    "resume": "steer",
    "limit": "steer",
    "check": "check",
    "fsck": "keep",
    "acknowledge": "keep",
    "control": "keep",
    "server": "keep",
}


def import_command(name: str) -> "Command":
    """Return the function that runs a command."""
    return _import_family(COMMANDS[name])[name]


def _import_family(family: str) -> "Mapping[str, Command]":
    """Import one family, and return its commands. Most families load redis-py; ``--help`` and ``next`` do not need it.

    A family imports all that it needs at once: after it has loaded a worker class, an import searches the current
    folder before the installed packages.
    """
    match family:
        case "set":
            from redbike.cli.set import COMMANDS as commands
        case "load":
            from redbike.cli.load import COMMANDS as commands
        case "importing":
            from redbike.cli.importing import COMMANDS as commands
        case "run":
            from redbike.cli.run import COMMANDS as commands
        case "look":
            from redbike.cli.look import COMMANDS as commands
        case "list":
            from redbike.cli.list import COMMANDS as commands
        case "show":
            from redbike.cli.show import COMMANDS as commands
        case "next":
            from redbike.cli.next import COMMANDS as commands
        case "tail":
            from redbike.cli.tail import COMMANDS as commands
        case "watch":
            from redbike.cli.watch import COMMANDS as commands
        case "web":
            from redbike.cli.web import COMMANDS as commands
        case "top":
            from redbike.cli.top import COMMANDS as commands
        case "agenda":
            from redbike.cli.agenda import COMMANDS as commands
        case "check":
            from redbike.cli.check import COMMANDS as commands
        case "steer":
            from redbike.cli.steer import COMMANDS as commands
        case _:
            from redbike.cli.keep import COMMANDS as commands
    return commands
