"""A stock worker that runs command lines, for jobs that need no Python: ``redbike.commands:Commands('A', 'jobs.ini')``.

The INI file maps the first part of a job id, up to its first ``:``, to a command; ``backup`` below serves ``backup:A``
and ``backup:db1:A``::

    [commands]
    backup: /usr/local/bin/backup --full
    report: sh -c 'cd "$HOME" && ./report | mail -s "$REDBIKE_JOBID" boss'

    [backup]
    timeout = 15m
    cwd = /var/lib/backup
    env.LANG = C.UTF-8
    backoff = 300

A section that is named like a command may have:

- ``timeout``: how long it may take, in seconds or as ``1h30m``; without it, the ``default-timeout`` holds.
- ``cwd``: the folder that it runs in, relative to that of the INI file; without it, the worker's current folder. A
  program such as ``./run`` is looked for there.
- ``env.NAME``: a variable of its environment, beside those of the worker.
- ``backoff``: the pause after exit status 75 with ``CONTINUE``, in seconds or as ``5m``; 60 seconds without it.

A command line is split into words as a shell would, but no shell runs it: ``~``, ``$NAME``, ``*``, ``|`` and ``>`` mean
nothing, in ``cwd`` and ``env.NAME`` neither. Who wants them writes ``sh -c '…'``. A command finds its job in its
environment, as ``REDBIKE_JOBID`` and ``REDBIKE_DUE`` (epoch seconds). No part of a job id gets into a command line,
so a shell never reads one as code. ``REDBIKE_URL`` and ``REDIS_URL``, which may hold a password, are not passed on.

- Exit status 0: the run is done.
- Exit status 75 (``EX_TEMPFAIL``): it is done too; with ``CONTINUE`` the job is due again after ``backoff``.
- Any other, a signal, or a command that cannot be run: the run has failed, and ``on-error`` decides.
- Its time is over: its process group gets SIGTERM and then SIGKILL, and ``on-timeout`` decides.

What it prints is logged line by line, up to 64 KiB per run. A process that it leaves behind in the background is left
alone after a run in time, but nobody reads what that prints any more.
"""

import configparser
import contextlib
import errno
import logging
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO

from redbike.errors import BadConfig, Overrun, RedbikeError
from redbike.performer import current_run
from redbike.rotation import RoundRobin

log = logging.getLogger("redbike.commands")

SECRETS = (b"REDBIKE_URL", b"REDIS_URL")
OWN_NAMES = ("REDBIKE_JOBID", "REDBIKE_DUE")
LONGEST = 1e8  # seconds
LOG_LIMIT = 64 * 1024  # characters of log for one run
LINE_COST = 60  # characters; a time, a level and the like stand before each line of a log
LINE_LIMIT = 2000  # bytes; a longer line is logged in pieces
TAIL_LIMIT = 4 * 1024  # bytes of output that a failure shows
CHUNK = 64 * 1024  # bytes
PIPE_LIMIT = 1024 * 1024  # bytes that a pipe may hold
LOOK = 0.25  # seconds between two looks at a silent command; its exit mostly shows at once, by the end of its output
TICK = 0.02  # seconds between two looks at a process group that is being ended

