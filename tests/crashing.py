"""A process that dies, or is cut off, at its n-th request: a real connection to the real server that counts requests.

Everything is done with redis-py's own connection. Only which requests are sent, and which replies are passed on, is
decided here; so what the server has executed is known exactly when a fault strikes.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import redis

from redbike.store.lua_loader import load_all

BEFORE = "crash before"  # the process dies, and this request is not sent
AFTER = "crash after"  # the request is executed, its reply arrives, and the process dies
LOST = "reply lost"  # the request is executed, and the connection breaks before its reply is read
TWICE = "sent twice"  # the server gets the request twice, and the second reply is read
FAULTS = (BEFORE, AFTER, LOST, TWICE)

VERBS = {text.digest.encode(): verb for verb, full in load_all().items() for text in (full, full.plain) if text}
# Else each connection parses the metadata of redis-py for its version, which takes longer than all the rest.
SILENT = {"driver_info": None}


class Crash(BaseException):
    """The process is dead: nothing that it runs may catch this."""


class Faults:
    """What happens to the requests of one process, over all of its connections and threads."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.crashed = False
        self._fault, self._at = "", 0
        self._lock = threading.Lock()

    def arm(self, fault: str, at: int) -> None:
        """Let `fault` strike at the request number `at`, counted from now on, from 1."""
        self._fault, self._at = fault, at
        self.requests.clear()

    @property
    def struck(self) -> bool:
        """Whether the process came as far as the request at which the fault strikes."""
        return 0 < self._at <= len(self.requests)

    def alive(self) -> None:
        """Raises `Crash` in every thread of a process that is dead."""
        if self.crashed:
            raise Crash

    def next(self, commands: Sequence[Sequence[bytes]]) -> str:
        """The fault that strikes at this request, or ""."""
        with self._lock:
            self.alive()
            self.requests.append(" ".join(map(_name, commands)))
            fault = self._fault if len(self.requests) == self._at else ""
            if fault == TWICE and self.requests[-1].startswith("BLPOP"):
                # Two of them would wait for two tokens, and nothing sends them again by itself.
                return ""
            self.crashed = fault in (BEFORE, AFTER)
            return fault


class FaultyConnection(redis.UnixDomainSocketConnection):
    """A connection whose requests are subject to `faults`; what redis-py says to greet the server is not."""

    def __init__(self, *args: Any, faults: Faults, **more: Any) -> None:
        super().__init__(*args, **more)
        self._faults = faults
        self._greeting = False
        self._coming: deque[bool] = deque()  # for each reply that is yet to come, whether it is passed on

    def connect_check_health(self, *args: Any, **more: Any) -> None:
        self._faults.alive()
        self._greeting = True
        try:
            super().connect_check_health(*args, **more)
        finally:
            self._greeting = False

    def disconnect(self, *args: Any, **more: Any) -> None:
        self._coming.clear()
        super().disconnect(*args, **more)

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if self._greeting:
            super().send_packed_command(command, check_health)
            return
        packed = list(command)
        commands = unpacked(b"".join(packed))
        fault = self._faults.next(commands)
        if fault != BEFORE:
            self._send(packed, len(commands), passed_on=fault != TWICE)
        if fault == TWICE:
            self._send(packed, len(commands), passed_on=True)
        elif fault:
            # The server has executed what it was sent when it has replied to that.
            while self._coming:
                self._receive()
            self.disconnect()
            raise redis.ConnectionError("the reply was lost") if fault == LOST else Crash

    def _send(self, packed: list[bytes], replies: int, passed_on: bool) -> None:
        super().send_packed_command(packed)
        self._coming.extend([passed_on] * replies)

    def _receive(self, *args: Any, **more: Any) -> Any:
        try:
            reply = super().read_response(*args, **more)
        except redis.ResponseError as error:
            reply = error
        self._coming.popleft()
        return reply

    def read_response(self, *args: Any, **more: Any) -> Any:
        if self._greeting:
            return super().read_response(*args, **more)
        while not self._coming[0]:
            self._receive()
        reply = self._receive(*args, **more)
        if isinstance(reply, redis.ResponseError):
            raise reply
        return reply


def unpacked(packed: bytes) -> list[list[bytes]]:
    """The commands in what is sent to a server, each as its words."""
    commands, position = [], 0

    def number() -> int:
        nonlocal position
        begin, end = position + 1, packed.index(b"\r\n", position)
        position = end + 2
        return int(packed[begin:end])

    while position < len(packed):
        words = []
        for _ in range(number()):
            size = number()
            words.append(packed[position : position + size])
            position += size + 2
        commands.append(words)
    return commands


def _name(words: Sequence[bytes]) -> str:
    return VERBS[words[1]] if words[0] == b"EVALSHA" else words[0].decode()


def faulty(client: "redis.Redis", faults: Faults) -> "redis.Redis":
    """A client of the server of `client`, with connections of its own that `faults` strike."""
    known = client.connection_pool.connection_kwargs | SILENT
    pool = redis.ConnectionPool(FaultyConnection, client.connection_pool.max_connections, faults=faults, **known)
    return redis.Redis(connection_pool=pool)
