"""Check the health of a server on a Unix socket: it answers, loads its data, is silent, or is absent.

This module does not use redis-py, whose client needs several replies before it can tell as much.
"""

import os
import socket
import struct
from enum import Enum, auto
from pathlib import Path


class Health(Enum):
    """The health of a server."""

    READY = auto()
    LOADING = auto()
    SILENT = auto()  # accepts connections, but does not answer: suspended, or its disk is busy
    ABSENT = auto()


class Probe:
    """Checks the server on the socket `path`.

    It keeps its connection while the server does not answer: a new one for each check would fill the backlog.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket: socket.socket | None = None

    def check(self, patience: float) -> Health:
        """Return the health of the server, which may take up to `patience` seconds to answer."""
        try:
            if self._socket is None:
                self._socket = _connect(self.path, patience)
                self._socket.sendall(b"PING\r\n")
            self._socket.settimeout(patience)
            reply = self._socket.recv(1024)
        except (TimeoutError, BlockingIOError):
            return Health.SILENT
        except OSError:
            reply = b""
        self.close()
        if not reply:
            return Health.ABSENT
        return Health.LOADING if reply.startswith(b"-LOADING") else Health.READY

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def find_listening_pid(path: Path) -> int | None:
    """Return the id of the process that listens on the socket at `path`; None if none does, or if it is unknown."""
    try:
        with _connect(str(path), 1.0) as connection:
            pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except (OSError, AttributeError):
        # Not every system has SO_PEERCRED.
        return None
    return int(pid) or None


def is_alive(pid: int) -> bool:
    """Tell whether a process with this id runs; a zombie does not."""
    state, threads = _read_state(pid)
    # The first thread may have ended while others still run and hold the files open.
    return bool(state) and (state not in "ZX" or threads > 1)


def is_suspended(pid: int) -> bool:
    """Tell whether a process is suspended by a signal. It handles no other signal until it is continued."""
    return _read_state(pid)[0] == "T"


def _read_state(pid: int) -> tuple[str, int]:
    """Return the letter for the state of a process, as ``ps`` shows it, and its number of threads.

    The letter is "" if there is no such process, and "?" if only its existence is known.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # These fields come after the name of the program in brackets, which may itself contain brackets.
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


def _connect(path: str, patience: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(patience)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection
