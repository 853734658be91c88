"""Loops that run beside a test, and worker classes that do what it says."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redbike import RoundRobin
from redbike.config.settings import Settings
from redbike.store.store import Store
from redbike.worker.worker import Worker
from tests.waiting import wait_until

PATIENCE = 30.0  # seconds for a loop to end


@contextmanager
def beside(store: Store, *loops: Callable[[], object]) -> Iterator[list[threading.Thread]]:
    """Run these in threads of their own, and halt them at the end of the block."""
    threads = [start(loop) for loop in loops]
    try:
        yield threads
    finally:
        store.signals.halt()
        join(*threads)


def start(loop: Callable[[], object]) -> threading.Thread:
    """Run it in a thread, which does not keep pytest from ending if it hangs."""
    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    return thread


def join(*threads: threading.Thread) -> None:
    """Wait until they have ended."""
    wait_until(lambda: not any(thread.is_alive() for thread in threads), PATIENCE)


def blocked(client: Any) -> list[str]:
    """The ids of the connections that wait for a token."""
    return [each["id"] for each in client.client_list() if each["cmd"] == "blpop"]


def make_worker(store: Store, handler: Any, settings: Settings | None = None) -> Worker:
    """A worker that knows its queues; it is registered while somebody has entered its `presence`."""
    worker = Worker(store, handler, settings or Settings())
    next(worker.queues.polls())
    return worker


class Acting(RoundRobin):
    """Calls `act` with each job, which has `seconds`, and notes it."""

    def __init__(
        self, act: Callable[[str], object] = lambda jobid: None, queues: str = "A", timeout: float | None = None
    ) -> None:
        super().__init__(queues)
        self.act, self.seconds = act, timeout
        self.worked: list[str] = []

    def work(self, jobid: str) -> Any:
        self.worked.append(jobid)
        return self.act(jobid)

    def timeout(self, queue_name: str) -> float | None:
        return self.seconds


class Doing(RoundRobin):
    """Does for each job what `acts` says."""

    def __init__(self, initstring: str = "A") -> None:
        super().__init__(initstring)
        self.acts: dict[str, Callable[[], object]] = {}

    def work(self, jobid: str) -> Any:
        return self.acts.get(jobid, lambda: None)()


class Held(RoundRobin):
    """Works jobs that end when `opened` is set."""

    def __init__(self) -> None:
        super().__init__("A")
        self.begun, self.opened = threading.Event(), threading.Event()
        self.worked: list[str] = []

    def work(self, jobid: str) -> Any:
        self.begun.set()
        assert self.opened.wait(60)
        self.worked.append(jobid)


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises it, whatever it is given."""

    def act(*_: object) -> None:
        raise error

    return act
