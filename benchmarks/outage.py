"""Outages and long runs: ``python benchmarks/outage.py restarts|deaths|soak [N]``.

restarts: kills the server N times (default 100) and starts it again. Prints how long after its return the jobs go round
  at 90 % of the rate of before, and what share of a core each process used while it was away.
deaths: kills N workers (default 20), each in the middle of a job. Prints how long it took until another began it.
soak: lets jobs of all kinds go round for N minutes (default 60). Prints what memory each process has at the beginning
  and at the end, and how fast it grows, by a line through all that was measured after the first tenth.

All on a server of its own with an append-only file, a dispatcher and workers as processes of their own.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import linear_regression, median

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer

AWAY = 3.0  # seconds for which the server is away
WINDOW = 0.25  # seconds over which a rate is measured
JOBS = """
import os, time
from redbike import RoundRobin, StopWork

class Worker(RoundRobin):
    # Notes how many it has done, in eight bytes of a file of its own.
    count = 0
    file = None

    def work(self, jobid):
        if jobid.startswith("trap"):
            with open("began.log", "a") as log:
                log.write(f"{jobid} {time.time()}\\n")
            if os.path.exists("traps"):
                time.sleep(60)
            return
        if jobid.startswith("fails"):
            raise ValueError(jobid)
        time.sleep(0.002)
        if self.file is None:
            self.file = os.open(f"count.{os.getpid()}", os.O_RDWR | os.O_CREAT)
        self.count += 1
        os.pwrite(self.file, self.count.to_bytes(8, "big"), 0)

    def timeout(self, queue_name):
        return 100
