"""Work that goes on while something happens to the servers: dispatchers, workers, and a client that sets jobs."""

import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from redbike import Redbike, RoundRobin, Unreachable
from tests.commandline import Shell
from tests.proc import handles
from tests.waiting import wait_until

CONFIG = "[redbike]\nprefix: {prefix}\nworker: jobs:Worker('A')\nlog-level: info\n"
JOBS = """import os
import time

import redbike


class Worker(redbike.RoundRobin):
    def work(self, jobid):
        line = f"{redbike.current_run().due:.6f} {time.time():.6f} {jobid}\\n"
        handle = os.open("runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(handle, line.encode())
        os.close(handle)
"""
REGULAR = [*(f"every.{number}:A" for number in range(20)), "cron:A"]
PAUSE = 0.02  # seconds between two jobs that the client sets


@dataclass(frozen=True)
class Ended:
    """A run that has come to its end; times are epoch seconds."""

    due: float
    at: float
    jobid: str


class Traffic:
    """Dispatchers and workers in `folder`, jobs that run each second, and a thread that sets one-off jobs."""

    def __init__(self, folder: Path, url: str, prefix: str = "redbike") -> None:
        self.shell = Shell(folder, url)
        self.folder = folder
        (folder / ".redbike.conf").write_text(CONFIG.format(prefix=prefix))
        (folder / "jobs.py").write_text(JOBS)
        now = int(time.time())
        rows = [f"{jobid},{schedule}\n" for jobid, schedule in self._schedules(now).items()]
        (folder / "jobs.csv").write_text("".join(rows))
        assert self.shell.run("load", "jobs.csv").returncode == 0
        self.bike = Redbike(RoundRobin("A"), prefix=prefix, redis_config=url)
        self.acknowledged: dict[str, float] = {}  # one-off jobs, with the instant at which they were surely set
        self.processes = [self.shell.start(verb, log=verb) for verb in ("dispatch", "dispatch", "work", "work")]
        self._stopping = threading.Event()
        self._client = threading.Thread(target=self._set_jobs)
        self._client.start()
        # A process that finds no server when it starts ends at once: so wait for the loops of all.
        wait_until(lambda: all(handles(process.pid, signal.SIGTERM) for process in self.processes), 30)
        wait_until(lambda: self.ended(), 30)

    def _schedules(self, now: int) -> dict[str, str]:
        # Each at another part of the second.
        every = {jobid: f"EVERY:1s@{now + number / 20}" for number, jobid in enumerate(REGULAR[:-1])}
        return every | {REGULAR[-1]: "* * * * * *"}

    def _set_jobs(self) -> None:
        while not self._stopping.wait(PAUSE):
            number = len(self.acknowledged)
            jobid = f"once.{number}:A"
            if self._is_set(jobid, "NOW" if number % 2 else f"AT:{time.time() + 0.5:.3f}"):
                self.acknowledged[jobid] = time.time()

    def _is_set(self, jobid: str, schedule: str) -> bool:
        try:
            return self.bike.set(jobid, schedule)
        except Unreachable:
            return False

    def ended(self) -> list[Ended]:
        """All runs so far."""
        path = self.folder / "runs"
        lines = path.read_text().splitlines() if path.exists() else []
        return [Ended(float(due), float(at), jobid) for due, at, jobid in map(str.split, lines)]

    def first_after(self, moment: float) -> Ended | None:
        """The first run to end of those that came due after `moment`."""
        return min((run for run in self.ended() if run.due > moment), key=lambda run: run.at, default=None)

    def wait_for_all(self, moment: float, timeout: float = 30) -> None:
        """Wait until each job that runs each second has run for an instant after `moment`."""
        wait_until(lambda: {run.jobid for run in self.ended() if run.due > moment} >= set(REGULAR), timeout)

    def stop_client(self) -> None:
        """Set no further jobs."""
        self._stopping.set()
        self._client.join()

    def stop(self) -> None:
        """Stop all in order, by HALT."""
        self.stop_client()
        assert self.shell.run("control", "HALT").returncode == 0
        assert [process.wait(30) for process in self.processes] == [0] * len(self.processes)

    def logs(self) -> str:
        """All that dispatchers and workers have said."""
        return self.shell.log("dispatch") + self.shell.log("work")

    def close(self) -> None:
        """End what is left."""
        self._stopping.set()
        self._client.join()
        self.shell.close()
        self.bike.redis.close()
