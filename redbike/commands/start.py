"""What a process of a command is started with: its environment, its standard input, and what this host lacks for it."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator

from redbike.commands.file import Command
from redbike.config.file import SECRETS
from redbike.store.run import Run, format_due

HIDDEN = frozenset(name.encode() for name in SECRETS)
NAMED = 3  # commands that are named of each


def make_environment(command: Command, jobid: str, run: Run) -> dict[bytes, bytes]:
    """Return the environment of `command` for a run; a class may give it the `jobid` of another one."""
    own = {b"REDBIKE_JOBID": jobid, b"REDBIKE_DUE": format_due(run.due), b"REDBIKE_KEY": run.key}
    if run.backfill_of:
        own[b"REDBIKE_BACKFILL"] = run.jobid
    inherited = {name: value for name, value in os.environb.items() if command.inherits and name not in HIDDEN}
    return {**inherited, **command.env, **{name: value.encode() for name, value in own.items()}}


@contextlib.contextmanager
def open_input(data: bytes) -> Iterator[int]:
    """Yield a descriptor from which a process reads `data`. Raise `OSError`."""
    if not data:
        yield subprocess.DEVNULL
        return
    # A file and not a pipe: nobody needs to write while the command reads, or does not.
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


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