"""


class Farm:
    """A server, a dispatcher and workers, in `folder`."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        (folder / "jobs.py").write_text(JOBS)
        self.server = EmbeddedServer(folder / ".redbike")
        self.server.start()
        self.bike = Redbike(RoundRobin("A"), redis_config=self.server.url)
        self.processes = {"dispatcher": self.start("dispatch")}
        for number in range(workers):
            self.processes[f"worker {number + 1}"] = self.start("work", "jobs:Worker('A')")

    def start(self, *command: str) -> "subprocess.Popen[bytes]":
        """One command of Redbike as a process, which logs to a file."""
        environment = {**os.environ, "REDBIKE_URL": self.server.url, "PYTHONPATH": os.pathsep.join(sys.path)}
        with open(self.folder / "log", "a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "redbike", *command], cwd=self.folder, env=environment, stderr=log
            )

    def done(self) -> int:
        """How many jobs all workers have done."""
        return sum(int.from_bytes(file.read_bytes(), "big") for file in self.folder.glob("count.*"))

    def rate(self) -> float:
        """Jobs per second, over `WINDOW`."""
        before, began = self.done(), time.monotonic()
        time.sleep(WINDOW)
        return (self.done() - before) / (time.monotonic() - began)

    def close(self) -> None:
        """Stop everything."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.server.stop()


@contextmanager
def farm(workers: int) -> Iterator[Farm]:
    with tempfile.TemporaryDirectory() as name:
        farm = Farm(Path(name), workers)
        try:
            yield farm
        finally:
            farm.close()


def restarts(number: int) -> None:
    """The server is killed and comes back."""
    with farm(workers=2) as site:
        for n in range(50):
            site.bike.set(f"{n}:A", "CONTINUE")
        wait_for(lambda: site.done() > 500)
        usual = median(site.rate() for _ in range(12))
        shares: dict[str, list[float]] = {name: [] for name in site.processes}
        returns = []
        for n in range(number):
            os.kill(site.server.status()["pid"], signal.SIGKILL)
            wait_for(lambda: not site.server.status()["running"])
            measure_shares(site, shares)
            site.server.start()
            back = time.monotonic()
            wait_for(lambda: site.rate() >= 0.9 * usual, 60)
            returns.append(time.monotonic() - back)
            print(f"{n + 1}: {returns[-1]:.2f} s", file=sys.stderr)
        alive = [process.poll() is None for process in site.processes.values()]
    within = sum(each <= 5 for each in returns)
    print(f"usual rate: {usual:.0f} jobs/s; processes alive at the end: {sum(alive)} of {len(alive)}")
    print(
        f"90 % of it after: median {median(returns):.2f} s, at most {max(returns):.2f} s; {within} of {number} in 5 s"
    )
    for name, found in shares.items():
        print(f"{name} while the server was away: median {median(found):.2f} %, at most {max(found):.2f} % of a core")


def measure_shares(site: Farm, shares: dict[str, list[float]]) -> None:
    """What each process uses of a core, while the server is away."""
    before, began = {name: cpu_seconds(process.pid) for name, process in site.processes.items()}, time.monotonic()
    time.sleep(AWAY)
    for name, process in site.processes.items():
        shares[name].append(100 * (cpu_seconds(process.pid) - before[name]) / (time.monotonic() - began))


def deaths(number: int) -> None:
    """Workers are killed in the middle of jobs, which others begin again."""
    with farm(workers=0) as site:
        (site.folder / "traps").touch()
        log = site.folder / "began.log"
        victims = {f"victim {n}": site.start("work", "jobs:Worker('A')") for n in range(number)}
        site.processes |= victims
        for n in range(number):
            site.bike.set(f"trap{n}:A", "NOW")
        wait_for(lambda: log.exists() and len(log.read_text().splitlines()) == number, 60)
        (site.folder / "traps").unlink()
        site.processes["healthy"] = site.start("work", "jobs:Worker('A')")
        killed = []
        for victim in victims.values():
            # At any moment of the heartbeat.
            time.sleep(random.uniform(0, 0.2))
            victim.kill()
            killed.append(time.time())
        wait_for(lambda: len(log.read_text().splitlines()) == 2 * number, 60)
        again = [float(line.split()[1]) for line in log.read_text().splitlines()[number:]]
    # Which job was whose is not known: the worst that it can have been.
    waits = [late - first for late, first in zip(sorted(again), sorted(killed), strict=True)]
    worst = max(again) - min(killed)
    print(f"begun again after: median {median(waits):.1f} s, at most {max(waits):.1f} s (surely under {worst:.1f} s)")


def soak(minutes: int) -> None:
    """Jobs of all kinds go round, and memory is measured."""
    with farm(workers=2) as site:
        schedules = ("CONTINUE", "* * * * * *", "EVERY:1s", "FREQ=SECONDLY;INTERVAL=2")
        for n in range(40):
            site.bike.set(f"{n}:A", schedules[n % len(schedules)])
        for n in range(5):
            site.bike.set(f"fails{n}:A", "EVERY:1s")
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in [*site.processes, "server"]}
        began, last = time.monotonic(), 0
        while (passed := time.monotonic() - began) < 60 * minutes:
            # New ids all the while: what is left of old ones would add up.
            for n in range(20):
                site.bike.set(f"once{last + n}:A", "NOW")
                site.bike.unset(f"once{last + n - 200}:A")
            for n in range(5):
                site.bike.run(f"fails{n}:A")
            last += 20
            for name, process in site.processes.items():
                found[name].append((passed, megabytes(process.pid)))
            found["server"].append((passed, megabytes(site.server.status()["pid"])))
            time.sleep(5)
        done = site.done()
    print(f"{done} runs in {minutes} minutes")
    for name, points in found.items():
        late = [point for point in points if point[0] > 6 * minutes]
        slope = 3600 * linear_regression([at for at, _ in late], [size for _, size in late]).slope
        print(f"{name}: {points[0][1]:.1f} MB at the beginning, {points[-1][1]:.1f} at the end, {slope:+.2f} MB/h")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    """What the process has in memory now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("it does not happen")
        time.sleep(0.01)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ("restarts", "deaths", "soak"):
        raise SystemExit(__doc__)
    number = int(sys.argv[2]) if len(sys.argv) == 3 else {"restarts": 100, "deaths": 20, "soak": 60}[sys.argv[1]]
    {"restarts": restarts, "deaths": deaths, "soak": soak}[sys.argv[1]](number)
