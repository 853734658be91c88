"""Run command lines as jobs; see `redbike.commands` for how to use this worker."""

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping

from redbike.commands import on_failure
from redbike.commands.env_file import read_variables
from redbike.commands.environment import open_environment, remove_files
from redbike.commands.file import Command, list_commands
from redbike.commands.job_lock import hold_lock, make_name
from redbike.commands.once import read_command
from redbike.commands.output import Output
from redbike.commands.process_group import ProcessGroup, end_all, wait_if_ending
from redbike.commands.reloading import CommandFile
from redbike.commands.start import find_missing, start_command
from redbike.commands.status import check_status
from redbike.commands.summary import summarize_all
from redbike.config.options import parse_options
from redbike.config.settings import Settings, override
from redbike.errors import BadConfig, CommandFailed, Overrun
from redbike.loop.naming import knows_commands
from redbike.loop.policies import go_on_as_cron
from redbike.loop.worker_class import Checkable, RoundRobin
from redbike.schedule.parser import parse_stored
from redbike.store import shell
from redbike.store.enums import Outcome
from redbike.store.run import Run
from redbike.text.printable import escape_lines
from redbike.worker.current import current_run
from redbike.worker.live import Tap
from redbike.worker.notify import End

log = logging.getLogger("redbike.commands")

NO_TIMEOUT = 1e9  # seconds: the longest timeout that a queue may have


