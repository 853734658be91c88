"""Processes as the system shows them. Threads and processes may end while one reads."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

GONE = (FileNotFoundError, ProcessLookupError)


def children_of(pid: int) -> list[int]:
    """The processes that `pid` has started and that are not gone."""
    return [int(child) for task in _threads_of(pid) for child in _read(task / "children").split()]


def arguments_below(pid: int) -> list[str]:
    """The arguments of a process and of all that it has started."""
    return [
        _read(Path(f"/proc/{pid}/cmdline")),
        *(line for child in children_of(pid) for line in arguments_below(child)),
    ]


def is_gone(pid: int) -> bool:
    """Whether the process has ended; perhaps nobody has waited for it yet."""
    return read_state(pid) in ("", "Z")


def read_state(pid: int) -> str:
    """The letter of the state of the process: T if it is stopped; nothing if it is gone."""
    return "".join(_read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1])


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for a signal."""
    lines = _read(Path(f"/proc/{pid}/status")).splitlines()
    return any(int(line.split()[1], 16) >> (number - 1) & 1 for line in lines if line.startswith("SigCgt:"))


def signal_until_gone(process: Any, number: signal.Signals = signal.SIGTERM, timeout: float = 30.0) -> None:
    """Send a signal over and over: what comes within a second of the first one counts as the same."""
    wait_until(lambda: process.send_signal(number) or process.poll() is not None, timeout)


def waits_in(pid: int, function: str) -> bool:
    """Whether a thread of the process waits in a function of the system whose name has this in it."""
    return any(function in _read(task / "wchan") for task in _threads_of(pid))


def worker_of(pid: int) -> int:
    """The child of `up` that works, by its arguments. A new child has its parent's for a moment."""
    wait_until(lambda: _workers_of(pid))
    (found,) = _workers_of(pid)
    return found


def _workers_of(pid: int) -> list[int]:
    return [each for each in children_of(pid) if "\0work\0" in _read(Path(f"/proc/{each}/cmdline"))]


def _threads_of(pid: int) -> Iterator[Path]:
    try:
        yield from Path(f"/proc/{pid}/task").iterdir()
    except GONE:
        return


def _read(path: Path) -> str:
    """The text of a file of the system, or nothing if its process or thread is gone."""
    try:
        return path.read_text()
    except GONE:
        return ""
