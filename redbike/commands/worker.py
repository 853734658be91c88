"""The stock worker that runs command lines; `redbike.commands` tells its users about it."""

import dataclasses
import logging
import math
import os
import signal
import time
from functools import cached_property

from redbike.commands.file import Command, read
from redbike.commands.job_lock import JobLock, held, name_of
from redbike.commands.output import Output
from redbike.commands.process_group import ProcessGroup, end_all, wait_if_ending
from redbike.config import Settings
from redbike.errors import BadConfig, CommandFailed, Overrun
from redbike.processes.signals import reap_children
from redbike.schedule.parser import parse_stored
from redbike.state.records import Run
from redbike.texts import harmless_lines
from redbike.working.queues import RoundRobin
from redbike.working.runner import current_run

log = logging.getLogger("redbike.commands")

SECRETS = (b"REDBIKE_URL", b"REDIS_URL")
NO_TIMEOUT = 1e9  # seconds: the longest that a queue may have


class Commands(RoundRobin):
    """Works the queues of `initstring`, as `RoundRobin` does, by running the commands of the INI file `filename`.

    The file is read once, by whoever needs a command first; that raises `BadConfig` if it cannot be used.
    """

    concurrency = 10  # a command mostly waits, and a long one must not delay the others
    grace = 5.0  # seconds between SIGTERM and SIGKILL

    def __init__(self, initstring: str, filename: str) -> None:
        super().__init__(initstring)
        if not isinstance(filename, str):
            raise BadConfig(f"bad file name {filename!r:.80}: a text such as 'commands.ini' is needed")
        self._filename = filename
        self.use_folder(os.getcwd())

    def use_folder(self, folder: str) -> None:
        """Look for the file in `folder`, if its name is relative."""
        self._path = os.path.join(folder, self._filename)

    def timeout(self, queue_name: str) -> float | None:
        """The longest timeout of any command, with the time to end it, in seconds; `NO_TIMEOUT` if one has none."""
        # Every queue may hold jobs for every command.
        timeouts = [math.inf if each.timeout is None else each.timeout for each in self._commands.values()]
        return min(NO_TIMEOUT, max(timeouts, default=math.inf) + self.grace)

    def settings_for(self, run: Run, settings: Settings) -> Settings:
        """`settings` with those of the run's command; a recurring job goes on where none of them says otherwise."""
        command = self._commands.get(_command_name(run.jobid), Command("", ()))
        default = "stop" if parse_stored(run.schedule).runs_once else "reschedule"
        on_error = command.on_error or settings.on_error or default
        retries = settings.retries if command.retries is None else command.retries
        if command.retries is not None and run.failures < retries:
            on_error = "retry"
        on_timeout = command.on_timeout or settings.on_timeout or default
        return dataclasses.replace(settings, on_error=on_error, retries=retries, on_timeout=on_timeout)

    def work(self, jobid: str) -> float | None:
        """Run the command of `jobid` to its end; with ``CONTINUE``, its backoff in seconds for exit status 75.

        Raises `Overrun` when its time was over, and `CommandFailed` for every other failure.
        """
        command = self._command_for(jobid)
        run = current_run()
        seconds = min(command.timeout or math.inf, run.deadline - run.now())
        if seconds <= 0:
            raise Overrun(f"no time was left to start {command.name!r}")
        until = time.monotonic() + seconds
        with held(name_of(os.path.realpath(self._path), run.prefix, jobid), until, jobid) as lock:
            with start(command, jobid, run.due, lock) as group, Output(group.process, jobid) as output:
                in_time = self._attend(group, output, until)
            if not in_time and group.is_left():
                lock.keep()
        if not in_time:
            raise Overrun(f"not done after {seconds:g} s", "\n".join(harmless_lines(output.tail)))
        return verdict(command, group.process.returncode, output, parse_stored(run.schedule).allows_pause)

    def abort(self) -> None:
        """End every command that runs, children included, within about a second: this process is about to end."""
        end_all()

    @cached_property
    def _commands(self) -> dict[str, Command]:
        return read(self._path)

    def _command_for(self, jobid: str) -> Command:
        name = _command_name(jobid)
        if name not in self._commands:
            raise CommandFailed(f"no command {name!r} in {self._path}")
        return self._commands[name]

    def _attend(self, group: ProcessGroup, output: Output, until: float) -> bool:
        """Wait for the command; False if it has not ended by `until`. Whatever ends the wait ends the group too."""
        try:
            if output.follow(until):
                wait_if_ending()
                return True
            log.warning("%s: its time is over, it is ended", output.jobid)
        except BaseException:
            group.end(self.grace, output.read)
            raise
        group.end(self.grace, output.read)
        return False


def _command_name(jobid: str) -> str:
    return jobid.partition(":")[0]


def start(command: Command, jobid: str, due: float, lock: JobLock) -> ProcessGroup:
    """Start `command`, which holds `lock` from then on."""
    check_reaping()
    own = {b"REDBIKE_JOBID": jobid.encode(), b"REDBIKE_DUE": timestamp(due).encode()}
    inherited = {name: value for name, value in os.environb.items() if name not in SECRETS}
    try:
        group = ProcessGroup(command.argv, {**inherited, **command.env, **own}, command.cwd, lock.inherited)
    except OSError as error:
        culprit = os.fsdecode(error.filename or command.argv[0])
        raise CommandFailed(f"cannot run {command.name!r}: {error.strerror}: {culprit!r}") from None
    lock.note(group.number)
    return group


def check_reaping() -> None:
    """Undo an ignored SIGCHLD, with which every exit status reads as 0; raise `CommandFailed` where that cannot be."""
    try:
        reap_children()
    except ValueError:
        raise CommandFailed("SIGCHLD is ignored in this process, so no exit status can be read") from None


def timestamp(due: float) -> str:
    """Epoch seconds as a shell can reckon with them: without a fraction unless there is one."""
    return f"{due:.6f}".rstrip("0").rstrip(".")


def verdict(command: Command, status: int, output: Output, backs_off: bool) -> float | None:
    """What `Commands.work` returns or raises for an exit status; a negative one is a signal."""
    if status == 0:
        return None
    if status == os.EX_TEMPFAIL and backs_off:
        log.warning("%s: exit status 75; it is due again in %g s", output.jobid, command.backoff)
        return command.backoff
    raise failure(status, harmless_lines(output.tail))


def failure(status: int, lines: list[str]) -> CommandFailed:
    """The error for a command that failed, with its last line and all of `lines`."""
    how = f"exit status {status}" if status > 0 else f"killed by {signal_name(-status)}"
    if not lines:
        return CommandFailed(how)
    return CommandFailed(f"{how}: {lines[-1].strip()[:300]}", "\n".join(lines))


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
