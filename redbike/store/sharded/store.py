"""A store of many shards that answers as one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from typing import Any

from redbike.errors import Unreachable
from redbike.store.agreement import Agreement
from redbike.store.scripts import Call, Reply
from redbike.store.sharded.merging import find_shard_of
from redbike.store.sharded.methods import TABLE
from redbike.store.sharded.missing import describe_silent, name_if_silent, name_silent
from redbike.store.sharded.pipeline import SharedPipeline
from redbike.store.sharded.places import find_shard
from redbike.store.sharded.routes import Shards
from redbike.store.store import QueueFor, Store


class ShardedStore(Store):
    """The jobs of several stores. A job is in the one that `redbike.store.sharded.places` names."""

    def __init__(self, stores: Sequence[Store], agreement: Agreement) -> None:
        self._agreement, self._first = agreement, stores[0]
        self._shards = Shards(stores, partial(find_shard, number=len(stores)), agreement.note)
        for store in stores:
            store.join(self)
            store.scripts.pipeline_class = SharedPipeline
        self.client, self.keys = stores[0].client, stores[0].keys
        self.scripts: Any = ShardedScripts(self.shards)
        for part in TABLE:
            setattr(self, part, Routed(self.shards, part))

    @property
    def agreement(self) -> Agreement:
        """The agreement on the number of shards."""
        return self._agreement

    @property
    def whole(self) -> Store:
        """This store."""
        return self

    @property
    def shards(self) -> Shards:
        """The stores of all shards."""
        return self._shards

    def find_shard(self, jobid: str) -> Store:
        """Return the store in which a job is."""
        return self.shards.of(jobid)

    def number_shard(self, jobid: str) -> int:
        """Return the number of the shard of a job: its position in `shards`."""
        return self._shards.find(jobid)

    def follow(self, clock: Callable[[], float] | None) -> "Store":
        """Return this store with a clock of its own, for tests; None for the servers'. It shares the connections."""
        return ShardedStore([shard.follow(clock) for shard in self.shards], self._agreement)

    @property
    def stopped_at(self) -> float | None:
        """The instant at which the clock of this store is stopped; None if it is the servers' own."""
        return self._first.stopped_at

    def noted_as(self, who: str | None) -> "Store":
        """Return this store, whose changes are noted in the log as those of `who`; None for no notes."""
        return ShardedStore([shard.noted_as(who) for shard in self.shards], self._agreement)

    @property
    def who(self) -> str | None:
        """The name under which changes of this store are noted; None if they are not noted."""
        return self._first.who

    @contextmanager
    def hold_connection(self) -> Iterator["Store"]:
        """Yield this store with one connection to each shard, for scans; see `Store.hold_connection`."""
        with ExitStack() as stack:
            stores = [stack.enter_context(shard.hold_connection()) for shard in self.shards]
            yield ShardedStore(stores, self._agreement)

    @contextmanager
    def connect_anew(self) -> Iterator["Store"]:
        """Yield this store with connections of its own; see `Store.connect_anew`."""
        with ExitStack() as stack:
            stores = [stack.enter_context(shard.connect_anew()) for shard in self.shards]
            yield ShardedStore(stores, self._agreement)

    def scan(self, key: str, page: int = 500) -> Iterator[tuple[str, str]]:
        """Yield the fields of a hash of all shards, by its key in the first one."""
        for shard in self.shards:
            yield from shard.scan(key.replace(self.keys.prefix, shard.keys.prefix, 1), page)

    def queue_for(self, jobid: str) -> str:
        """Return the queue of `jobid`, see `Store.queue_for`."""
        return self.shards.of(jobid).queue_for(jobid)

    def name_queue(self, jobid: str) -> str:
        """Return the queue of the next run of a job; "" if nobody knows."""
        return self.shards.of(jobid).name_queue(jobid)

    def queue_to_set(self, jobid: str) -> str:
        """Return the queue of `jobid`, which is to be set, see `Store.queue_to_set`."""
        return self.shards.of(jobid).queue_to_set(jobid)

    def freeze_queues(self) -> QueueFor:
        """Return a function like `queue_to_set` that reads what each shard knows only once."""
        frozen = lru_cache(None)(lambda number: self._shards[number].freeze_queues())
        return lambda jobid: frozen(self._shards.find(jobid))(jobid)


class Routed:
    """One part of a store, such as `Store.jobs`, for all shards; see `redbike.store.sharded.methods`."""

    def __init__(self, shards: Shards, part: str) -> None:
        self._shards, self._part = shards, part

    def __getattr__(self, name: str) -> Callable[..., Any]:
        routes = TABLE[self._part]
        if name not in routes:
            raise AttributeError(f"{self._part}.{name} is for one shard")
        route = routes[name]

        def ask(shard: Store) -> Callable[..., Any]:
            method: Callable[..., Any] = getattr(getattr(shard, self._part), name)

            def call(*given: Any, **named: Any) -> Any:
                try:
                    found = method(*given, **named)
                except Unreachable as error:
                    raise describe_silent(shard, error) from error
                return name_silent(shard, found) if isinstance(found, Iterator) else found

            return call

        return lambda *given, **named: route(self._shards, ask, given, named)


class ShardedScripts:
    """Runs scripts, each in the shard whose keys it has."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    @property
    def is_stopping(self) -> Callable[[], bool]:
        """The function that tells whether the loop that runs the scripts is to stop."""
        found: Callable[[], bool] = self._shards[0].scripts.is_stopping
        return found

    @is_stopping.setter
    def is_stopping(self, tell: Callable[[], bool]) -> None:
        for shard in self._shards:
            shard.scripts.is_stopping = tell

    def run(self, call: Call) -> Reply:
        """Run one script, see `redbike.store.scripts.Scripts.run`."""
        return self.run_all([call])[0]

    def run_all(self, calls: Any) -> list[Reply]:
        """Run several scripts, in one round trip to each shard."""
        listed = list(calls)
        groups: dict[int, list[int]] = {}
        for place, call in enumerate(listed):
            groups.setdefault(find_shard_of(self._shards, call), []).append(place)
        replies: list[Any] = [None] * len(listed)
        for shard, places in groups.items():
            with name_if_silent(self._shards[shard]):
                found = self._shards[shard].scripts.run_all([listed[each] for each in places])
            for place, reply in zip(places, found, strict=True):
                replies[place] = reply
        return replies

    def close(self) -> None:
        """Release the connections that are kept for the next scripts."""
        for shard in self._shards:
            shard.scripts.close()

    def drop_idle_connections(self) -> None:
        """Close the connections that nobody uses."""
        for shard in self._shards:
            shard.scripts.drop_idle_connections()
