"""The server of a measurement: a Valkey of its own, without any durability, alike for everyone."""

import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import redis

from redbike.connection.embedded_launcher import find_binary

PATIENCE = 60.0  # seconds for it to come up
SLOTS = 16384
SETTINGS = {
    "save": "",
    "appendonly": "no",
    "loglevel": "warning",
    "slowlog-log-slower-than": "1000",  # microseconds
    "slowlog-max-len": "1000",
}


class Server:
    """A server with nothing in it, for as long as the ``with`` lasts.

    `kind` is ``socket`` for a Unix socket, ``tcp`` for a port of this host, ``cluster`` for a cluster of one master.
    """

    def __init__(self, kind: str = "socket") -> None:
        self._kind = kind
        self._port = 0 if kind == "socket" else free_port()

    def __enter__(self) -> "Server":
        # The socket's path has to be short, so this does not go below the folder of the measurement.
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        folder = Path(self._folder.name)
        self.socket = folder / "s"
        own = {"port": str(self._port), "bind": "127.0.0.1"}
        if self._kind == "cluster":
            own |= {"cluster-enabled": "yes", "cluster-port": str(free_port())}
        settings = SETTINGS | own | {"dir": str(folder), "unixsocket": str(self.socket), "logfile": str(folder / "log")}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._command = [find_binary(), *words]
        self.client = redis.Redis(unix_socket_path=str(self.socket))
        self.start()
        if self._kind == "cluster":
            self.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
            self._await(lambda: self.client.exists("any"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self.kill()
        self._folder.cleanup()

    def start(self) -> None:
        """Start it, and wait until it has loaded what is in its folder."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._await(self.client.ping)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def snapshot_size(self) -> int:
        """Save a snapshot into its folder, and return its size in bytes."""
        self.client.save()
        return (Path(self._folder.name) / "dump.rdb").stat().st_size

    @property
    def url(self) -> str:
        """As Redbike takes it, and redis-py if it is no cluster."""
        if self._kind == "socket":
            return f"unix://{self.socket}"
        return f"redis{'+cluster' * (self._kind == 'cluster')}://127.0.0.1:{self._port}"

    def _await(self, answer: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                answer()
                return
            except (redis.ConnectionError, redis.exceptions.ClusterDownError, redis.exceptions.BusyLoadingError):
                if time.monotonic() > deadline:
                    self._process.kill()
                    raise
                time.sleep(0.01)

    def version(self) -> str:
        """Its name and version."""
        info: dict[str, Any] = self.client.info("server")
        return f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"

    def memory(self) -> int:
        """Bytes that it uses."""
        info: dict[str, Any] = self.client.info("memory")
        return int(info["used_memory"])

    def cpu(self) -> float:
        """Seconds of a processor that its main thread has used."""
        info: dict[str, Any] = self.client.info("cpu")
        return float(info["used_cpu_user_main_thread"]) + float(info["used_cpu_sys_main_thread"])

    def calls(self) -> dict[str, int]:
        """How often each command was called, also by scripts."""
        info: dict[str, dict[str, Any]] = self.client.info("commandstats")
        return {name.removeprefix("cmdstat_"): int(stats["calls"]) for name, stats in info.items()}

    def log_scripts(self) -> None:
        """Note from now on how long each script takes."""
        self.client.config_set("slowlog-log-slower-than", 0)
        self.client.config_set("slowlog-max-len", 100_000)
        self.client.slowlog_reset()

    def longest_script(self) -> float:
        """Milliseconds of the longest script since `log_scripts`; 0 without any."""
        entries: list[dict[str, Any]] = self.client.slowlog_get(-1)
        scripts = (b"EVALSHA", b"EVAL", b"FCALL", b"EVALSHA_RO", b"EVAL_RO", b"FCALL_RO")
        return max(
            (entry["duration"] / 1000 for entry in entries if entry["command"].split(b" ")[0].upper() in scripts),
            default=0.0,
        )


def free_port() -> int:
    """Return a port that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
