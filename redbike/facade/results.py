"""Results that do the work while the caller reads them. If they are dropped unread, a warning says so.

For `AsyncResults`, a thread reads one page at a time, so that memory is bounded. The event loop waits for the page.
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
    """The results of a call that does its work while they are read, such as `Redbike.set_many`.

    Read them to the end, or call `close` to skip the rest. If they are dropped before, a line of log and a
    `RuntimeWarning` say so, as for a coroutine that nobody awaits. The warning names `call`.
    """

    def __init__(self, call: str, results: Iterator[T]) -> None:
        self._call = call
        self._results = results
        self.number = 0  # of results that the caller has read
        self._has_begun = False
        self._is_over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        self._has_begun = True
        try:
            result = next(self._results)
        except BaseException:
            # The end, or an error that the caller gets.
            self._is_over = True
            raise
        self.number += 1
        return result

    def close(self) -> None:
        """Skip the rest: its work is not done."""
        self._is_over = True
        close = getattr(self._results, "close", None)
        if close is not None:
            close()

    def __del__(self) -> None:
        if self._is_over:
            return
        if self._has_begun:
            # A call that works in batches has done more than the caller has read.
            results = f"{self.number:,} result{'' if self.number == 1 else 's'}"
            text = f"{self._call} was dropped after {results}: later batches were not done"
        else:
            text = f"{self._call} was never read: nothing was done"
        log.warning("%s; read its results to the end, as with list()", text)
        warnings.warn(text, RuntimeWarning, stacklevel=2, source=self)


def run_in_thread(function: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Run `function` in a new thread; return the future of its result. The thread does not keep the process alive."""
    return run_by(partial(start_thread, name), function, name)


def start_thread(name: str, run: Callable[[], None]) -> None:
    """Run `run` in a new thread. The thread does not keep the process alive."""
    threading.Thread(target=run, name=name, daemon=True).start()


def run_by(start: Callable[[Callable[..., None]], object], function: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Let `start` run `function` in some thread; return the future of its result.

    `start` gets one callable. It calls this in a thread; or with an error, if no thread can run it any more.

    The end of the event loop does not cancel the call. If the call fails later, the error is logged with `name`, unless
    the future was cancelled: then nobody waits for the result.
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
    """Run `function` in a new thread until it ends. If the task is cancelled, call `stop`, and wait for the thread.

    If the task is cancelled a second time, it ends at once; then the process does not end before the thread.
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
            # Otherwise a worker would have no time to remove its record.
            threading.Thread(target=_outlast, args=(asyncio.get_running_loop(), is_over), name=f"{name}-end").start()
            raise
        if error := done.exception():
            log.error("a loop that was cancelled has failed: %s", describe(error))
        raise


def _outlast(loop: asyncio.AbstractEventLoop, is_over: threading.Event) -> None:
    """Wait until `is_over`. If the event loop is closed, do not wait for coroutines of jobs that it has left."""
    while not is_over.wait(LOOK_AGAIN):
        if loop.is_closed() and asyncio.all_tasks(loop):
            return


class Page(NamedTuple):
    """Some results, and what follows them: more results, the end, or an error."""

    results: list[Any]
    is_last: bool
    error: BaseException | None


class Reader(Generic[T]):
    """Reads the results of the iterator that `begin` returns in threads, one page of up to `size` after the other."""

    def __init__(self, begin: Callable[[Any], Iterator[T]], size: int = PAGE) -> None:
        self.is_over = False  # no more results are wanted
        self.number = 0  # of results that the caller has read
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
        """Wait until the current page is read, and read no more."""
        self.is_over = True
        with self._reading:
            self.drop()

    def drop(self) -> None:
        """Drop the results. If this leaves work undone, `Results` warn of it."""
        if isinstance(self._source, Results):
            self._source.number = self.number
        self._source = None

    def close(self) -> None:
        """Skip the rest on purpose, without a warning."""
        close = getattr(self._source, "close", None)
        if close is not None:
            close()
        self._source = None


class AsyncResults(AsyncIterator[T], Generic[T]):
    """The results of a call, for ``async for``. If a task is cancelled while it waits for a result, no result is lost.

    Leaving the loop before its end ends the reading, and so does `aclose`. A call that does its work while it is read,
    such as ``set_many``, warns if a loop leaves work undone, see `redbike.Results`.
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
        """Skip the rest: its work is not done. Wait for the page that is read now."""
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
                # In a thread, as closing an iterator that is not read to its end may call the server.
                self._discard(self._reader.drop)
