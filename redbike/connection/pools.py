"""Pools of connections that may be retired while other threads use them, and the Sentinels that name a master."""

import queue
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

HINT = " (sentinel_password, and sentinel_username if there is one, are for the Sentinels)"
NO_LOGIN = "HELLO must be called"  # in the reply to a login without a password
LOCK_TIMEOUT = 1.0  # seconds for which other threads may hold the lock of a queue


class Pool(redis.ConnectionPool):
    """A pool without a limit. A call that is in flight keeps its connection until it is over."""

    _is_retired = False

    def retire(self) -> None:
        """Disconnect the idle connections now, and all others as soon as they are released."""
        self._is_retired = True
        self.disconnect(inuse_connections=False)

    def release(self, connection: Any) -> None:
        """Take a connection back."""
        super().release(connection)
        # Afterwards: another thread may call `retire` at any instant.
        if self._is_retired:
            self.disconnect(inuse_connections=False)


class SentinelPool(Pool, SentinelConnectionPool):
    """A pool whose master the Sentinels name."""


class LimitedPool(Pool, redis.BlockingConnectionPool):
    """A pool with a limit: a thread waits while all connections are in use. The error for a timeout names the limit."""

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        """Return a connection that nobody uses, which is connected."""
        try:
            return super().get_connection(*arguments, **options)  # type: ignore[no-untyped-call]
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
        # A signal handler may have interrupted the thread that holds it. That one releases a connection later.
        if not idle.mutex.acquire(timeout=LOCK_TIMEOUT):
            return
        try:
            for connection in filter(None, idle.queue):
                connection.disconnect()
        finally:
            idle.mutex.release()


class Sentinels(Sentinel):
    """redis-py's `Sentinel`, which also goes on after a refusal, and has the reason of each in its error."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the master. Raise `MasterNotFoundError`."""
        reasons = []
        for sentinel in list(self.sentinels):
            try:
                masters: Any = sentinel.sentinel_masters()
            except AuthenticationError as error:
                reason = f"{'it needs a password' if NO_LOGIN in str(error) else error}{HINT}"
            except (ConnectionError, TimeoutError, ResponseError, InvalidResponse) as error:
                reason = f"{error!s:.200}"
            else:
                state = masters.get(service_name)
                if state and self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                    # It is asked first from now on, as others may be gone.
                    self.sentinels.remove(sentinel)
                    self.sentinels.insert(0, sentinel)
                    return state["ip"], state["port"]
                reason = "it counts the master as down" if state else "it does not know this service"
            reasons.append(f"{_describe_address(sentinel)}: {reason}")
        raise MasterNotFoundError(f"no Sentinel names a master of {service_name!r}: {'; '.join(reasons)}")


def _describe_address(sentinel: Any) -> str:
    place = sentinel.connection_pool.connection_kwargs
    return f"{place['host']}:{place['port']}"
