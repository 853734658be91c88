"""Shards on different servers, so one of them can go away, and ids of jobs that are in the shards a test needs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redbike import Redbike
from redbike.connection.client import connect
from redbike.store.agreement import Agreement
from redbike.store.sharded.places import name_shards
from redbike.store.sharded.store import ShardedStore
from redbike.store.store import QueueFor, Store
from tests.verbs import Telling

NAMES = [f"job-{number}:A" for number in range(99)]
FAILED = [f"bad-{number}:{'AB'[number % 2]}" for number in range(24)]


def divide(prefix: str, *clients: Any, queue_for: QueueFor = lambda jobid: "work-A") -> ShardedStore:
    """Return a store with one shard on the server of each of these clients."""
    places = zip(clients, name_shards(prefix, len(clients)), strict=True)
    stores = [Store(client, name, queue_for) for client, name in places]
    return ShardedStore(stores, Agreement(clients[-1], prefix, stores))


@contextmanager
def place_shard(bike: Redbike, url: str, number: int, clock: Callable[[], float] | None = None) -> Iterator[Redbike]:
    """Give `bike`, which has no jobs yet, with the shard of this number on another server."""
    with connect(url) as other:
        stores = list(bike.store.shards)
        stores[number] = Store(other, stores[number].keys.prefix, bike.worker.queue_for)
        store = ShardedStore(stores, bike.store.agreement).follow(clock)
        bike._compose(store, store.noted_as(bike._noted.who), bike.worker)
        yield bike


@contextmanager
def open_failed(prefix: str, url: str, other_url: str, number: int) -> Iterator[Redbike]:
    """Give a program with four shards, one of them on the other server. Each job of `FAILED` has had a run."""
    with (
        Redbike(Telling("A:B"), prefix, url, shards=4, on_error="reschedule", noted_as="me@here") as bike,
        place_shard(bike, other_url, number),
    ):
        for jobid in FAILED:
            bike.set(jobid, "EVERY:1h", data={"error": "no luck"})
        bike.run(*FAILED)
        while bike.work_one():
            pass
        yield bike


def name_jobs(store: Store, *shards: int, names: Sequence[str] = NAMES) -> list[str]:
    """Return a job of `names` in each of these shards, and another one where a shard comes again."""
    found = list[str]()
    for shard in shards:
        found.append(next(name for name in names if name not in found and store.number_shard(name) == shard))
    return found


def list_others(store: Store, number: int, names: Sequence[str] = FAILED) -> list[str]:
    """Return the jobs of `names` that are in other shards than this one, in the order of their ids."""
    others = [name for name in names if store.number_shard(name) != number]
    assert 0 < len(others) < len(names)
    return sorted(others)
