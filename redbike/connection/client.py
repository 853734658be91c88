"""Make a redis-py client from a URL, from redis-py's own arguments, or from a client.

redis-py's retries are off in every client made here. A repeated request must carry its tag again, so only the loops,
which know the tag, may retry.
"""

import inspect
import logging
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import parse_url
from redis.exceptions import ConnectionError, RedisError
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from redbike.connection.circuit_breaker import Address
from redbike.connection.cluster import Router, SlotConnection, SlotSSLConnection, add_braces, make_retry
from redbike.connection.embedded import EmbeddedServer, name_end
from redbike.connection.options import check_names, convert, list_arguments, parse_options
from redbike.connection.pools import IdleConnections, LimitedPool, Pool, SentinelPool, Sentinels, SharingPool
from redbike.connection.tls import SentinelTLSConnection, TLSConnection, check_tls
from redbike.connection.urls import (
    check_host,
    check_login,
    check_port,
    explain,
    parse_addresses,
    parse_database,
    parse_login,
    redact,
    split_url,
)
from redbike.errors import BadConfig, ServerError

log = logging.getLogger("redbike.server")

OUR_OPTIONS: dict[str, Any] = {
    "decode_responses": False,
    "encoding": "utf-8",
    "encoding_errors": "surrogateescape",
    "health_check_interval": 0,
}
TIMEOUTS = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0}
REVIVE_TIMEOUT = 2.0  # seconds that a client waits until the embedded server is started again
CONNECTION_TIMEOUT = 5.0  # seconds that a thread waits for a connection if the user has limited their number
NO_LIMIT = 2**31  # connections
ENOUGH = 10_000  # connections; no thread ever waits for one if the limit is higher than this
DEFAULT_LIMIT = redis.ConnectionPool().max_connections  # redis-py's own


def connect(redis_config: "str | Mapping[str, Any] | redis.Redis | None") -> "redis.Redis":
    """Return a client for a URL, for redis-py's arguments by name, for a client, or (None) for the embedded server.

    Nothing is sent yet, but the embedded server is started. Raise `BadConfig` for invalid settings, and `ServerError`
    if the embedded server cannot be started.
    """
    if redis_config is None:
        return _connect_embedded("", is_named=False)
    if isinstance(redis_config, str):
        return _connect_url(redis_config)
    if isinstance(redis_config, Mapping):
        return _connect_arguments(redis_config)
    if isinstance(redis_config, RedisCluster):
        return _copy_cluster(redis_config)
    if isinstance(redis_config, redis.Redis):
        return _copy_client(redis_config)
    if any(each.__module__.startswith("redis.asyncio") for each in type(redis_config).__mro__):
        raise BadConfig("bad redis_config: an asyncio client cannot be used: give a redis.Redis, a URL or a dict")
    raise BadConfig(f"bad redis_config {type(redis_config).__name__}: a URL, a dict or a redis client is needed")


def _make_fixed_settings() -> dict[str, Any]:
    """Return the options that the user cannot change."""
    return OUR_OPTIONS | {"retry": Retry(NoBackoff(), 0), "retry_on_error": []}


def _connect_url(url: str) -> "redis.Redis":
    scheme, _, rest = url.partition(":")
    connectors = {
        "redis": _connect_plain,
        "rediss": _connect_plain,
        "unix": _connect_plain,
        "redis+sentinel": _connect_sentinel,
        "rediss+sentinel": _connect_sentinel,
        "redis+cluster": _connect_cluster,
        "redis+clusters": _connect_cluster,
    }
    if scheme == "embedded":
        return _connect_embedded(rest)
    if scheme not in connectors or not rest.startswith("//"):
        raise BadConfig(f"bad url {redact(url)!r}: it must begin with one of {'://, '.join(connectors)}://, embedded:")
    check_login(url)
    try:
        return connectors[scheme](url)
    except (ValueError, TypeError, RedisError) as error:
        raise BadConfig(f"bad url {redact(url)!r}: {explain(url, error)}") from None


def _connect_embedded(folder: str, is_named: bool = True) -> "redis.Redis":
    server = EmbeddedServer(folder or ".redbike")
    if server.start() if is_named else server.start_unasked():
        log.warning("started a server in %r; %s", os.path.relpath(server.folder), name_end(f"embedded:{folder}"))
    arguments: dict[str, Any] = {"path": str(server.socket), "server": server, **TIMEOUTS}
    return _make_client(_EmbeddedConnection, **arguments)


