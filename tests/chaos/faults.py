"""What can go wrong: one small function for each kind of fault, and the table of them.

Each function strikes once, with random numbers of its own, and returns when the fault is over; it is noted with its
instant, its end and its victim. Those of the proxy are only armed here: the proxy notes when they strike.
"""

import contextlib
import signal
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import redis

from tests.chaos.farm import HOUR
from tests.chaos.takeovers import CLUSTER, SENTINEL, Kind
from tests.chaos.world import World

LEASE = 12.0  # seconds without a sign of life after which a worker counts as dead
BREATH = 1.0  # seconds at most for which the server is left alone after it was struck
# What ends a process, or asks it to stop.
SIGNALS = {
    "kill": (signal.SIGKILL,),
    "term": (signal.SIGTERM,),
    # Its terminal is closed while its service manager stops it: two signals at once, which count as one.
    "hup": (signal.SIGHUP, signal.SIGTERM),
    # The clock of the host of the next one is an hour off.
    "clock": (signal.SIGTERM,),
}


def send(world: World, rng: Random, role: str, verb: str) -> None:
    """Send a process signals, at once."""
    child = world.farm.any(role, rng)
    with world.journal.noted("fault", name=f"{role}-{verb}", pid=child.pid):
        if verb == "clock":
            child.skew = rng.choice((-HOUR, HOUR))
        for number in SIGNALS[verb]:
            child.signal(number)


def pause(world: World, rng: Random, role: str, verb: str) -> None:
    """Suspend a process, for a tenth of a lease to three."""
    child = world.farm.any(role, rng)
    process = child.process
    if process is None:
        return
    with world.journal.noted("fault", name=f"{role}-{verb}", pid=process.pid):
        process.send_signal(signal.SIGSTOP)
        world.rest(LEASE * 0.1 * 30 ** rng.random())
        process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def at_server(world: World, name: str, breath: float = 0.0) -> Iterator[dict[str, Any]]:
    """Nothing else strikes at the server meanwhile, nor in the `breath` (seconds) after it."""
    with world.server.lock:
        with world.journal.noted("fault", name=name) as entry:
            yield entry
        world.rest(breath)


def server_kill(world: World, rng: Random) -> None:
    """Kill the server, and start it again."""
    with at_server(world, "server-kill", rng.uniform(0, BREATH)) as entry:
        entry["since"] = world.single.crash(rng.uniform(0, 0.3))


def server_stop(world: World, rng: Random, name: str, *seconds: float) -> None:
    """Stop the server in order; it is away for one of these times."""
    with at_server(world, name, rng.uniform(0, BREATH)):
        world.single.stop()
        world.rest(rng.choice(seconds))
        world.single.start()


def aof_tail(world: World, rng: Random) -> None:
    """Kill the server; up to two seconds of what it has written are gone."""
    with at_server(world, "aof-tail", rng.uniform(0, BREATH)) as entry:
        entry["since"] = world.single.cut_tail(rng.uniform(0, 2), rng)


def promotion(world: World, rng: Random) -> None:
    """A replica takes over; processes still hold connections to the old server, which is read-only then."""
    with at_server(world, "promotion", rng.uniform(0, BREATH)):
        world.single.promote()


def script_flush(world: World, rng: Random) -> None:
    """The server forgets all scripts."""
    with at_server(world, "script-flush"):
        world.server.client.script_flush()


def client_kill(world: World, rng: Random) -> None:
    """The server closes the connection of a client, or all."""
    with at_server(world, "client-kill"):
        ids = [client["id"] for client in world.server.client.client_list(_type="normal")]
        if rng.random() < 0.3:
            world.server.client.client_kill_filter(_type="normal", skipme=True)
        else:
            with contextlib.suppress(redis.ResponseError):
                world.server.client.client_kill_filter(_id=rng.choice(ids), skipme=True)


def maxmemory(world: World, rng: Random) -> None:
    """The server has no memory left for a while, unless it is started again before."""
    with world.server.lock:
        server = world.server.client
        server.config_set("maxmemory", "1mb")
        began = time.monotonic()
    world.rest(rng.uniform(0.1, 1.5))
    with contextlib.suppress(redis.RedisError):
        server.config_set("maxmemory", "0")
    world.journal.note("fault", name="maxmemory", began=began, ended=time.monotonic())


def timefile_damage(world: World, rng: Random) -> None:
    """The timefile is empty, torn, nonsense, in the future, a folder, or gone."""
    with world.journal.noted("fault", name="timefile-damage") as entry, contextlib.suppress(OSError):
        damage = rng.choice(("", "17633", "no time\n", f"{time.time() + 1e6:.6f}\n", "\0" * 4096, "folder", "gone"))
        entry["damage"] = damage[:20]
        world.timefile.unlink(missing_ok=True)
        if damage == "folder":
            world.timefile.mkdir()
            world.rest(1.0)
            world.timefile.rmdir()
        elif damage != "gone":
            world.timefile.write_text(damage)


def disk_full(world: World, rng: Random) -> None:
    """The disk under the timefile is full for a while."""
    with world.journal.noted("fault", name="disk-full"):
        fill = world.disk / f"fill{rng.random()}"
        with contextlib.suppress(OSError), open(fill, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        world.rest(rng.uniform(0.5, 3.0))
        fill.unlink()


def through_proxy(world: World, rng: Random, kind: str) -> None:
    """Arm a fault of the proxy's."""
    world.tell_proxy(kind=kind, choice=rng.random(), seconds=rng.uniform(0.1, 4.0))


ROLES = ("worker", "dispatcher")
PROCESSES = {"kill": send, "term": send, "hup": send, "pause": pause, "clock": send}
THROUGH_PROXY = ("delay", "cut-before", "reply-lost", "cut-mid-reply", "reset", "stall", "black-hole")
EVERYWHERE: dict[str, Kind] = {
    **{f"{role}-{verb}": Kind(strike, 65, (role, verb)) for role in ROLES for verb, strike in PROCESSES.items()},
    "script-flush": Kind(script_flush, 120),
    "client-kill": Kind(client_kill, 120),
    "timefile-damage": Kind(timefile_damage, 80),
    "disk-full": Kind(disk_full, 65),
}
SINGLE = {
    "server-kill": Kind(server_kill, 62),
    "server-stop": Kind(server_stop, 62, ("server-stop", 0.1, 0.2, 0.5, 1.0, 2.0)),
    "server-restart": Kind(server_stop, 62, ("server-restart", 0.0)),
    "aof-tail": Kind(aof_tail, 62),
    "promotion": Kind(promotion, 62),
    "maxmemory": Kind(maxmemory, 65),
    **{kind: Kind(through_proxy, 105, (kind,)) for kind in THROUGH_PROXY},
}
# By what the servers are: what can go wrong with them.
KINDS = {"one": EVERYWHERE | SINGLE, "sentinel": EVERYWHERE | SENTINEL, "cluster": EVERYWHERE | CLUSTER}


def plan(seed: int, faults: int, seconds: float, kinds: dict[str, Kind]) -> list[tuple[float, str, int]]:
    """When (seconds from the start) which kind of fault strikes, with the seed of its random numbers."""
    rng = Random(seed)
    total = sum(kind.share for kind in kinds.values())
    found = []
    for name, kind in kinds.items():
        for _ in range(max(1, round(faults * kind.share / total))):
            found.append((rng.uniform(0, seconds), name, rng.getrandbits(32)))
    return sorted(found)
