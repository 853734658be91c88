"""What a process of a command is started with: its environment, and its standard input."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator

from redbike.commands.file import Command
from redbike.store.run import Run, format_due

SECRETS = (b"REDBIKE_URL", b"REDIS_URL", b"REDBIKE_DISPATCHER_PING_URL", b"REDBIKE_WEB_TOKEN")


def make_environment(command: Command, jobid: str, run: Run) -> dict[bytes, bytes]:
    """Return the environment of `command` for a run; a class may give it the `jobid` of another one."""
    own = {b"REDBIKE_JOBID": jobid, b"REDBIKE_DUE": format_due(run.due), b"REDBIKE_KEY": run.key}
    inherited = {name: value for name, value in os.environb.items() if command.inherits and name not in SECRETS}
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
