"""What a process of a command is started with: its environment, and its standard input."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator

from redbike.commands.file import Command

SECRETS = (b"REDBIKE_URL", b"REDIS_URL", b"REDBIKE_DISPATCHER_PING_URL", b"REDBIKE_WEB_TOKEN")


def make_environment(command: Command, jobid: str, due: float) -> dict[bytes, bytes]:
    """Return the environment for a run of `command` that was due at `due`, in epoch seconds."""
    own = {b"REDBIKE_JOBID": jobid.encode(), b"REDBIKE_DUE": format_timestamp(due).encode()}
    inherited = {name: value for name, value in os.environb.items() if command.inherits and name not in SECRETS}
    return {**inherited, **command.env, **own}


def format_timestamp(due: float) -> str:
    """Return epoch seconds as a shell can calculate with them: a whole number has no fraction."""
    return f"{due:.6f}".rstrip("0").rstrip(".")


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
