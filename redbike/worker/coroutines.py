"""Run coroutines to their end, from any thread, in an event loop of their own.

A coroutine may end its event loop: it may stop it, or call ``sys.exit()`` in a task. Then all coroutines in that loop
end with `LoopEnded`, and the next coroutine gets a new loop.
"""

import asyncio
import contextlib
import inspect
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from redbike.errors import Overrun
from redbike.process.leaving import leave_fork
from redbike.worker.current import find_run
from redbike.worker.loop_ended import LoopEnded, find_end
from redbike.worker.tasks import create_task

TOO_LATE = "it was cancelled at its deadline"
LAST_WORDS = 5.0  # seconds for the tasks of a loop that has ended

Ending = tuple[Any, BaseException | None]  # what a coroutine returned, or raised


class Coroutines:
    """Runs coroutines in `loop`, or else in a thread, which starts with the first one."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._given = loop
        self._loop: _Loop | None = None
        self._changing = threading.Condition(threading.Lock())
        self._is_held = False  # whether started coroutines wait for the end of `together`
        self._running: dict[Hashable, tuple[_Loop, _Started]] = {}

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
        future = self.begin(awaitable, jobid, seconds, key)
        try:
            return self.wait(future)
        finally:
            self.forget(key)

    def begin(
        self, awaitable: Awaitable[Any], jobid: str, seconds: float | None, key: Hashable = None
    ) -> Future[Ending]:
        """Start `awaitable`, as `run` does, and return a future for `wait`."""
        future: Future[Ending] = Future()
        self.start(lambda: awaitable, jobid, seconds, future.set_result, key, awaitable)
        return future

    def start(
        self,
        call: Callable[[], Any],
        jobid: str,
        seconds: float | None,
        note_end: Callable[[Ending], object],
        key: Hashable = None,
        given: Awaitable[Any] | None = None,
    ) -> None:
        """Call `call` in the event loop, in the context of the caller, and await what it returns, as `run` does.

        `note_end` is called with the ending, in any thread. Without a `key`, nothing can cancel the call. With a `key`,
        call `forget` when it has ended. `given` is closed if the call never begins.
        """
        until = float("inf") if seconds is None else time.monotonic() + seconds
        with self._changing:
            if self._loop is None or self._loop.is_over:
                self._loop = _Loop(self._changing, self._given)
            started = _Started(call, jobid, until, note_end, given)
            self._loop.start(started)
            if not self._is_held:
                self._loop.wake()
            if key is not None:
                self._running[key] = self._loop, started

    def forget(self, key: Hashable) -> None:
        """Forget what was started under this name, so that `cancel` does not find it."""
        self._running.pop(key, None)

    @staticmethod
    def wait(future: Future[Ending]) -> Any:
        """Return what the coroutine of `future` returns, or raise what it raises."""
        result, error = future.result()
        if error is not None:
            raise error
        return result

    def cancel(self, key: Hashable) -> None:
        """Cancel the coroutine that runs under the name `key`, if there is one."""
        if found := self._running.get(key):
            found[0].cancel(found[1])

    def is_late(self, key: Hashable) -> bool:
        """Tell whether the coroutine that runs under the name `key` was cancelled at its deadline."""
        return bool((found := self._running.get(key)) and found[1].is_late)

    def cancel_all(self, seconds: float) -> None:
        """Cancel all coroutines that have a key; wait for up to `seconds` until they have ended."""
        running = list(self._running.values())
        for loop, started in running:
            loop.cancel(started)
        with self._changing:
            self._changing.wait_for(lambda: not any(loop.has(started) for loop, started in running), seconds)

    def stop(self) -> None:
        """End the thread. No coroutine may run in it any more."""
        with self._changing:
            if self._loop is not None and not self._loop.is_over:
                self._loop.stop()


@dataclass(slots=True, eq=False)
class _Started:
    """What was started, and how it has ended."""

    call: Callable[[], Any]
    jobid: str
    until: float  # its deadline, by the monotonic clock
    note_end: Callable[[Ending], object]
    given: Awaitable[Any] | None  # closed if it does not begin
    context: Context = field(default_factory=copy_context)  # that of the caller: it has the current run
    task: asyncio.Task[None] | None = None  # None until it begins
    is_cancelled: bool = False  # perhaps before it has begun
    is_late: bool = False  # it was cancelled at its deadline
    ending: Ending | None = None  # a task that is cancelled before it begins has none

    def find_ending(self, end: LoopEnded) -> Ending:
        """Return how it has ended, or else that its loop has. A run that may have ended the loop has failed anyway."""
        return (None, end) if self.ending is None or end.blames(find_run(self.context)) else self.ending


class _Loop:
    """One event loop, that of the program if it is `given`; `changing` guards what is pending in it."""

    def __init__(self, changing: threading.Condition, given: asyncio.AbstractEventLoop | None) -> None:
        self.is_over = False
        self._changing = changing
        self._pending, self._begun = set[_Started](), set[_Started]()  # all, and those with a task
        self._starting: deque[_Started] = deque()  # those without a task
        self._is_woken = False  # whether the loop will begin these
        self._next_check = float("inf")  # when deadlines are checked next
        self._timer: asyncio.TimerHandle | None = None  # of that check
        self._is_own = given is None
        self._loop = given or asyncio.new_event_loop()
        if self._is_own:
            threading.Thread(target=self._serve, name="redbike-async", daemon=True).start()

    def start(self, started: _Started) -> None:
        """Let `wake` start it."""
        self._pending.add(started)
        self._starting.append(started)

    def wake(self) -> None:
        """Begin what was started."""
        if self._starting and not self._is_woken and not self.is_over:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._begin_all)

    def has(self, started: _Started) -> bool:
        """Tell whether it has not ended."""
        return started in self._pending

    def _begin_all(self) -> None:
        self._is_woken = False  # first: what is added from now on wakes the loop again
        while self._starting:
            finishing = self._finish(started := self._starting.popleft())
            try:
                started.task = task = create_task(self._loop, finishing, started.context)
                self._begun.add(started)
                task.add_done_callback(partial(self._end, started), context=started.context)
            except BaseException as error:
                # The task factory is the user's own: it may raise anything, but the others must begin.
                with contextlib.suppress(BaseException):
                    finishing.close()
                started.ending = None, error
                started.context.run(self._end, started)
                continue
            if started.is_cancelled:
                task.cancel()
            self._check_at(started.until)

    def _check_at(self, until: float) -> None:
        """Check deadlines at this instant, or earlier: a timer for each coroutine would cost more than all else."""
        if until < self._next_check:
            self._next_check = until
            if self._timer:
                self._timer.cancel()
            self._timer = self._loop.call_later(until - time.monotonic(), self._check)

    def _check(self) -> None:
        """Cancel the coroutines that have outlived their deadlines."""
        now, self._next_check = time.monotonic(), float("inf")
        for started in self._begun:
            if started.until <= now and not started.is_late and started.task:
                started.is_late = True
                started.task.cancel()
        self._check_at(min((each.until for each in self._begun if not each.is_late), default=float("inf")))

    async def _finish(self, started: _Started) -> None:
        """Await it, unless it begins too late: the loop may have been blocked."""
        process, result = os.getpid(), None
        failure: BaseException | None = None
        try:
            if started.until <= time.monotonic():
                raise Overrun(TOO_LATE)
            result = started.call()
            if inspect.isawaitable(result):
                result = await result
        except BaseException as error:
            # An error that would end the loop is the failure of this run alone.
            failure = Overrun(TOO_LATE) if started.is_late and isinstance(error, asyncio.CancelledError) else error
        if os.getpid() != process:
            leave_fork(started.jobid, failure)
        started.ending = result, failure

    def stop(self) -> None:
        """End the loop and its thread, but not the loop of the program."""
        self.is_over = True
        if self._is_own:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def cancel(self, started: _Started) -> None:
        """Cancel what was started; if it is over, nothing happens."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._cancel, started)

    def _cancel(self, started: _Started) -> None:
        started.is_cancelled = True
        if started.task:
            started.task.cancel()

    def _end(self, started: _Started, _: "asyncio.Task[None] | None" = None) -> None:
        # Called after its last step: a coroutine that has stopped the loop has failed, whatever it returns.
        self._begun.discard(started)
        _discard(started.given)
        with self._changing:
            is_pending = started in self._pending
            self._pending.discard(started)
            self._changing.notify_all()
        if is_pending:
            unbegun = Overrun(TOO_LATE) if started.is_late else asyncio.CancelledError()
            started.note_end(started.ending or (None, unbegun))

    def _serve(self) -> None:
        end = LoopEnded("the event loop was stopped by a job")
        try:
            self._loop.run_forever()
        except BaseException as error:
            end = find_end(error)
        with self._changing:
            self.is_over = True
            pending, self._pending = list(self._pending), set()
            self._changing.notify_all()
            while self._starting:
                _discard(self._starting.popleft().given)
        if pending:
            end.log(started.jobid for started in pending)
        endings = [started.find_ending(end) for started in pending]
        self._close()
        # Only now: no run may begin again while its tasks are still being cancelled.
        for started, ending in zip(pending, endings, strict=True):
            started.note_end(ending)

    def _close(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(BaseException):
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_WORDS))
            self._loop.close()


def _discard(awaitable: Awaitable[Any] | None) -> None:
    """Close a coroutine that has not begun; for one that is over, this does nothing."""
    if asyncio.iscoroutine(awaitable):
        awaitable.close()
