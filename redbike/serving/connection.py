"""Make a redis-py client from a URL, from redis-py's own arguments, or from a client.

redis-py's retries are off in every client made here. A repeated request must carry its tag again, so only the loops,
which know the tag, may retry.
"""

import inspect
import queue
import re
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import parse_url
from redis.exceptions import ConnectionError, MaxConnectionsError, RedisClusterException, RedisError, TimeoutError
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from redbike.errors import BadConfig, ServerError, Unreachable
from redbike.serving.embedded import EmbeddedServer
from redbike.serving.options import check_names, convert, parse_options

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
ENOUGH = 10_000  # connections: with a limit above this no thread has to wait for one
DEFAULT_LIMIT = redis.ConnectionPool().max_connections  # redis-py's own


def connect(redis_config: "str | Mapping[str, Any] | redis.Redis | None") -> "redis.Redis":
    """Return a client for a URL, for redis-py's arguments by name, for a client, or (None) for the embedded server.

    Nothing is sent yet, but the embedded server is started. Raise `BadConfig` for invalid settings.
    """
    if redis_config is None:
        return _connect_embedded("")
    if isinstance(redis_config, str):
        return _connect_url(redis_config)
    if isinstance(redis_config, Mapping):
        return _connect_arguments(redis_config)
    if isinstance(redis_config, RedisCluster):
        return redis_config
    if isinstance(redis_config, redis.Redis):
        return _copy_client(redis_config)
    if any(each.__module__.startswith("redis.asyncio") for each in type(redis_config).__mro__):
        raise BadConfig("bad redis_config: an asyncio client cannot be used: give a redis.Redis, a URL or a dict")
    raise BadConfig(f"bad redis_config {type(redis_config).__name__}: a URL, a dict or a redis client is needed")


def redact(url: str) -> str:
    """Return `url` without its password, wherever the password is, also for a malformed URL."""
    url = re.sub(r"([^?&=]*password[^?&=]*=)[^&]*", r"\1***", url, flags=re.IGNORECASE)
    login, at, place = url.rpartition("@")
    if not at:
        return url
    # All before the last @ counts as login: / ? # and @ in a password are often not escaped.
    return re.sub(r"((?:[^/:@]*:?/+)?)([^:]*:)?.*", r"\1\2***", login, count=1, flags=re.DOTALL) + at + place


def _make_fixed_settings() -> dict[str, Any]:
    """Return the options that the user cannot change."""
    return OUR_OPTIONS | {"retry": Retry(NoBackoff(), 0), "retry_on_error": []}


def _connect_url(url: str) -> "redis.Redis":
    scheme, _, rest = url.partition(":")
    makers = {
        "redis": _connect_plain,
        "rediss": _connect_plain,
        "unix": _connect_plain,
        "redis+sentinel": _connect_sentinel,
        "redis+cluster": _connect_cluster,
    }
    if scheme == "embedded":
        return _connect_embedded(rest)
    if scheme not in makers or not rest.startswith("//"):
        kinds = ", ".join(f"{name}://" for name in makers)
        raise BadConfig(f"bad url {redact(url)!r}: it begins with none of {kinds}, embedded:")
    _check_login(url)
    try:
        return makers[scheme](url)
    except (ValueError, TypeError, RedisError) as error:
        raise BadConfig(f"bad url {redact(url)!r}: {error}") from None


def _check_login(url: str) -> None:
    """Raise `BadConfig` for an unescaped login: its rest would be read as a host or a path."""
    try:
        place = urlsplit(url).netloc
    except ValueError:
        place = ""
    login = url.partition("://")[2].rpartition("@")[0]
    if login and place and "@" not in place and "=" not in login:
        raise BadConfig(f"bad url {redact(url)!r}: / ? # [ ] % in a password are written as %2F %3F %23 %5B %5D %25")


