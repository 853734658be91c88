"""The way to the server: a redis-py client from a URL, from redis-py's own arguments, or from a client.

redis-py's retries are off in every client made here: a repeated request must carry its tag again, so that repeating is
for the loops to do, which know it.
"""

import inspect
import re
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.exceptions import ConnectionError, RedisClusterException, RedisError, TimeoutError
from redis.retry import Retry
from redis.sentinel import Sentinel

from redbike.errors import BadConfig, ServerError, Unreachable
from redbike.server import EmbeddedServer

OURS: dict[str, Any] = {
    "decode_responses": False,
    "encoding": "utf-8",
    "encoding_errors": "surrogateescape",
    "health_check_interval": 0,
}
TIMEOUTS = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0}
REVIVAL = 2.0  # seconds that one who connects waits for the embedded server to be started again
OLDEST = {"redis": (7, 0), "valkey": (7, 2)}

# redis-py's arguments that a text can give, with what turns the text into a value.
_BOOLEANS = {"1": True, "yes": True, "true": True, "on": True, "0": False, "no": False, "false": False, "off": False}
_NUMBERS = {"port": int, "db": int, "socket_timeout": float, "socket_connect_timeout": float, "max_connections": int}
_SWITCHES = {"ssl", "ssl_check_hostname", "socket_keepalive"}
_TEXTS = {
    "host",
    "unix_socket_path",
    "username",
    "password",
    "client_name",
    "ssl_keyfile",
    "ssl_certfile",
    "ssl_ca_certs",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_password",
}


def connect(redis_config: "str | Mapping[str, Any] | redis.Redis | None") -> "redis.Redis":
    """A client for a URL, for redis-py's arguments by name, for a client, or (None) for the embedded server.

    Nothing is sent yet, but the embedded server is started. Raises `BadConfig` for what names no server.
    """
    if redis_config is None:
        return _embedded("")
    if isinstance(redis_config, str):
        return _from_url(redis_config)
    if isinstance(redis_config, Mapping):
        return _from_arguments(redis_config)
    if isinstance(redis_config, RedisCluster):
        return redis_config
    if isinstance(redis_config, redis.Redis):
        return _like(redis_config)
    raise BadConfig(f"bad redis_config {type(redis_config).__name__}: a URL, a dict or a redis client is needed")


def redact(url: str) -> str:
    """`url` without its password, wherever that stands, and whatever else is wrong with it."""
    url = re.sub(r"([^?&=]*password[^?&=]*=)[^&]*", r"\1***", url, flags=re.IGNORECASE)
    login, at, place = url.rpartition("@")
    if not at:
        return url
    # All before the last @ counts as login: people forget to write / ? # and @ in a password with %.
    return re.sub(r"((?:[^/:@]*:?/+)?)([^:]*:)?.*", r"\1\2***", login, count=1, flags=re.DOTALL) + at + place


def check_server(client: "redis.Redis") -> list[str]:
    """Warnings about the server. Raises `ServerError` if it is too old, `Unreachable` if it does not answer."""
    try:
        client.ping()
    except redis.AuthenticationError as error:
        raise ServerError(f"Redis refuses the login: {error}") from None
    except redis.exceptions.BusyLoadingError:
        return []
    except (ConnectionError, TimeoutError, OSError) as error:
        # A sentinel's client shows all that it is made of.
        said = str(error).partition(" : <")[0]
        raise Unreachable(f"cannot reach Redis at {_address(client)}: {said}{_hint(client, said)}") from None
    except RedisError as error:
        raise ServerError(f"Redis at {_address(client)} refuses: {error}") from None
    try:
        _check_version(client.info("server"))
        policy = client.info("memory").get("maxmemory_policy")
    except RedisError as error:
        # Not every user may ask; the scripts will tell.
        return [f"the server's version and maxmemory-policy, which must be 'noeviction', are not checked: {error}"]
    if not policy or policy == "noeviction":
        return []
    return [
        f"the server's maxmemory-policy is {policy!r}: it may evict Redbike's keys, and jobs with them; "
        "set it to 'noeviction'"
    ]


def _check_version(info: Mapping[str, Any]) -> None:
    if not isinstance(info.get("redis_version"), str):
        # No server that we know: the scripts will tell.
        return
    name = "valkey" if "valkey_version" in info else "redis"
    version = str(info[f"{name}_version"])
    if tuple(int(number) for number in version.split(".")[:2]) < OLDEST[name]:
        oldest = ".".join(map(str, OLDEST[name]))
        raise ServerError(f"the server is {name} {version}: Redbike needs {name} {oldest} or later")


def _address(client: "redis.Redis") -> str:
    pool = getattr(client, "connection_pool", None)
    known = pool.connection_kwargs if pool else {}
    return str(known.get("path") or f"{known.get('host', 'the cluster')}:{known.get('port', '')}".rstrip(":"))


def _hint(client: "redis.Redis", said: str) -> str:
    """Who hangs up on the first words without TLS has most likely expected it."""
    plain = getattr(getattr(client, "connection_pool", None), "connection_class", None) is redis.Connection
    hung_up = "closed by server" in said or "reset by peer" in said
    return " If it speaks TLS, the url begins with rediss://" if plain and hung_up else ""


def _retries_off() -> dict[str, Any]:
    return {"retry": Retry(NoBackoff(), 0), "retry_on_error": []}


