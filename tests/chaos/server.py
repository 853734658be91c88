"""The server under test: a real Valkey that is killed, stopped, replaced by its replica, and made to forget.

It listens on a socket that only the harness knows; the one that the proxy leads to is a symbolic link to that, so the
harness can look at what a restarted server holds before anyone else gets to it.
"""

import os
import shutil
import subprocess
import threading
import time
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import redis

from redbike.connection.embedded_launcher import find_binary
from redbike.store.keys import Keys
from redbike.store.sharded.places import name_shards
from tests.chaos.journal import Journal
from tests.servers import free_ports
from tests.waiting import wait_until

SAMPLE = 0.05  # seconds between two looks at the size of the append-only file
OPTIONS = {
    "bind": "127.0.0.1",
    "appendonly": "yes",
    "save": "",
    "maxmemory-policy": "noeviction",
    "auto-aof-rewrite-min-size": "8mb",
    "repl-diskless-sync-delay": "0",
    "daemonize": "no",
}
HASHES = ("schedules", "statuses", "queued", "running", "skipped", "failures", "retry_states", "pauses")


class Server:
    """A Valkey in `folder`. Whoever changes its state, or must have it there, holds `lock`."""

    def __init__(self, folder: Path, fsync: str, journal: Journal, shards: int = 1) -> None:
        self.prefixes = name_prefixes(shards)
        self.folder = folder
        self.fsync = fsync
        self.postponed = 2.0 if fsync == "everysec" else 0.0  # seconds by which it may put off what it writes
        self.journal = journal
        self.snapshots = Journal(folder / "snapshots.log")
        self.lock = threading.RLock()
        self.public = folder / "redis.sock"
        self.url = f"unix://{folder / 'proxy.sock'}"
        self._binary = find_binary()
        self._number = 0
        self._sizes: deque[tuple[float, Path, int]] = deque(maxlen=int(3 / SAMPLE))
        self._process, self._place, self.client = self._launch()
        self._publish()
        threading.Thread(target=self._watch_size, daemon=True).start()

    @property
    def direct_url(self) -> str:
        """Past the proxy."""
        return f"unix://{self._place / 's'}"

    def start(self) -> None:
        """Start it on what it has on disk, and let clients in."""
        self._process, self._place, self.client = self._launch(self._place)
        self._publish()

    def stop(self) -> None:
        """End it in order."""
        self._process.terminate()
        self._process.wait()

    def crash(self, pause: float) -> float:
        """Kill it, and start it again after `pause` seconds; from when on it may have forgotten what it said.

        With ``always`` that must be nothing. With ``everysec`` it puts off what it writes to its file by up to two
        seconds while the disk is busy, and loses that; a mark that is set just before tells whether that was so.
        """
        self.client.config_set("maxmemory", "0")
        before, mark, marked = look((self.client, self.prefixes)), self.client.incr("mark"), time.monotonic()
        self._process.kill()
        self._process.wait()
        time.sleep(pause)
        self._restart_unseen()
        forgot = self.postponed > 0 and self.client.get("mark") != str(mark)
        if forgot:
            self.snapshots.note("before", **before)
            self.snapshot("after")
        self._publish()
        return marked - self.postponed if forgot else marked

    def cut_tail(self, seconds: float, rng: Random) -> float:
        """Kill it, take up to the last `seconds` of writes from its file, start it; from when on it has forgotten."""
        wanted = time.monotonic() - seconds
        self.snapshot("before")
        self._process.kill()
        self._process.wait()
        self._look_at_size()
        file = self._sizes[-1][1]
        samples = [(then, size) for then, name, size in self._sizes if name == file]
        size = max([size for then, size in samples if then <= wanted], default=samples[0][1])
        # In the midst of a command, as a crash of the machine would leave it.
        left = max(0, size - rng.randrange(50))
        os.truncate(file, left)
        self._sizes.clear()
        self._restart_unseen()
        self.snapshot("after")
        self._publish()
        return max([then for then, size in samples if size <= left], default=samples[0][0] - SAMPLE) - self.postponed

    def promote(self) -> None:
        """Start a replica, let it take over when it has everything, and end the old server."""
        old, old_place, client = self._process, self._place, self.client
        replica, place, replica_client = self._launch()
        # By command: when it is started as a replica, it waits up to a second before it connects.
        replica_client.replicaof("127.0.0.1", str(self._port(client)))
        wait_until(lambda: replica_client.info("replication").get("master_link_status") == "up")
        wait_until(lambda: _has_written(replica_client.info("persistence")))
        client.execute_command("FAILOVER", "TO", "127.0.0.1", str(self._port(replica_client)))
        wait_until(lambda: replica_client.info("replication")["role"] == "master")
        self._process, self._place, self.client = replica, place, replica_client
        self._publish()
        old.kill()
        old.wait()
        shutil.rmtree(old_place)

    def divide(self, shards: int) -> None:
        """From now on, look for the jobs in so many shards."""
        self.prefixes = name_prefixes(shards)

    def snapshot(self, when: str) -> None:
        """Note all that is kept of the jobs, at one instant between ``began`` and ``ended``."""
        self.snapshots.note(when, **look((self.client, self.prefixes)))

    def _restart_unseen(self) -> None:
        """Start it, but let no client in yet."""
        self.public.unlink()
        self._process, self._place, self.client = self._launch(self._place)

    def _launch(self, place: Path | None = None) -> "tuple[subprocess.Popen[bytes], Path, redis.Redis]":
        self._number += place is None
        place = place or self.folder / f"server{self._number}"
        place.mkdir(exist_ok=True)
        [port] = free_ports(1)
        own = {"dir": str(place), "unixsocket": str(place / "s"), "port": str(port), "appendfsync": self.fsync}
        options = OPTIONS | own | {"logfile": str(self.folder / "server.log")}
        arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
        process = subprocess.Popen([self._binary, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = redis.Redis(unix_socket_path=str(place / "s"), decode_responses=True)
        wait_until(lambda: _answers(client) or process.poll() is not None, timeout=30)
        assert process.poll() is None, f"the server does not start: see {self.folder / 'server.log'}"
        return process, place, client

    def _publish(self) -> None:
        link = self.folder / "redis.sock.new"
        link.symlink_to(self._place / "s")
        link.replace(self.public)

    def _port(self, client: "redis.Redis") -> int:
        return int(client.config_get("port")["port"])

    def _watch_size(self) -> None:
        while True:
            time.sleep(SAMPLE)
            with self.lock:
                self._look_at_size()

    def _look_at_size(self) -> None:
        files = (self._place / "appendonlydir").glob("*.incr.aof")
        newest = max(files, key=lambda file: int(file.name.split(".")[-3]), default=None)
        if newest:
            # The time first: whatever was answered before it is in the file by now.
            self._sizes.append((time.monotonic(), newest, newest.stat().st_size))


def _answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def _has_written(persistence: dict[str, Any]) -> bool:
    """Whether a replica has the whole data set in its append-only file: it rewrites that after it was synchronised."""
    busy = persistence["aof_rewrite_in_progress"] or persistence["aof_rewrite_scheduled"]
    return bool(persistence["aof_enabled"]) and not busy and not persistence["async_loading"]


def name_prefixes(shards: int, alone: str = "redbike") -> list[str]:
    """The prefix of each shard, or `alone` if there is one."""
    return [alone] if shards == 1 else name_shards("redbike", shards)


def look(*places: "tuple[redis.Redis, list[str]]") -> dict[str, Any]:
    """What is in all shards between ``began`` and ``ended``; in those of one place at one instant.

    What a shard has sent is looked for before all else too: so it is not overlooked if it arrives in between.
    """
    began = time.monotonic()
    held: dict[str, dict[Any, Any]] = {name: {} for name in (*HASHES, "timeline", "followers")}
    for client, prefixes in places if len(places) > 1 else ():
        for keys in map(Keys, prefixes):
            held["followers"] |= dict(client.zrange(keys.followers, 0, -1, withscores=True))
    for client, prefixes in places:
        with client.pipeline(transaction=True) as pipeline:
            for keys in map(Keys, prefixes):
                for name in HASHES:
                    pipeline.hgetall(getattr(keys, name))
                pipeline.zrange(keys.timeline, 0, -1, withscores=True)
                pipeline.zrange(keys.followers, 0, -1, withscores=True)
            found = iter(pipeline.execute())
        for _ in prefixes:
            for name in held:
                held[name] |= dict(next(found))
    return {"began": began, "ended": time.monotonic(), **held}
