"""How a run finds out that its worker is to stop."""

import os
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol


class StopFlag(Protocol):
    """A flag that is set when a worker is to stop."""

    def is_set(self) -> bool:
        """Tell whether it is set."""

    def fileno(self) -> int:
        """Return a file descriptor that becomes readable when the flag is set."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stopping:
    """True once a worker is to stop. A coroutine can await it, to wait until then."""

    _flag: Any  # a `StopFlag`, or None

    def __bool__(self) -> bool:
        return self._flag is not None and self._flag.is_set()

    def __eq__(self, other: object) -> bool:
        return bool(self) == other if isinstance(other, bool) else self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return repr(bool(self))

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        import asyncio  # most programs need none

        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        if self._flag is None:
            await stopping.wait()
            return
        # A descriptor of its own: a loop has one callback for each descriptor, and many coroutines may wait.
        descriptor = os.dup(self._flag.fileno())
        try:
            loop.add_reader(descriptor, stopping.set)
            await stopping.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
