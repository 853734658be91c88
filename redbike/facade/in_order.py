"""Calls in threads that keep their order: those of one name run one after the other."""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial

Run = Callable[..., None]  # called with an error, it does nothing but fail with that


class InOrder:
    """Starts calls. One whose name has a call that is not over waits for that; all others begin at once."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._waiting: dict[str, deque[Run]] = {}  # by the name of a call that is not over, what comes after it

    def start(self, start: Callable[[Run], object], name: str, run: Run) -> None:
        """Let `start` run the call `run`, which raises nothing, in some thread, or the thread of the call before it."""
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
        """Run a call, and what came after it meanwhile: the threads may take nothing new by then."""
        while run:
            run()
            with self._changing:
                waiting = self._waiting.get(name)
                run = waiting.popleft() if waiting else None
                if run is None:
                    self._waiting.pop(name, None)
