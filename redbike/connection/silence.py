"""Servers that have not answered in time: whoever needs one of them is told so at once, and does not wait too.

That is for programs that use several masters. One that is suspended, or cut off, keeps connections open, and so each
request to it takes the whole timeout, while the others have work to do. One that refuses the login counts as away, too,
unless all of them do.
"""

import logging
import os
import threading
import time
from collections.abc import Callable

log = logging.getLogger("redbike.server")

Address = tuple[str, int]

AGAIN = 0.5  # seconds after which a silent server is asked again
REFUSED = 10.0  # seconds for which a refused login counts: loops try again sooner


class Silence:
    """Knows which servers are silent. A thread asks each of them until it `answers`.

    Threads share it without a lock, which a fork might find taken for good. A forked process begins anew.
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
                threading.Thread(target=self._ask, args=(address,), name="redbike-silence", daemon=True).start()
            except RuntimeError:  # there is no room for a thread that would ask it again
                self._silent.pop(address, None)

    def _ask(self, address: Address) -> None:
        while not (self._retired.wait(AGAIN) or self._answers(address)):
            pass
        self._silent.pop(address, None)

    def retire(self) -> None:
        """Let the threads end."""
        self._retired.set()


class Logins:
    """Knows which masters a program uses, and which of them refuse its login. Threads share it without a lock."""

    def __init__(self) -> None:
        self._masters: dict[int | None, Address] = {}  # by the slot
        self._tries: dict[Address, int] = {}  # how often the program has connected
        self._refused: dict[Address, float] = {}  # when a master has refused last, by the monotonic clock

    def begin(self, slot: int | None, address: Address) -> None:
        """Note that the program connects to this master for a slot."""
        self._masters[slot] = address
        self._tries[address] = self._tries.get(address, 0) + 1

    def accept(self, address: Address) -> None:
        """Note that a master has let the program in."""
        self._refused.pop(address, None)

    def refuse(self, address: Address, why: str) -> bool:
        """Note that a master refuses the login, and tell whether all masters have done so of late.

        Log that, unless it was the first try: whoever made that is told anyway.
        """
        if address not in self._refused and self._tries.get(address, 0) > 1:
            log.warning("%s:%s refuses the login: %s; the jobs of its shards wait", *address, why)
        self._refused[address] = time.monotonic()
        since = time.monotonic() - REFUSED
        return all(self._refused.get(each, float("-inf")) > since for each in list(self._masters.values()))