class _EmbeddedConnection(redis.UnixDomainSocketConnection):
    """A connection to the embedded server that starts it again when it is gone."""

    def __init__(self, server: EmbeddedServer, **arguments: Any) -> None:
        super().__init__(**arguments)  # type: ignore[no-untyped-call]
        self._server = server

    def _connect(self) -> Any:
        deadline = time.monotonic() + REVIVE_TIMEOUT
        while True:
            try:
                return super()._connect()  # type: ignore[no-untyped-call]
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline:
                    raise
            try:
                self._server.revive()
            except ServerError as error:
                raise ConnectionError(str(error)) from None
            # Another process may be starting it.
            time.sleep(0.01)


def _connect_plain(url: str) -> "redis.Redis":
    if url.startswith("unix:"):
        # A file path has no fragment.
        url = url.replace("#", "%23")
    given, options = urlsplit(url), parse_options(url)
    if given.scheme == "unix" and not given.path:
        raise BadConfig("it names no socket")
    if given.scheme != "unix":
        parse_database(given.path)
        options = {"socket_keepalive": True} | options
        if given.port is not None:
            check_port(given.port)
    place: dict[str, Any] = parse_url(url.partition("?")[0])  # type: ignore[no-untyped-call]
    if "db" in options:
        place.pop("db", None)
    return _make_client(**(TIMEOUTS | options | place))


def _connect_sentinel(url: str) -> "redis.Redis":
    parts, options = split_url(url), parse_options(url, "sentinel_username", "sentinel_password")
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise BadConfig(f"{parts.scheme}://h1:p,h2:p/service/db is needed")
    login = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    common = {"max_connections": NO_LIMIT} | TIMEOUTS | parse_login(parts) | options | _make_fixed_settings()
    common["db"] = options.get("db", parse_database(db))
    shared = {name: value for name, value in common.items() if name in TIMEOUTS or name.startswith("ssl_")}
    if parts.scheme == "rediss+sentinel":
        shared["ssl"] = True
        common["connection_class"] = SentinelTLSConnection
    sentinels = parse_addresses(parts.netloc.rpartition("@")[2], 26379)
    own = shared | login | _make_fixed_settings()
    sentinel: Any = Sentinels(sentinels, sentinel_kwargs=own)
    client: redis.Redis = sentinel.master_for(service, connection_pool_class=SentinelPool, **common)
    _check_arguments(client.connection_pool)
    return client


def _connect_cluster(url: str) -> "redis.Redis":
    parts, options = split_url(url), parse_options(url)
    if parts.path.strip("/"):
        raise BadConfig(f"{parts.scheme}://h1:p,h2:p is needed, without a path")
    nodes = parse_addresses(parts.netloc.rpartition("@")[2], 6379)
    arguments = {"socket_keepalive": True} | TIMEOUTS | options | parse_login(parts)
    return _make_cluster_client(nodes, parts.scheme == "redis+clusters", arguments)


def _copy_cluster(client: RedisCluster) -> "redis.Redis":
    """Return a client for the same cluster with our settings; do not change the given one."""
    nodes = [(str(node.host), int(node.port)) for node in client.get_nodes()]  # type: ignore[no-untyped-call]
    given = client.get_connection_kwargs()  # type: ignore[no-untyped-call]
    names = inspect.signature(redis.Redis.__init__).parameters.keys() - {"host", "port", "ssl", "event_dispatcher"}
    arguments = {name: value for name, value in given.items() if name in names}
    is_encrypted = given.get("ssl") or issubclass(given.get("connection_class", redis.Connection), redis.SSLConnection)
    return _make_cluster_client(nodes, bool(is_encrypted), TIMEOUTS | arguments)


def _make_cluster_client(nodes: Iterable[Address], is_encrypted: bool, arguments: dict[str, Any]) -> "redis.Redis":
    limit = arguments.pop("max_connections", None)
    plain_class = TLSConnection if is_encrypted else redis.Connection
    router = Router(nodes, plain_class, arguments | _make_fixed_settings())
    return _make_client(SlotSSLConnection if is_encrypted else SlotConnection, limit, router=router, **arguments)


def aim_at(client: "redis.Redis", prefix: str) -> str:
    """Let `client` lead to the server that has the keys of `prefix`; return the prefix.

    In a cluster that is the master of their slot, and the prefix gets braces if it has none.
    """
    if not is_in_cluster(client):
        return prefix
    client.connection_pool.connection_kwargs["router"].aim_at(add_braces(prefix))
    return add_braces(prefix)


