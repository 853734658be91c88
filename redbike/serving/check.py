"""Check whether a server can be used, and whether its settings endanger jobs."""

from collections.abc import Mapping
from typing import Any

import redis
from redis.cluster import RedisCluster
from redis.exceptions import BusyLoadingError, ConnectionError, RedisError, TimeoutError

from redbike.errors import ServerError, Unreachable

OLDEST = {"redis": (7, 0), "valkey": (7, 2)}


def check_server(client: "redis.Redis", durable: bool = True) -> list[str]:
    """Return warnings about the server; with `durable` also one if it keeps nothing on disk.

    Raise `ServerError` if it is too old or refuses, `Unreachable` if it does not answer.
    """
    try:
        answer, *told = _request_info(client)
        # A server whose disk is full refuses even a ping, but it can still be read.
        if isinstance(answer, Exception) and not str(answer).startswith("MISCONF"):
            raise answer
    except redis.AuthenticationError as error:
        raise ServerError(f"Redis refuses the login: {error}") from None
    except BusyLoadingError:
        return []
    except (ConnectionError, TimeoutError, OSError) as error:
        # The message of a sentinel's client ends with the whole pool.
        said = str(error).partition(" : <")[0]
        raise Unreachable(
            f"cannot reach Redis at {_describe_address(client)}: {said}{_hint_at_tls(client, said)}"
        ) from None
    except RedisError as error:
        raise ServerError(f"Redis at {_describe_address(client)} refuses: {error}") from None
    refused = next((reply for reply in told if isinstance(reply, Exception)), None)
    if refused is not None:
        # Not every user may read this; if something is wrong, the scripts will fail.
        return [f"the server's version and maxmemory-policy, which must be 'noeviction', are not checked: {refused}"]
    server, memory, persistence = told
    _check_version(server)
    return [*_check_eviction(memory), *(_check_durability(client, persistence) if durable else [])]


def _request_info(client: "redis.Redis") -> list[Any]:
    """Return the replies to PING and to INFO of three sections, in one round trip; a refusal is an exception there."""
    sections = ("server", "memory", "persistence")
    if isinstance(client, RedisCluster):
        # A cluster's pipeline takes only commands with keys.
        return [client.ping(), *(_info_or_error(client, section) for section in sections)]
    pipeline = client.pipeline(transaction=False)
    pipeline.ping()
    for section in sections:
        pipeline.info(section)
    return pipeline.execute(raise_on_error=False)


def _info_or_error(client: Any, section: str) -> Any:
    try:
        return client.info(section)
    except RedisError as error:
        return error


def _check_eviction(memory: Mapping[str, Any]) -> list[str]:
    policy = memory.get("maxmemory_policy")
    if not policy or policy == "noeviction":
        return []
    return [
        f"the server's maxmemory-policy is {policy!r}: it may evict Redbike's keys, and jobs with them; "
        "set it to 'noeviction'"
    ]


def _check_durability(client: "redis.Redis", persistence: Mapping[str, Any]) -> list[str]:
    if persistence.get("aof_enabled", 1):
        return []
    try:
        # Asked for only if needed: a refusal is a line in the server's log each time.
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
        # An unknown server: if something is missing, the scripts will fail.
        return
    name = "valkey" if "valkey_version" in info else "redis"
    version = str(info[f"{name}_version"])
    if tuple(int(number) for number in version.split(".")[:2]) < OLDEST[name]:
        oldest = ".".join(map(str, OLDEST[name]))
        raise ServerError(f"the server is {name} {version}: Redbike needs {name} {oldest} or later")


def _describe_address(client: "redis.Redis") -> str:
    pool = getattr(client, "connection_pool", None)
    known = pool.connection_kwargs if pool else {}
    return str(known.get("path") or f"{known.get('host', 'the cluster')}:{known.get('port', '')}".rstrip(":"))


def _hint_at_tls(client: "redis.Redis", said: str) -> str:
    """Return a hint if TLS is off and the server hung up: it probably expects TLS."""
    plain = getattr(getattr(client, "connection_pool", None), "connection_class", None) is redis.Connection
    hung_up = "closed by server" in said or "reset by peer" in said
    return " If it speaks TLS, the url begins with rediss://" if plain and hung_up else ""
