"""Several servers under test: a master with its replicas and Sentinels, or a cluster. A replica takes over by itself.

Replication is asynchronous, so a takeover may forget what the old master has acknowledged: from the last request that
surely is at all replicas, up to the end of the old master, or up to when it has become a replica.
"""

import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import redis

from tests.chaos.journal import Journal
from tests.chaos.server import look, name_prefixes
from tests.servers import NODE_TIMEOUT, Cluster, Node, Sentinels
from tests.waiting import wait_until

PATIENCE = 60.0  # seconds until servers have come to terms
DOWN = ("fail", "fail?", "s_down", "o_down", "failover_in_progress")  # flags of a server that is not well


class Group:
    """The servers of a kind, in `folder`. Whoever changes their state, or must have them well, holds `lock`."""

    def __init__(self, folder: Path, kind: str, shards: int = 1) -> None:
        self.snapshots = Journal(folder / "snapshots.log")
        more: dict[str, Any] = {"node_timeout": NODE_TIMEOUT} if kind == "cluster" else {}
        self.servers: Cluster | Sentinels = (Cluster if kind == "cluster" else Sentinels)(folder / "servers", **more)
        self._alone = "{redbike}" if kind == "cluster" else "redbike"  # the prefix of jobs that are not divided
        self.prefixes = name_prefixes(shards, self._alone)
        self.prefix = self.prefixes[0]  # of the shard whose master is meant by `master`
        self.url = self.direct_url = self.servers.url
        self.lock = threading.RLock()
        self._clients = {
            node.port: redis.Redis("127.0.0.1", node.port, decode_responses=True, socket_timeout=5)
            for node in self.servers.nodes
        }
        self._masters = self._find_masters()  # by prefix

    @property
    def master(self) -> Node:
        """That of the shard that was chosen last."""
        return self._masters[self.prefix]

    @property
    def client(self) -> "redis.Redis":
        """Of the master."""
        return self.client_of(self.master)

    def client_of(self, node: Node) -> "redis.Redis":
        """Of one server."""
        return self._clients[node.port]

    def stop(self) -> None:
        """End all."""
        self.servers.stop()

    def divide(self, shards: int) -> None:
        """From now on, look for the jobs in so many shards."""
        self.prefixes = name_prefixes(shards, self._alone)
        self.prefix = self.prefixes[0]
        self.settle()

    def snapshot(self, when: str) -> None:
        """Note all that is kept of the jobs, at one instant."""
        self.snapshots.note(when, **self._look())

    def take_over(self, new: Node) -> None:
        """Note what a new master has as soon as it is one: with this all goes on."""
        old = self.master
        self._masters = {prefix: new if node is old else node for prefix, node in self._masters.items()}
        found: list[dict[str, Any]] = []
        wait_until(lambda: self._tries_to_look(found), PATIENCE)
        for when in ("before", "after"):
            self.snapshots.note(when, **found[0])

    def mark(self) -> float:
        """Wait until all replicas of the master have what it has acknowledged; the instant up to which that holds."""
        marked = time.monotonic()
        replicas = self.client.info("replication")["connected_slaves"]
        with self.client.pipeline(transaction=False) as pipeline:
            # Both over one connection: WAIT is about its last request.
            pipeline.incr(f"{self.prefix}mark")
            pipeline.wait(replicas, 10_000)
            assert pipeline.execute()[1] >= replicas > 0
        return marked

    def settle(self) -> None:
        """Wait until all servers are well, and agree on the masters."""
        wait_until(self.is_settled, PATIENCE)
        self._masters = self._find_masters()

    def choose(self, rng: Random) -> None:
        """Choose the shard whose master is to be struck, when all servers are well."""
        self.settle()
        self.prefix = rng.choice(self.prefixes)

    def is_settled(self) -> bool:
        """Whether all servers are well, no takeover is under way, and each replica has all data."""
        try:
            if not self.servers.is_well() or any(flag in DOWN for flag in self._list_flags()):
                return False
            states = [self.client_of(node).info("replication") for node in self.servers.nodes]
        except (redis.RedisError, LookupError, StopIteration):
            return False
        return all(state.get("master_link_status", "up") == "up" for state in states)

    def list_masters(self, without: Node | None = None) -> set[Node]:
        """All servers that run and say that they are masters; one that is suspended is not asked."""
        asked = [node for node in self.servers.nodes if node is not without and node.process.poll() is None]
        return {node for node in asked if self.client_of(node).info("replication")["role"] == "master"}

    def is_known(self, new: Node, suspended: Node | None = None) -> bool:
        """Whether whoever asks for the master is told this one."""
        try:
            if isinstance(self.servers, Sentinels):
                running = [each for each in self.servers.sentinels if each.process.poll() is None]
                replies = [each.client.sentinel_get_master_addr_by_name("service") for each in running]
                return {int(reply[1]) for reply in replies if reply} == {new.port}
            asked = [node for node in self.servers.nodes if node is not suspended and node.process.poll() is None]
            return all(self.servers.master_by(node, self.prefix) is new for node in asked)
        except redis.RedisError:
            return False

    def replicas(self) -> list[Node]:
        """Of the master."""
        state = self.client.info("replication")
        ports = [state[f"slave{number}"]["port"] for number in range(state["connected_slaves"])]
        return [node for node in self.servers.nodes if node.port in ports]

    def start(self, node: Node) -> None:
        """Start a server again that has died: it is a replica now."""
        # A node of a cluster learns from the others whose.
        is_node = isinstance(self.servers, Cluster)
        node.start(*([] if is_node else ["--replicaof", f"127.0.0.1 {self.master.port}"]))

    def _find_masters(self) -> dict[str, Node]:
        if isinstance(self.servers, Cluster):
            return {prefix: self.servers.master_of(prefix) for prefix in self.prefixes}
        return dict.fromkeys(self.prefixes, self.servers.master())

    def _look(self) -> dict[str, Any]:
        # Each shard for itself: a node of a cluster runs no transaction over two slots.
        return look(*((self.client_of(node), [prefix]) for prefix, node in self._masters.items()))

    def _list_flags(self) -> list[str]:
        if isinstance(self.servers, Cluster):
            views = [self.servers.view(node) for node in self.servers.nodes]
            flags = [each["flags"] for view in views for each in view.values()]
        else:
            flags = [each.client.sentinel_masters()["service"]["flags"] for each in self.servers.sentinels]
        return [word for text in flags for word in str(text).split(",")]

    def _tries_to_look(self, found: list[dict[str, Any]]) -> bool:
        try:
            found.append(self._look())
        except redis.RedisError:
            return False
        return True
