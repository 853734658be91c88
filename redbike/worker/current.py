"""The run, and the event loop, in whose context a function is called."""

import asyncio
import contextvars

from redbike.store.run import Run

_current: contextvars.ContextVar[Run] = contextvars.ContextVar("redbike_run")


def current_run() -> Run:
    """Return the run that the calling ``work`` belongs to. Raise `LookupError` outside of a run."""
    run = _current.get(None)
    if run is None:
        raise LookupError("there is no run here: current_run() is for work(), and what that calls")
    return run


def enter_run(run: Run) -> None:
    """Let `current_run` return this run, in the context of the caller."""
    _current.set(run)


def is_in_run() -> bool:
    """Tell whether the caller is ``work``, or was called by it."""
    return _current.get(None) is not None


def is_in_loop() -> bool:
    """Tell whether the caller is in an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def find_run(context: contextvars.Context) -> Run | None:
    """Return the run of another context; None if it has none."""
    return context.get(_current)
