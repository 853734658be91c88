"""Make methods of `AsyncRedbike` from those of `Redbike`."""

import inspect
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from redbike.facade.results import AsyncResults, Reader

P = ParamSpec("P")
T = TypeVar("T")


def awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the method of `AsyncRedbike` that runs `method` of `Redbike` in a thread."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self._call(lambda bike: method(bike, *args, **kwargs))
        return result

    return call


def paged(
    method: Callable[Concatenate[Any, P], Iterator[T]], must_be_read: bool = False
) -> Callable[Concatenate[Any, P], AsyncResults[T]]:
    """Return the method of `AsyncRedbike` that reads the results of `method` in a thread, a page at a time."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> AsyncResults[T]:
        name = f"{method.__name__}()" if must_be_read else None
        return AsyncResults(self._call, self._discard, Reader(lambda bike: method(bike, *args, **kwargs)), name)

    # `wraps` has copied the return type of `method`, too. Documentation and editors read the new one here.
    signature = inspect.signature(method)
    results: Any = AsyncResults
    returned = results[get_args(signature.return_annotation)]
    call.__annotations__ = {**method.__annotations__, "return": returned}
    vars(call)["__signature__"] = signature.replace(return_annotation=returned)
    return call
