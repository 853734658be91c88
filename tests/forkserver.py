"""Starts ``redbike`` in milliseconds: a process that has imported the package forks one for each command.

What it starts is a process of its own, with the folder, environment, descriptors and signals that it is given. Whose
environment changes how Python itself starts is not started here: see `is_plain`. The server adopts the orphans of its
processes, as process 1 does, so that none stays a zombie. It ends, with all of them, when its pytest does.

usage: python -m tests.forkserver <DESCRIPTOR>
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from select import POLLIN, poll

from tests.surroundings import MARK

ROOT = Path(__file__).parent.parent
PR_SET_CHILD_SUBREAPER = 36
LENGTH = struct.Struct("!I")
IGNORABLE = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD)
# What the interpreter and the loader read when they start.
AT_START = ("PYTHON", "LC_", "LANG", "LD_")


def is_plain(environment: Mapping[str, str]) -> bool:
    """Whether Python starts with `environment` as it has started here."""
    own = read_environment()
    names = {name for name in (*environment, *own) if name.startswith(AT_START)}
    return all(environment.get(name) == own.get(name) for name in names)


@functools.cache
def read_environment() -> dict[str, str]:
    """The environment of the server: that of its pytest when it is needed first, without the mark of a test."""
    return {name: value for name, value in os.environ.items() if name != MARK} | {"PYTHONPATH": str(ROOT)}


def list_ignored() -> list[int]:
    """The signals that this process ignores, and what it starts inherits."""
    return [number for number in IGNORABLE if signal.getsignal(number) == signal.SIG_IGN]


class Process:
    """A process of the server; it has the methods of `subprocess.Popen` that tests call."""

    def __init__(self, pid: int, arguments: Sequence[str], status: int) -> None:
        self.pid, self.args = pid, ["redbike", *arguments]
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        returncode = self._read(timeout)
        if returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            waiting = poll()
            waiting.register(self._status, POLLIN)
            if waiting.poll(None if timeout is None else timeout * 1000):
                # Nothing, if the server itself has ended.
                status = os.read(self._status, LENGTH.size)
                self.returncode = os.waitstatus_to_exitcode(LENGTH.unpack(status)[0]) if status else -signal.SIGKILL
                os.close(self._status)
        return self.returncode


class ForkServer:
    """Starts the server when it is needed first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._is_used = False

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        files: Sequence[int],
        answer_timeout: float | None = None,
    ) -> Process:
        """Start ``redbike`` with standard input, output and error from `files`, and this `ANSWER_TIMEOUT` of health."""
        request = json.dumps([arguments, str(folder), dict(environment), list_ignored(), answer_timeout]).encode()
        status, report = os.pipe()
        try:
            with self._lock:
                control = self._control = self._control or self._launch()
                socket.send_fds(control, [LENGTH.pack(len(request))], [*files, report])
                control.sendall(request)
                (pid,) = LENGTH.unpack(control.recv(LENGTH.size))
        finally:
            os.close(report)
        self._is_used = True
        return Process(pid, arguments, status)

    def end_all(self) -> None:
        """Kill all that it has started, and what that has left behind."""
        with self._lock:
            if self._is_used and self._control:
                self._control.sendall(LENGTH.pack(0))
                self._control.recv(LENGTH.size)
            self._is_used = False

    def _launch(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.forkserver", str(theirs.fileno())]
            # In a session of its own, so that Ctrl-C does not end it before its pytest.
            subprocess.Popen(
                command, cwd=ROOT, env=read_environment(), pass_fds=[theirs.fileno()], start_new_session=True
            )
        return ours


def serve(control: socket.socket) -> list[str] | None:
    """Start what is asked for; in the process that is started, return its arguments, and None when all has ended."""
    reports: dict[int, int] = {}
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting = poll()
    waiting.register(reader, POLLIN)
    waiting.register(control, POLLIN)
    while True:
        for descriptor, _ in waiting.poll():
            if descriptor == reader:
                os.read(reader, 512)
                _reap(reports)
                continue
            header, files, _, _ = socket.recv_fds(control, LENGTH.size, 4)
            if not header:
                return None
            if header == LENGTH.pack(0):
                _end_children(reports)
                control.sendall(header)
                continue
            request = control.recv(LENGTH.unpack(header)[0], socket.MSG_WAITALL)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number in (reader, writer, control.detach(), *reports.values()):
                    os.close(number)
                return _become(*json.loads(request), files)
            reports[pid] = files.pop()
            for number in files:
                os.close(number)
            control.sendall(LENGTH.pack(pid))


def _reap(reports: dict[int, int], options: int = os.WNOHANG) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, options))[0]:
            options = os.WNOHANG
            if report := reports.pop(ended[0], 0):
                with contextlib.suppress(BrokenPipeError):
                    os.write(report, LENGTH.pack(ended[1]))
                os.close(report)


def _end_children(reports: dict[int, int]) -> None:
    """Kill what is left, and what those leave."""
    while children := Path("/proc/thread-self/children").read_text().split():
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        _reap(reports, 0)


def _become(
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    ignored: list[int],
    answer_timeout: float | None,
    files: list[int],
) -> list[str]:
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    if answer_timeout is not None:
        from redbike.cli import watch

        watch.ANSWER_TIMEOUT = answer_timeout
    sys.argv, sys.path[0] = ["redbike", *arguments], folder
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        old = getattr(sys, f"__{name}__")
        new = open(number, mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        if name == "stderr" or new.isatty():
            new.reconfigure(line_buffering=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    return arguments


def main() -> int:
    import redbike

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    for module in pkgutil.walk_packages(redbike.__path__, "redbike."):
        if module.name != "redbike.__main__":
            import_module(module.name)
    gc.collect()
    gc.freeze()
    arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    if arguments is None:
        _end_children({})
        return 0
    try:
        status = redbike.cli.main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    _finish()
    return status


def _finish() -> None:
    """Do what the interpreter does at its end, but for taking its modules apart, which takes the longest."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


if __name__ == "__main__":
    os._exit(main())
