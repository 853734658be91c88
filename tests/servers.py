"""Several real servers that belong together: the nodes of a cluster, and a master with its replicas and Sentinels."""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot

from redbike.connection.embedded_launcher import find_binary
from tests.waiting import wait_until

# Milliseconds without a sign of life after which the others count a node as gone: one that is merely slow is not, but
# where a test kills nodes, others are soon to take their place.
PATIENT, NODE_TIMEOUT = 60_000, 1000
# Milliseconds after which a Sentinel counts a server as gone. It pings a new master after a second, and not before.
DOWN_AFTER = 2000
SLOTS = 16384
# By default, Linux gives to whoever wants any port one from 32768 on: so nobody gets these by chance.
PORTS = range(20_000, 32_768)
_first = os.getpid() * 131 % len(PORTS)
_candidates = itertools.cycle([*PORTS[_first:], *PORTS[:_first]])
_names: list[socket.socket] = []  # by which other processes of tests know what this one has taken, until it ends


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens at, and nobody else takes, not even while a server that has one is down."""
    return list(itertools.islice(filter(_take_port, _candidates), number))


def _take_port(port: int) -> bool:
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0redbike-tests-{port}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        name.close()
        return False
    _names.append(name)
    return True


class Node:
    """One server in a folder of its own. With `certificates`, a folder, it speaks nothing but TLS.

    `program` is another one than that of the embedded server, which speaks no TLS.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        *options: str,
        certificates: Path | None = None,
        program: str | None = None,
        password: str | None = None,
        config: Path | None = None,
    ) -> None:
        self.folder, self.port = folder, port
        self._program = program or find_binary()
        encrypted = {"ssl": True, "ssl_ca_certs": str(certificates / "ca.pem")} if certificates else {}
        self.client = redis.Redis("127.0.0.1", port, password=password, socket_timeout=5, **encrypted)
        place = tls_options(certificates, port) if certificates else ["--port", str(port)]
        login = ["--requirepass", password] if password else []
        login += ["--masterauth", password] if password and not config else []
        # A Sentinel writes into its file what it has learned.
        first = [str(config), "--sentinel"] if config else []
        self.options = [*first, *place, "--bind", "127.0.0.1", "--dir", str(folder), *login, *options]
        folder.mkdir(parents=True)
        self.start()

    def start(self, *more: str) -> None:
        """Start it; `more` are options that count this time."""
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self._program, *self.options, *more], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        wait_until(self.answers)

    def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def kill(self) -> None:
        """End it at once; it may be started again."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


DATA = ("--save", "", "--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")


def tls_options(certificates: Path, port: int) -> list[str]:
    files = {"cert": "server.pem", "key": "server.key", "ca-cert": "ca.pem"}
    given = [word for name, file in files.items() for word in (f"--tls-{name}-file", str(certificates / file))]
    return [
        *("--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"),
        *("--tls-replication", "yes", "--tls-cluster", "yes", *given),
    ]


def speaks_tls(program: str | None) -> bool:
    return program is not None and b"libssl" in Path(program).read_bytes()


# Debian's speak TLS, the embedded one does not.
TLS_PROGRAMS = [program for program in map(shutil.which, ("redis-server", "valkey-server")) if speaks_tls(program)]


def make_certificates(folder: Path, **hosts: list[str]) -> None:
    """Files of an authority, of another authority, and of certificates of the first one for `hosts`, by their names.

    One that is named ``expired`` has expired.
    """
    import trustme  # only the second tier needs it

    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    other.cert_pem.write_to_path(folder / "other.pem")
    for name, names in hosts.items():
        until = datetime.now(UTC) - timedelta(days=1) if name == "expired" else None
        certificate = authority.issue_cert(*names, not_after=until)
        certificate.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        certificate.private_key_pem.write_to_path(folder / f"{name}.key")


class Cluster:
    """A cluster of `masters` masters, each with `replicas` replicas; `more` is for `Node`."""

    def __init__(
        self, folder: Path, masters: int = 3, replicas: int = 1, node_timeout: int = PATIENT, **more: Any
    ) -> None:
        self.nodes: list[Node] = []
        self._certificates, self._password = more.get("certificates"), more.get("password")
        ports = free_ports(2 * masters * (1 + replicas))
        for number in range(masters * (1 + replicas)):
            port, bus = ports[2 * number : 2 * number + 2]
            own = ("--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-node-timeout", str(node_timeout))
            self.nodes.append(Node(folder / str(number), port, *own, *DATA, **more))
        self._join(masters, [ports[1], *ports[3::2]])

    def _join(self, masters: int, buses: list[int]) -> None:
        first = self.nodes[0]
        for number, node in enumerate(self.nodes):
            node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if node is not first:
                node.client.execute_command("CLUSTER", "MEET", "127.0.0.1", first.port, buses[0])
        wait_until(lambda: all(len(self.view(node)) == len(self.nodes) for node in self.nodes))
        for number, node in enumerate(self.nodes[:masters]):
            begin, end = (SLOTS * each // masters for each in (number, number + 1))
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
        for number, node in enumerate(self.nodes[masters:]):
            node.client.execute_command("CLUSTER", "REPLICATE", self.id_of(self.nodes[number % masters]))
        wait_until(self.is_well)

    @property
    def url(self) -> str:
        scheme = "redis+clusters" if self._certificates else "redis+cluster"
        options = f"?ssl_ca_certs={self._certificates}/ca.pem" if self._certificates else ""
        login = f":{self._password}@" if self._password else ""
        return f"{scheme}://{login}{','.join(f'127.0.0.1:{node.port}' for node in self.nodes[:3])}{options}"

    def view(self, node: Node) -> dict[str, Any]:
        """The cluster as a node sees it."""
        found: dict[str, Any] = node.client.execute_command("CLUSTER NODES")
        return found

    def id_of(self, node: Node) -> str:
        return str(node.client.execute_command("CLUSTER MYID").decode())

    def is_well(self) -> bool:
        """Every node that runs agrees that all slots are served, and each replica has all data."""
        running = [node for node in self.nodes if node.process.poll() is None]
        for node in running:
            state = node.client.execute_command("CLUSTER INFO")
            replication = node.client.info("replication")
            link = replication.get("master_link_status", "up")
            if state.get("cluster_state") != "ok" or link != "up" or len(self.view(node)) < len(self.nodes):
                return False
        return True

    def master_of(self, key: str) -> Node:
        """The node that serves the slot of `key`, as the nodes that run see it."""
        for node in self.nodes:
            if node.process.poll() is None and (found := self.master_by(node, key)):
                return found
        raise LookupError(f"no master has the slot of {key!r}")

    def master_by(self, node: Node, key: str) -> Node | None:
        """The node that serves the slot of `key`, as `node` sees it."""
        slot = key_slot(key.encode())
        for begin, end, (_, port, *_), *_ in slots_of(node):
            if begin <= slot <= end:
                return self._find(port)
        return None

    def begin_to_move_slot(self, key: str, target: Node | None = None) -> tuple[int, Node, Node, set[Node]]:
        """Make the slot of `key` move to a master, or to any, without a key: nobody can use it until that is done."""
        slot, source = key_slot(key.encode()), self.master_of(key)
        masters = {self._find(port) for _, _, (_, port, *_), *_ in slots_of(source)}
        target = target or next(each for each in masters if each is not source)
        target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        return slot, source, target, masters

    def move_slot(self, key: str, to: Node | None = None) -> None:
        """Move the slot of `key`, with all its keys, to a master, or to any other, key by key."""
        slot, source, target, masters = self.begin_to_move_slot(key, to)
        while keys := source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10):
            source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for node in (target, source, *(each for each in masters if each not in (source, target))):
            node.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def _find(self, port: int) -> Node:
        return next(each for each in self.nodes if each.port == port)

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()
            node.client.close()


def slots_of(node: Node) -> list[Any]:
    """What a node replies to CLUSTER SLOTS, as it is."""
    pool = node.client.connection_pool
    connection = pool.get_connection()
    try:
        connection.send_command("CLUSTER", "SLOTS")
        found: list[Any] = connection.read_response()
        return found
    finally:
        pool.release(connection)


class Sentinels:
    """A master with two replicas, and three Sentinels that watch it; `more` is for `Node`."""

    def __init__(self, folder: Path, sentinel_password: str | None = None, **more: Any) -> None:
        ports = free_ports(6)
        self._certificates, self._sentinel_password = more.get("certificates"), sentinel_password
        self.password = more.get("password")
        self.nodes = [Node(folder / "0", ports[0], *DATA, **more)]
        for number in (1, 2):
            own = ("--replicaof", f"127.0.0.1 {ports[0]}")
            self.nodes.append(Node(folder / str(number), ports[number], *DATA, *own, **more))
        wait_until(lambda: self.nodes[0].client.info("replication")["connected_slaves"] == 2)
        self.sentinels = [self._start_sentinel(folder / f"sentinel{port}", port, more) for port in ports[3:]]
        wait_until(self.is_well)

    def _start_sentinel(self, folder: Path, port: int, more: dict[str, Any]) -> Node:
        lines = [
            f"sentinel monitor service 127.0.0.1 {self.nodes[0].port} 2",
            f"sentinel down-after-milliseconds service {DOWN_AFTER}",
            "sentinel failover-timeout service 3000",
            *([f"sentinel auth-pass service {self.password}"] if self.password else []),
            *([f"sentinel sentinel-pass {self._sentinel_password}"] if self._sentinel_password else []),
        ]
        file = folder.parent / f"{folder.name}.conf"
        file.write_text("\n".join(lines) + "\n")
        own = more | {"password": self._sentinel_password}
        return Node(folder, port, config=file, **own)

    @property
    def url(self) -> str:
        login = f":{self.password}@" if self.password else ""
        places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        own = f"sentinel_password={self._sentinel_password}" if self._sentinel_password else ""
        ca = f"ssl_ca_certs={self._certificates}/ca.pem" if self._certificates else ""
        scheme = "rediss+sentinel" if self._certificates else "redis+sentinel"
        return f"{scheme}://{login}{places}/service?{'&'.join(filter(None, [own, ca]))}".rstrip("?")

    def is_well(self) -> bool:
        """All Sentinels that run know each other, and agree on a master that has all replicas that run."""
        running = [node for node in self.nodes if node.process.poll() is None]
        watching = [sentinel for sentinel in self.sentinels if sentinel.process.poll() is None]
        states = [sentinel.client.sentinel_masters()["service"] for sentinel in watching]
        known = all(int(state["num-other-sentinels"]) == len(self.sentinels) - 1 for state in states)
        masters = {int(state["port"]) for state in states}
        if not known or len(masters) != 1 or any(state["is_sdown"] for state in states):
            return False
        master = next((node for node in running if node.port in masters), None)
        replication = master.client.info("replication") if master else {}
        return replication.get("role") == "master" and replication["connected_slaves"] == len(running) - 1

    def master(self) -> Node:
        """The master, as the first Sentinel that runs sees it."""
        watching = next(sentinel for sentinel in self.sentinels if sentinel.process.poll() is None)
        port = int(watching.client.sentinel_masters()["service"]["port"])
        return next(node for node in self.nodes if node.port == port)

    def stop(self) -> None:
        for node in [*self.nodes, *self.sentinels]:
            node.kill()
            node.client.close()