def aim_at_each(client: "redis.Redis", prefixes: Iterable[str]) -> "list[redis.Redis]":
    """Return one client for each prefix, which leads to the server with its keys; on a single server, `client` itself.

    The clients share idle connections, unless the user has limited the number of connections.
    """
    if not is_in_cluster(client):
        return [client for _ in prefixes]
    pool: Any = client.connection_pool
    pool.idle = pool.idle or IdleConnections()
    pool.connection_kwargs["router"].note_silence()
    copies = []
    for prefix in prefixes:
        copies.append(_copy_client(client) if isinstance(pool, LimitedPool) else _make_sharing_client(pool))
        aim_at(copies[-1], prefix)
    return copies


def _make_sharing_client(pool: Any) -> "redis.Redis":
    arguments = pool.connection_kwargs | {"router": pool.connection_kwargs["router"].copy()}
    return redis.Redis.from_pool(SharingPool(pool.idle, pool.connection_class, pool.max_connections, **arguments))


def is_in_cluster(client: "redis.Redis") -> bool:
    """Tell whether `client`, which this module has made, is a client of a cluster."""
    return "router" in client.connection_pool.connection_kwargs


def _connect_arguments(given: Mapping[str, Any]) -> "redis.Redis":
    check_names(given, list_arguments())
    arguments = TIMEOUTS | {name: convert(name, value) for name, value in given.items()}
    if "unix_socket_path" not in arguments:
        arguments = {"socket_keepalive": True} | arguments
    limit = arguments.pop("max_connections", None)
    try:
        pool = redis.Redis(**(arguments | _make_fixed_settings())).connection_pool
        return _make_client(pool.connection_class, limit, **pool.connection_kwargs)
    except (ValueError, TypeError, RedisError) as error:
        if isinstance(error, BadConfig):
            raise
        raise BadConfig(f"bad connection settings: {error}") from None


def _copy_client(client: "redis.Redis") -> "redis.Redis":
    """Return a client for the same server with our settings; do not change the given one."""
    pool = client.connection_pool
    arguments = dict(pool.connection_kwargs)
    if router := arguments.get("router"):
        # Another Redbike may have another prefix, and so another slot.
        arguments["router"] = router.copy()
    if isinstance(pool, SentinelConnectionPool):
        del arguments["connection_pool"]
        arguments |= {"is_master": pool.is_master, "check_connection": pool.check_connection} | _make_fixed_settings()
        arguments |= {"connection_class": pool.connection_class, "max_connections": _get_limit(pool) or NO_LIMIT}
        make_pool: Any = SentinelPool
        return redis.Redis.from_pool(make_pool(pool.service_name, pool.sentinel_manager, **arguments))
    return _make_client(pool.connection_class, _get_limit(pool), **arguments)


def _get_limit(pool: Any) -> int | None:
    """Return the limit on connections that the user has set; None without one."""
    if isinstance(pool, redis.BlockingConnectionPool) or pool.max_connections != DEFAULT_LIMIT:
        return int(pool.max_connections)
    return None


def _make_client(
    connection_class: Any = redis.Connection, max_connections: int | None = None, **arguments: Any
) -> "redis.Redis":
    """Return a client. Its number of connections has no limit, unless the user gave one."""
    arguments |= _make_fixed_settings() | ({"retry": make_retry()} if "router" in arguments else {})
    if max_connections is not None and not (isinstance(max_connections, int) and max_connections > 0):
        raise BadConfig(f"bad connection setting max_connections {max_connections!r}: 1 or more is needed")
    connection_class = TLSConnection if connection_class is redis.SSLConnection else connection_class
    if max_connections is None or max_connections > ENOUGH:
        pool: redis.ConnectionPool = Pool(connection_class, max_connections or NO_LIMIT, **arguments)
    else:
        pool = LimitedPool(max_connections, CONNECTION_TIMEOUT, connection_class, **arguments)
    _check_arguments(pool)
    return redis.Redis.from_pool(pool)


def _check_arguments(pool: Any) -> None:
    """Raise `BadConfig` for an option that connections do not take. Redis-py would raise only when it connects."""
    check_host(str(pool.connection_kwargs.get("host", "")))
    try:
        check_tls(pool.connection_class(**pool.connection_kwargs))
    except TypeError as error:
        prefix, _, name = str(error).rpartition("keyword argument ")
        raise BadConfig(f"{name} is not an option of such a server" if prefix else str(error)) from None
