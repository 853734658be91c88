"""Results that a caller must read, as nothing happens otherwise: dropping them is not silent.

`AsyncResults` are read by a thread, while an event loop waits for them: a page at a time, so that memory is bounded.
"""

import asyncio
import logging
import threading
import warnings
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Generic, NamedTuple, Self, TypeVar

from redbike.text.printable import describe

log = logging.getLogger("redbike")

T = TypeVar("T")
PAGE = 200  # results that are read at once
LOOK_AGAIN = 0.1  # seconds


class Results(Iterator[T], Generic[T]):
    """The results of a call that works while they are read, such as `Redbike.set_many`.

    Read them to the end, or call `close` to leave out the rest. If they are dropped before, that is a line of log and a
    `RuntimeWarning`, as for a coroutine that nobody awaits. `call` is what the warning names.
    """

    def __init__(self, call: str, results: Iterator[T]) -> None:
        self._call = call
        self._results = results
        self.number = 0  # of those that the caller has had
        self._has_begun = False
        self._is_over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        self._has_begun = True
        try:
            result = next(self._results)
        except BaseException:
            # The end, or an error that the caller hears of.
            self._is_over = True
            raise
        self.number += 1
        return result

    def close(self) -> None:
        """Leave out the rest: it is not done."""
        self._is_over = True
        close = getattr(self._results, "close", None)
        if close is not None:
            close()

    def __del__(self) -> None:
        if self._is_over:
            return
        if self._has_begun:
            # What works a batch at a time has done more than the caller has read.
            results = f"{self.number:,} result{'' if self.number == 1 else 's'}"
            text = f"{self._call} was dropped after {results}: later batches were not done"
        else:
            text = f"{self._call} was never read: nothing was done"
        log.warning("%s; read its results to the end, as with list()", text)
        warnings.warn(text, RuntimeWarning, stacklevel=2, source=self)


def run_in_thread(function: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Run `function` in a thread of its own; return the future of its result. It does not keep the process alive."""
    return run_by(partial(start_thread, name), function, name)


def start_thread(name: str, run: Callable[[], None]) -> None:
    """Run `run` in a thread of its own. It does not keep the process alive."""
    threading.Thread(target=run, name=name, daemon=True).start()


def run_by(start: Callable[[Callable[..., None]], object], function: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Let `start` run `function` in some thread; return the future of its result.

    `start` calls with an error what it cannot run after all.

    The end of the event loop does not take the call back. If it fails later, that is logged by its `name`, unless the
    future was cancelled: then nobody waits for it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run(failure: BaseException | None = None) -> None:
        result = None
        try:
            result = function() if failure is None else None
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:  # the event loop is closed
            if failure is not None and not future.cancelled():
                log.error("%s failed after the end of the event loop: %s", name, describe(failure))

    start(run)
    return future


async def run_until_cancelled(function: Callable[[], None], stop: Callable[[], None], name: str) -> None:
    """Run `function` in a thread of its own until it ends; `stop` it when the task is cancelled, and wait for it.

    If the task is cancelled once more, it does not wait, but the end of the process does.
    """
    is_over = threading.Event()

    def run() -> None:
        try:
            function()
        finally:
            is_over.set()

    done = run_in_thread(run, name)
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        stop()
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            # Otherwise a worker would have no time to say that it is gone.
            threading.Thread(target=_outlast, args=(asyncio.get_running_loop(), is_over), name=f"{name}-end").start()
            raise
        if error := done.exception():
            log.error("a loop that was cancelled has failed: %s", describe(error))
        raise


def _outlast(loop: asyncio.AbstractEventLoop, is_over: threading.Event) -> None:
    """Wait until `is_over`, but not for coroutines of jobs that were left in an event loop which is closed."""
    while not is_over.wait(LOOK_AGAIN):
        if loop.is_closed() and asyncio.all_tasks(loop):
            return


class Page(NamedTuple):
    """Some results, and what comes behind them: more, the end, or an error."""

    results: list[Any]
    is_last: bool
    error: BaseException | None


class Reader(Generic[T]):
    """Reads the results of `begin` in threads, one page of up to `size` after the other."""

    def __init__(self, begin: Callable[[Any], Iterator[T]], size: int = PAGE) -> None:
        self.is_over = False  # nobody wants more
        self.number = 0  # of the results that were passed on
        self._begin = begin
        self._size = size
        self._source: Iterator[T] | None = None
        self._reading = threading.Lock()

    def read(self, bike: Any) -> Page:
        """Return the next page."""
        with self._reading:
            return self._read(bike)

    def _read(self, bike: Any) -> Page:
        found: list[T] = []
        error = None
        try:
            if self._source is None and not self.is_over:
                self._source = self._begin(bike)
            while len(found) < self._size and not self.is_over:
                assert self._source is not None
                found.append(next(self._source))
        except StopIteration:
            self.is_over = True
        except BaseException as problem:
            self.is_over, error = True, problem
        is_last = self.is_over
        if is_last:
            self.drop()
        return Page(found, is_last, error)

    def end(self) -> None:
        """Wait until nothing is read any more; then nothing will be."""
        self.is_over = True
        with self._reading:
            self.drop()

    def drop(self) -> None:
        """Forget the results. If something is left undone that way, they say so themselves."""
        if isinstance(self._source, Results):
            self._source.number = self.number
        self._source = None

    def close(self) -> None:
        """Leave out the rest on purpose."""
        close = getattr(self._source, "close", None)
        if close is not None:
            close()
        self._source = None


class AsyncResults(AsyncIterator[T], Generic[T]):
    """The results of a call, for ``async for``. A task that is cancelled while it waits for one loses none.

    Leaving a loop half-way ends the reading, and so does `aclose`. What works while it is read, such as ``set_many``,
    warns if that leaves something undone, see `redbike.Results`.
    """

    def __init__(
        self,
        call: Callable[[Callable[[Any], Page]], Awaitable[Page]],
        discard: Callable[[Callable[[], None]], None],
        reader: Reader[T],
        must_be_read: str | None = None,
    ) -> None:
        self._call = call
        self._discard = discard
        self._reader = reader
        self._unread = Results(must_be_read, iter(())) if must_be_read else None
        self._ready: deque[T] = deque()
        self._error: BaseException | None = None
        self._is_over = False
        self._pull: asyncio.Future[Page] | None = None  # the page that a thread reads now

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._ready:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._is_over:
                raise StopAsyncIteration
            await self._read_page()
        self._reader.number += 1
        return self._ready.popleft()

    async def _read_page(self) -> None:
        if self._unread is not None:
            self._unread.close()
        if self._pull is None:
            self._pull = asyncio.ensure_future(self._call(self._reader.read))
        pull = self._pull
        try:
            page = await asyncio.shield(pull)
        except BaseException:
            if pull.done() and self._pull is pull:
                self._pull, self._is_over = None, True
            raise
        if self._pull is pull:  # else another task has had this page
            self._pull, self._is_over, self._error = None, page.is_last, page.error
            self._ready.extend(page.results)

    async def aclose(self) -> None:
        """Leave out the rest: it is not done."""
        self._reader.is_over = self._is_over = True
        self._ready.clear()
        self._error = None
        if self._unread is not None:
            self._unread.close()
        if self._pull is not None:
            await asyncio.wait([self._pull])
        self._discard(self._reader.close)

    def __del__(self) -> None:
        if not self._is_over:
            self._reader.is_over = True
            if self._pull is None or self._pull.done():
                # In a thread, as closing what is half read may ask the server.
                self._discard(self._reader.drop)
