"""Reach the one server of a cluster that has the keys of a prefix.

All keys of a prefix are in one slot. So a client needs only the master of that slot, and everything is as on a single
server. A connection asks the nodes for that master whenever it connects. When the slot moves, or a replica takes over,
the server replies ``MOVED``, or hangs up: then the connection connects again, to the new master.
"""

import random
import threading
import time
from builtins import TimeoutError as OSTimeoutError
from collections.abc import Iterable, Mapping
from typing import Any

import redis
from redis.backoff import ConstantBackoff
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ConnectionError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)
from redis.retry import Retry

from redbike.connection.circuit_breaker import Address, CircuitBreaker
from redbike.connection.forks import begin_in_forks
from redbike.connection.tls import TLSConnection

ANSWER = 1.0  # seconds for a node to say which master has the slot
FRESH = 1.0  # seconds for which the address of a master is reused
MOVE_TIMEOUT = 10.0  # seconds that a request waits while its slot moves from one master to another
PAUSE = 0.05  # seconds between two tries
MOVES = 20  # times that a scan begins again because its slot has moved
# The server has not run the request, because the slot is moving or has moved.
MOVING = (MovedError, AskError, TryAgainError)


def make_retry() -> Retry:
    """Return a `Retry`: redis-py repeats a command that the server has not run because its slot is moving."""
    return Retry(ConstantBackoff(PAUSE), round(MOVE_TIMEOUT / PAUSE), supported_errors=MOVING)


class Router:
    """Finds the master of a slot. `nodes` are some nodes of the cluster, `arguments` are for connections to them.

    Threads share it. Without a slot, it finds any master.
    """

    def __init__(self, nodes: Iterable[Address], connection_class: Any, arguments: Mapping[str, Any]) -> None:
        self.given = list(nodes)
        self.slot: int | None = None
        self._connection_class = connection_class
        # A suspended node must not delay the answer for long: other nodes know the master, too.
        self._arguments = dict(arguments) | {
            name: min(arguments.get(name) or ANSWER, ANSWER) for name in ("socket_timeout", "socket_connect_timeout")
        }
        self._known: list[Address] = []  # the nodes that the cluster named last
        self._found: tuple[Address, float] | None = None  # a master, and until when it is reused
        self.breaker: CircuitBreaker | None = None  # the nodes that do not answer; None: this is not noted
        begin_in_forks(self)

    def _begin(self) -> None:
        self._changing = threading.Lock()

    def copy(self) -> "Router":
        """Return a router of the same cluster, without a slot."""
        copy = Router([*self._known, *self.given], self._connection_class, self._arguments)
        copy.breaker = self.breaker
        return copy

    def note_silence(self) -> None:
        """Note from now on which nodes do not answer, here and in all copies."""
        self.breaker = self.breaker or CircuitBreaker(self._answers)

    def aim_at(self, key: str) -> None:
        """Find the master of the slot of `key` from now on."""
        self.slot = int(key_slot(key.encode()))
        self._found = None

    @property
    def known(self) -> Address | None:
        """The address of the master that was found last, if there is one."""
        found = self._found
        return found and found[0]

    def recall(self) -> Address:
        """Return the master that was found last, even long ago: an old one replies ``MOVED``. Else find the master."""
        return self.known or self.find()

    def check(self) -> None:
        """Raise `ConnectionError` if the master is silent, and no other node has become the master of the slot."""
        if self.breaker is not None and self.recall() in self.breaker and (address := self.find()) in self.breaker:
            raise ConnectionError(f"{address[0]}:{address[1]} does not answer")

    def find(self) -> Address:
        """Return the address of the master of the slot. Raise `ConnectionError` if no node knows one."""
        with self._changing:
            if self._found and time.monotonic() < self._found[1]:
                return self._found[0]
            address = self._ask_nodes()
            self._found = address, time.monotonic() + FRESH
            return address

    def follow(self, moved: MovedError) -> None:
        """Note the master that a reply ``MOVED`` names. If the reply is about another slot, forget the master."""
        with self._changing:
            names_master = moved.slot_id == self.slot and moved.host
            self._found = ((moved.host, moved.port), time.monotonic() + FRESH) if names_master else None

    def forget(self) -> None:
        """Forget the master: the next `find` asks the nodes."""
        with self._changing:
            self._found = None

    def _ask_nodes(self) -> Address:
        errors, refusals = list[str](), list[RedisError]()
        # In random order: some nodes may be gone, and others may not know yet what has changed. Silent ones come last.
        known = random.sample(self._known, len(self._known))
        for node in sorted(dict.fromkeys([*known, *self.given]), key=lambda node: node in (self.breaker or ())):
            try:
                found = self._read_slots(node, self._request_slots(node))
            except (ConnectionError, TimeoutError, OSError, ResponseError, InvalidResponse) as error:
                hint = " (the url of a single server is redis://)" if "cluster support disabled" in str(error) else ""
                errors.append(f"{node[0]}:{node[1]}: {error!s:.200}{hint}")
                # Each node has users of its own: another node may accept this one.
                if isinstance(error, (AuthenticationError, NoPermissionError)):
                    refusals.append(type(error)(errors[-1]))
            else:
                if found:
                    return found
                errors.append(f"{node[0]}:{node[1]} knows no master of slot {self.slot}")
        # Waiting helps if another node may answer later.
        raise refusals[0] if refusals and len(refusals) == len(errors) else ConnectionError("; ".join(errors))

    def _request_slots(self, node: Address) -> list[Any]:
        return list(self._request(node, "CLUSTER", "SLOTS"))

    def _request(self, node: Address, *command: str) -> Any:
        connection = self._connection_class(host=node[0], port=node[1], **self._arguments)
        try:
            connection.connect()
            connection.send_command(*command)
            return connection.read_response(disable_decoding=True)
        finally:
            connection.disconnect()

    def _answers(self, node: Address) -> bool:
        """Tell whether a node answers in time. An error is an answer, and so is a refused connection."""
        try:
            self._request(node, "PING")
        except TimeoutError:
            return False
        except (RedisError, OSError):
            pass
        return True

    def _read_slots(self, node: Address, slots: list[Any]) -> Address | None:
        """Return the master of the slot; remember all nodes that the reply names. `node` is the one that replied."""
        named, master = [], None
        for first, last, *nodes in slots:
            addresses = [_read_address(node, *each) for each in nodes]
            named += [address for address in addresses if address]
            if self.slot is None or first <= self.slot <= last:
                master = master or addresses[0]
        self._known = list(dict.fromkeys(named))
        return master


