"""How soon jobs start and what idling costs: ``python benchmarks/latency.py``.

A server, a dispatcher and a worker are started as processes of their own. Prints milliseconds from ``set … NOW`` to the
first line of ``work``, milliseconds from the due time of one-off jobs at random instants to it, and what a dispatcher
and a worker use when they idle with 10,000 jobs for later.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer

JOBS, FAR, IDLE = 200, 10_000, 30
WORKER = """
import time
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        now = time.time()
        with open("ran.log", "a") as file:
            file.write(f"{jobid} {now}\\n")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = EmbeddedServer(folder / ".redbike")
        server.start()
        (folder / "jobs.py").write_text(WORKER)
        environment = {**os.environ, "REDBIKE_URL": server.url, "PYTHONPATH": os.pathsep.join(sys.path)}
        commands = (["dispatch"], ["work", "jobs:Worker('A')"])
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "redbike", *command], cwd=folder, env=environment, stderr=subprocess.DEVNULL
            )
            for command in commands
        ]
        try:
            measure(Redbike(RoundRobin("A"), redis_config=server.url), folder / "ran.log", processes)
        finally:
            for process in processes:
                process.terminate()
                process.wait()
            server.stop()


def measure(bike: Redbike, log: Path, processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    bike.set("first:A", "NOW")
    wait_until(lambda: started(log))
    show("set NOW → work()", wake_ups(bike, log))
    show("due → work()", punctuality(bike, log))
    idle(bike, processes)


def wake_ups(bike: Redbike, log: Path) -> list[float]:
    late = []
    for number in range(JOBS):
        jobid, began = f"now{number}:A", time.time()
        bike.set(jobid, "NOW")
        wait_until(lambda jobid=jobid: jobid in started(log))
        late.append(started(log)[jobid] - began)
    return late


def punctuality(bike: Redbike, log: Path) -> list[float]:
    generator, now = random.Random(1), time.time()
    due = {f"at{number}:A": round(now + 2 + generator.random() * 10, 6) for number in range(JOBS)}
    for jobid, moment in due.items():
        bike.set(jobid, f"AT:{moment:.6f}")
    wait_until(lambda: set(due) <= set(started(log)), timeout=30)
    return [started(log)[jobid] - moment for jobid, moment in due.items()]


def idle(bike: Redbike, processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    far = time.time() + 10**7
    for _ in bike.set_many((f"far{number}:A", f"AT:{far + number:.0f}") for number in range(FAR)):
        pass
    time.sleep(3)
    work, commands, began = cpu_seconds(processes), processed(bike), time.monotonic()
    time.sleep(IDLE)
    seconds = time.monotonic() - began
    share = 100 * (cpu_seconds(processes) - work) / seconds
    # One command of those is our own question.
    print(f"idle: {share:.2f} % of a core, {(processed(bike) - commands - 1) / seconds:.1f} commands/s")


def cpu_seconds(processes: Sequence["subprocess.Popen[bytes]"]) -> float:
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def processed(bike: Redbike) -> int:
    return int(bike.client.info("stats")["total_commands_processed"])


def started(log: Path) -> dict[str, float]:
    if not log.exists():
        return {}
    return {jobid: float(moment) for jobid, moment in (line.split() for line in log.read_text().splitlines())}


def wait_until(condition: Callable[[], object], timeout: float = 10.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("nothing happens")
        time.sleep(0.002)


def show(what: str, seconds: list[float]) -> None:
    ordered = sorted(1000 * each for each in seconds)
    p50, p99 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
    print(f"{what}: least {ordered[0]:.1f}, median {p50:.1f}, p99 {p99:.1f} ms of {len(ordered)}")


if __name__ == "__main__":
    main()
