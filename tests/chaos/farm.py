"""The processes of the farm: dispatchers, workers and clients, each started again when it ends, as a supervisor would.

How each ended, and that it was started, is noted with the time.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.chaos.journal import Journal
from tests.chaos.population import CLIENTS, ORDER
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
WORKER = f"tests.chaos.jobs:Worker('{ORDER}')"
LOOK = 0.01  # seconds between two looks at the processes
PAUSE = 0.3  # seconds before one is started again that found no server
HOUR = 3600


@dataclass
class Child:
    """One place in the farm, whoever is in it at the moment."""

    name: str
    role: str
    arguments: list[str]
    process: "subprocess.Popen[bytes] | None" = None
    skew: int = 0  # seconds that the clock of the next process in this place is off
    not_before: float = 0.0

    @property
    def pid(self) -> int:
        """Of the present process."""
        assert self.process is not None
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        process = self.process
        if process is not None:
            process.send_signal(number)


class Farm:
    """All processes; they run in `folder`, where their config file is."""

    def __init__(self, folder: Path, journal: Journal, dispatchers: int, workers: int, seed: int) -> None:
        self.folder = folder
        self.journal = journal
        self.faketime = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
        redbike = ["redbike", "--config=redbike.conf"]
        self.children = [
            Child(f"dispatcher{n}", "dispatcher", [*redbike, "dispatch", WORKER]) for n in range(dispatchers)
        ]
        for n in range(workers):
            # One of them works several jobs at once.
            more = ["--concurrency=3"] if n == workers - 1 else []
            self.children.append(Child(f"worker{n}", "worker", [*redbike, "work", WORKER, *more]))
        for n in range(CLIENTS):
            self.children.append(Child(f"client{n}", "client", ["tests.chaos.clients", str(n), str(seed)]))
        self.stopping: set[str] = set()
        self._ended = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def start(self) -> None:
        """Start all, and from now on those again that end."""
        self._supervisor.start()

    def any(self, role: str, rng: Random) -> Child:
        """One that runs; where all of a role have just been struck, the first that is there again."""
        running: list[Child] = []

        def find() -> bool:
            running[:] = [child for child in self.children if child.role == role and child.process]
            return bool(running)

        wait_until(find)
        return rng.choice(running)

    def stop(self, role: str) -> None:
        """End all of a role by SIGTERM, for good, and wait for them."""
        self.stopping.add(role)
        mine = [child for child in self.children if child.role == role]
        for child in mine:
            child.signal(signal.SIGCONT)
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + 20
        while left := [child for child in mine if child.process]:
            if time.monotonic() > deadline:
                self.journal.note("stubborn", names=[child.name for child in left])
                for child in left:
                    child.signal(signal.SIGKILL)
                deadline += 20
            time.sleep(LOOK)

    def close(self) -> None:
        """Kill what is left."""
        self._ended.set()
        self._supervisor.join()
        for child in self.children:
            child.signal(signal.SIGKILL)

    def _supervise(self) -> None:
        while not self._ended.wait(LOOK):
            for child in self.children:
                if child.process is None:
                    if child.role not in self.stopping and time.monotonic() >= child.not_before:
                        self._start(child)
                elif child.process.poll() is not None:
                    self._note_end(child)

    def _note_end(self, child: Child) -> None:
        assert child.process is not None
        status, now = child.process.returncode, time.monotonic()
        self.journal.note("exit", name=child.name, role=child.role, pid=child.pid, at=now, status=status)
        child.not_before = now + PAUSE if status > 0 else now
        child.process = None

    def _start(self, child: Child) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        if child.skew and self.faketime:
            environment |= {"LD_PRELOAD": str(self.faketime), "FAKETIME": f"{child.skew:+d}s"}
            environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
        with open(self.folder / f"{child.role}.log", "a") as log:
            child.process = subprocess.Popen(
                [sys.executable, "-m", *child.arguments], cwd=self.folder, env=environment, stdout=log, stderr=log
            )
        many = "--concurrency=3" in child.arguments
        started = {"name": child.name, "role": child.role, "pid": child.pid, "at": time.monotonic()}
        self.journal.note("start", **started, skew=child.skew, many=many)
        child.skew = 0