DURATION = re.compile(r"(?=\d)(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
SECONDS = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PIECE = re.compile(rb"[^\n]{0,%d}\n|[^\n]{%d}" % (LINE_LIMIT, LINE_LIMIT))


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the INI file. Times are seconds; bytes are what the system gets, in UTF-8 whatever the locale."""

    name: str
    argv: tuple[bytes, ...]
    timeout: float | None = None
    cwd: bytes | None = None
    env: Mapping[bytes, bytes] = field(default_factory=dict)
    backoff: float = 60.0


class Commands(RoundRobin):
    """Works the queues of `initstring`, as `RoundRobin` does, by running the commands of the INI file `filename`.

    The file is read once, here; a relative name is looked for in the current folder. Raises `BadConfig` if it cannot
    be used. A worker that is killed outright, by SIGKILL or a second SIGTERM, leaves its command running.
    """

    grace = 5.0  # seconds between SIGTERM and SIGKILL

    def __init__(self, initstring: str, filename: str) -> None:
        super().__init__(initstring)
        self._filename = filename
        self._commands = read(filename)

    def timeout(self, queue_name: str) -> float | None:
        """The longest timeout of any command, with the time to end it, in seconds; None if there is none."""
        # Every queue may hold jobs for every command.
        timeouts = [command.timeout for command in self._commands.values() if command.timeout is not None]
        return max(timeouts) + self.grace if timeouts else None

    def work(self, jobid: str) -> float | None:
        """Run the command of `jobid` to its end; its backoff in seconds for exit status 75, else None.

        Raises `Overrun` when its time was over, and `RedbikeError` for every other failure.
        """
        command = self._command_for(jobid)
        run = current_run()
        own = run.default_timeout if command.timeout is None else command.timeout
        seconds = min(own, run.deadline - run.now())
        if seconds <= 0:
            raise Overrun(f"no time was left to start {command.name!r}")
        process = start(command, jobid, run.due)
        with Output(process, jobid) as output:
            status = self._attend(process, output, seconds)
        return verdict(command, status, output)

    def _command_for(self, jobid: str) -> Command:
        name = jobid.partition(":")[0]
        if name not in self._commands:
            raise RedbikeError(f"no command {name!r} in {self._filename}")
        return self._commands[name]

    def _attend(self, process: subprocess.Popen[bytes], output: "Output", seconds: float) -> int:
        """The exit status of `process`; whatever ends the wait for it ends its process group too."""
        try:
            if output.follow(time.monotonic() + seconds):
                return process.returncode
            log.warning("%s: not done after %g s, it is ended", output.jobid, seconds)
            raise Overrun(f"not done after {seconds:g} s")
        except BaseException:
            end(process, output, self.grace)
            raise


def start(command: Command, jobid: str, due: float) -> subprocess.Popen[bytes]:
    """Start `command` as the leader of a process group of its own."""
    own = {b"REDBIKE_JOBID": jobid.encode(), b"REDBIKE_DUE": timestamp(due).encode()}
    inherited = {name: value for name, value in os.environb.items() if name not in SECRETS}
    try:
        return subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            cwd=command.cwd,
            env={**inherited, **command.env, **own},
            start_new_session=True,
        )
    except OSError as error:
        culprit = os.fsdecode(error.filename or command.argv[0])
        raise RedbikeError(f"cannot run {command.name!r}: {error.strerror}: {culprit!r}") from None


def timestamp(due: float) -> str:
    """Epoch seconds as a shell can reckon with them: without a fraction unless there is one."""
    return f"{due:.6f}".rstrip("0").rstrip(".")


def end(process: subprocess.Popen[bytes], output: "Output", grace: float) -> None:
    """End the process group of `process`: by SIGTERM, and what is left of it after `grace` seconds by SIGKILL."""
    try:
        send(process, signal.SIGTERM)
        until = time.monotonic() + grace
        while is_left(process) and time.monotonic() < until:
            output.read(TICK)
    finally:
        if is_left(process):
            send(process, signal.SIGKILL)
        # Bounded, as one that changed its user or hangs in the kernel cannot be ended by us.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)


def is_left(process: subprocess.Popen[bytes]) -> bool:
    """Whether anything is left of the process group: its number is not given to others for so long."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the process group, if it is there and ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class Output:
    """Reads what a process prints, logs it under its job id, and keeps the end of it; all in bounded memory."""

    def __init__(self, process: subprocess.Popen[bytes], jobid: str) -> None:
        assert process.stdout is not None
        self.jobid = harmless(jobid.encode())
        self.tail = b""
        self._process = process
        self._pipe: IO[bytes] = process.stdout
        self._ready = select.poll()  # needs no file of its own, so it cannot fail once the process runs
        self._ready.register(self._pipe, select.POLLIN)
        self._ended = False
        self._partial = b""
        self._room = LOG_LIMIT
        self._seen = self._logged = 0

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *_: object) -> None:
        self._drain()
        self._pipe.close()
        if self._partial:
            self._log(self._partial)
        if self._seen > self._logged:
            log.info("%s: … %d bytes more were left out", self.jobid, self._seen - self._logged)

    def follow(self, until: float) -> bool:
        """Read until the process has exited; False if it has not by `until` (of the monotonic clock)."""
        while self._process.poll() is None:
            left = until - time.monotonic()
            if left <= 0:
                return False
            if self._ended:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(left)
            else:
                self.read(min(left, LOOK))
        return True

    def read(self, seconds: float) -> int:
        """Take in what is there, or comes within `seconds`; how many bytes."""
        if self._ended:
            time.sleep(seconds)
            return 0
        if not self._ready.poll(seconds * 1000):
            return 0
        chunk = os.read(self._pipe.fileno(), CHUNK)
        self._ended = not chunk
        self._feed(chunk)
        return len(chunk)

    def _drain(self) -> None:
        # What the command printed is in the pipe; another process may hold that open, and print for ever.
        before = self._seen
        while self._seen - before < PIPE_LIMIT and self.read(0):
            pass

    def _feed(self, chunk: bytes) -> None:
        self._seen += len(chunk)
        self.tail = (self.tail + chunk)[-TAIL_LIMIT:]
        text, position = self._partial + chunk, 0
        while self._room > 0 and (piece := PIECE.match(text, position)):
            self._log(piece.group())
            position = piece.end()
        self._partial = text[position:] if self._room > 0 else b""

    def _log(self, piece: bytes) -> None:
        text = harmless(piece.rstrip(b"\r\n"))
        # A flood of empty lines is a flood too.
        self._room -= LINE_COST + len(self.jobid) + len(text)
        if self._room > 0:
            log.info("%s: %s", self.jobid, text)
            self._logged += len(piece)


