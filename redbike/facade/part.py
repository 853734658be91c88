"""The base class of the parts of a `redbike.facade.redbike.Redbike`."""

from typing import Protocol

from redbike.loop.worker_class import WorkerClass
from redbike.store.store import Store


class Whole(Protocol):
    """The attributes of a Redbike that its parts read. A user may replace either between two calls."""

    store: Store
    worker: WorkerClass


class Part:
    """A part of `bike`."""

    def __init__(self, bike: Whole) -> None:
        self._bike = bike

    @property
    def store(self) -> Store:
        """The store of the Redbike."""
        return self._bike.store

    @property
    def worker(self) -> WorkerClass:
        """The worker class."""
        return self._bike.worker
