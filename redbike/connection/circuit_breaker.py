"""A circuit breaker: a request to a server that has not answered in time fails at once, until it answers again.

This is for programs that use several masters. A master that is suspended or cut off keeps its connections open. So each
request to it would take the whole timeout, while the other masters have work to do.
"""

import os
import threading
from collections.abc import Callable

Address = tuple[str, int]

AGAIN = 0.5  # seconds after which a silent server is asked again


class CircuitBreaker:
    """Knows which servers are silent. For each of them, a thread asks again until the server `answers`.

    Threads share it without a lock, because a fork might find a lock held for good. A forked process begins anew.
    """

    def __init__(self, answers: Callable[[Address], bool]) -> None:
        self._answers = answers
        self._silent: dict[object, int] = {}  # the process that asks, by the address of the server
        self._retired = threading.Event()

    def __contains__(self, address: object) -> bool:
        return bool(self._silent) and self._silent.get(address) == os.getpid()

    def note(self, address: Address) -> None:
        """Count a server as silent until it answers."""
        if address not in self and not self._retired.is_set():
            self._silent[address] = os.getpid()
            try:
                threading.Thread(target=self._ask, args=(address,), name="redbike-breaker", daemon=True).start()
            except RuntimeError:  # no thread can be started that would ask the server again
                self._silent.pop(address, None)

    def _ask(self, address: Address) -> None:
        while not (self._retired.wait(AGAIN) or self._answers(address)):
            pass
        self._silent.pop(address, None)

    def retire(self) -> None:
        """Let the threads end."""
        self._retired.set()
