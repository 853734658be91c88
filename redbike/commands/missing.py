"""Find what commands need and this host does not have: their folders, shells and programs."""

import os
from collections.abc import Iterable, Iterator

from redbike.commands.file import Command

NAMED = 3  # commands that are named of each


def find_missing(commands: Iterable[Command]) -> Iterator[str]:
    """Yield a sentence without an end for each folder that is not there, and each program with a full path."""
    users: dict[tuple[str, bytes], list[str]] = {}
    for command in commands:
        for need in sorted(set(_list_needs(command))):
            users.setdefault(need, []).append(command.name)
    for (what, path), names in users.items():
        if not (os.path.isdir(path) if what == "folder" else os.path.exists(path)):
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            of = f"the command{'s' * (len(names) > 1)} {', '.join(map(repr, names[:NAMED]))}{more}"
            yield f"the {what} {os.fsdecode(path)!r} of {of} is missing on this host"


def _list_needs(command: Command) -> Iterator[tuple[str, bytes]]:
    if command.cwd is not None:
        yield "folder", command.cwd
    for argv in (command.argv, command.on_failure):
        if argv and os.path.isabs(argv[0]):
            yield "program", argv[0]