def verdict(command: Command, status: int, output: Output) -> float | None:
    """What `Commands.work` returns or raises for an exit status; a negative one is a signal."""
    if status == 0:
        return None
    if status == os.EX_TEMPFAIL:
        log.warning("%s: exit status 75; with CONTINUE it is due again in %g s", output.jobid, command.backoff)
        return command.backoff
    raise failure(status, harmless_lines(output.tail))


def failure(status: int, lines: list[str]) -> RedbikeError:
    """The error for a command that failed, with its last line; the others are a note, which tracebacks show."""
    how = f"exit status {status}" if status > 0 else f"killed by {signal_name(-status)}"
    if not lines:
        return RedbikeError(how)
    error = RedbikeError(f"{how}: {lines[-1].strip()[:300]}")
    error.add_note("\n".join(["the end of its output:", *(f"  | {line}" for line in lines)]))
    return error


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def harmless_lines(output: bytes) -> list[str]:
    """The lines of `output` without blank ones."""
    return [harmless(line.rstrip(b"\r")) for line in output.split(b"\n") if line.strip()]


def harmless(output: bytes) -> str:
    """`output` as text in which whatever could steer a terminal, or is not UTF-8, is spelled out."""
    text = output.decode(errors="backslashreplace")
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode() for char in text
    )


class Parser(configparser.ConfigParser):
    """Reads an INI file as it stands: case matters, ``%`` and ``[DEFAULT]`` mean nothing special."""

    def __init__(self) -> None:
        super().__init__(interpolation=None, default_section="")

    def optionxform(self, optionstr: str) -> str:
        """The key itself, where the standard one is in lower case."""
        return optionstr


