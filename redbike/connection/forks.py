"""Let objects begin anew in a forked process: it has no thread of its parent, and a lock may be held there for good."""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with threads or locks."""

    def _begin(self) -> None: ...


_begun: WeakSet[Forkable] = WeakSet()


def begin_in_forks(thing: Forkable) -> None:
    """Call `_begin` of `thing` now, and again in each process that is forked later."""
    thing._begin()
    _begun.add(thing)


def _begin_all() -> None:
    for thing in list(_begun):
        thing._begin()


os.register_at_fork(after_in_child=_begin_all)
