"""Make tasks in an event loop that may have a task factory of a job, or of the program."""

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any


def create_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None], context: Context
) -> asyncio.Task[None]:
    """Return a task that runs `coroutine` in `context`; with a task factory, in a copy of it."""
    if loop.get_task_factory() is None:
        return loop.create_task(coroutine, context=context)
    # Without an argument for the context: older factories do not accept one.
    return context.run(loop.create_task, coroutine)
