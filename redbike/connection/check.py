"""Check whether a server can be used, and whether its settings endanger jobs."""

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import redis
from redis.exceptions import BusyLoadingError, ConnectionError, RedisError, TimeoutError
from redis.sentinel import SentinelConnectionPool, SentinelManagedConnection

from redbike.connection.circuit_breaker import Address
from redbike.connection.cluster import Router, SlotConnection
from redbike.connection.refusals import describe_login, describe_outage, make_refusal
from redbike.errors import ServerError, Unreachable

# By the class of connections without TLS.
TLS_SCHEMES = {
    redis.Connection: "rediss",
    SentinelManagedConnection: "rediss+sentinel",
    SlotConnection: "redis+clusters",
}
REPLICA = "the server is a replica of"
UNCHECKED = "the server's version and maxmemory-policy, which must be 'noeviction', are not checked"
OLDEST = {"redis": (7, 0), "valkey": (7, 2)}


def check_server(client: "redis.Redis", needs_durability: bool = True) -> list[str]:
    """Return warnings about the server; with `needs_durability` also one if it keeps nothing on disk.

    Raise `ServerError` if it is too old or refuses, or if its address is wrong; `Unreachable` if it does not answer, or
    refuses only for a while.
    """
    try:
        answer, *replies = _request_info(client)
        # A server whose disk is full refuses even a ping, but not the commands that only read.
        if isinstance(answer, Exception) and not str(answer).startswith("MISCONF"):
            raise answer
    except redis.AuthenticationError as error:
        raise ServerError(describe_login(error)) from None
    except BusyLoadingError:
        return []
    except (ConnectionError, TimeoutError, OSError) as error:
        message = describe_outage(error)
        # Waiting does not help against a wrong name or a wrong certificate.
        kind = ServerError if _is_wrong_address(error) else Unreachable
        raise kind(
            f"cannot reach Redis at {describe_address(client)}: {message}{_hint_at_tls(client, message)}"
        ) from None
    except RedisError as error:
        # Waiting helps if a long script runs, or if a replica has lost its master.
        kind = type(make_refusal(error))
        raise kind(f"Redis at {describe_address(client)} refuses: {error}") from None
    refusal = next((reply for reply in replies if isinstance(reply, Exception)), None)
    if refusal is not None:
        # Not every user may run INFO. If the version is too old, the scripts will fail.
        return [f"{UNCHECKED}: {refusal}"]
    server, memory, persistence, replication = replies
    is_node = "cluster" in (server.get("redis_mode"), server.get("server_mode"))
    if is_node and "router" not in client.connection_pool.connection_kwargs:
        place = describe_address(client)
        raise ServerError(f"the server at {place} is a node of a cluster: the url is redis+cluster://{place}")
    _check_version(server)
    if role := _check_role(replication):
        return role
    endangered = _check_durability(client, persistence) if needs_durability else []
    return [*_check_eviction(memory), *endangered]


def check_any(clients: "Sequence[redis.Redis]", needs_durability: bool = True) -> list[str]:
    """Return the warnings of `check_server` about the servers of `clients`, of which at least one must answer.

    A server may be away, refuse the login, or have an invalid certificate. If none answers, raise the last
    `Unreachable`, because waiting may help, or else the last `ServerError`. Any other error is raised at once, unless
    another server has answered before. A warning names its servers, unless it is about all that have answered.
    """
    if len(clients) == 1:
        return check_server(clients[0], needs_durability)
    found, asked, answered = dict[str, list[str]](), set[Address](), 0
    silent, refusal = None, ServerError("no server was asked")
    for client in clients:
        address = _find_server(client)
        if address in asked or (address is None and answered):
            continue
        asked |= {address} if address else set()
        try:
            warnings = check_server(client, needs_durability)
        except Unreachable as error:
            silent = error
        except ServerError as error:
            refusal = error
            # If the address is unknown, all nodes have refused the login.
            if not answered and not (address and _is_of_this_master(error)):
                raise
        else:
            answered += 1
            for warning in warnings:
                found.setdefault(warning, []).append(f"{address[0]}:{address[1]}" if address else "")
    if not answered:
        raise silent or refusal
    return [text if len(places) == answered else f"{', '.join(places)}: {text}" for text, places in found.items()]


def _find_server(client: "redis.Redis") -> Address | None:
    """Return the address of the master that a client of a cluster uses; None without a cluster, or if nobody knows."""
    router: Router | None = client.connection_pool.connection_kwargs.get("router")
    with suppress(RedisError, OSError):
        return router.recall() if router else None
    return None


def _is_of_this_master(error: ServerError) -> bool:
    """Tell whether an error may be that of one master only: its users, its certificate or its name are wrong."""
    return isinstance(error.__context__, redis.AuthenticationError) or _is_wrong_address(error.__context__)


def _is_wrong_address(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
            return True
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _request_info(client: "redis.Redis") -> list[Any]:
    """Return the replies to PING and to INFO of four sections, in one round trip; of a refusal, the exception."""
    sections = ("server", "memory", "persistence", "replication")
    pipeline = client.pipeline(transaction=False)
    pipeline.ping()
    for section in sections:
        pipeline.info(section)
    return pipeline.execute(raise_on_error=False)


def _check_eviction(memory: Mapping[str, Any]) -> list[str]:
    policy = memory.get("maxmemory_policy")
    if not policy or policy == "noeviction":
        return []
    return [
        f"the server's maxmemory-policy is {policy!r}: it may evict Redbike's keys, and jobs with them; "
        "set it to 'noeviction'"
    ]


def _check_role(replication: Mapping[str, Any]) -> list[str]:
    if replication.get("role") != "slave":
        return []
    master = f"{replication.get('master_host')}:{replication.get('master_port')}"
    return [f"{REPLICA} {master}: it takes no jobs; give the url of its master"]


def _check_durability(client: "redis.Redis", persistence: Mapping[str, Any]) -> list[str]:
    if persistence.get("aof_enabled", 1):
        return []
    try:
        # Sent only if needed: the server may write each refusal to its log.
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
        # An unknown server. If it lacks a command, the scripts will fail.
        return
    name = "valkey" if "valkey_version" in info else "redis"
    version = str(info[f"{name}_version"])
    numbers = re.match(r"v?(\d+)(?:\.(\d+))?", version, re.ASCII)
    # A version without numbers, such as "unstable", may be any version.
    if numbers and (int(numbers[1]), int(numbers[2] or 0)) < OLDEST[name]:
        oldest = ".".join(map(str, OLDEST[name]))
        raise ServerError(f"the server is {name} {version}: Redbike needs {name} {oldest} or later")


def describe_address(client: "redis.Redis") -> str:
    """Return where the server is, without a password."""
    pool = client.connection_pool
    place = pool.connection_kwargs
    if "router" in place:
        return "the cluster"
    if isinstance(pool, SentinelConnectionPool):
        return "the master that the Sentinels name"
    return str(place.get("path") or f"{place.get('host', 'localhost')}:{place.get('port', 6379)}")


def _hint_at_tls(client: "redis.Redis", message: str) -> str:
    """Return a hint if TLS is off and the server hung up: it probably expects TLS."""
    scheme = TLS_SCHEMES.get(client.connection_pool.connection_class)
    has_hung_up = any(words in message for words in ("closed by server", "closed connection", "reset by peer"))
    return f" If it speaks TLS, the url begins with {scheme}://" if scheme and has_hung_up else ""
