"""The keys of the other prefixes on a server, such as ``app-x`` beside ``app``."""

import re
from collections.abc import Iterable, Iterator

import redis

from redbike.store.keys import MARKS, Keys
from redbike.store.records import decode

_SHARD = re.compile(r"\{.+:\d\d+\}/\d+")  # as `redbike.store.sharded.places` names shards


def is_shard(prefix: str) -> bool:
    """Tell whether it is the prefix of one of several shards."""
    return _SHARD.fullmatch(prefix) is not None


def list_keys(keys: Keys, queues: Iterable[str]) -> Iterator[str]:
    """Yield all keys of a prefix with these queues, except in-flight keys."""
    yield from keys.list_fixed()
    for name in queues:
        yield from keys.of_queue(name)


def read_queues(client: "redis.Redis", prefix: str) -> set[str] | None:
    """Return the queues that were ever used; None if the key is another program's, or this user may not read it."""
    try:
        return set(map(decode, client.smembers(Keys(prefix).queues)))
    except redis.ResponseError as error:
        if isinstance(error, redis.exceptions.NoPermissionError) or str(error).startswith("WRONGTYPE"):
            return None
        raise


def list_prefixes(client: "redis.Redis", found: Iterable[str]) -> list[str]:
    """Return the prefixes that have jobs or workers, by their keys among `found`."""
    # The key of a queue may have such a name, but another type.
    marks = [key for key in found if key.endswith(MARKS) and decode(client.type(key)) == "hash"]
    return sorted({mark.rpartition("-")[0] for mark in marks})


def list_inflight(client: "redis.Redis", keys: Keys, found: Iterable[str]) -> list[str]:
    """Return those of the keys that are in-flight keys. All keys of a prefix app-inflight look like those of app."""
    flying = [key for key in found if key.startswith(keys.inflight_base)]
    for other in map(Keys, list_prefixes(client, flying)):
        its = set(list_keys(other, read_queues(client, other.prefix) or ()))
        flying = [key for key in flying if key not in its and not key.startswith(other.inflight_base)]
    return flying
