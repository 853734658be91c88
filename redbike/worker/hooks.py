"""What a worker class does around its jobs: ``startup`` and ``shutdown`` of a worker, and a middleware for each run.

1. ``startup`` is called once, before the first job is taken. If it fails, the worker ends.
2. Each of ``middleware`` is called with the run, and returns a context manager. They are entered around ``work``, the
   first one outermost. Each sees what ``work`` raises, and may raise something else, or suppress it.
3. ``shutdown`` is called once, when no job runs any more. It is not called for a worker that did not start.

All of them may be sync or async. Async hooks run in the event loop in which the coroutines of jobs run.
"""

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    contextmanager,
    suppress,
)
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, Literal

from redbike.errors import Overrun, RedbikeError
from redbike.loop.worker_class import Manager, Middleware, WorkerClass, check_result, is_coroutine_function
from redbike.process import command_log
from redbike.process.leaving import leave_fork
from redbike.process.signals import interrupts_caller
from redbike.store.run import Run
from redbike.text.printable import describe
from redbike.worker.coroutines import TOO_LATE, Coroutines

log = logging.getLogger("redbike.worker")

_starting = ContextVar["Hooks | None"]("redbike_starting", default=None)  # whose ``startup`` runs here


class Hooks:
    """Calls the hooks of `worker`; its coroutines run in `coroutines`. Runs get `predict_retry`."""

    def __init__(
        self, worker: WorkerClass, coroutines: Coroutines, predict_retry: Callable[[Run, BaseException], bool]
    ) -> None:
        self._worker = worker
        self._coroutines = coroutines
        self._predict_retry = predict_retry
        self.middleware: Sequence[Middleware] = tuple(getattr(worker, "middleware", None) or ())
        self.state: Literal["new", "beginning", "begun", "ending", "over"] = "new"
        self._beginning = threading.Lock()

    def begin(self) -> None:
        """Call ``startup``, unless that was done. Raise `RedbikeError` if it fails."""
        if self.state == "begun" or _starting.get() is self:
            return  # ``startup`` itself may work a job
        with self._beginning:
            if self.state == "new":
                self.state, token = "beginning", _starting.set(self)
                try:
                    error = self._call("startup")
                finally:
                    # Also after a Ctrl-C: the next call begins again.
                    self.state = "new"
                    _starting.reset(token)
                if error:
                    raise RedbikeError(f"the worker does not start: its startup() fails: {describe(error)}") from error
                self.state = "begun"

    def end(self) -> None:
        """Call ``shutdown``, unless that was done, or the worker has not begun. What it raises is logged."""
        if self.state == "begun":
            self.state = "ending"
            self._call("shutdown")
            self.state = "over"

    def _call(self, name: str) -> BaseException | None:
        """Call a method of the worker class, if it has it; log and return what it raises."""
        method = getattr(self._worker, name, None)
        try:
            result = method() if method is not None else None
            if inspect.isawaitable(result):
                result = self._coroutines.run(result, name, None)
            check_result(name, result)
        except BaseException as error:
            # The method is the user's own: it may raise anything.
            if interrupts_caller(error):
                raise
            command_log.revive()
            log.error("%s() of the worker class fails", name, exc_info=error)
            return error
        command_log.revive()
        return None

    def run(self, run: Run, call: Callable[[], object], finish: Callable[[Awaitable[Any]], object]) -> object:
        """Call `call`, which is ``work``, with the middleware around it; return its result.

        `finish` runs an awaitable to its end, with the deadline of the run.
        """
        call = partial(_call_unforked, call, run.jobid)
        run.predict_retry = self._predict_retry
        with ExitStack() as stack:
            for number, make in enumerate(self.middleware):
                manager = _make(make, run)
                if not isinstance(manager, AbstractContextManager):
                    rest = self.middleware[number + 1 :]
                    if self.is_async(run.base):
                        return finish(self._run_within(run, manager, rest, call))
                    return self._run_beside(run, manager, rest, lambda: _finish(call(), finish))
                stack.enter_context(manager)
            return _finish(call(), finish)
        return None  # a middleware has suppressed what was raised

    async def run_async(self, run: Run, call: Callable[[], object]) -> object:
        """Return what the coroutine of `call` returns, with the middleware around it, all in one task."""
        first, *rest = self.middleware
        run.predict_retry = self._predict_retry
        return await self._run_within(run, _make(first, run), rest, call)

    async def _run_within(
        self, run: Run, first: Manager, rest: Sequence[Middleware], call: Callable[[], object]
    ) -> object:
        """Run an async job in one task with its managers, so that the job sees what they set in the context."""
        async with AsyncExitStack() as stack:
            try:
                await _enter_all(stack, run, first, rest)
                with _end_forks(run.jobid):
                    result = call()
                    return await result if inspect.isawaitable(result) else result
            except asyncio.CancelledError as error:
                if self._coroutines.is_late((run.tag, run.jobid)):
                    # A task group in a manager would cancel the task again if it saw another error.
                    if task := asyncio.current_task():
                        task.uncancel()
                    raise Overrun(TOO_LATE) from error
                raise
        return None

    def is_async(self, jobid: str) -> bool:
        """Tell whether ``work`` of this job is a coroutine function."""
        tell = getattr(self._worker, "is_async", None)
        return bool(tell(jobid)) if tell else is_coroutine_function(self._worker.work)

    def _run_beside(self, run: Run, first: Manager, rest: Sequence[Middleware], call: Callable[[], object]) -> object:
        """Run a job that is not async in this thread, while a task in the event loop holds the managers around it."""
        entered, over = Future[Context](), Future[tuple[object, BaseException | None]]()

        async def hold() -> object:
            async with AsyncExitStack() as stack:
                limit = asyncio.timeout(run.deadline - run.now())
                try:
                    async with limit:
                        await _enter_all(stack, run, first, rest)
                except TimeoutError as late:
                    if limit.expired():
                        raise Overrun("a middleware was cancelled at its deadline") from late
                    raise
                entered.set_result(copy_context())
                result, error = await asyncio.wrap_future(over)
                if error is not None:
                    raise error
                return result
            return None

        ending = self._coroutines.begin(hold(), run.jobid, None)
        either: list[Future[Any]] = [entered, ending]
        wait(either, return_when=FIRST_COMPLETED)
        if entered.done():
            outcome: tuple[object, BaseException | None]
            try:
                outcome = entered.result().run(call), None
            except BaseException as error:
                outcome = None, error
            with suppress(InvalidStateError):  # another job has stopped the event loop meanwhile
                over.set_result(outcome)
        return self._coroutines.wait(ending)


