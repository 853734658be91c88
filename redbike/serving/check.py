"""Whether a server can be used, and what is to be feared of it."""

from collections.abc import Mapping
from typing import Any

import redis
from redis.cluster import RedisCluster
from redis.exceptions import BusyLoadingError, ConnectionError, RedisError, TimeoutError

from redbike.errors import ServerError, Unreachable

OLDEST = {"redis": (7, 0), "valkey": (7, 2)}


def check_server(client: "redis.Redis", durable: bool = True) -> list[str]:
    """Warnings about the server; with `durable` also if it keeps nothing on disk.

    Raises `ServerError` if it is too old, `Unreachable` if it does not answer.
    """
    try:
        answer, *told = _ask(client)
        # A server whose disk is full does not even answer a ping, but whoever only reads is served.
        if isinstance(answer, Exception) and not str(answer).startswith("MISCONF"):
            raise answer
    except redis.AuthenticationError as error:
        raise ServerError(f"Redis refuses the login: {error}") from None
    except BusyLoadingError:
        return []
    except (ConnectionError, TimeoutError, OSError) as error:
        # A sentinel's client shows all that it is made of.
        said = str(error).partition(" : <")[0]
        raise Unreachable(f"cannot reach Redis at {_address(client)}: {said}{_hint(client, said)}") from None
    except RedisError as error:
        raise ServerError(f"Redis at {_address(client)} refuses: {error}") from None
    refused = next((reply for reply in told if isinstance(reply, Exception)), None)
    if refused is not None:
        # Not every user may ask; the scripts will tell.
        return [f"the server's version and maxmemory-policy, which must be 'noeviction', are not checked: {refused}"]
    server, memory, persistence = told
    _check_version(server)
    return [*_eviction(memory), *(_durability(client, persistence) if durable else [])]


def _ask(client: "redis.Redis") -> list[Any]:
    """The replies to a ping and to three questions, in one round trip; an error in the place of what was refused."""
    sections = ("server", "memory", "persistence")
    if isinstance(client, RedisCluster):
        # Its pipelines are for keys alone.
        return [client.ping(), *(_or_error(client, section) for section in sections)]
    pipeline = client.pipeline(transaction=False)
    pipeline.ping()
    for section in sections:
        pipeline.info(section)
    return pipeline.execute(raise_on_error=False)


def _or_error(client: Any, section: str) -> Any:
    try:
        return client.info(section)
    except RedisError as error:
        return error


def _eviction(memory: Mapping[str, Any]) -> list[str]:
    policy = memory.get("maxmemory_policy")
    if not policy or policy == "noeviction":
        return []
    return [
        f"the server's maxmemory-policy is {policy!r}: it may evict Redbike's keys, and jobs with them; "
        "set it to 'noeviction'"
    ]


def _durability(client: "redis.Redis", persistence: Mapping[str, Any]) -> list[str]:
    if persistence.get("aof_enabled", 1):
        return []
    try:
        # Only now: a user who may not ask would leave a line in the server's log of refusals each time.
        snapshots = client.config_get("save").get("save")
    except RedisError:
        return []
    if snapshots != "":
        return []
    return [
        "the server keeps nothing on disk, neither an append-only file nor snapshots: all jobs are lost when it "
        "restarts; set 'appendonly' to 'yes'"
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
