"""Keep a connection of redis-py out of its pool. No other module uses the internals of redis-py.

redis-py's own client does not run the scripts, for three reasons:

1. It sends no request before it has received the reply to the last one.
2. It cannot leave a blocking pop pending, with a script behind it that the server runs as soon as the pop is over.
3. It is slow, as it accepts any type. It takes four times as long to pack a request. Taking a connection from the
   pool and releasing it costs as much as packing, sending and reading.
"""

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from redbike.connection.client import ENOUGH


class Line:
    """A connection that one thread keeps: requests may be sent over it before earlier ones have been answered."""

    def __init__(self, client: "redis.Redis") -> None:
        # Seconds within which a reply must begin, if less than the timeout of the connection. For clusters only.
        self.patience: float | None = None
        self.pending = 0  # requests whose replies have not been received
        self.generation = 0  # how often it has connected
        self._pool: Any = client.connection_pool
        self._connection: Any = None

    def send(self, *requests: bytes) -> None:
        """Send packed requests; connect first if there is no connection, or if the server has closed it."""
        if not self.pending:
            self.make_ready()
        self._connection.send_packed_command(requests, check_health=False)
        self.pending += len(requests)

    def make_ready(self) -> None:
        """Connect, if there is no connection, or if the server has closed it."""
        connection = self._connection
        if connection is None or connection.pid != os.getpid():
            # A forked process must not use its parent's connection.
            self._connection = self._pool.get_connection()
            self.generation += 1
        elif _is_closed(connection):
            connection.disconnect()
            self.generation += 1

    def fileno(self) -> int:
        """Return the descriptor of the connection, which is readable when a reply has come."""
        return int(self._connection._sock.fileno())

    def has_reply(self, seconds: float, interrupt: int) -> bool:
        """Wait for a reply, for up to `seconds`, or until something can be read from the descriptor `interrupt`."""
        # All earlier replies have been received, so the connection's own buffer is empty.
        poll = select.poll()
        poll.register(self._connection._sock, select.POLLIN)
        poll.register(interrupt, select.POLLIN)
        return bool(poll.poll(seconds * 1000)) and bool(self._connection.can_read(timeout=0))

    def receive(self) -> Any:
        """Return the reply to the oldest pending request; an error reply is returned as an exception, not raised."""
        try:
            if self.patience is not None:
                self._connection.expect_reply(self.patience)
            reply = self._connection.read_response(disable_decoding=True)
        except exceptions.ResponseError as error:
            reply = error
        self.pending -= 1
        return reply

    def drop(self) -> None:
        """Disconnect, and forget pending requests; the next `send` connects again."""
        # Cleared first, as an exception may interrupt this: once released, the connection belongs to another thread.
        connection, self._connection, self.pending = self._connection, None, 0
        if connection is not None:
            connection.disconnect()
            self._pool.release(connection)

    def close(self) -> None:
        """Release the connection to the pool."""
        if self.pending:
            # Otherwise the next user of the connection would receive these replies.
            self.drop()
        elif self._connection is not None:
            connection, self._connection = self._connection, None
            self._pool.release(connection)


def _is_closed(connection: Any) -> bool:
    """Tell whether the server has closed a connection that has no pending requests.

    No reply is on its way, so the connection is only readable if it was closed.
    """
    if connection._sock is None:
        return False
    # redis-py's own check takes four times as long.
    poll = select.poll()
    poll.register(connection._sock, select.POLLIN)
    try:
        return bool(poll.poll(0)) and bool(connection.can_read())
    except (exceptions.ConnectionError, exceptions.TimeoutError):
        return True


@contextmanager
def hold_connection(client: "redis.Redis", key: str) -> Iterator["redis.Redis"]:
    """Yield a client with one connection to the server of the hash `key`. It fails when the connection is lost.

    This is for scans. A scan that continued at another server, or after a restart, would leave out entries. If the key
    moves, the client fails with one of `MOVING`: then the scan may begin again.
    """
    held = redis.Redis(connection_pool=client.connection_pool)
    connection = held.connection = client.connection_pool.get_connection()
    retry = connection.retry
    try:
        # This follows a key that has moved before.
        held.hlen(key)
        connection.retry = Retry(NoBackoff(), 0)
        yield held
    finally:
        held.connection, connection.retry = None, retry
        client.connection_pool.release(connection)


def has_room(client: "redis.Redis") -> bool:
    """Tell whether a thread may keep an unused connection: whether their number has no limit."""
    return bool(client.connection_pool.max_connections > ENOUGH)


def drop_idle_connections(client: "redis.Redis") -> None:
    """Disconnect unused connections: after a failover they may lead to a server that is only a replica now."""
    client.connection_pool.disconnect(inuse_connections=False)


def retire(client: "redis.Redis") -> None:
    """Close a client that was made here: unused connections now, and all others as soon as nobody uses them."""
    pool: Any = client.connection_pool
    pool.retire()


def pack(words: Sequence[str], further: int = 0) -> bytes:
    """Return a request in the protocol of Redis. If `further` is not 0, that many words by `pack_word` must follow."""
    return b"*%d\r\n%b" % (len(words) + further, b"".join(map(pack_word, words)))


def pack_word(word: str) -> bytes:
    """Return a word of a request in the protocol of Redis."""
    return pack_bytes(word.encode("utf-8", "surrogateescape"))


def pack_bytes(word: bytes) -> bytes:
    """Return a word of bytes in the protocol of Redis."""
    return b"$%d\r\n%b\r\n" % (len(word), word)
