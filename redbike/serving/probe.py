"""A look at a server on a Unix socket from outside: whether it answers, is still loading, is silent, or is not there.

It speaks to the socket itself: a client of redis-py would need several replies before it could say as much.
"""

import os
import re
import socket
import struct
from enum import Enum, auto
from pathlib import Path


class Sight(Enum):
    """What a look has shown."""

    READY = auto()
    LOADING = auto()
    SILENT = auto()  # it takes connections, and does not answer: it is suspended, or its disk is busy
    ABSENT = auto()


class Probe:
    """Looks at the server behind `path`.

    A connection is kept for as long as the server is silent: a new one for each look would fill its backlog.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket: socket.socket | None = None

    def look(self, patience: float) -> Sight:
        """Ask whether it serves; `patience` is how many seconds it may take to answer."""
        try:
            if self._socket is None:
                self._socket = _connected(self.path, patience)
                self._socket.sendall(b"PING\r\n")
            self._socket.settimeout(patience)
            reply = self._socket.recv(1024)
        except (TimeoutError, BlockingIOError):
            return Sight.SILENT
        except OSError:
            reply = b""
        self.close()
        if not reply:
            return Sight.ABSENT
        return Sight.LOADING if reply.startswith(b"-LOADING") else Sight.READY

    def close(self) -> None:
        """Give the connection up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def loaded_percent(path: Path) -> float | None:
    """How much of its data a server that is loading has read; None if it does not say."""
    try:
        with _connected(str(path), 1.0) as connection:
            connection.sendall(b"INFO persistence\r\n")
            said = connection.recv(65536)
    except OSError:
        return None
    found = re.search(rb"loading_loaded_perc:([\d.]+)", said)
    return float(found[1]) if found else None


def listening_pid(path: Path) -> int | None:
    """The process that listens on the socket at `path`; None if nobody does, or the kernel cannot tell."""
    try:
        with _connected(str(path), 1.0) as connection:
            pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except (OSError, AttributeError):
        # Not every system has SO_PEERCRED.
        return None
    return int(pid) or None


def is_alive(pid: int) -> bool:
    """Whether a process of that number runs; one that has ended and is not waited for does not."""
    state, threads = _state(pid)
    # A first thread that has ended says nothing of the others, which hold the files open.
    return bool(state) and (state not in "ZX" or threads > 1)


def is_suspended(pid: int) -> bool:
    """Whether it was stopped by a signal, and acts on none until it is continued."""
    return _state(pid)[0] == "T"


def _state(pid: int) -> tuple[str, int]:
    """The letter for the state of a process, as ``ps`` shows it, and how many threads it has.

    The letter is "" if there is no such process, and "?" if no more is known than that there is one.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program, in brackets before these, may hold anything.
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode("ascii"), int(fields[17])
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "", 0
    except PermissionError:
        pass
    return "?", 1


def _connected(path: str, patience: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(patience)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection
