"""Pools of connections that may be retired while other threads use them, and the Sentinels that name a master.

In a cluster, shards share the connections that none of them uses.
"""

import os
import queue
import threading
import time
from collections import deque
from typing import Any

import redis
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    InvalidResponse,
    MaxConnectionsError,
    ResponseError,
    TimeoutError,
)
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

from redbike.connection.forks import begin_in_forks

HINT = " (sentinel_password, and sentinel_username if there is one, are for the Sentinels)"
NO_LOGIN = "HELLO must be called"  # in the reply to a login without a password
LOCK_TIMEOUT = 1.0  # seconds for which other threads may hold the lock of a queue
UNUSED = 15.0  # seconds after which a connection that no shard has used is closed
LOOKS = 1.0  # seconds between two searches for such connections
CROWDED = 5.0  # seconds for which a client tries to connect to a Unix socket whose backlog is full
NAP = 0.02  # seconds between two such tries


class Pool(redis.ConnectionPool):
    """A pool without a limit. A call that is in flight keeps its connection until it is over."""

    idle: "IdleConnections | None" = None  # of the clients of shards that were made of this pool's client
    _is_retired = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        begin_in_forks(self)

    def _begin(self) -> None:
        _renew_locks(self)

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        """Return a connection that nobody uses, which is connected. Raise `ConnectionError` for a silent server.

        A Unix socket whose backlog is full refuses at once, while TCP would wait. So try for up to `CROWDED` seconds.
        """
        end = time.monotonic() + CROWDED
        while True:
            try:
                return super().get_connection(*arguments, **options)
            except ConnectionError as error:
                if not isinstance(error.__context__, BlockingIOError) or time.monotonic() > end:
                    raise
            time.sleep(NAP)

    def retire(self) -> None:
        """Disconnect the idle connections now, and all others as soon as they are released."""
        self._is_retired = True
        self.disconnect(inuse_connections=False)
        if self.idle is not None:
            self.idle.retire()
            self.connection_kwargs["router"].breaker.retire()

    def release(self, connection: Any) -> None:
        """Release a connection to the pool; disconnect it if the pool is retired."""
        super().release(connection)
        # Afterwards: another thread may call `retire` at any instant.
        if self._is_retired:
            self.disconnect(inuse_connections=False)


class IdleConnections:
    """Connections that nobody uses, by the address of their server.

    Threads share it without a lock, because a fork or a signal handler might find a lock held for good. Each step is
    one operation of a deque. The connection used last is taken first, so surplus connections grow old.
    """

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], deque[tuple[Any, float]]] = {}
        self._looked_at = 0.0  # when old ones were looked for last, by the monotonic clock
        self._is_retired = False

    def take(self, address: tuple[str, int]) -> Any:
        """Return a connection to this server; None without one."""
        while idle := self._idle.get(address):
            try:
                connection, _ = idle.pop()
            except IndexError:
                break
            # A forked process must not use its parent's connections.
            if connection.pid == os.getpid():
                return connection
        return None

    def put(self, connection: Any) -> None:
        """Keep a connection for others, unless it is closed."""
        if not connection.is_connected:
            return
        now = time.monotonic()
        self._idle.setdefault((connection.host, connection.port), deque()).append((connection, now))
        # Afterwards: another thread may call `retire` at any instant.
        if self._is_retired:
            self.retire()
        elif now - self._looked_at > LOOKS:
            self._looked_at = now
            self._close_old(now - UNUSED)

    def close(self, address: tuple[str, int]) -> None:
        """Disconnect the idle connections to this server."""
        while connection := self.take(address):
            connection.disconnect()

    def retire(self) -> None:
        """Disconnect all now, and others as soon as nobody uses them."""
        self._is_retired = True
        for address in list(self._idle):
            self.close(address)

    def _close_old(self, before: float) -> None:
        """Disconnect connections that nobody has used since `before`, but keep one to each server."""
        for idle in list(self._idle.values()):
            try:
                while len(idle) > 1 and idle[0][1] < before:
                    idle.popleft()[0].disconnect()
            except IndexError:
                continue


