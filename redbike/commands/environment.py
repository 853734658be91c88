"""The environment of a command: the variables of its run and of its settings, and those that it inherits."""

import contextlib
import math
import os
import tempfile
from collections.abc import Iterator, Mapping

from redbike.commands.file import Command
from redbike.config.file import OF_FAILURE, OF_RUN, SECRETS, VARIABLE
from redbike.errors import CommandFailed
from redbike.store import shell
from redbike.store.run import Run, format_due

# No command inherits these: the worker may itself have been started by the command of another run.
HIDDEN = frozenset(name.encode() for name in (*SECRETS, *OF_RUN, *OF_FAILURE))
MOST_DATA = 32 * 1024  # bytes of data in a variable: the system allows 128 KiB, and all variables share a limit
ENDLESS = 1e8  # seconds: a run that has more left has no timeout

_files: set[str] = set()  # the files with data that exist now


@contextlib.contextmanager
def open_environment(
    command: Command, jobid: str, run: Run, variables: Mapping[bytes, bytes], seconds: float = math.inf
) -> Iterator[dict[bytes, bytes]]:
    """Yield the environment of `command` for `run`. `jobid` is the job of the run, unless a subclass passes another.

    `variables` are those of its ``env-file``, and override those of its section. After `seconds`, the command is ended.
    Data over `MOST_DATA` are in a file, which is removed at the end. Raise `CommandFailed` if the file cannot be
    written.
    """
    own = {
        "JOBID": jobid,
        "QUEUE": run.queue,
        "DUE": format_due(run.due),
        "ATTEMPT": str(run.attempt),
        "KEY": run.key,
    }
    if run.backfill_of:
        own["BACKFILL"] = run.jobid
    if seconds <= ENDLESS:
        own["DEADLINE"] = format_due(run.now() + seconds)
    # The data of a one-off of a shell say what it runs, and are not for its command.
    data = b"" if shell.is_of_shell(jobid) else run.stored_data.encode()
    inherited = {name: value for name, value in os.environb.items() if command.inherits and name not in HIDDEN}
    with _open_data(data) as found:
        given = {f"{VARIABLE}{name}".encode(): value.encode() for name, value in own.items()}
        yield {**inherited, **command.env, **variables, **found, **given}


@contextlib.contextmanager
def _open_data(data: bytes) -> Iterator[dict[bytes, bytes]]:
    """Yield the variable that has the data, or names the file with them; no variable without data."""
    if len(data) <= MOST_DATA:
        yield {b"REDBIKE_DATA": data} if data else {}
        return
    path = _write_file(data)
    try:
        yield {b"REDBIKE_DATA_FILE": os.fsencode(path)}
    finally:
        _remove(path)


def _write_file(data: bytes) -> str:
    """Return the path of a new file, which nobody but this user can read. Raise `CommandFailed`."""
    path = ""
    try:
        descriptor, path = tempfile.mkstemp(".json", "redbike-data-")
        _files.add(path)
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        _remove(path)
        raise CommandFailed(f"cannot write its data to a file: {error.strerror}") from None
    return path


def remove_files() -> None:
    """Remove the files with data of commands that run: this process is about to end."""
    for path in list(_files):
        _remove(path)


def _remove(path: str) -> None:
    _files.discard(path)
    with contextlib.suppress(OSError):
        os.unlink(path)
