"""Calls in threads that keep their order: calls of the same name run one after the other."""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial

Run = Callable[..., None]  # called with an error, it only fails with this error


class InOrder:
    """Starts calls. A call waits while an earlier call of the same name runs or waits; otherwise it begins at once."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._waiting: dict[str, deque[Run]] = {}  # by the name of a call that runs, the calls after it

    def start(self, start: Callable[[Run], object], name: str, run: Run) -> None:
        """Let `start` run `run` in a thread, or run it in the thread of the call before it. `run` raises nothing."""
        with self._changing:
            if (waiting := self._waiting.get(name)) is not None:
                waiting.append(run)
                return
            self._waiting[name] = deque()
        try:
            start(partial(self._run_all, name, run))
        except BaseException as error:
            with self._changing:
                behind = self._waiting.pop(name, ())
            for later in behind:
                later(error)
            raise

    def _run_all(self, name: str, run: Run | None) -> None:
        """Run a call, and then the calls that wait for it: the pool of threads may be shut down by then."""
        while run:
            run()
            with self._changing:
                waiting = self._waiting.get(name)
                run = waiting.popleft() if waiting else None
                if run is None:
                    self._waiting.pop(name, None)
