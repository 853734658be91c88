"""What the parts of a `redbike.facade.redbike.Redbike` begin with."""

from typing import Protocol

from redbike.loop.worker_class import WorkerClass
from redbike.store.store import Store


class Whole(Protocol):
    """What the parts ask of the whole. Somebody may set either between two calls."""

    store: Store
    worker: WorkerClass


class Part:
    """A part of `bike`."""

    def __init__(self, bike: Whole) -> None:
        self._bike = bike

    @property
    def store(self) -> Store:
        """What is in Redis."""
        return self._bike.store

    @property
    def worker(self) -> WorkerClass:
        """The worker class."""
        return self._bike.worker
