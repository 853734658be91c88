"""The embedded server: a private Valkey for one folder, started by whoever needs it first, shared, outliving them all.

1. One lock of the kernel decides who runs: whoever starts the server takes it and hands it to the server's process,
   which holds it for as long as it lives, however it ends. So no second server is ever started on the same data, and
   one that loads, or does not answer, is waited for and never killed.
2. It listens on a Unix socket alone, which only this user may open.
3. It is durable: append-only file on, no eviction. Killed and started again, it has lost nothing that was acknowledged.
4. Whoever uses it keeps it up: a client that finds it gone starts it again, unless `EmbeddedServer.stop` has ended it.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from redbike.errors import ServerError
from redbike.serving.binary import find_binary
from redbike.serving.private_folder import close_old_way, make_private, open_way, way_to
from redbike.serving.probe import Probe, Sight, is_alive, is_suspended, listening_pid, loaded_percent

log = logging.getLogger("redbike.server")

PATIENCE = 10.0  # seconds for the server to go down
ANSWER = 2.0  # seconds in which a server that is well says how it is
SECOND = 1.0  # seconds of waiting after which it is said what for
ROOM = 65536  # bytes of free disk below which it is full
LOOK = 0.005  # seconds between two looks at a server that is coming up or going down
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
        self.socket = way_to(self.folder) / "redis.sock"
        self.logfile = self.folder / "server.log"
        self.pidfile = self.folder / "server.pid"
        self._lockfile = self.folder / "lock"
        self._said = 0  # bytes of the log before its last start
        self._stopped = self.folder / "stopped"  # there from `stop` to the next `start`

    @property
    def url(self) -> str:
        """What `redbike.serving.connection.connect` takes."""
        return f"unix://{quote(os.fsencode(self.socket))}"

    def start(self) -> bool:
        """Start it, and wait until it answers; False if it runs already.

        One that is loading, or that does not answer, is waited for without an end; a line of log says so. Raises
        `ServerError` if it ends instead, or cannot be started.
        """
        began = time.monotonic()
        with contextlib.closing(Probe(self.socket)) as probe:
            sight = probe.look(SECOND)
            if sight is Sight.READY:
                return False
            with self._explained():
                make_private(self.folder)
                self.open_way()
            return self._start(probe, began, sight)

    def _start(self, probe: Probe, began: float, sight: Sight) -> bool:
        told, process = False, None
        while True:
            if process is None:
                process = self._spawn_if_free()
            if not told and time.monotonic() - began >= SECOND:
                told = True
                log.warning("the embedded server in %s %s; waiting", self.folder, self._how_it_is(sight))
            sight = probe.look(SECOND)
            if sight is Sight.READY:
                return process is not None
            if process is not None and process.poll() is not None:
                raise ServerError(self._last_words(process))
            if sight is not Sight.SILENT:
                time.sleep(LOOK)

    def revive(self) -> None:
        """Start it again for a client that found it gone; return when it may be there.

        It does not wait for one that somebody else is starting. Raises `ServerError` if `stop` has ended it, or if it
        cannot be started.
        """
        if self._stopped.exists():
            raise ServerError(f"the embedded server in {self.folder} was stopped: 'redbike server start' starts it")
        # A way through the temporary folder may have been cleared away with what was old there.
        self.open_way()
        process = self._spawn_if_free(unless_stopped=True)
        if process is None:
            return
        log.warning("the embedded server in %s was gone; it is started again", self.folder)
        with contextlib.closing(Probe(self.socket)) as probe:
            while probe.look(SECOND) is Sight.ABSENT:
                if process.poll() is not None:
                    raise ServerError(self._last_words(process))
                time.sleep(LOOK)

    def stop(self) -> bool:
        """Stop it, with all on disk, and wait until it is gone; False if it did not run.

        Its clients leave it stopped: the next `start` brings it back. Raises `ServerError` if it does not stop.
        """
        if not self.folder.is_dir():
            return False
        with contextlib.suppress(OSError):
            # A full disk must not keep it from being stopped.
            self._stopped.touch(mode=0o600)
        return self._end()

    def stop_if_unused(self) -> bool:
        """Stop it if nobody else is connected to it, and wait until it is gone; whether it was stopped.

        If someone was about to connect, its client starts it again.
        """
        deadline = time.monotonic() + SECOND / 2
        while self._has_users():
            # Whoever has just ended may still be on its list.
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK)
        return self._end()

    def status(self) -> dict[str, Any]:
        """``running``, ``folder``, ``url``; if it runs also ``pid``, and ``server``, ``version``, ``memory`` (bytes).

        While it loads also ``loading`` (per cent); if it does not answer, ``answers`` (False) in place of those.
        """
        status: dict[str, Any] = {"running": False, "folder": str(self.folder), "url": self.url}
        try:
            with self._client() as client:
                info: dict[str, Any] = client.info()
        except (redis.RedisError, OSError):
            pid = self._pid()
            return status | ({"running": True, "pid": pid, "answers": False} if pid else {})
        status |= {
            "running": True,
            "pid": info["process_id"],
            "server": info.get("server_name", "redis"),
            "version": info.get("valkey_version", info["redis_version"]),
            "memory": info["used_memory"],
        }
        return status | ({"loading": info.get("loading_loaded_perc")} if info.get("loading") else {})

    def open_way(self) -> None:
        """See that `socket` leads into the folder, where that is too deep for a socket."""
        if self._is_deep:
            open_way(self.socket.parent, self.folder)

    def _spawn_if_free(self, unless_stopped: bool = False) -> "subprocess.Popen[bytes] | None":
        """Start its process; None if one has the lock, or if one of a version without the lock is still there."""
        with self._explained(), self._lock() as lock:
            if lock is None or self._pid_of_file() is not None or (unless_stopped and self._stopped.exists()):
                return None
            self._stopped.unlink(missing_ok=True)
            if self._is_deep:
                close_old_way(self.socket.parent)
                self.open_way()
            return self._spawn(find_binary(), lock)

    def _spawn(self, binary: str, lock: int) -> "subprocess.Popen[bytes]":
        # The server's own folder is the one that it works in.
        socket = "redis.sock" if self._is_deep else self.socket
        places = {"dir": self.folder, "unixsocket": socket, "logfile": self.logfile, "pidfile": self.pidfile}
        settings = SETTINGS | {name: str(place) for name, place in places.items()}
        arguments = [word for name, value in settings.items() for word in (f"--{name}", value.strip('"'))]
        with open(self.logfile, "ab") as words:
            self._said = words.tell()
            # In a session of its own, so that Ctrl-C in the terminal does not reach it.
            return subprocess.Popen(
                [binary, *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
                pass_fds=[lock],
            )

    @contextlib.contextmanager
    def _lock(self) -> Iterator[int | None]:
        """The lock, to be inherited by a process that is to hold it; None if another process has it."""
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
        with self._explained(), self._lock() as lock:
            return lock is None

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            raise ServerError(f"the embedded server in {self.folder} cannot be started: {why}") from error

    def _end(self) -> bool:
        deadline = time.monotonic() + PATIENCE
        while (pid := self._pid()) is None:
            if not self._is_locked():
                return False
            if time.monotonic() > deadline:
                raise ServerError(f"the embedded server in {self.folder} is gone, but not all of its processes are")
            time.sleep(LOOK)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        while is_alive(pid):
            if time.monotonic() > deadline:
                raise ServerError(f"the embedded server in {self.folder} {_not_stopping(pid)}")
            time.sleep(LOOK)
        return True

    def _client(self) -> "redis.Redis":
        return redis.Redis(unix_socket_path=str(self.socket), socket_timeout=ANSWER, retry=Retry(NoBackoff(), 0))

    def _has_users(self) -> bool:
        try:
            with self._client() as client:
                return len(client.client_list()) > 1
        except (redis.RedisError, OSError):
            # Nobody knows who uses one that does not answer.
            return self._pid() is not None

    def _how_it_is(self, sight: Sight) -> str:
        if sight is not Sight.LOADING:
            return "does not answer" if sight is Sight.SILENT else "is starting"
        percent = loaded_percent(self.socket)
        return "is loading its data" if percent is None else f"is loading its data ({percent:.0f} %)"

    def _pid(self) -> int | None:
        """The process of the server: whoever listens, or else the one in the file, if it is starting."""
        listening = listening_pid(self.socket)
        return self._pid_of_file() if listening is None else listening

    def _pid_of_file(self) -> int | None:
        try:
            pid = int(self.pidfile.read_text(encoding="ascii"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            here = os.path.samefile(f"/proc/{pid}/cwd", self.folder)
        except (OSError, ValueError):
            return None
        # After a reboot the number may be another program's.
        return pid if here and b"redis.sock" in words and is_alive(pid) else None

    def _last_words(self, process: "subprocess.Popen[bytes]") -> str:
        """Why its process, which has ended, did not start."""
        lines = []
        with contextlib.suppress(OSError), open(self.logfile, "rb") as words:
            words.seek(self._said)
            lines = words.read().decode(errors="replace").split("\n")
        last = next(filter(str.strip, reversed(lines)), f"it ended with status {process.returncode}, and says nothing")
        full = "; no space is left on its disk" if shutil.disk_usage(self.folder).free < ROOM else ""
        return f"the embedded server in {self.folder} does not start: {last.strip()}{full}"

    @property
    def _is_deep(self) -> bool:
        return self.socket.parent != self.folder


def _not_stopping(pid: int) -> str:
    if is_suspended(pid):
        return f"is suspended (process {pid}): it stops when it is continued, as by kill -CONT {pid}"
    return f"(process {pid}) was told to stop, and has not yet"
