"""What each way of keeping data loses when its server is killed: ``python benchmarks/durability.py``.

For each way some servers are killed with SIGKILL while jobs are set, taken and ended one by one, and started again; or
their replica takes over, 0.3 seconds before. Prints how many of the sets that were acknowledged are gone, over how long
a time at most, what ``fsck`` finds then, and how fast that went; then how long the repair of many jobs takes.
"""

import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from redbike import Redbike, RoundRobin
from redbike.connection.embedded_launcher import find_binary
from redbike.errors import RedbikeError

KILLS = 10
AHEAD = 0.3  # seconds for which two servers think that they are the first
LOG = {"appendonly": "yes", "save": "", "repl-diskless-sync-delay": "0"}
WAYS = {
    "everysec": LOG | {"appendfsync": "everysec"},
    "always": LOG | {"appendfsync": "always"},
    "snapshot each second": {"appendonly": "no", "save": "1 1"},
    "nothing": {"appendonly": "no", "save": ""},
}


class Worker(RoundRobin):
    def work(self, jobid: str) -> None:
        pass


class Server:
    """A server in `folder`, on a Unix socket and, to be replicated, on a port."""

    def __init__(self, folder: Path, settings: dict[str, str], port: int = 0) -> None:
        self.socket = folder / "s"
        own = {"dir": str(folder), "unixsocket": str(self.socket), "port": str(port), "bind": "127.0.0.1"}
        self._words = [
            word for name, value in ({"loglevel": "warning"} | settings | own).items() for word in (f"--{name}", value)
        ]
        folder.mkdir(exist_ok=True)
        self.url = f"unix://{self.socket}"

    def start(self) -> None:
        self.process = subprocess.Popen([find_binary(), *self._words], stdout=subprocess.DEVNULL)
        with redis.Redis.from_url(self.url) as client:
            until(lambda: answers(client))

    def kill(self) -> float:
        """Kill it; the instant, of the monotonic clock."""
        now = time.monotonic()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        return now


def bike_of(server: Server) -> Redbike:
    """One that gives up at once when the server is gone."""
    client = redis.Redis.from_url(server.url, retry=Retry(NoBackoff(), 0))
    return Redbike(Worker("A"), redis_config=client)


def answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def until(condition: Callable[[], object], patience: float = 10.0) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        time.sleep(0.002)


@dataclass
class Round:
    """What was acknowledged until the server was killed, and when."""

    set: dict[str, float] = field(default_factory=dict)
    worked: int = 0
    killed: float = 0.0
    seconds: float = 0.0


def flow(bike: Redbike, stop: Callable[[], float], acknowledged: Callable[[Redbike], bool] = lambda _: True) -> Round:
    """Set and work jobs until the server is gone; `stop` is called after some seconds and says when it was killed."""
    result, began = Round(), time.monotonic()
    bike.set("again:A", "CONTINUE")

    def end() -> None:
        result.killed = stop()

    timer = threading.Timer(random.uniform(2.0, 4.0), end)
    timer.start()
    with suppress(RedbikeError, redis.RedisError):
        while True:
            jobid = f"{result.worked}:A"
            bike.set(jobid, "EVERY:1h")
            if acknowledged(bike):
                result.set[jobid] = time.monotonic()
            bike.work_one()
            result.worked += 1
    timer.join()
    result.seconds = result.killed - began
    return result


def show(way: str, rounds: list[Round], survivors: list[set[str]], problems: int, repaired: bool) -> None:
    lost = [[r.set[jobid] for jobid in r.set if jobid not in kept] for r, kept in zip(rounds, survivors, strict=True)]
    span = max((r.killed - min(times) for r, times in zip(rounds, lost, strict=True) if times), default=0.0)
    speed = sum(r.worked for r in rounds) / sum(r.seconds for r in rounds)
    total = sum(len(r.set) for r in rounds)
    print(
        f"{way:21} {len(rounds)} kills,",
        f"{total} sets acknowledged, {sum(map(len, lost))} lost, of the last {span:.2f} s;",
        f"fsck: {problems}, {'all repaired' if repaired else 'NOT REPAIRED'};",
        f"{speed:.0f} times set, take and end a second",
        flush=True,
    )


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="durability-") as name:
        yield Path(name)


