"""What the suite inherits and must not depend on: signals, limits, locale, zone, environment; and what tests leave."""

import contextlib
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# Variables of the user that would steer a test. PYTHONPATH stays: an editable copy may be found by it.
OURS = ("REDBIKE_", "REDIS_URL", "LC_", "LANG", "SUDO_", "XDG_", "NOTIFY_", "WATCHDOG_", "LISTEN_")
OURS += ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "TERM", "CI", "EDITOR", "VISUAL", "PAGER", "MAILTO")
OURS += ("MAKE", "MFLAGS")
OF_PYTHON = ("PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONSAFEPATH")
OF_PYTHON += ("PYTHONDONTWRITEBYTECODE",)  # each process would compile all modules again
# What tests of the package may be told: see CONTRIBUTING.rst.
TOLD = ("REDBIKE_SERVER", "REDBIKE_RANDOM", "REDBIKE_DELAY")
MARK = "REDBIKE_OF_TEST"  # in the environment of what a test starts
CALM = 0.1  # seconds that `measure` takes on an idle machine of 2025


def reset() -> None:
    """Bring this process into the state that the tests are written for."""
    for name in list(os.environ):
        if name.startswith((*OURS, *OF_PYTHON)) and name not in TOLD:
            del os.environ[name]
    os.environ |= {"LANG": "C.UTF-8", "TZ": "UTC"}
    time.tzset()
    os.umask(0o022)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Nohup, a background shell and a supervisor let signals be ignored. Python itself ignores two.
        if signal.getsignal(number) == signal.SIG_IGN and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard) if hard >= 0 else 4096, hard))


def measure(clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how much slower this machine is now, by that clock, than an idle one, at least 1."""
    began = clock()
    for number in range(500_000):
        str(number)
    return max(1.0, (clock() - began) / CALM)


_started = False


def _note(event: str, _: object) -> None:
    global _started
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
        _started = True


sys.addaudithook(_note)


@contextlib.contextmanager
def processes_of(test: str, find_folder: Callable[[], Path | None] = lambda: None) -> Iterator[None]:
    """Kill at the end of the block whatever it has started and left behind, so that no other test meets it.

    `find_folder` returns the folder of the test then.
    """
    global _started
    before, _started = os.environ.get(MARK), False
    mark = f"{MARK}={os.getpid()} {test}"
    os.environ[MARK] = mark.partition("=")[2]
    try:
        yield
    finally:
        del os.environ[MARK]
        if before is not None:
            os.environ[MARK] = before
        if _started:
            kill_marked(mark)
            if folder := find_folder():
                kill_within(folder)


@contextlib.contextmanager
def unmarked() -> Iterator[None]:
    """What the block starts outlives the test."""
    mark = os.environ.pop(MARK, None)
    try:
        yield
    finally:
        if mark is not None:
            os.environ[MARK] = mark


def end_run_logs() -> None:
    """Have what workers of this process still want to log logged now, not within a second in some other test."""
    for thread in threading.enumerate():
        # What it runs is a method of its RunLog, until it has ended.
        if thread.name == "redbike-run-log" and (target := getattr(thread, "_target", None)):
            target.__self__.stop()


def kill_marked(mark: str) -> list[int]:
    """Kill all processes that have inherited `mark`, also those that they start meanwhile; return them."""
    killed: list[int] = []
    while found := [pid for pid in _list_marked(mark.encode(errors="surrogateescape")) if pid not in killed]:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed += found
    return killed


def kill_within(folder: Path) -> None:
    """Kill all processes that work in `folder` or below: a server that shows its name has no environment any more."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder) and int(process.name) != os.getpid():
                os.kill(int(process.name), signal.SIGKILL)


def _list_marked(mark: bytes) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                yield int(folder.name)