def read(filename: str) -> dict[str, Command]:
    """The commands of an INI file by name; raises `BadConfig`, in one line that quotes what is wrong."""
    parser = parsed(filename)
    if not parser.has_section("commands"):
        raise BadConfig(f"{filename}: a section [commands] is needed")
    lines = parser["commands"]
    folder = os.path.dirname(os.path.abspath(filename))
    for section in parser.sections():
        if section != "commands" and section not in lines:
            raise BadConfig(f"{filename}: section {section!r:.80} has no command of that name in [commands]")
    commands = {}
    for name, line in lines.items():
        # One that is called "commands" cannot have settings.
        options = parser[name] if name != "commands" and parser.has_section(name) else {}
        try:
            commands[name] = command_of(name, line, options, folder)
        except BadConfig as error:
            raise BadConfig(f"{filename}: command {name!r:.80}: {error}") from None
    return commands


def parsed(filename: str) -> Parser:
    """The sections and keys of an INI file."""
    if not isinstance(filename, str):
        raise BadConfig(f"bad file name {filename!r:.80}: a text such as 'commands.ini' is needed")
    parser = Parser()
    try:
        with open(filename, encoding="utf-8-sig") as file:
            parser.read_file(file)
    except OSError as error:
        raise BadConfig(f"cannot read commands from {filename!r}: {error.strerror}") from None
    except ValueError as error:
        # Not UTF-8, or a file name with a NUL in it.
        raise BadConfig(f"cannot read commands from {filename!r}: {error}") from None
    except configparser.Error as error:
        raise BadConfig(" ".join(str(error).split())[:300]) from None
    return parser


def command_of(name: str, line: str, options: Mapping[str, str], folder: str) -> Command:
    """A command from its line and its settings; a relative ``cwd`` is in `folder`."""
    env = {key: value for key, value in options.items() if key.startswith("env.")}
    for key in options:
        if key not in ("timeout", "cwd", "backoff", *env):
            raise BadConfig(f"unknown key {key!r:.80}")
    return Command(
        name,
        argv=words(line),
        timeout=duration("timeout", options["timeout"], least=0.001) if "timeout" in options else None,
        cwd=system_bytes(os.path.join(folder, options["cwd"])) if "cwd" in options else None,
        env=dict(variable(key, value) for key, value in env.items()),
        backoff=duration("backoff", options.get("backoff", "60"), least=0),
    )


def words(line: str) -> tuple[bytes, ...]:
    """A command line in its words, of which the first is a program."""
    try:
        argv = shlex.split(line)
    except ValueError as error:
        raise BadConfig(f"bad command line {line!r:.200}: {error}") from None
    if not argv or not argv[0]:
        raise BadConfig(f"bad command line {line!r:.200}: it names no program")
    return tuple(system_bytes(word) for word in argv)


def duration(key: str, text: str, least: float) -> float:
    """Seconds from ``90``, ``1.5`` or ``1h30m``, between `least` and `LONGEST`."""
    if SECONDS.fullmatch(text):
        value = float(text)
    elif parts := DURATION.fullmatch(text):
        value = sum(int(part or 0) * unit for part, unit in zip(parts.groups(), (86400, 3600, 60, 1), strict=True))
    else:
        raise BadConfig(f"bad {key} {text!r:.80}: seconds or a duration such as '15m' are needed")
    if not least <= value <= LONGEST:
        raise BadConfig(f"bad {key} {text!r:.80}: {least:g} to {LONGEST:g} seconds are allowed")
    return value


def variable(key: str, value: str) -> tuple[bytes, bytes]:
    """A variable of a command's environment, from its ``env.NAME`` and its value."""
    name = key.removeprefix("env.")
    if not VARIABLE.fullmatch(name):
        raise BadConfig(f"bad name of a variable {key!r:.80}: letters, digits and '_' are allowed")
    if name in OWN_NAMES:
        raise BadConfig(f"{key!r} is set for each job, it cannot be set here")
    return name.encode(), system_bytes(value)


def system_bytes(text: str) -> bytes:
    """`text` as the system takes it, to which a NUL would be its end."""
    place = text.find("\0")
    if place >= 0:
        raise BadConfig(f"a NUL in {text[max(0, place - 40) : place + 40]!r}")
    return text.encode(errors="surrogateescape")