def explain_login(error: Exception) -> str:
    """Return why a server refuses a login."""
    return "it needs a password" if "HELLO must be called" in str(error) else str(error)


def _read_address(node: Address, host: bytes | None, port: int, *details: Any) -> Address | None:
    """Return an address in a reply of `node`, which leaves out its own name if it does not know it.

    A node that prefers host names, and has none, names itself ``?``, with its address in the details.
    """
    if host == b"?":
        more = details[1] if len(details) > 1 else []
        host = (more if isinstance(more, dict) else dict(zip(more[::2], more[1::2], strict=False))).get(b"ip")
        return (host.decode(), port) if host else None
    return (host.decode() if host else node[0]), port


def get_known_server(client: "redis.Redis") -> Address | None:
    """Return the address of the master that a client of a cluster has used last; None if none is known."""
    router: Router | None = client.connection_pool.connection_kwargs.get("router")
    return router.known if router else None


class SlotConnection(redis.Connection):
    """A connection to the master of the slot of `router`, whichever that is when it connects."""

    def __init__(self, router: Router, **arguments: Any) -> None:
        super().__init__(**arguments)  # type: ignore[no-untyped-call]
        self.router = router
        self._greets = False  # while it logs in at one of several masters: a suspended one accepts connections

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Log in. At one of several masters, each reply must begin within `ANSWER` seconds.

        Each master has users of its own, so an error names the one that refuses the login.
        """
        self._greets = self.router.breaker is not None
        try:
            super().on_connect_check_health(check_health)
        except AuthenticationError as error:
            raise AuthenticationError(f"{self.host}:{self.port}: {explain_login(error)}") from error
        finally:
            self._greets = False

    def _connect(self) -> Any:
        self.host, self.port = self.router.find()
        timeouts = self.socket_timeout, self.socket_connect_timeout
        if self.router.breaker is not None:
            # A host that is gone rejects no connection, and a suspended master does not reply to a TLS handshake.
            self.socket_timeout, self.socket_connect_timeout = (min(each or ANSWER, ANSWER) for each in timeouts)
        try:
            connected = super()._connect()  # type: ignore[no-untyped-call]
        except BaseException as error:
            self.router.forget()
            if isinstance(error, (OSTimeoutError, TimeoutError)):
                self._note_silence()
            raise
        finally:
            self.socket_timeout, self.socket_connect_timeout = timeouts
        connected.settimeout(self.socket_timeout)
        return connected

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Return the next reply; follow the slot if it has moved."""
        try:
            if self._greets:
                self.expect_reply(ANSWER)
            return super().read_response(*arguments, **options)
        except MovedError as error:
            self.router.follow(error)
            raise
        except TimeoutError:
            self._note_silence()
            raise

    def expect_reply(self, seconds: float) -> None:
        """Raise `TimeoutError` unless a reply begins within `seconds`."""
        if not self.can_read(timeout=seconds):
            raise TimeoutError(f"{self.host}:{self.port} does not answer within {seconds:g} s")

    def _note_silence(self) -> None:
        if self.router.breaker is not None:
            self.router.breaker.note((self.host, self.port))


class SlotSSLConnection(SlotConnection, TLSConnection):
    """A `SlotConnection` with TLS."""


def add_braces(prefix: str) -> str:
    """Return `prefix` in braces, unless it has some: so all keys that begin with it are in one slot."""
    begin = prefix.find("{")
    return prefix if begin >= 0 and prefix.find("}", begin) > begin + 1 else f"{{{prefix}}}"