@contextmanager
def _end_forks(jobid: str) -> Iterator[None]:
    """End a fork that comes out of the block: it must not exit the context managers of the middleware."""
    process = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() != process:
            leave_fork(jobid, error)
        raise
    if os.getpid() != process:
        leave_fork(jobid, None)


def _call_unforked(call: Callable[[], object], jobid: str) -> object:
    with _end_forks(jobid):
        return call()


async def _enter_all(stack: AsyncExitStack, run: Run, first: Manager, rest: Sequence[Middleware]) -> None:
    await _enter(stack, first)
    for make in rest:
        await _enter(stack, _make(make, run))


async def _enter(stack: AsyncExitStack, manager: Manager) -> None:
    if isinstance(manager, AbstractAsyncContextManager):
        await stack.enter_async_context(manager)
    else:
        stack.enter_context(manager)


def _make(make: Middleware, run: Run) -> Manager:
    manager = make(run)
    if isinstance(manager, AbstractContextManager | AbstractAsyncContextManager):
        return manager
    if inspect.iscoroutine(manager):
        manager.close()
    name = getattr(make, "__name__", type(make).__name__)
    raise TypeError(f"the middleware {name} returned no context manager, but {manager!r:.80}")


def _finish(result: object, finish: Callable[[Awaitable[Any]], object]) -> object:
    return finish(result) if result is not None and inspect.isawaitable(result) else result
