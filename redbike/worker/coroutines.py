"""Runs coroutines to their end, from any thread, in an event loop of its own.

A coroutine may end its event loop: it may stop it, or call ``sys.exit()`` in a task. Then all coroutines in that loop
have failed, and the next one gets a new loop.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Coroutine, Hashable, Iterator
from concurrent.futures import Future, wait
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from redbike.errors import Overrun, RedbikeError
from redbike.process.leaving import leave_fork
from redbike.text.printable import describe

LAST_WORDS = 5.0  # seconds for the tasks of a loop that has ended

Ending = tuple[Any, BaseException | None]  # what a coroutine returned, or raised


class Coroutines:
    """Runs coroutines in `loop`, or else in a thread, which starts with the first one."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._given = loop
        self._loop: _Loop | None = None
        self._changing = threading.Lock()
        self._is_held = False  # whether what is started waits for the end of `together`
        self._running: dict[Hashable, tuple[_Loop, Future[Ending]]] = {}

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Let all coroutines that are started in the block begin at its end: the loop is woken once for all."""
        self._is_held = True
        try:
            yield
        finally:
            with self._changing:
                self._is_held = False
                if self._loop is not None:
                    self._loop.wake()

    def run(self, awaitable: Awaitable[Any], jobid: str, seconds: float | None, key: Hashable = None) -> Any:
        """Return what `awaitable` returns, or raise what it raises, even `SystemExit`.

        It is cancelled after `seconds`, if they are given; that raises `Overrun`. `key` is its name for `cancel`.
        """
        future = self.start(awaitable, jobid, seconds, key)
        try:
            return self.wait(future)
        finally:
            self._running.pop(key, None)

    def start(
        self, awaitable: Awaitable[Any], jobid: str, seconds: float | None, key: Hashable = None
    ) -> Future[Ending]:
        """Start `awaitable`, as `run` does, and return a future for `wait`. Without a `key`, nothing cancels it."""
        with self._changing:
            if self._loop is None or self._loop.is_over:
                self._loop = _Loop(self._changing, self._given)
            future = self._loop.start(awaitable, jobid, seconds)
            if not self._is_held:
                self._loop.wake()
            if key is not None:
                self._running[key] = self._loop, future
        return future

    def forget(self, key: Hashable) -> None:
        """Let `cancel` not find what was started under this name any more."""
        self._running.pop(key, None)

    @staticmethod
    def wait(future: Future[Ending]) -> Any:
        """Return what was started has returned, or raise what it has raised."""
        result, error = future.result()
        if error is not None:
            raise error
        return result

    def cancel(self, key: Hashable) -> None:
        """Cancel the coroutine that runs under the name `key`, if there is one."""
        with self._changing:
            if key in self._running:
                loop, future = self._running[key]
                loop.cancel(future)

    def cancel_all(self, seconds: float) -> None:
        """Cancel all coroutines; wait for up to so many `seconds` until they have ended."""
        running = list(self._running.values())
        for loop, future in running:
            loop.cancel(future)
        wait([future for _, future in running], seconds)

    def stop(self) -> None:
        """End the thread; nothing runs in it any more."""
        with self._changing:
            if self._loop is not None and not self._loop.is_over:
                self._loop.stop()


class _Loop:
    """One event loop, that of the program if it is `given`; `changing` guards what is pending in it."""

    def __init__(self, changing: threading.Lock, given: asyncio.AbstractEventLoop | None) -> None:
        self.is_over = False
        self._changing = changing
        self._pending: set[Future[Ending]] = set()
        self._tasks: dict[Future[Ending], asyncio.Task[Any] | None] = {}  # those that have begun
        self._starting: deque[tuple[Future[Ending], Awaitable[Any], Coroutine[Any, Any, None], Context]] = deque()
        self._is_woken = False  # whether the loop is to begin these
        self._is_own = given is None
        self._loop = given or asyncio.new_event_loop()
        if self._is_own:
            threading.Thread(target=self._serve, name="redbike-async", daemon=True).start()

    def start(self, awaitable: Awaitable[Any], jobid: str, seconds: float | None) -> "Future[Ending]":
        """Let `wake` start `awaitable`; the future that is returned gets its result or exception."""
        future: Future[Ending] = Future()
        self._pending.add(future)
        # In the context of the caller: it has the current run.
        until = None if seconds is None else time.monotonic() + seconds
        self._starting.append((future, awaitable, self._finish(awaitable, jobid, until, future), copy_context()))
        return future

    def wake(self) -> None:
        """Begin what was started."""
        if self._starting and not self._is_woken and not self.is_over:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._begin_all)

    def _begin_all(self) -> None:
        self._is_woken = False  # first: what is added from now on wakes the loop again
        while self._starting:
            future, awaitable, coroutine, context = self._starting.popleft()
            task = self._loop.create_task(coroutine, context=context)
            task.add_done_callback(partial(self._note_done, future, awaitable))

    def _note_done(self, future: "Future[Ending]", awaitable: Awaitable[Any], _: "asyncio.Task[None]") -> None:
        # A task that is cancelled before it begins never says that it has ended.
        _discard(awaitable)
        self._end(future, (None, asyncio.CancelledError()))

    async def _finish(
        self, awaitable: Awaitable[Any], jobid: str, until: float | None, future: "Future[Ending]"
    ) -> None:
        """Await it, until an instant of the monotonic clock: the loop may have been blocked before it begins."""
        process, result = os.getpid(), None
        failure: BaseException | None = None
        left = None if until is None else until - time.monotonic()
        limit = asyncio.timeout(left)
        self._tasks[future] = asyncio.current_task()
        try:
            async with limit:
                if left is not None and left <= 0:
                    await asyncio.sleep(3600)  # the limit ends that at once
                result = await awaitable
        except BaseException as error:
            # Whatever would end the loop is the failure of this run alone.
            overran = limit.expired() and isinstance(error, TimeoutError)
            failure = Overrun("it was cancelled at its deadline") if overran else error
        if os.getpid() != process:
            leave_fork(jobid, failure)
        # Not at once: a coroutine that has stopped the loop has failed, whatever it returns.
        self._loop.call_soon(self._end, future, (result, failure))

    def stop(self) -> None:
        """End the loop and its thread, but not the loop of the program."""
        self.is_over = True
        if self._is_own:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def cancel(self, future: "Future[Ending]") -> None:
        """Cancel what was started; if it is over, nothing happens."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._cancel, future)

    def _cancel(self, future: "Future[Ending]") -> None:
        if task := self._tasks.get(future):
            task.cancel()
        elif future in self._pending:
            # A task that is cancelled before it begins never says that it has ended.
            self._loop.call_soon(self._cancel, future)

    def _end(self, future: "Future[Ending]", ending: Ending) -> None:
        self._tasks.pop(future, None)
        with self._changing:
            is_pending = future in self._pending
            self._pending.discard(future)
        if is_pending:
            future.set_result(ending)

    def _serve(self) -> None:
        why = "the event loop of its worker was stopped by a job"
        try:
            self._loop.run_forever()
        except BaseException as error:
            why = f"the event loop of its worker was ended by a job: {describe(error)}"
        with self._changing:
            self.is_over = True
            pending = list(self._pending)
            self._pending.clear()
            while self._starting:
                _, awaitable, coroutine, _ = self._starting.popleft()
                coroutine.close()
                _discard(awaitable)
        for future in pending:
            future.set_result((None, RedbikeError(why)))
        self._close()

    def _close(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(BaseException):
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_WORDS))
            self._loop.close()


def _discard(awaitable: Awaitable[Any]) -> None:
    """Give up a coroutine that has not begun; nothing happens to one that is over."""
    if asyncio.iscoroutine(awaitable):
        awaitable.close()
