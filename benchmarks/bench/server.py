"""The server of a measurement: a Valkey of its own on a Unix socket, without any durability, alike for everyone."""

import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import redis

from redbike.serving.embedded import find_binary

PATIENCE = 10.0  # seconds for it to come up
SETTINGS = {
    "port": "0",
    "save": "",
    "appendonly": "no",
    "loglevel": "warning",
    "slowlog-log-slower-than": "1000",  # microseconds
    "slowlog-max-len": "1000",
}


class Server:
    """A server with nothing in it, for as long as the ``with`` lasts."""

    def __enter__(self) -> "Server":
        # The socket's path has to be short, so this does not go below the folder of the measurement.
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        folder = Path(self._folder.name)
        self.socket = folder / "s"
        settings = SETTINGS | {"dir": str(folder), "unixsocket": str(self.socket), "logfile": str(folder / "log")}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen(
            [find_binary(), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self.client = redis.Redis(unix_socket_path=str(self.socket))
        self._await()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """As redis-py takes it."""
        return f"unix://{self.socket}"

    def _await(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.client.ping()
                return
            except redis.ConnectionError:
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
