"""Routes: how a request reaches the shard of its job, the shards of its jobs, or all shards.

A route is a function of the shards, of a function that asks one shard, and of the arguments. It returns what a single
store with all jobs would return.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from redbike.connection.cluster import get_known_server
from redbike.errors import Unreachable
from redbike.store.namespace import PAGE, split
from redbike.store.sharded.missing import ask_each, describe_silent, note_missing, pass_over

if TYPE_CHECKING:
    from redbike.store.store import Store

T = TypeVar("T")
Ask = Callable[["Store"], Callable[..., Any]]  # the method of a shard
Given = tuple[Any, ...]  # the arguments
Named = dict[str, Any]
Route = Callable[["Shards", Ask, Given, Named], Any]
Merge = Callable[[Iterable[Any]], Any]
_HAVE = ("has", "have")
TURN = 0.05  # seconds that a request to a shard waits at most for requests to other shards of its master


class Shards(Sequence["Store"]):
    """The stores of all shards, in their order.

    `find` returns the number of the shard of a job. `note` notes in Redis how many shards there are, before a change.
    """

    def __init__(self, stores: Sequence["Store"], find: Callable[[str], int], note: Callable[[], None]) -> None:
        self._stores, self.find, self.note = stores, find, note

    def __getitem__(self, number: Any) -> Any:
        return self._stores[number]

    def __len__(self) -> int:
        return len(self._stores)

    def of(self, jobid: str) -> "Store":
        """Return the shard of a job."""
        return self._stores[self.find(jobid)]

    def group(self, items: Iterable[Any], get_jobid: Callable[[Any], str]) -> dict[int, list[int]]:
        """Return by shard number the positions of the items whose jobs live there."""
        found: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            found.setdefault(self.find(get_jobid(item)), []).append(place)
        return found

    def divide(self, items: Sequence[T], get_jobid: Callable[[T], str]) -> list[tuple["Store", list[T]]]:
        """Return each shard with those of the items whose jobs live there, in their order."""
        return [(self[shard], [items[each] for each in own]) for shard, own in self.group(items, get_jobid).items()]


def same(item: Any) -> Any:
    """Return `item`, which is the id of a job already."""
    return item


def by_job(get_jobid: Callable[[Any], str] = same) -> Route:
    """Ask the shard of the job that the first argument is, or is about."""

    def route(shards: Shards, ask: Ask, given: Given, named: Named) -> Any:
        return ask(shards.of(get_jobid(given[0])))(*given, **named)

    return route


def by_jobs(get_jobid: Callable[[Any], str] = same) -> Route:
    """Ask the shards of several jobs; return an answer for each job, in the order of the jobs."""

    def route(shards: Shards, ask: Ask, given: Given, named: Named) -> list[Any]:
        items = list(given[0])
        answers: list[Any] = [None] * len(items)
        for shard, places in shards.group(items, get_jobid).items():
            own = [items[each] for each in places]
            found = ask(shards[shard])(own, *given[1:], **named)
            for each, answer in zip(places, found, strict=True):
                answers[each] = answer
        return answers

    return route


def merged(merge: Merge, get_jobid: Callable[[Any], str] = same) -> Route:
    """Ask the shards of several jobs, and merge what they answer."""

    def route(shards: Shards, ask: Ask, given: Given, named: Named) -> Any:
        items = given[0] if isinstance(given[0], Mapping) else list(given[0])
        order = list(items)
        return merge(
            ask(shard)(_pick(items, own), *given[1:], **named) for shard, own in shards.divide(order, get_jobid)
        )

    return route


def _pick(items: Any, chosen: list[Any]) -> Any:
    return {each: items[each] for each in chosen} if isinstance(items, Mapping) else chosen


def everywhere(merge: Merge) -> Route:
    """Ask all shards, one after the other, and merge what they answer."""

    def route(shards: Shards, ask: Ask, given: Given, named: Named) -> Any:
        return merge(ask_each(shards, lambda shard: ask(shard)(*given, **named)))

    return route


def any_one() -> Route:
    """Ask the first shard that answers."""

    def route(shards: Shards, ask: Ask, given: Given, named: Named) -> Any:
        *others, last = shards
        for shard in others:
            with suppress(Unreachable):
                return ask(shard)(*given, **named)
        return ask(last)(*given, **named)

    return route


def reachable(merge: Merge) -> Route:
    """Ask all shards at the same time, and merge the answers of those that answer. Raise `Unreachable` if none does.

    So a shard that does not answer delays no other one.
    """

    def route(shards: Shards, ask: Ask, given: Given, named: Named) -> Any:
        found = try_each(shards, lambda shard: ask(shard)(*given, **named))
        answers = [each for each in found if not isinstance(each, Unreachable)]
        if not answers:
            raise found[0]
        return merge(answers)

    return route


def try_each(shards: Sequence["Store"], ask: Callable[["Store"], T]) -> list[T | Unreachable]:
    """Ask shards at the same time; return for each its answer, or the error that names it if it does not answer.

    Shards of one master take turns, over one connection, as long as the master answers quickly.
    """
    by_server = defaultdict[Any, Lock](Lock)
    turns = [by_server[get_known_server(shard.client)] for shard in shards]

    def try_one(shard: "Store", turn: Lock) -> T | Unreachable:
        try:
            with _take_turn(turn):
                return ask(shard)
        except Unreachable as error:
            return describe_silent(shard, error)

    with ThreadPoolExecutor(len(shards), thread_name_prefix="redbike-shards") as threads:
        return list(threads.map(try_one, shards, turns))


@contextmanager
def _take_turn(turn: Lock) -> Iterator[None]:
    """Run the block after others with the same lock, but wait for them `TURN` seconds at most."""
    is_ours = turn.acquire(timeout=TURN)
    try:
        yield
    finally:
        if is_ours:
            turn.release()


def tell_all(merge: Merge) -> Route:
    """Send a change to all shards, and merge the answers. Raise `Unreachable` at the end for those that are away.

    The caller then repeats the same call; the shards that have the change keep it. Only the first shard that changes
    notes it in its log: it is one change.
    """

    def route(shards: Shards, ask: Ask, given: Given, named: Named) -> Any:
        answers, silent, is_noted = [], dict[str, Unreachable](), False
        for shard in shards:
            try:
                answer = ask(shard.noted_as(None) if is_noted else shard)(*given, **named)
            except Unreachable as error:
                silent[shard.keys.prefix] = error
            else:
                is_noted = is_noted or answer is None or bool(answer)
                answers.append(answer)
        if silent:
            names, problem = ", ".join(silent), str(next(iter(silent.values()))).rpartition("missing: ")[2]
            raise Unreachable(f"{names} {_HAVE[len(silent) > 1]} not heard of it, all others have: {problem}")
        return merge(answers)

    return route


def streamed(name: str | None = None, place: int = 0, get_jobid: Callable[[Any], str] = same) -> Route:
    """Yield the items of all shards, one after the other; or, if jobs are given, their items in the order of the jobs.

    The jobs are the argument at position `place`, or with this `name`. `get_jobid` finds the job of an item. The error
    of a missing shard comes after the items of all others, but at once if jobs are given.
    """

    def route(shards: Shards, ask: Ask, given: Given, named: Named) -> Iterator[Any]:
        jobids = named.get(name, given[place] if len(given) > place else None) if name else None
        if jobids is None:
            return chain_all(shards, lambda shard: ask(shard)(*given, **named))
        return _pages(shards, ask, given, named, iter(jobids))

    def _pages(shards: Shards, ask: Ask, given: Given, named: Named, jobids: Iterator[str]) -> Iterator[Any]:
        for page in split(jobids, PAGE):
            found: dict[str, list[Any]] = {}
            for shard, own in shards.divide(page, same):
                try:
                    if name in named:
                        told = ask(shard)(*given, **(named | {name: own}))
                    else:
                        told = ask(shard)(*given[:place], own, *given[place + 1 :], **named)
                    for each in told:
                        found.setdefault(get_jobid(each), []).append(each)
                except Unreachable as error:
                    pass_over(shard, error)
            yield from chain.from_iterable(found.pop(jobid, ()) for jobid in page)

    return route


def listed(route: Route) -> Route:
    """Return a route that returns in a list what `route` yields."""
    return lambda shards, ask, given, named: list(route(shards, ask, given, named))


def chain_all(shards: Sequence["Store"], tell: Callable[["Store"], Iterable[Any]]) -> Iterator[Any]:
    """Yield the items of all shards, one after the other; then raise the error of the first missing one."""
    silent = dict[str, Unreachable]()
    for shard in shards:
        try:
            yield from tell(shard)
        except Unreachable as error:
            silent[shard.keys.prefix] = describe_silent(shard, error)
    if len(silent) == len(shards):
        raise next(iter(silent.values()))
    note_missing(silent)


def first(answers: Iterable[Any]) -> Any:
    """Return the first answer."""
    return next(iter(answers))


def concat(answers: Iterable[Iterable[Any]]) -> list[Any]:
    """Return all answers in one list."""
    return list(chain.from_iterable(answers))


def union(answers: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    """Return all answers in one mapping."""
    return dict(chain.from_iterable(each.items() for each in answers))


def add(answers: Iterable[Any]) -> Any:
    """Return the sum of numbers or of counters."""
    total, *others = answers
    for each in others:
        total = total + each
    return total


def nothing(answers: Iterable[Any]) -> None:
    """Wait for the answers of all shards, and return None."""
    for _ in answers:
        pass
