"""The server and the clock that each `Redbike` and `AsyncRedbike` of this process follows while a test lasts.

`redbike.testing` sets them. A Redbike that was made before the test loses its own server and state during the test, and
gets them back afterwards. A Redbike that is made while pytest imports the tests connects at its first use: there may be
no server except that of a test. Otherwise a Redbike connects when it is made.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    import redis

    from redbike.config.settings import Settings

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Override:
    """The server and the prefix of each Redbike during a test, and its clock, which returns epoch seconds."""

    client: "redis.Redis"
    prefix: str
    clock: Clock


class Overridable(ABC):
    """An object that follows overrides. `_assemble` sets the attributes of `_state`; each override replaces them."""

    _state: tuple[str, ...] = ()
    _given: object = None  # arguments that say where its jobs will be; they count until it has connected

    def _prepare(self, make: Any, worker: Any = None) -> None:
        """Follow each override from now on. `_assemble` uses `make`; it is called at once, or at the first use."""
        self._make = make
        _made.add(self)
        if _active or not _is_importing:
            self._assemble()
        elif note := getattr(worker, "note_bike", None):
            note(self)

    @abstractmethod
    def _assemble(self) -> None:
        """Set the attributes of `_state`, for the current override, if there is one."""

    @property
    @abstractmethod
    def place(self) -> object:
        """Where its jobs are; the object itself if it has not connected yet."""

    def _shares_jobs(self, other: "Overridable") -> bool:
        """Tell whether `other` has the same jobs. Unless both have connected, their `_given` arguments decide."""
        is_known = self.place is not self and other.place is not other
        return self.place == other.place if is_known else self._given == other._given

    def _set_aside(self) -> dict[str, Any]:
        """Remove the attributes of `_state`, and return them. The next use of one of them calls `_assemble`."""
        return {name: vars(self).pop(name) for name in self._state if name in vars(self)}

    if not TYPE_CHECKING:  # with it, a type checker would accept any name

        def __getattr__(self, name: str) -> Any:
            if name in self._state and "_make" in vars(self):
                with _assembling:
                    if name not in vars(self):
                        self._assemble()
                    return vars(self)[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


_is_importing = False  # whether pytest imports the tests
_active: list[Override] = []  # the last one counts
_made: WeakSet[Overridable] = WeakSet()
_assembling = threading.RLock()


def prepare() -> None:
    """Until `stop_waiting` is called, let each new Redbike connect at its first use."""
    global _is_importing
    _is_importing = True


def stop_waiting() -> None:
    """From now on, let each new Redbike connect when it is made: pytest has imported the tests."""
    global _is_importing
    _is_importing = False


def find_override(
    settings: "Settings", connect: "Callable[[], redis.Redis]"
) -> "tuple[Settings, redis.Redis, Clock | None]":
    """Return settings, client and clock of the current override; without one, `settings`, a new client and None."""
    if not _active:
        return settings, connect(), None
    override = _active[-1]
    # Time is simulated in one shard.
    return replace(settings, prefix=override.prefix, shards=1), override.client, override.clock


@contextmanager
def use(override: Override) -> Iterator[None]:
    """Let each Redbike follow `override` while the block lasts."""
    kept = {bike: bike._set_aside() for bike in list(_made)}
    _active.append(override)
    try:
        yield
    finally:
        _active.remove(override)
        for bike in list(_made):
            if _end(bike) and bike not in kept:
                # The program has made and closed it during the test.
                _made.discard(bike)
        for bike, state in kept.items():
            bike._set_aside()
            vars(bike).update(state)


def _end(bike: Overridable) -> bool:
    """Close what `bike` used in a test, and tell whether it was closed already.

    A thread of the program may still use it: this thread must not reach another server.
    """
    state, was_closed = vars(bike), False
    if loops := state.get("_loops"):
        was_closed = loops.is_closing
        loops.calls.close(waits=False)
    if threads := state.get("_threads"):
        was_closed = state["_is_closed"]
        state["_is_closed"] = True
        threads.shutdown(wait=False)
    return was_closed
