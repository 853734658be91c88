"""The number of jobs in each shard, and its server."""

import time
from dataclasses import dataclass
from typing import Any

import redis

from redbike.connection.check import describe_address
from redbike.connection.client import is_in_cluster
from redbike.connection.refusals import translate_errors
from redbike.errors import RedbikeError
from redbike.store.store import Store


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard at one instant. If it does not answer, all numbers are None."""

    shard: int
    prefix: str  # of its keys
    server: str  # the address of its master; "" if it is not known
    jobs: int | None = None
    waiting: int | None = None
    in_flight: int | None = None
    lag: float | None = None  # seconds since the due time of the oldest job that is not in its queue yet
    took: float | None = None  # seconds until it answered
    problem: str = ""  # why it does not answer


def list_shards(store: Store) -> list[ShardState]:
    """Return the shards of a prefix, also those that do not answer."""
    return [_read(number, shard) for number, shard in enumerate(store.shards)]


def _read(number: int, shard: Store) -> ShardState:
    server = ""
    try:
        server, began = _find_master(shard.client), time.monotonic()
        total = shard.totals.read()
        took = time.monotonic() - began
        queues = shard.depths.list_all(with_rates=False)
    except RedbikeError as error:
        return ShardState(number, shard.keys.prefix, server, problem=str(error))
    return ShardState(
        number,
        shard.keys.prefix,
        server,
        total.jobs,
        sum(queue.waiting for queue in queues),
        sum(queue.in_flight for queue in queues),
        0.0 if total.first_due is None else max(0.0, total.now - total.first_due),
        took,
    )


def _find_master(client: "redis.Redis") -> str:
    """Return the address of the server that has a shard."""
    if not is_in_cluster(client):
        return describe_address(client)
    router: Any = client.connection_pool.connection_kwargs["router"]
    with translate_errors():
        host, port = router.find()
    return f"{host}:{port}"
