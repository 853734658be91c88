"""The one module that knows the inside of redis-py: a connection that is taken out of its pool and kept.

redis-py's own client does not run the scripts, for three reasons:

1. It waits for the reply to each request before it sends the next one.
2. It cannot leave a blocking pop pending, with a script behind it that the server runs as soon as the pop is over.
3. It is built to take anything: it packs a request in four times the time, and to take a connection from its pool and
   give it back costs as much as to pack, send and read.
"""

import os
import select
from collections.abc import Sequence
from typing import Any

import redis
from redis import exceptions

from redbike.serving.connection import ENOUGH


class Line:
    """A connection that one thread keeps: requests may be sent over it before earlier ones have been answered."""

    def __init__(self, pool: Any) -> None:
        self.pending = 0  # requests whose replies have not been received
        self._pool = pool
        self._connection: Any = None

    def send(self, *requests: bytes) -> None:
        """Send packed requests; connect first if there is no connection, or if the server has closed it."""
        if not self.pending:
            self._make_ready()
        self._connection.send_packed_command(requests, check_health=False)
        self.pending += len(requests)

    def _make_ready(self) -> None:
        connection = self._connection
        if connection is None or connection.pid != os.getpid():
            # A forked process leaves its parent's connection alone.
            self._connection = self._pool.get_connection()
        elif _is_closed(connection):
            connection.disconnect()

    def has_reply(self, seconds: float, interrupt: int) -> bool:
        """Wait for a reply, for up to `seconds`, or until something can be read from the descriptor `interrupt`."""
        # Whatever came before has been received: so nothing is left in the connection's own buffer.
        poll = select.poll()
        poll.register(self._connection._sock, select.POLLIN)
        poll.register(interrupt, select.POLLIN)
        return bool(poll.poll(seconds * 1000)) and bool(self._connection.can_read(timeout=0))

    def receive(self) -> Any:
        """Return the reply to the oldest pending request; an error that the server replied with is returned too."""
        try:
            reply = self._connection.read_response(disable_decoding=True)
        except exceptions.ResponseError as error:
            reply = error
        self.pending -= 1
        return reply

    def drop(self) -> None:
        """Disconnect, with whatever is pending; the next `send` connects again."""
        if self._connection is not None:
            self._connection.disconnect()
            self._pool.release(self._connection)
        self._connection, self.pending = None, 0

    def close(self) -> None:
        """Give the connection back to the pool."""
        if self.pending:
            # Nobody else may receive these replies.
            self.drop()
        elif self._connection is not None:
            self._pool.release(self._connection)
            self._connection = None


def _is_closed(connection: Any) -> bool:
    """Tell whether the server has closed a connection over which no reply is to come: then something can be read."""
    if connection._sock is None:
        return False
    # redis-py's own way to find out takes four times as long.
    poll = select.poll()
    poll.register(connection._sock, select.POLLIN)
    try:
        return bool(poll.poll(0)) and bool(connection.can_read())
    except (exceptions.ConnectionError, exceptions.TimeoutError):
        return True


def make_line(client: "redis.Redis") -> Line | None:
    """Return a line to the server of `client`; None for a cluster's client, which finds a node for each request."""
    pool = getattr(client, "connection_pool", None)
    return None if pool is None else Line(pool)


def has_room(client: "redis.Redis") -> bool:
    """Tell whether unused connections may be kept from other threads: their number has no limit."""
    pool = getattr(client, "connection_pool", None)
    return pool is not None and pool.max_connections > ENOUGH


def drop_idle_connections(client: "redis.Redis") -> None:
    """Disconnect what nobody uses: after a failover it may lead to a server that is only a replica now."""
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        pool.disconnect(inuse_connections=False)


def pack(words: Sequence[str], further: int = 0) -> bytes:
    """Return a request as the server reads it, or its beginning if `further` words come behind it, by `pack_word`."""
    return b"*%d\r\n%b" % (len(words) + further, b"".join(map(pack_word, words)))


def pack_word(word: str) -> bytes:
    """Return a word of a request."""
    text = word.encode("utf-8", "surrogateescape")
    return b"$%d\r\n%b\r\n" % (len(text), text)
