"""What a million overdue jobs do to Redbike: ``python benchmarks/overload.py [--realtime] [JOBS]``.

A server of its own, a CSV file loaded from the command line, and a dispatcher as a process of its own. Prints how long
loading and dispatching take and how much memory that needs; which scripts held the server for longest; how long others
waited for it meanwhile; and what single commands take while all the jobs wait in one queue. With ``--realtime``, which
root may ask for, the server gets the processor whenever it wants it: else what others do on the machine counts, too.
"""

import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer
from redbike.store.jobs import JobToSet

JOBS = 1_000_000
PAGE = 500  # jobs set in one step
SAMPLES = 20
LONG_AGO = 1000.0  # epoch seconds at which all of them come due


class Quiet(RoundRobin):
    """Does nothing."""

    def work(self, jobid: str) -> None:
        """Nothing."""


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    jobs = numbers[0] if numbers else JOBS
    with tempfile.TemporaryDirectory() as name:
        server = EmbeddedServer(Path(name) / ".redbike")
        server.start()
        try:
            bike = Redbike(Quiet("A"), redis_config=server.url)
            bike.client.config_set("slowlog-max-len", 100_000)
            if "--realtime" in sys.argv:
                go_first(server.status()["pid"])
            load(bike, Path(name), jobs)
            bike.flush()
            enter(bike, jobs)
            dispatch(bike, Path(name), jobs)
            ask(bike, jobs)
        finally:
            server.stop()


def go_first(pid: int) -> None:
    """No other program takes the processor from a process and its threads."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(1))


def load(bike: Redbike, folder: Path, jobs: int) -> None:
    """``redbike load`` of so many rows."""
    with open(folder / "jobs.csv", "w", newline="") as file:
        csv.writer(file).writerows((f"{n}:A", f"{n % 60} {n % 24} * * *") for n in range(jobs))
    with scripts(bike, "load"), process(bike, folder, "load", "jobs.csv") as loading:
        peak = 0.0
        while loading.poll() is None:
            peak = max(peak, megabytes(loading.pid))
            time.sleep(0.05)
    print(f"  {bike.client.hlen(bike.store.keys.schedules):,} jobs, {peak:.0f} MB at most")


def enter(bike: Redbike, jobs: int) -> None:
    """All of them on the timeline, due long ago, as if no dispatcher had run since."""
    for first in range(0, jobs, PAGE):
        numbers = range(first, min(jobs, first + PAGE))
        entries = [JobToSet(f"{n}:A", "AT:1000", LONG_AGO + n / jobs, True, "work-A") for n in numbers]
        bike.store.at(LONG_AGO - 1).jobs.set(entries)


def dispatch(bike: Redbike, folder: Path, jobs: int) -> None:
    """A dispatcher finds them all due."""
    waits = []
    with scripts(bike, "dispatch"), process(bike, folder, "dispatch") as dispatcher:
        while bike.client.zcard(bike.store.keys.timeline):
            waits.append(timed(bike.client.ping))
            time.sleep(0.005)
        peak = megabytes(dispatcher.pid)
        dispatcher.terminate()
    print(f"  {bike.client.llen(bike.store.keys.queue('work-A')):,} jobs in the queue, {peak:.0f} MB at most")
    show("ping meanwhile", waits)
    assert bike.client.llen(bike.store.keys.queue("work-A")) == jobs


def ask(bike: Redbike, jobs: int) -> None:
    """Single commands while all wait in one queue."""
    step = jobs // (SAMPLES + 1)
    places = {"first in line": 10, "in the middle": jobs // 2, "last": jobs - 1 - 10 * SAMPLES}
    show("tell", [timed(lambda n=n: bike.tell(f"{n * step}:A")) for n in range(SAMPLES)])
    show("set NOW of a new job", [timed(lambda n=n: bike.set(f"new{n}:A", "NOW")) for n in range(SAMPLES)])
    show("set NOW of a waiting job", [timed(lambda n=n: bike.set(f"{n * step}:A", "NOW")) for n in range(SAMPLES)])
    show("take, work, end", [timed(bike.work_one) for _ in range(SAMPLES)])
    later = [(f"{n}:A", "AT:4000000000") for n in range(jobs // 3, jobs // 3 + PAGE)]
    with scripts(bike, f"set for later of {PAGE} in the middle, together"):
        assert all(done is True for _, done in bike.set_many(later))
    for where, first in places.items():
        numbers = range(first + SAMPLES, first + 5 * SAMPLES, 4)
        show(f"unset of one {where}", [timed(lambda n=n: bike.unset(f"{n}:A")) for n in numbers])
        show(
            f"set for later of one {where}",
            [timed(lambda n=n: bike.set(f"{n + 1}:A", "AT:4000000000")) for n in numbers],
        )


@contextmanager
def scripts(bike: Redbike, what: str) -> Iterator[None]:
    """How long it takes, and the scripts that held the server for more than a millisecond meanwhile."""
    bike.client.config_set("slowlog-log-slower-than", 1000)
    bike.client.slowlog_reset()
    began = time.monotonic()
    yield
    seconds = time.monotonic() - began
    found = [entry["duration"] / 1000 for entry in bike.client.slowlog_get(100_000) if b"EVALSHA" in entry["command"]]
    over = sum(each > 10 for each in found)
    print(f"{what}: {seconds:.1f} s; longest script {max(found, default=1.0):.1f} ms, {over} over 10 ms")


@contextmanager
def process(bike: Redbike, folder: Path, *command: str) -> Iterator["subprocess.Popen[bytes]"]:
    """``redbike`` with these arguments; ended at the end."""
    url = "unix://" + bike.client.connection_pool.connection_kwargs["path"]
    environment = {**os.environ, "REDBIKE_URL": url, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = subprocess.Popen([sys.executable, "-m", "redbike", *command], cwd=folder, env=environment)
    try:
        yield started
    finally:
        started.terminate()
        started.wait()


def megabytes(pid: int) -> float:
    """The most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def timed(action: Callable[[], object]) -> float:
    """Milliseconds that it takes."""
    began = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - began)


def show(what: str, times: list[float]) -> None:
    """Median and maximum."""
    ordered = sorted(times)
    print(f"  {what}: median {ordered[len(ordered) // 2]:.2f} ms, at most {ordered[-1]:.2f} ms")


if __name__ == "__main__":
    main()
