"""A stand-in for systemd, which speaks its protocol: see sd_notify(3) and `WatchdogSec` in systemd.service(5)."""

import contextlib
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ABORT_TIMEOUT = 5.0  # seconds from SIGABRT to SIGKILL


class Manager:
    """Keeps one command running: it starts it again after a failure, or after `limit` seconds without WATCHDOG=1."""

    def __init__(self, command: Sequence[str], folder: Path, environment: dict[str, str], limit: float) -> None:
        self.heard: list[str] = []  # all that the processes have told, in order
        self.processes: list[subprocess.Popen[bytes]] = []
        self._command, self._folder, self._limit = command, folder, limit
        path = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._socket.settimeout(0.02)
        self._environment = environment | {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": str(int(limit * 1e6))}
        self._stopping = False
        self._start()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The one that runs, or ran last."""
        return self.processes[-1]

    def count(self, state: str) -> int:
        return self.heard.count(state)

    def stop(self) -> int:
        """End the command by SIGTERM, and hear all that it tells; its exit status."""
        self._stopping = True
        self.process.terminate()
        status = self.process.wait(20)
        self._thread.join(20)
        return status

    def kill(self) -> None:
        """End it at once, if it still runs."""
        self._stopping = True
        self.process.kill()
        self._thread.join()
        self._socket.close()

    def _start(self) -> None:
        with open(self._folder / "log", "ab") as log:
            self.processes.append(
                subprocess.Popen(self._command, cwd=self._folder, env=self._environment, stdout=log, stderr=log)
            )

    def _watch(self) -> None:
        # As with systemd, the watchdog begins when the process is ready.
        fed_until = float("inf")
        while True:
            # First: what it has told before its end is there by then.
            has_ended = self.process.poll() is not None
            with contextlib.suppress(TimeoutError):
                state = self._socket.recv(4096).decode()
                self.heard.append(state)
                if state in ("READY=1", "WATCHDOG=1"):
                    fed_until = time.monotonic() + self._limit
                continue
            if has_ended:
                if self._stopping or not self.process.returncode:
                    return
                fed_until = float("inf")
                self._start()
            elif time.monotonic() > fed_until and not self._stopping:
                self._abort()

    def _abort(self) -> None:
        self.process.send_signal(signal.SIGABRT)
        try:
            self.process.wait(ABORT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
