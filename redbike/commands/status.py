"""What the exit status of a command means: whether its run has succeeded, and the message of a failure."""

import logging
import os

from redbike.commands.file import Command
from redbike.commands.output import Output
from redbike.errors import CommandFailed
from redbike.process.leaving import name_signal
from redbike.text.printable import escape_lines

log = logging.getLogger("redbike.commands")


def check_status(command: Command, status: int, output: Output, allows_pause: bool) -> float | None:
    """Return the pause in seconds after exit status 75 if the schedule allows one; None if the command succeeded.

    Raise `CommandFailed` for every other status; a negative one is a signal.
    """
    if status == os.EX_TEMPFAIL and allows_pause:
        log.warning("%s: exit status 75; it is due again in %g s", output.jobid, command.backoff)
        return command.backoff
    if status in command.success:
        return None
    raise make_failure(status, escape_lines(output.tail))


def make_failure(status: int, lines: list[str]) -> CommandFailed:
    """Return the error for a failed command: the message quotes its last line, and the output is all of `lines`."""
    reason = f"exit status {status}" if status >= 0 else f"killed by {name_signal(-status)}"
    if not lines:
        return CommandFailed(reason)
    return CommandFailed(f"{reason}: {lines[-1].strip()[:300]}", "\n".join(lines))