HOG = """
import os
while True:
    with open("hog", "wb") as file:
        for _ in range(64):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
"""


@contextmanager
def busy_disk(where: Path) -> Iterator[None]:
    """Somebody else who writes as much as the disk takes."""
    process = subprocess.Popen([sys.executable, "-c", HOG], cwd=where)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def restarts(way: str, settings: dict[str, str], busy: bool = False) -> None:
    rounds, survivors, problems, repaired = [], [], 0, True
    for _ in range(KILLS):
        with folder() as where:
            server = Server(where / "1", settings)
            server.start()
            with busy_disk(where) if busy else nullcontext():
                rounds.append(flow(bike_of(server), server.kill))
            server.start()
            bike = bike_of(server)
            survivors.append({jobid for jobid, _ in bike.get_schedules()})
            problems += len(list(bike.fsck()))
            repaired &= all(well for _, well in bike.repair())
            server.kill()
    show(way, rounds, survivors, problems, repaired)


def failovers(way: str, settings: dict[str, str], acknowledged: Callable[[Redbike], bool]) -> None:
    rounds, survivors, problems, repaired = [], [], 0, True
    for _ in range(KILLS):
        with folder() as where:
            port = random.randrange(20_000, 30_000)
            first = Server(where / "1", WAYS["everysec"] | settings, port)
            second = Server(where / "2", WAYS["everysec"] | {"replicaof": f"127.0.0.1 {port}"})
            first.start()
            second.start()
            with redis.Redis.from_url(second.url) as client:
                until(lambda client=client: client.info("replication")["master_link_status"] == "up", 30.0)

                def take_over(client: "redis.Redis" = client, first: Server = first) -> float:
                    client.replicaof("NO", "ONE")
                    time.sleep(AHEAD)
                    return first.kill()

                rounds.append(flow(bike_of(first), take_over, acknowledged))
            bike = bike_of(second)
            survivors.append({jobid for jobid, _ in bike.get_schedules()})
            problems += len(list(bike.fsck()))
            repaired &= all(well for _, well in bike.repair())
            second.kill()
    show(way, rounds, survivors, problems, repaired)


def waited(bike: Redbike) -> bool:
    """Whether a replica has what was just set: the server waits for this client's last request, on its connection."""
    return int(bike.client.wait(1, 100)) >= 1


def repairs(number: int) -> None:
    """How long it takes to put many jobs right from which something was lost."""
    with folder() as where:
        server = Server(where / "1", WAYS["nothing"])
        server.start()
        bike = bike_of(server)
        for key, schedule in (("statuses", "NOW"), ("work-A", "NOW"), ("queued", "NOW"), ("timeline", "EVERY:1h")):
            assert all(ok is True for _, ok in bike.set_many((f"{n}:A", schedule) for n in range(number)))
            bike.client.delete(f"redbike-{key}")
            began = time.monotonic()
            assert sum(well for _, well in bike.repair()) == number
            print(f"{number} jobs repaired without the key {key!r} in {time.monotonic() - began:.1f} s", flush=True)
        server.kill()


def main() -> None:
    random.seed(1)
    logging.disable()
    print(f"{os.cpu_count()} cores")
    for way, settings in WAYS.items():
        restarts(way, settings)
    restarts("everysec, busy disk", WAYS["everysec"], busy=True)
    repairs(5000)
    repairs(20_000)
    failovers("replica", {}, lambda _: True)
    failovers("replica, WAIT 1", {}, waited)
    failovers("min-replicas-to-write", {"min-replicas-to-write": "1", "min-replicas-max-lag": "1"}, lambda _: True)


if __name__ == "__main__":
    main()
