"""How late jobs start while one master of three is suspended: ``python benchmarks/away.py [<SECONDS>]``.

Prints how late those of the other two masters' shards start for so many seconds before (default: 60), and for as long
while the third is suspended: it keeps its connections open, and says nothing.
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from redbike import Redbike, RoundRobin, current_run
from tests.servers import Cluster

SHARDS, JOBS, PERIOD, WORKERS = 16, 300, 3, 2


class Worker(RoundRobin):
    """Notes when each job was due, and how late it starts."""

    def work(self, jobid: str) -> None:
        now, due = time.time(), current_run().due
        with open(f"late-{os.getpid()}", "a") as file:
            file.write(f"{due} {now - due} {jobid}\n")


def main() -> None:
    seconds = float(sys.argv[1]) if sys.argv[1:] else 60.0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = Cluster(folder / "cluster", replicas=0, node_timeout=1000)
        stack.callback(cluster.stop)
        for node in cluster.nodes:
            node.client.config_set("cluster-require-full-coverage", "no")
        bike = stack.enter_context(Redbike(RoundRobin("A"), "app", cluster.url, shards=SHARDS))
        for command in ("dispatch", *["work"] * WORKERS):
            stack.enter_context(run(folder, cluster.url, command))
        now = time.time()
        for number in range(JOBS):
            bike.set(f"job-{number}:A", f"EVERY:{PERIOD}s@{now + random.uniform(0, PERIOD):.3f}")
        gone = cluster.master_of("{app:00}")
        away = {shard for shard in bike.store.shards if cluster.master_of(f"{shard.keys.prefix}-jobs") is gone}
        near = {name for name in (f"job-{n}:A" for n in range(JOBS)) if bike.store.find_shard(name) not in away}
        time.sleep(3 * PERIOD)
        began = time.time()
        time.sleep(seconds)
        os.kill(gone.process.pid, signal.SIGSTOP)
        suspended = time.time()
        try:
            time.sleep(seconds)
            ended = time.time()
        finally:
            os.kill(gone.process.pid, signal.SIGCONT)
        lines = [line.split() for path in folder.glob("late-*") for line in path.read_text().splitlines()]
        found = [(float(due), float(late)) for due, late, jobid in lines if jobid in near]
        print(f"{'':<20} {'runs':>6} {'p50':>9} {'p95':>9} {'p99':>9} {'p99.9':>9} {'most':>9}")
        for name, since, until in (("all masters", began, suspended), ("one is suspended", suspended, ended)):
            describe(name, sorted(late for due, late in found if since <= due < until))
        expected = len(near) * seconds / PERIOD
        print(f"{expected:.0f} runs were due in each of them")


def describe(name: str, late: list[float]) -> None:
    """Print how late the jobs were, in milliseconds."""
    cuts = statistics.quantiles(late, n=1000)
    shown = " ".join(f"{1000 * each:6.1f} ms" for each in (cuts[499], cuts[949], cuts[989], cuts[998], late[-1]))
    print(f"{name:<20} {len(late):>6} {shown}", flush=True)


@contextmanager
def run(folder: Path, url: str, command: str) -> Iterator[None]:
    """Run a command of Redbike."""
    (folder / ".redbike.conf").write_text(
        f"[redbike]\nprefix: app\nshards: {SHARDS}\nworker: away:Worker('A')\n[redbike-redis]\nurl: {url}\n"
    )
    (folder / "away.py").write_text(Path(__file__).read_text())
    command_line = [sys.executable, "-m", "redbike", command]
    with open(folder / "log", "a") as log, subprocess.Popen(command_line, cwd=folder, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
