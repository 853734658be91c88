"""The queues for jobs of one host, beside those that a worker class names.

Most installations have no such job. Their workers must not pay for these queues with each job that they take. So a
worker looks into such a queue only after it was used once. An idle worker gets a token then; a busy one asks every few
seconds.
"""

import time
from collections.abc import Callable, Iterable

from redbike.errors import RedbikeError
from redbike.store.host_names import has_host_queue, name_host_queue, split_host

LOOK = 6.0  # seconds after which a worker asks again which of these queues were used
MOST = 1000  # queues that were never used, for whose tokens an idle worker waits; it asks for the others, too


class HostQueues:
    """Knows which queues of `host` were used. `find_used` returns those of the given queues that were."""

    def __init__(
        self,
        host: str,
        find_used: Callable[[Iterable[str]], Iterable[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = host
        self._find_used = find_used
        self._clock = clock
        self._used: set[str] = set()
        self._looked_at = float("-inf")

    def look(self, names: list[str]) -> None:
        """Ask which queues for the host were used, unless it has just asked. Without an answer, nothing changes."""
        if (now := self._clock()) - self._looked_at < LOOK:
            return
        self._looked_at = now
        try:
            self._used.update(self._find_used(self._list_unused(names)))
        except RedbikeError:
            # The loop that takes jobs gets this error, too.
            return

    def note(self, queue: str) -> None:
        """Note that a queue is used: it has a token."""
        self._used.add(queue)

    def list_own(self, names: Iterable[str]) -> list[str]:
        """Return the queues for the host beside these ones, whether or not they were used."""
        return [name_host_queue(name, self.host) for name in dict.fromkeys(names) if has_host_queue(name, self.host)]

    def list_awaited(self, names: Iterable[str]) -> list[str]:
        """Return the first queues for the host beside these ones that were never used, as far as is known."""
        return self._list_unused(names)[:MOST]

    def _list_unused(self, names: Iterable[str]) -> list[str]:
        return [name for name in self.list_own(names) if name not in self._used]

    def add(self, names: list[str]) -> list[str]:
        """Return the queues with those for the host, if they were used; each behind the one that it belongs to."""
        used = self._used.intersection(self.list_own(names)) if self._used else ()
        if not used:
            return names
        pairs = ((name, name_host_queue(name, self.host)) for name in names)
        return [each for name, own in pairs for each in ((name, own) if own in used else (name,))]

    def find_base(self, name: str) -> str:
        """Return the queue that a worker class knows: for a queue of the host the one beside it, else `name` itself."""
        return split_host(name)[0] if name in self._used else name
