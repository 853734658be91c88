"""The site of one measurement: a server, a folder, and the processes of one contender, all of which end with it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from bench import record
from bench.server import Server
from redbike import Redbike, RoundRobin

HERE = Path(__file__).parents[1]
GRACE = 2.0  # seconds for a process to end by itself
PATIENCE = 60.0  # seconds without any progress after which a measurement is given up


class Failed(Exception):
    """A contender did not do what it should."""


@dataclass(frozen=True)
class Contender:
    """One that takes part: Redbike, a peer, or raw Redis."""

    name: str
    python: str = sys.executable  # the interpreter that it is installed for
    abilities: frozenset[str] = frozenset()  # the functions of its adapter
    versions: dict[str, str] = field(default_factory=dict)
    settings: str = ""
    jobs: int = 0  # how many it is given to drain in a full run

    @property
    def is_peer(self) -> bool:
        return self.name != "raw" and not self.name.startswith("redbike")


class Site:
    """Runs the processes of `contender` against a server of their own, of that kind (see `Server`)."""

    def __init__(self, contender: Contender, kind: str = "socket") -> None:
        self.contender = contender
        self._kind = kind
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Site":
        self.folder = Path(tempfile.mkdtemp(prefix="bench-"))
        self.server = Server(self._kind).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.server.__exit__(kind, error, trace)
        shutil.rmtree(self.folder)

    def start(self, verb: str, *arguments: object) -> "subprocess.Popen[bytes]":
        """Start a process of `bench.drive`."""
        with open(self.folder / f"{len(self.processes)}-{verb}.log", "wb") as log:
            process = subprocess.Popen(
                [self.contender.python, "-m", "bench.drive", self.contender.name, verb, *map(str, arguments)],
                cwd=self.folder,
                env=environment() | {record.FOLDER: str(self.folder), "BENCH_URL": self.server.url},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def call(self, verb: str, *arguments: object) -> str:
        """Run one to its end; the last line that it printed. Raises `Failed` if it failed."""
        process = self.start(verb, *arguments)
        said = self.folder / f"{len(self.processes) - 1}-{verb}.log"
        if process.wait() != 0:
            raise Failed(f"{self.contender.name} {verb}: {_last_line(said)}")
        return _last_line(said)

    def stop(self) -> None:
        """End all processes, and wait until they are gone."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
            # Also what it started itself.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def count(self) -> int:
        """How many runs there were so far."""
        return record.total(self.folder)

    def runs(self) -> list[record.Runs]:
        """The runs of each process."""
        return record.read(self.folder)

    def await_runs(self, count: int) -> None:
        """Wait for that many; raises `Failed` when there is no progress for `PATIENCE`."""
        last, since = -1, time.monotonic()
        while (now := self.count()) < count:
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE or not self._alive():
                raise Failed(f"{self.contender.name}: only {now} of {count} jobs ran: {self._last_words()}")
            time.sleep(0.02)

    def finish(self, numbers: Iterable[int]) -> list[record.Runs]:
        """Wait until those jobs have run, stop all, and check that each of them, and no other, ran exactly once."""
        expected = Counter(iter(numbers))
        self.await_runs(expected.total())
        self.stop()
        runs = self.runs()
        found = Counter(number for each in runs for number, _ in each)
        if found != expected:
            raise Failed(
                f"{self.contender.name}: {(found - expected).total()} runs too many, "
                f"{(expected - found).total()} too few"
            )
        return runs

    def _alive(self) -> bool:
        return any(process.poll() is None for process in self.processes)

    def _last_words(self) -> str:
        return "; ".join(filter(None, map(_last_line, sorted(self.folder.glob("*.log")))))


def ours(site: Site) -> Redbike:
    """A Redbike in this process, for the server of the site."""
    return Redbike(RoundRobin("A"), redis_config=site.server.url)


def set_all(bike: Redbike, pairs: Iterable[tuple[str, str]], after: float | None = None) -> None:
    """Set those jobs; raises `Failed` for one that cannot be."""
    for jobid, result in bike.set_many(pairs, after):
        if result is not True:
            raise Failed(f"{jobid}: {result}")


def environment() -> dict[str, str]:
    """That of the processes: they find the suite's modules and, with our interpreter, the same Redbike."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}


def wait_for(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Wait until it is true; raises `Failed` with `what` after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(what)
        time.sleep(0.005)


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
