"""Start the process of a command: its standard input, and what this host lacks for it."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence

from redbike.commands.env_file import find_problem
from redbike.commands.file import Command
from redbike.commands.job_lock import JobLock
from redbike.commands.process_group import ProcessGroup
from redbike.errors import CommandFailed
from redbike.process.signals import reap_children
from redbike.text.printable import name_some

NAMED = 3  # commands that a sentence names


def start_command(command: Command, env: Mapping[bytes, bytes], lock: JobLock) -> ProcessGroup:
    """Start `command`, which inherits `lock`. Raise `CommandFailed` if it cannot be started."""
    ensure_reaping()
    try:
        with open_input(command.input) as stdin:
            group = ProcessGroup(command.argv, env, command.cwd, lock.descriptors, stdin, command.umask, command.signal)
    except OSError as error:
        path = os.fsdecode(error.filename or command.argv[0])
        raise CommandFailed(f"cannot run {command.name!r}: {error.strerror}: {path!r}") from None
    lock.record_group(group.pgid)
    return group


def ensure_reaping() -> None:
    """Undo an ignored SIGCHLD: with it, every exit status reads as 0. Raise `CommandFailed` if that is impossible."""
    try:
        reap_children()
    except ValueError:
        raise CommandFailed("SIGCHLD is ignored in this process, so no exit status can be read") from None


@contextlib.contextmanager
def open_input(data: bytes) -> Iterator[int]:
    """Yield a descriptor from which a process reads `data`. Raise `OSError`."""
    if not data:
        yield subprocess.DEVNULL
        return
    # A file and not a pipe: with a pipe, this process would have to write while the command reads, or does not read.
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def find_missing(commands: Collection[Command]) -> Iterator[str]:
    """Yield a sentence, without a full stop, for each missing folder or program, unread operator and bad env-file."""
    users: dict[tuple[str, bytes, str], list[str]] = {}
    unread: dict[str, list[str]] = {}
    for command in commands:
        for missing in sorted(set(_list_missing(command))):
            users.setdefault(missing, []).append(command.name)
        if command.operator:
            unread.setdefault(command.operator, []).append(command.name)
    for (what, path, where), names in users.items():
        yield f"the {what} {os.fsdecode(path)!r} of {_describe(names)} is missing {where}"
    for operator, names in unread.items():
        yield f"no shell reads the {operator!r} of {_describe(names)}: it needs shell = /bin/sh, or quotes around it"
    for name in dict.fromkeys(command.env_file for command in commands if command.env_file):
        if problem := find_problem(name):
            yield problem


def _describe(names: Sequence[str]) -> str:
    return f"the command{'s' * (len(names) > 1)} {name_some([*map(repr, names)], NAMED)}"


def _list_missing(command: Command) -> Iterator[tuple[str, bytes, str]]:
    """Yield what kind of thing is missing, its path, and where. The folder of a worker is not known here."""
    if command.cwd is not None and not os.path.isdir(command.cwd):
        yield "folder", command.cwd, "on this host"
    path = os.fsdecode(command.env.get(b"PATH", os.environb.get(b"PATH", os.fsencode(os.defpath))))
    for argv in (command.argv, command.on_failure):
        if argv and os.path.isabs(argv[0]):
            if not os.path.exists(argv[0]):
                yield "program", argv[0], "on this host"
        elif (
            argv and b"/" not in argv[0] and not command.env_file and not shutil.which(os.fsdecode(argv[0]), path=path)
        ):
            yield "program", argv[0], "in the PATH here"
