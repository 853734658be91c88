"""What a job and an idle worker cost with 1, 4, 16 and 64 shards: ``python benchmarks/shards.py [<SHARDS>…]``.

Prints how many commands the server executes, which does not depend on what else the machine does. All shards are on one
server here: on several they are its masters' together.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer

JOBS, WOKEN, SECONDS = 2000, 40, 10.0
APART = 0.05  # seconds between two jobs that wake a worker
COLUMNS = ("set", "set alone", "drained", "woken", "idle worker/s", "idle dispatcher/s", "connections")


class Worker(RoundRobin):
    """A worker that does nothing."""

    def work(self, jobid: str) -> None:
        pass


def main() -> None:
    print(f"{'shards':>6} " + " ".join(f"{name:>{len(name) + 2}}" for name in COLUMNS), flush=True)
    for number in map(int, sys.argv[1:] or ("1", "4", "16", "64")):
        found = measure(number)
        print(
            f"{number:>6} " + " ".join(f"{each:{len(name) + 2}.1f}" for name, each in zip(COLUMNS, found, strict=True)),
            flush=True,
        )


def measure(number: int) -> list[float]:
    """Return the figures of `COLUMNS` for so many shards."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder))
        server.start()
        try:
            with Redbike(Worker("A"), "bench", server.url, shards=number) as bike:
                return measure_with(bike, server.url, number)
        finally:
            server.stop()


def measure_with(bike: Redbike, url: str, number: int) -> list[float]:
    """Return the figures of a program with so many shards."""
    jobs = [(f"job-{each}:A", "NOW") for each in range(JOBS)]
    alone = [(f"alone-{each}:A", "EVERY:1d") for each in range(100)]
    together = count(bike, lambda: list(bike.set_many(jobs))) / JOBS
    one_by_one = count(bike, lambda: [bike.set(jobid, text) for jobid, text in alone]) / len(alone)
    before = bike.redis.info("clients")["connected_clients"]

    def drain() -> None:
        process.enter_context(run(url, number, "work"))
        wait_until(lambda: not bike.redis.exists(*waiting(bike)), 0.5)

    with ExitStack() as process:
        drained = count(bike, drain) / JOBS
        wait_until(lambda: len(bike.workers()) == 1)
        connections = bike.redis.info("clients")["connected_clients"] - before
        idle = count(bike, lambda: time.sleep(SECONDS)) / SECONDS
        woken = count(bike, lambda: wake(bike)) - idle * WOKEN * APART
    with run(url, number, "dispatch"):
        wait_until(lambda: len(bike.workers()) == 1)
        time.sleep(2)
        dispatching = count(bike, lambda: time.sleep(SECONDS)) / SECONDS
    return [together, one_by_one, drained, woken / WOKEN, idle, dispatching, connections]


def wake(bike: Redbike) -> None:
    for each in range(WOKEN):
        bike.set(f"job-{each}:A", "NOW")
        time.sleep(APART)


def waiting(bike: Redbike) -> list[str]:
    return [shard.keys.queue("work-A") for shard in bike.store.shards]


@contextmanager
def run(url: str, number: int, command: str) -> Iterator[None]:
    """Run a worker or a dispatcher meanwhile."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[4]); from redbike import Redbike; from shards import Worker; "
        "getattr(Redbike(Worker('A'), 'bench', sys.argv[1], shards=int(sys.argv[2])), sys.argv[3])()"
    )
    started = subprocess.Popen([sys.executable, "-c", code, url, str(number), command, str(Path(__file__).parent)])
    try:
        yield
    finally:
        started.terminate()
        started.wait()


def count(bike: Redbike, act: Callable[[], Any]) -> float:
    """Return how many commands the server gets meanwhile; those within scripts do not count."""
    pool = bike.redis.connection_pool
    client = redis.Redis(unix_socket_path=pool.connection_kwargs["path"], socket_timeout=None)
    with client, client.monitor() as monitor:
        is_over, found = f"over-{time.monotonic()}", Counter[bool]()

        def listen() -> None:
            for line in iter(monitor.next_command, None):
                if is_over in line["command"]:
                    return
                found[line["client_type"] != "lua"] += 1

        thread = threading.Thread(target=listen)
        thread.start()
        act()
        bike.redis.echo(is_over)
        thread.join()
    return found[True]


def wait_until(is_so: Callable[[], object], pause: float = 0.05) -> None:
    while not is_so():
        time.sleep(pause)


if __name__ == "__main__":
    main()