class Commands(Checkable, RoundRobin):
    """Takes jobs from the queues of `initstring`, as `RoundRobin` does, and runs commands of the INI file `filename`.

    It also takes one-offs of a shell, from a queue of their own, unless `shell_jobs` is False. ``Commands("")`` takes
    nothing else, and without `filename` there are no commands.

    The first call that needs a command reads the file, and raises `BadConfig` for an invalid one. Later calls read it
    again if it has changed. If the changed file is invalid, that is logged, and the previous commands stay in force.
    """

    concurrency = 10  # a command mostly waits, and a slow one must not delay the others
    grace = 5.0  # seconds between SIGTERM and SIGKILL
    reads_options = True  # in `settings_for`

    def __init__(self, initstring: str = "", filename: str | None = None, shell_jobs: bool = True) -> None:
        self.takes_shell_jobs = shell_jobs and knows_commands(self)  # a subclass with its own `work` takes none
        if initstring == "" and self.takes_shell_jobs:
            self.initstring = ""
        else:
            super().__init__(initstring)
        if filename is None and initstring.endswith(".ini"):
            raise BadConfig(f"bad queues {initstring!r}: the file comes second, as in Commands('A', {initstring!r})")
        if not isinstance(shell_jobs, bool):
            raise BadConfig(f"bad shell_jobs {shell_jobs!r:.80}: True or False is needed")
        if filename is not None and not isinstance(filename, str):
            raise BadConfig(f"bad file name {filename!r:.80}: a text such as 'commands.ini' is needed")
        self._filename = filename
        self._groups: dict[tuple[str, str], tuple[ProcessGroup, Callable[[], float]]] = {}  # and graces, by run
        self._output_size = 0  # the setting
        self.use_folder(os.getcwd())

    def use_folder(self, folder: str) -> None:
        """Look for the file in `folder`, if its name is relative."""
        self._path = None if self._filename is None else os.path.join(folder, self._filename)
        self._file = CommandFile(self._path)
        self._summaries: tuple[int, Mapping[str, str]] | None = None  # the revision, and summaries by name
        self._tells = False  # whether there was a command with ``on-failure``

    def queue_names(self) -> Iterable[str]:
        """Return the queues, in the order of the init string, and last the one for one-offs of a shell."""
        own = list(super().queue_names()) if self.initstring else []
        return own if shell.QUEUE in own or not self.takes_shell_jobs else [*own, shell.QUEUE]

    @property
    def revision(self) -> int:
        """A number that changes when the file is read again: `timeout` may return another value then."""
        return self._file.get().revision

    def timeout(self, queue_name: str) -> float | None:
        """Return the longest timeout of all commands with its grace, in seconds; `NO_TIMEOUT` if a command has none."""
        if queue_name == shell.QUEUE and self.takes_shell_jobs:
            return NO_TIMEOUT
        # Every other queue may hold jobs for every command.
        commands = self._commands.values()
        timeouts = [math.inf if each.timeout is None else each.timeout + self._get_grace(each) for each in commands]
        return min(NO_TIMEOUT, max(timeouts, default=math.inf))

    def settings_for(self, run: Run, settings: Settings) -> Settings:
        """Return `settings`, overridden by those of the run's command, and these by the options of its job.

        If none of them has a policy for failures or overruns, a recurring job is rescheduled, and a one-off is stopped.
        """
        own = parse_options(run.options)
        self._output_size = int(settings.output)
        command = self._commands.get(shell.get_taker(run.base), Command("", ()))
        on_error = own.get("on-error") or command.on_error
        on_timeout = own.get("on-timeout") or command.on_timeout
        retries = own.get("retries", command.retries)
        return go_on_as_cron(
            run,
            override(settings, run.options),
            None if on_error is None else str(on_error),
            None if on_timeout is None else str(on_timeout),
            None if retries is None else int(retries),
        )

    def work(self, jobid: str) -> float | None:
        """Run the command of `jobid` to its end. Return its backoff in seconds for exit status 75 with ``CONTINUE``.

        Raise `Overrun` if it has not ended in time, and `CommandFailed` for every other failure, or if it is cancelled.
        """
        command = self._get_command(jobid)
        run = current_run()
        seconds, late = self._find_time(run, command)
        if seconds <= 0:
            raise Overrun(f"no time was left to start {command.name!r}")
        deadline = time.monotonic() + seconds
        # One-offs of a shell have no file. A new run must not begin beside processes that a killed worker has left.
        path = os.path.realpath(self._path) if self._path is not None and not shell.is_of_shell(jobid) else ""
        own = run.jobid if run.backfill_of else jobid  # occurrences of a backfill may run at once
        name = make_name(path, run.prefix, own)
        kept = self._find_output_size(run, command)
        with hold_lock(name, deadline, own, lambda: run.cancelled, lambda: bool(run.stopping)) as lock:
            variables = read_variables(command.env_file)
            run.tap = tap = Tap(own)
            run.output_size = kept
            with (
                open_environment(command, jobid, run, variables, deadline - time.monotonic()) as env,
                start_command(command, env, lock) as group,
                Output(group.process, own, kept, variables.values(), tap) as output,
            ):
                is_in_time = self._wait_for_end(run, group, output, deadline, self._get_grace(command), late)
            if (run.cancelled or not is_in_time) and group.is_alive():
                lock.keep()
        tap.close()
        run.usage = group.process.usage
        if kept:
            run.output = tap.show(kept)
        if run.cancelled:
            raise CommandFailed("it was cancelled")
        if not is_in_time:
            raise Overrun(f"not done after {seconds:g} s", "\n".join(escape_lines(output.tail)))
        return check_status(command, group.process.returncode, output, parse_stored(run.schedule).allows_pause)

    def cancel(self, run: Run) -> None:
        """End the command of `run` and its children, by its signal, and by SIGKILL after its grace."""
        if found := self._groups.get((run.tag, run.jobid)):
            group, find_grace = found
            group.end(find_grace(), time.sleep)

    def _find_time(self, run: Run, command: Command) -> tuple[float, float]:
        """Return the seconds that a command may take, and the most seconds from then until SIGKILL."""
        left, grace = run.deadline - run.now(), self._get_grace(command)
        if "timeout" in parse_options(run.options):
            # The deadline includes this timeout already. After the deadline, the command still holds a slot.
            return left, min(grace, self.grace)
        return min(command.timeout or math.inf, left), grace

    def _find_output_size(self, run: Run, command: Command) -> int:
        """Return how many bytes of the output of a run are kept: by its job, its command or the setting."""
        own = parse_options(run.options).get("output", command.output)
        return self._output_size if own is None else int(own)

    def _get_grace(self, command: Command) -> float:
        return self.grace if command.grace is None else command.grace

    @property
    def ended(self) -> Callable[[Run, End], None] | None:
        """The function to call after each run; None if no command has ``on-failure``, so that it costs nothing."""
        # Once there was such a command, runs of it may still end.
        known = self._file.get()
        self._tells = self._tells or any(each.on_failure for each in (*known.commands.values(), known.common))
        return self._hear if self._tells else None

    def _hear(self, run: Run, end: End) -> None:
        if end.event in on_failure.FAILED and not end.is_tried_again:
            error = end.error or (on_failure.LOST if end.event is Outcome.LOST else "")
            self._start_on_failure(run, end.event.value, error, run.tap.printed if run.tap else b"")

    def tell_missing(self, run: Run, why: str) -> None:
        """Start ``on-failure``, as no worker has a command for the job of `run`. `why` is its error, in one line."""
        self._start_on_failure(run, on_failure.MISSING, why)

    def _start_on_failure(self, run: Run, outcome: str, error: str, output: bytes = b"") -> None:
        known = self._file.get()
        # The command may have been removed, or never have existed.
        command = known.commands.get(shell.get_taker(run.base), known.common)
        if command.on_failure:
            on_failure.start(command, run, outcome, error, output)

    def abort(self) -> None:
        """End every command that runs, and its children, within about a second: this process is about to end."""
        end_all()
        remove_files()

    def name_commands(self) -> list[str]:
        """Return the names of the commands in the file. Raise `BadConfig` if the file is invalid."""
        return list(self._commands)

    def describe_commands(self) -> Mapping[str, str]:
        """Return the summaries of the first command lines by name, without secrets: see `summarize_all`."""
        known = self._file.get()
        if self._summaries is None or self._summaries[0] != known.revision:
            self._summaries = known.revision, summarize_all(known.commands.values())
        return self._summaries[1]

    def has_command(self, jobid: str) -> bool:
        """Tell whether the file has a command for `jobid`. Raise `BadConfig` if the file is invalid."""
        return self.takes_shell_jobs if shell.is_of_shell(jobid) else shell.get_taker(jobid) in self._commands

    def examine(self) -> list[BadConfig]:
        """Return all errors in the file. The other methods raise the first of them."""
        found = [] if self._path is None else list_commands(self._path)
        return [each for each in found if isinstance(each, BadConfig)]

    def find_missing(self) -> list[str]:
        """Return a sentence for each problem of the commands on this host, such as a missing folder or program."""
        return list(find_missing(self._commands.values()))

    @property
    def _commands(self) -> Mapping[str, Command]:
        return self._file.get().commands

    def _get_command(self, jobid: str) -> Command:
        if shell.is_of_shell(jobid) and self.takes_shell_jobs:
            return read_command(current_run().data)
        name = shell.get_taker(jobid)
        command = self._commands.get(name)
        if command is None:
            raise CommandFailed(f"no command {name!r} in {self._path or 'any file'}")
        return command

    def _wait_for_end(
        self, run: Run, group: ProcessGroup, output: Output, deadline: float, grace: float, late: float
    ) -> bool:
        """Wait for the command. If it has not ended by `deadline`, end its group within `late` seconds, return False.

        An exception also ends the group, and so does a cancellation, by `cancel` in another thread. Both give the group
        `grace` seconds, but not beyond `late` seconds after the deadline.
        """

        def find_grace() -> float:
            return min(grace, max(0.0, deadline - time.monotonic()) + late)

        self._groups[run.tag, run.jobid] = group, find_grace
        try:
            # Checked only now: from now on, `cancel` finds the group.
            if not run.cancelled and output.read_until_exit(deadline):
                if run.cancelled:
                    group.end(find_grace(), output.read)
                wait_if_ending()
                return True
            if not run.cancelled:
                log.warning("%s: its timeout has passed, so Redbike ends its command", output.jobid)
        except BaseException:
            group.end(find_grace(), output.read)
            raise
        finally:
            self._groups.pop((run.tag, run.jobid), None)
        group.end(find_grace() if run.cancelled else late, output.read)
        return False