def _from_url(url: str) -> "redis.Redis":
    scheme, _, rest = url.partition(":")
    makers = {
        "redis": _plain,
        "rediss": _plain,
        "unix": _plain,
        "redis+sentinel": _sentinel,
        "redis+cluster": _cluster,
    }
    if scheme == "embedded":
        return _embedded(rest)
    if scheme not in makers or not rest.startswith("//"):
        kinds = ", ".join(f"{name}://" for name in makers)
        raise BadConfig(f"bad url {redact(url)!r}: it begins with none of {kinds}, embedded:")
    _check_login(url)
    try:
        return makers[scheme](url)
    except (ValueError, TypeError, RedisError) as error:
        if isinstance(error, BadConfig):
            raise
        raise BadConfig(f"bad url {redact(url)!r}: {error}") from None


def _check_login(url: str) -> None:
    """Refuse a login that reaches beyond the place where one can be: the rest would be taken for a host or a path."""
    try:
        place = urlsplit(url).netloc
    except ValueError:
        place = ""
    login = url.partition("://")[2].rpartition("@")[0]
    if login and place and "@" not in place and "=" not in login:
        raise BadConfig(f"bad url {redact(url)!r}: / ? # [ ] % in a password are written as %2F %3F %23 %5B %5D %25")


def _embedded(folder: str) -> "redis.Redis":
    server = EmbeddedServer(folder or ".redbike")
    server.start()
    arguments: dict[str, Any] = {"path": str(server.socket), "server": server, **OURS, **TIMEOUTS, **_retries_off()}
    return redis.Redis.from_pool(redis.ConnectionPool(_EmbeddedConnection, **arguments))


class _EmbeddedConnection(redis.UnixDomainSocketConnection):
    """A connection to the embedded server that starts it again when it is gone: whoever uses it keeps it up."""

    def __init__(self, server: EmbeddedServer, **arguments: Any) -> None:
        super().__init__(**arguments)  # type: ignore[no-untyped-call]
        self._server = server

    def _connect(self) -> Any:
        deadline = time.monotonic() + REVIVAL
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
            # Else somebody else is starting it.
            time.sleep(0.01)


def _plain(url: str) -> "redis.Redis":
    if url.startswith("unix:"):
        # The path of a file has no fragments.
        url = url.replace("#", "%23")
    if urlsplit(url).scheme == "unix" and not urlsplit(url).path:
        raise BadConfig(f"bad url {redact(url)!r}: it names no socket")
    keepalive = {} if url.startswith("unix:") else {"socket_keepalive": True}
    return redis.Redis.from_url(url, **OURS, **_unless_in(url, TIMEOUTS | keepalive), **_retries_off())


def _unless_in(url: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(parse_qsl(urlsplit(url).query))
    return {name: value for name, value in defaults.items() if name not in given}


def _sentinel(url: str) -> "redis.Redis":
    parts = urlsplit(url)
    login, _, places = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise BadConfig(f"bad url {redact(url)!r}: redis+sentinel://h1:p,h2:p/service/db is needed")
    common = {
        **OURS,
        **TIMEOUTS,
        "username": unquote(user) or None,
        "password": unquote(password) or None,
        "db": int(db or 0),
    }
    sentinels = [_host_and_port(place, 26379) for place in places.split(",")]
    sentinel: Any = Sentinel(sentinels, sentinel_kwargs={**TIMEOUTS, **_retries_off()})  # type: ignore[no-untyped-call]
    client: redis.Redis = sentinel.master_for(service, **common, **_retries_off())
    return client


def _cluster(url: str) -> "redis.Redis":
    plain = "redis" + url.removeprefix("redis+cluster")
    try:
        # A cluster's client is no redis.Redis to the type checker, but has the commands of one.
        return cast("redis.Redis", RedisCluster.from_url(plain, **OURS, **_unless_in(url, TIMEOUTS)))
    except (ConnectionError, TimeoutError, RedisClusterException) as error:
        raise Unreachable(f"cannot reach the cluster at {redact(url)}: {error}") from None


def _host_and_port(place: str, default: int) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal():
        return place, default
    return host, int(port)


def _from_arguments(given: Mapping[str, Any]) -> "redis.Redis":
    known = set(inspect.signature(redis.Redis.__init__).parameters) - {"self"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise BadConfig(f"unknown connection setting {unknown[0]!r}: redis-py's Redis() has no such argument")
    arguments = TIMEOUTS | {name: _typed(name, value) for name, value in given.items()}
    if "unix_socket_path" not in arguments:
        arguments = {"socket_keepalive": True} | arguments
    try:
        return redis.Redis(**(arguments | OURS | _retries_off()))
    except (ValueError, TypeError, RedisError) as error:
        raise BadConfig(f"bad connection settings: {error}") from None


def _typed(name: str, value: Any) -> Any:
    """What a config file says as a text, as the type that redis-py takes."""
    if not isinstance(value, str) or name in _TEXTS:
        return value
    if name in _NUMBERS:
        try:
            return _NUMBERS[name](value)
        except ValueError:
            raise BadConfig(f"bad connection setting {name} {value!r}: a number is needed") from None
    if name in _SWITCHES:
        if value.lower() not in _BOOLEANS:
            raise BadConfig(f"bad connection setting {name} {value!r}: yes or no is needed")
        return _BOOLEANS[value.lower()]
    raise BadConfig(f"the connection setting {name!r} cannot be given as a text")


def _like(client: "redis.Redis") -> "redis.Redis":
    """A client for the same server with our settings; the given one is left as it is."""
    pool = client.connection_pool
    if isinstance(pool, redis.sentinel.SentinelConnectionPool):
        return client
    arguments = {name: value for name, value in pool.connection_kwargs.items() if name not in _retries_off()}
    return redis.Redis(
        connection_pool=redis.ConnectionPool(
            connection_class=pool.connection_class, **(arguments | OURS | _retries_off())
        )
    )