class SharingPool(Pool):
    """The pool of one shard. It has the connections that the shard uses; `idle` has those that no shard uses.

    The shard takes over an idle connection to the master that it found last. If the slot of the shard has moved since,
    the server replies ``MOVED``, and the connection connects again, to the new master.
    """

    def __init__(self, idle: IdleConnections, *arguments: Any, **options: Any) -> None:
        self._idle = idle
        super().__init__(*arguments, **options)

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        """Return a connection that nobody uses, which is connected. Raise `ConnectionError` for a silent server."""
        # Before the pool is locked, as this may have to ask the nodes.
        router = self.connection_kwargs["router"]
        router.recall()
        router.check()
        return super().get_connection(*arguments, **options)

    def make_connection(self) -> Any:
        """Return a connection that no other shard uses any more, or else a new one."""
        router = self.connection_kwargs["router"]
        if connection := self._idle.take(router.recall()):
            connection.router = router
            return connection
        return super().make_connection()

    def release(self, connection: Any) -> None:
        """Release a connection, so that any shard can take it."""
        super().release(connection)
        while self._available_connections:
            try:
                self._idle.put(self._available_connections.pop())
            except IndexError:
                break

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Disconnect the connections that this shard uses, or only the idle ones to its master."""
        if inuse_connections:
            super().disconnect()
        elif address := self.connection_kwargs["router"].known:
            self._idle.close(address)


class SentinelPool(Pool, SentinelConnectionPool):
    """A pool whose master the Sentinels name."""


class LimitedPool(Pool, redis.BlockingConnectionPool):
    """A pool with a limit: a thread waits while all connections are in use. The error for a timeout names the limit."""

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        """Return a connection that nobody uses, which is connected. Raise `ConnectionError` for a silent server."""
        try:
            return super().get_connection(*arguments, **options)
        except ConnectionError as error:
            if not isinstance(error.__context__, queue.Empty):
                raise
            raise MaxConnectionsError(
                f"all {self.max_connections} connections were in use for {self.timeout:g} s"
            ) from None

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Disconnect all connections, or only the idle ones; no thread gets one of these meanwhile."""
        if inuse_connections:
            super().disconnect()
            return
        idle = self.pool
        # A signal handler may have interrupted the thread that holds the lock. It releases a connection later.
        if not idle.mutex.acquire(timeout=LOCK_TIMEOUT):
            return
        try:
            for connection in filter(None, idle.queue):
                connection.disconnect()
        finally:
            idle.mutex.release()


class Sentinels(Sentinel):
    """redis-py's `Sentinel`, but it also continues after a refusal, and its error has the reason of each Sentinel."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]
        begin_in_forks(self)

    def _begin(self) -> None:
        for sentinel in self.sentinels:
            _renew_locks(sentinel.connection_pool)

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the master. Raise `MasterNotFoundError`."""
        reasons = []
        for sentinel in self.sentinels:
            try:
                masters: Any = sentinel.sentinel_masters()
            except AuthenticationError as error:
                reason = f"{'it needs a password' if NO_LOGIN in str(error) else error}{HINT}"
            except (ConnectionError, TimeoutError, ResponseError, InvalidResponse) as error:
                reason = f"{error!s:.200}"
            else:
                state = masters.get(service_name)
                if state and self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                    # Ask this Sentinel first from now on: others may be gone. Assign once: other threads read the list.
                    self.sentinels = [sentinel, *(each for each in self.sentinels if each is not sentinel)]
                    return state["ip"], state["port"]
                reason = "it counts the master as down" if state else "it does not know this service"
            reasons.append(f"{_describe_address(sentinel)}: {reason}")
        raise MasterNotFoundError(f"no Sentinel names a master of {service_name!r}: {'; '.join(reasons)}")


def _renew_locks(pool: Any) -> None:
    """Renew the locks of a pool, which a forked process may find held. redis-py itself renews the rest of it."""
    pool._fork_lock, pool._lock = threading.RLock(), threading.RLock()


def _describe_address(sentinel: Any) -> str:
    place = sentinel.connection_pool.connection_kwargs
    return f"{place['host']}:{place['port']}"
