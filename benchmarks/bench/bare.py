"""Raw Redis as a contender: lists alone, by redis-py, without any guarantee."""

import os
from collections.abc import Iterable
from itertools import islice
from typing import Any

import redis

from bench.record import ran

PACKAGES = ("redis",)
SETTINGS = "LPUSH, BRPOP"
CHUNK = 500

_client: "redis.Redis | None" = None


def client() -> "redis.Redis":
    """One for the server of this measurement."""
    global _client
    if _client is None:
        _client = redis.Redis.from_url(os.environ["BENCH_URL"])
    return _client


def enqueue(number: int) -> None:
    client().lpush("jobs", number)


def enqueue_many(numbers: Iterable[int]) -> None:
    left = iter(numbers)
    while chunk := list(islice(left, CHUNK)):
        pipeline = client().pipeline(transaction=False)
        for number in chunk:
            pipeline.lpush("jobs", number)
        pipeline.execute()


def work() -> None:
    while True:
        popped: Any = client().brpop(["jobs"])
        ran(int(popped[1]))
