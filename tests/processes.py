"""Processes as the system shows them."""

from pathlib import Path

from tests.waiting import wait_until


def children_of(pid: int) -> list[int]:
    """The processes that `pid` has started and that are not gone."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def is_gone(pid: int) -> bool:
    """Whether the process has ended; perhaps nobody has waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def worker_of(pid: int) -> int:
    """The child of `up` that works, by its arguments. A new child has its parent's for a moment."""
    wait_until(lambda: _workers_of(pid))
    (found,) = _workers_of(pid)
    return found


def _workers_of(pid: int) -> list[int]:
    return [each for each in children_of(pid) if b"\0work\0" in Path(f"/proc/{each}/cmdline").read_bytes()]
