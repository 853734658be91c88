"""Several processes of ours in one foreground command: started, tagged, restarted when they crash, stopped in order.

1. Each child is a process group of its own, so that Ctrl-C reaches this process alone, which stops them in order.
2. Each line that a child prints is printed with the child's name in front.
3. A child that crashes is started again after a pause; one that ends by itself (halted) is not.
4. A child whose supervisor is gone, even by ``kill -9``, stops by itself: its standard input ends.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType

log = logging.getLogger("redbike")

SUPERVISED = "REDBIKE_SUPERVISED"
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a crashed child is started again
BAD_INPUT = 2  # the exit status of a child that would fail in the same way again


def watch_parent() -> None:
    """In a child: stop, as by SIGTERM, when the supervisor is gone."""
    if os.environ.pop(SUPERVISED, None) is None:
        return

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="redbike-parent", daemon=True).start()


def supervise(commands: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> int:
    """Run `commands` (name → arguments) until they end or are stopped; 2 if one cannot run at all, else 0."""
    return _Supervisor(commands, environment).run()


class _Supervisor:
    def __init__(self, commands: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> None:
        self.commands = commands
        self.environment = {**os.environ, **environment, SUPERVISED: "1", "PYTHONUNBUFFERED": "1"}
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.watchers: list[threading.Thread] = []
        self.stopping = threading.Event()
        self.status = 0
        self._printing = threading.Lock()

    def run(self) -> int:
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.watchers = [threading.Thread(target=self._keep_running, args=(name,)) for name in self.commands]
            for watcher in self.watchers:
                watcher.start()
            for watcher in self.watchers:
                watcher.join()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return self.status

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        again = self.stopping.is_set()
        self.stopping.set()
        # In a thread: a signal handler must not wait.
        threading.Thread(target=self._stop, args=(signal.SIGKILL if again else signal.SIGTERM,)).start()

    def _stop(self, number: signal.Signals) -> None:
        # In the order of the commands: a dispatcher stands first, so nothing more comes when the workers stop.
        for child in [self.children[name] for name in self.commands if name in self.children]:
            if child.poll() is None:
                child.send_signal(number)

    def _keep_running(self, name: str) -> None:
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            began = time.monotonic()
            status = self._run_once(name)
            if status == 0 or self.stopping.is_set():
                return
            if status == BAD_INPUT:
                self.status = status
                self.stopping.set()
                self._stop(signal.SIGTERM)
                return
            pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else min(LONGEST_PAUSE, pause * 2)
            log.error("%s ended with status %d; it is started again in %g s", name, status, pause)
            self.stopping.wait(pause)

    def _run_once(self, name: str) -> int:
        child = subprocess.Popen(
            self.commands[name],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        self.children[name] = child
        if self.stopping.is_set():
            child.terminate()
        assert child.stdout is not None
        for line in child.stdout:
            with self._printing:
                sys.stdout.buffer.write(f"{name:<8} | ".encode() + line.rstrip(b"\n") + b"\n")
                sys.stdout.buffer.flush()
        return child.wait()
