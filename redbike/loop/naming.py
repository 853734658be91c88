"""Name the queue of a job: the one in which the workers of its prefix look for it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import redis

from redbike.config.settings import Settings
from redbike.connection.client import aim_at_each
from redbike.errors import BadQueueName
from redbike.loop.worker_class import RoundRobin
from redbike.store.agreed import FUNCTIONS, STOCK, Naming, make_reader
from redbike.store.agreement import Agreement
from redbike.store.keys import Keys
from redbike.store.sharded.places import name_shards
from redbike.store.sharded.store import ShardedStore
from redbike.store.shell import QUEUE, TAKER, is_of_shell
from redbike.store.store import Store
from redbike.text.printable import name_some

MOST_SHOWN = 20  # functions, in a message
_STOCK = RoundRobin("A")


class NoWorker(RoundRobin):
    """Stands for the worker of a command that has none. Queues are named by what Redis knows.

    `why` says why only Redis can name them. Without it, stock workers are assumed where Redis knows nothing.
    """

    def __init__(self, why: str = "") -> None:
        super().__init__("A")
        self.why = why


def open_store(client: "redis.Redis", settings: Settings, worker: Any) -> Store:
    """Return the store of the prefix in `settings`, for a program that has `worker`."""
    if settings.shards == 1:
        return _open_one(client, settings, worker)
    prefixes = name_shards(settings.prefix, settings.shards)
    pairs = zip(aim_at_each(client, prefixes), prefixes, strict=True)
    stores = [_open_one(each, replace(settings, prefix=prefix), worker) for each, prefix in pairs]
    return ShardedStore(stores, Agreement(client, settings.prefix, stores))


def _open_one(client: "redis.Redis", settings: Settings, worker: Any) -> Store:
    namer = QueueNamer(worker, make_reader(client, Keys(settings.prefix)))
    kept = settings.failures_limit, settings.history, settings.forget_after
    return Store(client, settings.prefix, namer, *kept, expires=settings.expires, host=settings.host or "")


def describe_naming(worker: Any) -> Naming:
    """Return how `worker` names queues."""
    if functions := _get_functions(worker):
        return Naming(frozenset([FUNCTIONS]), functions())
    kind, commands = type(worker), frozenset(worker.name_commands() if knows_commands(worker) else ())
    is_stock = all(getattr(kind, name, None) is getattr(RoundRobin, name) for name in ("queue_for", "name_queue"))
    if is_stock and not {"queue_for", "name_queue"} & getattr(worker, "__dict__", {}).keys():
        return Naming(frozenset([STOCK]), commands=commands)
    return Naming(frozenset([f"{kind.__module__}:{kind.__qualname__}"]), commands=commands)


def list_taken(worker: Any) -> frozenset[str] | None:
    """Return what `worker` has functions or commands for; None if it may take any job."""
    if knows_functions(worker):
        return frozenset(worker.name_functions())
    if not knows_commands(worker):
        return None
    return frozenset([*worker.name_commands(), *[TAKER] * bool(getattr(worker, "takes_shell_jobs", False))])


def describe_commands(worker: Any) -> Mapping[str, str]:
    """Return what people may see of the command lines of `worker`, by name."""
    describe: Callable[[], Mapping[str, str]] = getattr(worker, "describe_commands", dict)
    return describe()


def knows_commands(worker: Any) -> bool:
    """Tell whether `worker` says for which jobs it has a command, and does no other ones."""
    return _names_what_it_does(worker, "has_command")


def knows_functions(worker: Any) -> bool:
    """Tell whether `worker` says for which jobs it has a function, and does no other ones."""
    return _names_what_it_does(worker, "name_functions")


def _names_what_it_does(worker: Any, method: str) -> bool:
    """Tell whether `worker` has this method, and does only what it names: a subclass with its own `work` may not."""
    names = {method, "work"}
    first = next((kind for kind in type(worker).__mro__ if names & kind.__dict__.keys()), object)
    return method in first.__dict__


def _get_functions(worker: Any) -> Callable[[], dict[str, str]] | None:
    found: Callable[[], dict[str, str]] | None = getattr(worker, "name_functions", None)
    return found


class QueueNamer:
    """Names the queue of a job: by a function that is known for it, or a rule of `worker`, or one of running workers.

    `read` returns how these name queues. If it `refuses_unknown`, a job for which no function is known has no queue.
    """

    def __init__(self, worker: Any, read: Callable[[], Naming], refuses_unknown: bool = False) -> None:
        self._worker, self._read, self._refuses_unknown = worker, read, refuses_unknown
        self._functions = _get_functions(worker)
        self._has_rule = not (self._functions or isinstance(worker, NoWorker))

    def freeze(self) -> "QueueNamer":
        """Return a namer that uses what is known now, and reads nothing any more."""
        known = self._read()
        return QueueNamer(self._worker, lambda: known, self._refuses_unknown)

    def refuse_unknown(self) -> "QueueNamer":
        """Return a namer for jobs that are set: it refuses those for which no function is known."""
        return QueueNamer(self._worker, self._read, refuses_unknown=True)

    def __call__(self, jobid: str) -> str:
        """Return the queue of `jobid`. Raise `BadQueueName` if no function, or only a missing class, names it."""
        if is_of_shell(jobid):
            return QUEUE  # whatever a worker class says
        known = self._read()
        # What this program has counts first: a function that is noted may be of a version that nobody runs any more.
        if self._functions and self._worker.find_function(jobid) is not None:
            return self._ask(jobid)
        other = known.find_function(jobid)
        if other is not None and (name := known.functions[other]):
            return name
        if self._has_rule or (self._functions and known.rules <= {FUNCTIONS}):
            if self._functions and self._refuses_unknown and self._functions():
                raise BadQueueName(f"no queue for {jobid!r}: {_explain({*self._functions(), *known.functions})}")
            return self._ask(jobid)
        if classes := sorted(known.rules - {STOCK, FUNCTIONS}):
            raise BadQueueName(
                f"no queue for {jobid!r}: only {' and '.join(classes)} can name it; give that class as the worker, in "
                "the config file or as REDBIKE_WORKER"
            )
        if STOCK in known.rules or not (known.rules or self._why):
            return _STOCK.queue_for(jobid)
        raise BadQueueName(f"no queue for {jobid!r}: {self._why or _explain(known.functions)}")

    def _ask(self, jobid: str) -> str:
        name: str = self._worker.queue_for(jobid)  # as the class says it; the store checks that
        return name

    @property
    def _why(self) -> str:
        return getattr(self._worker, "why", "")


def _explain(functions: Iterable[str]) -> str:
    return f"no function takes it: {list_functions(sorted(functions))}"


def list_functions(ids: Iterable[str]) -> str:
    """Say for which job ids there are functions."""
    names = [*map(repr, ids)]
    return f"there are functions for {name_some(names, MOST_SHOWN)}" if names else "there is none at all"
