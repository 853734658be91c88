"""Run the command ``on-failure`` after a run that has failed, in a thread of its own, so that no job waits for it."""

import logging
import os
import threading
import time
from collections.abc import Mapping

from redbike.commands.env_file import read_variables
from redbike.commands.environment import open_environment
from redbike.commands.file import Command
from redbike.commands.output import Output
from redbike.commands.process_group import ProcessGroup
from redbike.commands.start import open_input
from redbike.errors import CommandFailed
from redbike.store.enums import Outcome
from redbike.store.run import Run
from redbike.worker.notify import ON_FAILURE

log = logging.getLogger("redbike.commands")

TIMEOUT = 60.0  # seconds
GRACE = 5.0  # seconds between SIGTERM and SIGKILL
ROOT = b"/"  # a folder that is always there
MOST = 20  # such commands that run at once in a process
MISSING = "missing"  # in place of an outcome: no worker has a command for the job, so it does not run
LOST = "its worker died or was cut off"
FAILED = (Outcome.FAILED, Outcome.OVERRUN, Outcome.LOST)

_free = threading.BoundedSemaphore(MOST)


def start(command: Command, run: Run, outcome: str, error: str, output: bytes) -> None:
    """Run ``on-failure`` of `command` in a thread, with `output` as standard input. If too many run, only log that.

    `outcome` is that of the run, or `MISSING`, and `error` one line that says why.

    A process that ends in order waits for the thread.
    """
    if not _free.acquire(blocking=False):
        log.error("%s: on-failure did not run, because %d such commands run already", run.jobid, MOST)
        return
    given = command, run, outcome, error, output
    # Not a daemon, as the thread that calls ``ended`` is: the exit of Python would end the command.
    threading.Thread(target=_run, args=given, name=ON_FAILURE + run.jobid, daemon=False).start()


def _run(command: Command, run: Run, outcome: str, error: str, output: bytes) -> None:
    try:
        status = _run_to_end(command, run, outcome, error, output)
        if status:
            log.error("%s: on-failure failed: %s", run.jobid, status)
    except Exception as wrong:
        # Whatever it is, the worker continues.
        log.error("%s: on-failure cannot be run: %s", run.jobid, _describe(wrong))
    finally:
        _free.release()


def _run_to_end(command: Command, run: Run, outcome: str, error: str, output: bytes) -> str:
    """Return what went wrong; "" for nothing."""
    variables = _read_variables(command, run)
    more = {b"REDBIKE_OUTCOME": outcome.encode(), b"REDBIKE_ERROR": error.encode(errors="replace")}
    with (
        open_environment(command, run.base, run, variables) as env,
        open_input(output) as stdin,
        _start(command, run, env | more, stdin) as group,
        Output(group.process, run.jobid, secrets=variables.values()) as printed,
    ):
        if printed.read_until_exit(time.monotonic() + TIMEOUT):
            return f"exit status {group.process.returncode}" if group.process.returncode else ""
        group.end(GRACE, printed.read)
        return f"not done after {TIMEOUT:g} s"


def _read_variables(command: Command, run: Run) -> Mapping[bytes, bytes]:
    """Return the variables of its ``env-file``; none for an unreadable file, which may be why the run has failed."""
    try:
        return read_variables(command.env_file)
    except CommandFailed as error:
        log.warning("%s: on-failure runs without its env-file: %s", run.jobid, error)
        return {}


def _start(command: Command, run: Run, env: Mapping[bytes, bytes], stdin: int) -> ProcessGroup:
    """Start it in the folder of the command; in ``/`` if the folder is missing, which may be why the run has failed."""
    try:
        return ProcessGroup(command.on_failure, env, command.cwd, stdin=stdin)
    except OSError as error:
        if command.cwd is None or error.filename != command.cwd:
            raise
        log.warning("%s: on-failure runs in '/': %s", run.jobid, _describe(error))
        return ProcessGroup(command.on_failure, env, ROOT, stdin=stdin)


def _describe(error: Exception) -> str:
    """Return what went wrong, with the path that it is about."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return error.strerror if error.filename is None else f"{error.strerror}: {os.fsdecode(error.filename)!r}"