def _connect_embedded(folder: str) -> "redis.Redis":
    server = EmbeddedServer(folder or ".redbike")
    server.start()
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
        options = {"socket_keepalive": True} | options
    place: dict[str, Any] = parse_url(url.partition("?")[0])  # type: ignore[no-untyped-call]
    if "db" in options:
        place.pop("db", None)
    return _make_client(**(TIMEOUTS | options | place))


def _connect_sentinel(url: str) -> "redis.Redis":
    parts, options = urlsplit(url), parse_options(url)
    login, _, places = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise BadConfig("redis+sentinel://h1:p,h2:p/service/db is needed")
    own = {"username": unquote(user) or None, "password": unquote(password) or None, "db": int(db or 0)}
    common = {"max_connections": NO_LIMIT} | TIMEOUTS | own | options | _make_fixed_settings()
    timeouts = {name: common[name] for name in TIMEOUTS} | _make_fixed_settings()
    sentinels = [_split_address(place, 26379) for place in places.split(",")]
    sentinel: Any = Sentinel(sentinels, sentinel_kwargs=timeouts)  # type: ignore[no-untyped-call]
    client: redis.Redis = sentinel.master_for(service, **common)
    _check_arguments(client.connection_pool)
    return client


def _connect_cluster(url: str) -> "redis.Redis":
    plain = "redis" + url.partition("?")[0].removeprefix("redis+cluster")
    options = {"max_connections": NO_LIMIT} | TIMEOUTS | parse_options(url) | OUR_OPTIONS
    try:
        # A cluster's client is no redis.Redis to the type checker, but has the commands of one.
        return cast("redis.Redis", RedisCluster.from_url(plain, **options))
    except (ConnectionError, TimeoutError, RedisClusterException) as error:
        raise Unreachable(f"cannot reach the cluster at {redact(url)}: {error}") from None


def _split_address(place: str, default: int) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal():
        return place, default
    return host, int(port)


def _connect_arguments(given: Mapping[str, Any]) -> "redis.Redis":
    check_names(given, set(inspect.signature(redis.Redis.__init__).parameters) - {"self"})
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
    if isinstance(pool, SentinelConnectionPool):
        del arguments["connection_pool"]
        arguments |= {"is_master": pool.is_master, "check_connection": pool.check_connection} | _make_fixed_settings()
        arguments |= {"connection_class": pool.connection_class, "max_connections": _get_limit(pool) or NO_LIMIT}
        its: Any = SentinelConnectionPool
        return redis.Redis.from_pool(its(pool.service_name, pool.sentinel_manager, **arguments))
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
    arguments |= _make_fixed_settings()
    if max_connections is not None and not (isinstance(max_connections, int) and max_connections > 0):
        raise BadConfig(f"bad connection setting max_connections {max_connections!r}: 1 or more is needed")
    pool: redis.ConnectionPool
    if max_connections is None or max_connections > ENOUGH:
        pool = redis.ConnectionPool(connection_class, max_connections or NO_LIMIT, **arguments)
    else:
        pool = _LimitedPool(max_connections, CONNECTION_TIMEOUT, connection_class, **arguments)  # type: ignore[no-untyped-call]
    _check_arguments(pool)
    return redis.Redis.from_pool(pool)


def _check_arguments(pool: Any) -> None:
    """Raise `BadConfig` for an option that connections do not take; redis-py itself would find out only later."""
    try:
        pool.connection_class(**pool.connection_kwargs)
    except TypeError as error:
        what, _, name = str(error).rpartition("keyword argument ")
        raise BadConfig(f"{name} is no option for such a server" if what else str(error)) from None


class _LimitedPool(redis.BlockingConnectionPool):
    """Lets a thread wait for a connection when all are in use, and names the limit if none becomes free."""

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().get_connection(*arguments, **options)  # type: ignore[no-untyped-call]
        except ConnectionError as error:
            if not isinstance(error.__context__, queue.Empty):
                raise
            raise MaxConnectionsError(
                f"all {self.max_connections} connections were in use for {self.timeout:g} s"
            ) from None
