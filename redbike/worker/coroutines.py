"""Runs coroutines to their end, from any thread, in an event loop of its own.

A coroutine may end its event loop: it may stop it, or call ``sys.exit()`` in a task. Then all coroutines in that loop
have failed, and the next one gets a new loop.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Hashable
from concurrent.futures import Future, wait
from typing import Any

from redbike.errors import Overrun, RedbikeError
from redbike.process.leaving import leave_fork
from redbike.text.printable import describe

LAST_WORDS = 5.0  # seconds for the tasks of a loop that has ended

Ending = tuple[Any, BaseException | None]  # what a coroutine returned, or raised


class Coroutines:
    """Runs coroutines in a thread, which starts with the first one."""

    def __init__(self) -> None:
        self._loop: _Loop | None = None
        self._changing = threading.Lock()
        self._running: dict[Hashable, tuple[_Loop, Future[Ending]]] = {}

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
                self._loop = _Loop(self._changing)
            future = self._loop.start(awaitable, jobid, seconds)
            if key is not None:
                self._running[key] = self._loop, future
        return future

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
    """One event loop; `changing` guards what is pending in it."""

    def __init__(self, changing: threading.Lock) -> None:
        self.is_over = False
        self._changing = changing
        self._pending: set[Future[Ending]] = set()
        self._tasks: dict[Future[Ending], asyncio.Task[Any] | None] = {}  # those that have begun
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, name="redbike-async", daemon=True).start()

    def start(self, awaitable: Awaitable[Any], jobid: str, seconds: float | None) -> "Future[Ending]":
        """Start `awaitable`; the future that is returned gets its result or exception."""
        future: Future[Ending] = Future()
        self._pending.add(future)

        def begin() -> None:
            # In the context of the caller: it has the current run.
            self._loop.create_task(self._finish(awaitable, jobid, seconds, future))

        self._loop.call_soon_threadsafe(begin)
        return future

    async def _finish(
        self, awaitable: Awaitable[Any], jobid: str, seconds: float | None, future: "Future[Ending]"
    ) -> None:
        process, result = os.getpid(), None
        failure: BaseException | None = None
        limit = asyncio.timeout(seconds)
        self._tasks[future] = asyncio.current_task()
        try:
            async with limit:
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
        """End the loop and its thread."""
        self.is_over = True
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
            if future in self._pending:
                self._pending.remove(future)
                future.set_result(ending)

    def _serve(self) -> None:
        why = "the event loop of its worker was stopped by a job"
        try:
            self._loop.run_forever()
        except BaseException as error:
            why = f"the event loop of its worker was ended by a job: {describe(error)}"
        with self._changing:
            self.is_over = True
            for future in self._pending:
                future.set_result((None, RedbikeError(why)))
            self._pending.clear()
        self._close()

    def _close(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(BaseException):
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_WORDS))
            self._loop.close()
