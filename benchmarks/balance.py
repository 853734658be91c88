"""How evenly the jobs of a prefix load three masters: ``python benchmarks/balance.py [<SHARDS>…]``.

Spreads the shards over the masters of a cluster, sets 10,000 jobs, and lets a worker take them all. Prints how many
commands each master executes, which does not depend on what else the machine does.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from redbike import Redbike, RoundRobin
from tests.servers import Cluster, Node

JOBS = 10_000


class Worker(RoundRobin):
    """A worker that does nothing."""

    def work(self, jobid: str) -> None:
        pass


def main() -> None:
    print(f"{'shards':>6} {'of each master':>16} {'its commands':>24} {'most/least':>12}", flush=True)
    for number in map(int, sys.argv[1:] or ("12", "16", "24")):
        with tempfile.TemporaryDirectory() as folder:
            cluster = Cluster(Path(folder) / "cluster", replicas=0)
            try:
                shards, found = measure(Path(folder), cluster, number)
            finally:
                cluster.stop()
        has, does = (", ".join(f"{each:,}" for each in figures) for figures in (shards, found))
        print(f"{number:>6} {has:>16} {does:>24} {max(found) / min(found):12.3f}", flush=True)


def measure(folder: Path, cluster: Cluster, number: int) -> tuple[list[int], list[int]]:
    """Return how many shards each master has, and how many commands it executes."""
    with Redbike(Worker("A"), "app", cluster.url, shards=number) as bike:
        keys = [f"{shard.keys.prefix}-jobs" for shard in bike.store.shards]
        for place, key in enumerate(keys):
            if cluster.master_of(key) is not (target := cluster.nodes[place % len(cluster.nodes)]):
                cluster.move_slot(key, target)
        before = [count(node) for node in cluster.nodes]
        for _ in bike.set_many([(f"job-{each}:A", "NOW") for each in range(JOBS)]):
            pass
        (folder / "balance.py").write_text(Path(__file__).read_text())
        (folder / ".redbike.conf").write_text(
            f"[redbike]\nprefix: app\nshards: {number}\nlog-level: error\n[redbike-redis]\nurl: {cluster.url}\n"
        )
        command = [sys.executable, "-m", "redbike", "work", "balance:Worker('A')"]
        with subprocess.Popen(command, cwd=folder) as process:
            while any(queue.waiting or queue.in_flight for queue in bike.queues()):
                time.sleep(0.2)
            process.terminate()
    shards = [sum(cluster.master_of(key) is node for key in keys) for node in cluster.nodes]
    return shards, [count(node) - least for node, least in zip(cluster.nodes, before, strict=True)]


def count(node: Node) -> int:
    """Return how many commands a server has executed."""
    return int(node.client.info("stats")["total_commands_processed"])


if __name__ == "__main__":
    main()
