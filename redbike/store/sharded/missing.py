"""Whether a reader goes on without the shards that do not answer, and which shards these are."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from redbike.errors import LoginRefused, Unreachable

if TYPE_CHECKING:
    from redbike.store.history import PastRun
    from redbike.store.log import LogEntry
    from redbike.store.store import Store

T = TypeVar("T")
_NAMED = re.compile(r"the shard \{.+?\}\S*(?: is missing)?: ")
_missing: ContextVar[dict[str, Unreachable] | None] = ContextVar("redbike_missing_shards", default=None)


@contextmanager
def tolerate_missing() -> Iterator[dict[str, Unreachable]]:
    """Let lists and sums over all shards leave out shards that do not answer. Yield their errors, by prefix.

    This holds for the thread of the caller. A question about one job of such a shard still raises `Unreachable`, and so
    does a question that no shard answers.
    """
    found = dict[str, Unreachable]()
    token = _missing.set(found)
    try:
        yield found
    finally:
        _missing.reset(token)


def note_missing(found: Mapping[str, Unreachable]) -> None:
    """Note that something was read without these shards. Raise `Unreachable` if the caller does not tolerate that."""
    missing = _missing.get()
    if missing is not None:
        missing.update(found)
    elif found:
        raise next(iter(found.values()))


def list_missing() -> list[Unreachable]:
    """Return the errors of the shards that the caller has gone on without so far."""
    return list((_missing.get() or {}).values())


def is_tolerated() -> bool:
    """Tell whether the caller goes on without shards that do not answer."""
    return _missing.get() is not None


def ask_each(shards: Iterable["Store"], ask: Callable[["Store"], T]) -> Iterator[T]:
    """Yield the answers of shards, one after the other. Leave out missing shards if the caller tolerates that.

    If it does not, or if no shard answers, raise `Unreachable`.
    """
    silent, is_any = list[Unreachable](), False
    for shard in shards:
        try:
            answer = ask(shard)
        except Unreachable as error:
            silent.append(pass_over(shard, error))
        else:
            is_any = True
            yield _pass_over_rest(shard, answer) if isinstance(answer, Iterator) else answer
    if silent and not is_any:
        raise silent[0]


def pass_over(shard: "Store", error: Unreachable) -> Unreachable:
    """Note that a shard is missing, and return the error that names it. Raise it if none may be missing."""
    named = describe_silent(shard, error)
    note_missing({shard.keys.prefix: named})
    return named


def _pass_over_rest(shard: "Store", stream: Any) -> Any:
    try:
        yield from stream
    except Unreachable as error:
        pass_over(shard, error)


def describe_silent(shard: "Store", error: Unreachable) -> Unreachable:
    """Return an error that names the shard which does not answer."""
    if _NAMED.match(str(error)):  # it names a shard already, maybe another one that this one needs
        return error
    if isinstance(error, LoginRefused):  # the server answers, but refuses the login
        return LoginRefused(f"the shard {shard.keys.prefix}: {error}")
    return Unreachable(f"the shard {shard.keys.prefix} is missing: {error}")


@contextmanager
def name_if_silent(shard: "Store") -> Iterator[None]:
    """Let an `Unreachable` of the block name this shard, if there are several shards."""
    try:
        yield
    except Unreachable as error:
        if shard.whole is shard:
            raise
        raise describe_silent(shard, error) from error


@contextmanager
def name_around(shard: "Store", block: AbstractContextManager[T]) -> Iterator[T]:
    """Let errors of a shard name it as a block begins and ends. Errors of the caller's block are not changed."""
    with name_if_silent(shard):
        given = block.__enter__()
    try:
        yield given
    except BaseException as error:
        if not block.__exit__(type(error), error, error.__traceback__):
            raise
    else:
        with name_if_silent(shard):
            block.__exit__(None, None, None)


def list_listens(store: "Store") -> list[Callable[..., "Iterator[PastRun | LogEntry]"]]:
    """Return `Events.listen` of each shard of a store: so one that is away does not silence the others."""
    if len(store.shards) == 1:
        return [store.events.listen]
    return [partial(_listen, shard) for shard in store.shards]


def _listen(shard: "Store", *given: Any, **named: Any) -> "Iterator[PastRun | LogEntry]":
    try:
        return name_silent(shard, shard.events.listen(*given, **named))
    except Unreachable as error:
        raise describe_silent(shard, error) from error


def name_silent(shard: "Store", stream: Iterator[Any]) -> Iterator[Any]:
    """Yield what the `stream` of a shard yields. If the shard stops answering, the error names it."""
    try:
        yield from stream
    except Unreachable as error:
        raise describe_silent(shard, error) from error
