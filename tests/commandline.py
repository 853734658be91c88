"""The command line as a user types it: real processes, in a folder of their own."""

import csv
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

from redbike import Redbike, RoundRobin
from redbike.cli import main
from tests.forkserver import ForkServer, Process, is_plain
from tests.waiting import wait_until

ROOT = Path(__file__).parent.parent
FORK_SERVER = ForkServer()
LOOPS = {"dispatch", "metrics", "tail", "up", "web", "work"}  # they change the state of their process


class Shell:
    """Runs ``redbike`` in `folder`; `url` is the server, None for the embedded one of the folder."""

    # Seconds for all that is asked about health, as this machine may be busy; None: as many as a user waits.
    answer_timeout: float | None = 30.0

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
        if url:
            self.environment["REDBIKE_URL"] = url
        self.started: list[Process | subprocess.Popen[Any]] = []

    @cached_property
    def bike(self) -> Redbike:
        """A program on the same server, whose changes are in no log."""
        return Redbike(RoundRobin("A"), redis_config=self.environment["REDBIKE_URL"])

    def run(self, *arguments: str, input: str = "", timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        """Run it to its end, with `input` on its standard input."""
        with memory_file(input) as stdin, memory_file() as stdout, memory_file() as stderr:
            process = self.spawn(arguments, stdin, stdout, stderr)
            try:
                status = process.wait(timeout)
            finally:
                process.kill()
            return subprocess.CompletedProcess(self.command(arguments), status, read(stdout), read(stderr))

    def read(self, *arguments: str) -> str:
        """Run a command that does well and complains of nothing, and return what it prints."""
        done = self.run(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def list_rows(self, *arguments: str) -> list[list[str]]:
        """Run a command that lists things, and return the rows of its CSV without the header."""
        return list(csv.reader(self.run(*arguments).stdout.splitlines()))[1:]

    def start(self, *arguments: str, log: str = "log") -> "Process | subprocess.Popen[Any]":
        """Run it beside the test; what it prints goes to the file `log`."""
        with open(self.folder / log, "a") as file, open(os.devnull) as null:
            process = self.spawn(arguments, null.fileno(), file.fileno(), file.fileno())
        self.started.append(process)
        return process

    def spawn(
        self,
        arguments: tuple[str, ...],
        stdin: int,
        stdout: int,
        stderr: int,
        environment: dict[str, str] | None = None,
    ) -> "Process | subprocess.Popen[Any]":
        """Start it with these descriptors, and its own environment unless another one is given."""
        own = self.environment if environment is None else environment
        if is_plain(own):
            return FORK_SERVER.start(arguments, self.folder, own, (stdin, stdout, stderr), self.answer_timeout)
        command = self.command(arguments)
        return subprocess.Popen(command, cwd=self.folder, env=own, stdin=stdin, stdout=stdout, stderr=stderr)

    def log(self, log: str = "log") -> str:
        """What was printed there so far."""
        path = self.folder / log
        return path.read_text() if path.exists() else ""

    def status_of(self, jobid: str) -> str:
        """Return the first word of the status of a job; "" if it has none."""
        return str(self.bike.tell(jobid)["status"] or "")[:3]

    def run_to_its_end(self, jobid: str) -> None:
        """Set a job that runs once, and wait until it has succeeded."""
        assert self.bike.set(jobid, "NOW")
        wait_until(lambda: self.status_of(jobid) not in ("TML", "ENQ", "WRK"))
        assert self.status_of(jobid) == "STP"

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()

    def command(self, arguments: tuple[str, ...]) -> list[str]:
        """The words with which Python starts it; its own start takes a quarter of a second."""
        return [sys.executable, "-m", "redbike", *arguments]


class Within(Shell):
    """The same, but `run` calls the command in this process, where a process is not the point: a fourth of the time."""

    def run(self, *arguments: str, input: str = "", timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        # What a process enables that is to go on would end this one later.
        if not is_plain(self.environment) or LOOPS & set(arguments):
            return super().run(*arguments, input=input, timeout=timeout)
        loaded, root, runs = set(sys.modules), logging.getLogger(), logging.getLogger("redbike.worker")
        others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
        files = {"stdin": memory_file(input), "stdout": memory_file(), "stderr": memory_file()}
        with ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, self.environment, clear=True))
            stack.enter_context(chdir(self.folder))
            stack.enter_context(patch("sys.path", [str(self.folder), *sys.path]))
            if self.answer_timeout is not None:
                stack.enter_context(patch("redbike.cli.watch.ANSWER_TIMEOUT", self.answer_timeout))
            # What a test logs later must not go to a descriptor that is another's by then.
            stack.enter_context(patch.object(root, "handlers", root.handlers[:]))
            stack.callback(root.setLevel, root.level)
            stack.enter_context(patch("redbike.process.command_log._handler", None))
            # A thread logs runs of the test up to a second later: they are not of the command.
            runs.addFilter(skip := lambda record: record.thread not in others)
            stack.callback(runs.removeFilter, skip)
            numbers = {name: stack.enter_context(file) for name, file in files.items()}
            for name, number in numbers.items():
                mode = "r" if name == "stdin" else "w"
                file = stack.enter_context(open(number, mode, errors="surrogateescape", closefd=False))
                stack.enter_context(patch(f"sys.{name}", file))
            status = main(arguments)
            for file in (sys.stdout, sys.stderr):
                file.flush()
            for name in set(sys.modules) - loaded:
                # The next test has other modules of the same name.
                if str(self.folder) in (getattr(sys.modules[name], "__file__", None) or ""):
                    del sys.modules[name]
            shown = [read(numbers[name]) for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(self.command(arguments), status, *shown)


def make_module(*lines: str, head: str = "") -> str:
    """The text of a module with a class ``Worker``, whose ``work`` has these lines; `head` comes before it."""
    body = "".join(f"        {line}\n" for line in lines or ("pass",))
    return f"{head}\nfrom redbike import RoundRobin\n\nclass Worker(RoundRobin):\n    def work(self, jobid):\n{body}"


@contextmanager
def memory_file(text: str = "") -> Iterator[int]:
    """A file without a name that has `text`."""
    descriptor = os.memfd_create("tests")
    try:
        os.write(descriptor, text.encode(errors="surrogateescape"))
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def read(descriptor: int) -> str:
    """All text of a file."""
    # A descriptor of its own: the process may have left the position anywhere.
    with open(f"/proc/self/fd/{descriptor}", errors="surrogateescape") as file:
        return file.read()


def drop_waits(lines: Iterable[str]) -> list[str]:
    """Leave out what is said of an embedded server that takes more than a second to start."""
    return [line for line in lines if not line.rstrip().endswith("; waiting")]
