"""The one module that knows the inside of redis-py: a connection that is taken out of its pool and kept.

redis-py's own client does not run the scripts, for three reasons:

1. It waits for the reply to each request before it sends the next one.
2. It cannot leave a blocking pop pending, with a script behind it that the server runs as soon as the pop is over.
3. It takes four times as long to pack a request, as it is built to take anything.
"""

import time
from collections.abc import Sequence
from typing import Any

import redis
from redis import exceptions

FRESH = 1.0  # seconds without use after which a connection is checked before it is used again


class Line:
    """A connection that one thread keeps: requests may be sent over it before earlier ones have been answered."""

    def __init__(self, pool: Any) -> None:
        self.pending = 0  # requests whose replies have not been received
        self._pool = pool
        self._connection: Any = None
        self._used = 0.0  # when the last request was sent, by the monotonic clock

    def send(self, *requests: bytes) -> None:
        """Send packed requests; connect first if there is no connection, or if the server has closed it."""
        now = time.monotonic()
        if self._connection is None:
            self._connection = self._pool.get_connection()
        elif not self.pending and now - self._used > FRESH and self._connection.can_read():
            # Nothing is pending: so the server has closed it.
            self._connection.disconnect()
        self._used = now
        self._connection.send_packed_command(requests, check_health=not self.pending)
        self.pending += len(requests)

    def has_reply(self, seconds: float) -> bool:
        """Wait for a reply to a pending request for up to `seconds`; False if there is none yet."""
        return bool(self._connection.can_read(timeout=seconds))

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


def line_to(client: "redis.Redis") -> Line | None:
    """Return a line to the server of `client`; None for a cluster's client, which finds a node for each request."""
    pool = getattr(client, "connection_pool", None)
    return None if pool is None else Line(pool)


def drop_idle_connections(client: "redis.Redis") -> None:
    """Disconnect what nobody uses: after a failover it may lead to a server that is only a replica now."""
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        pool.disconnect(inuse_connections=False)


def pack(words: Sequence[str]) -> bytes:
    """Return a request as the server reads it."""
    if "".join(words).isascii():
        parts = [f"${len(word)}\r\n{word}\r\n" for word in words]
    else:
        parts = [f"${len(word.encode('utf-8', 'surrogateescape'))}\r\n{word}\r\n" for word in words]
    return f"*{len(words)}\r\n{''.join(parts)}".encode("utf-8", "surrogateescape")
