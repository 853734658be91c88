"""The transitions of jobs that wait in a queue that no worker polls, as a process did not know the rules of naming.

A process that registers sets a timer if there are functions: a dispatcher then searches for such jobs.
"""

from collections.abc import Iterator, Mapping, Sequence

from redbike.store.namespace import PAGE, STEP, Part, number_queues, split
from redbike.store.records import decode
from redbike.store.scripts import Call

TIMER = "naming:"


class Misplaced(Part):
    """Finds the jobs that wait in queues, and moves them to others."""

    def list_used(self) -> Iterator[list[str]]:
        """Yield the names of the queues in which jobs wait, in pages."""
        keys = self._namespace.keys
        for page in split(sorted(map(decode, self._namespace.ask("smembers", keys.queues))), PAGE):
            homes = [keys.of_queue(name) for name in page]
            asked = [each for entries, _, dead in homes for each in (("llen", entries), ("scard", dead))]
            sizes = self._namespace.ask_all(*asked, at_once=False)
            yield [name for name, size, dead in zip(page, sizes[::2], sizes[1::2], strict=True) if size > dead]

    def read_entries(self, queue: str, passed_over: int) -> list[str]:
        """Return a page of the entries of a queue, the oldest first, without the first `passed_over`."""
        bounds = -passed_over - PAGE, -passed_over - 1
        return [*map(decode, self._namespace.ask("lrange", self._namespace.keys.queue(queue), *bounds))][::-1]

    def move(self, queue: str, homes: Mapping[str, str]) -> tuple[int, int]:
        """Move jobs from `queue` to their `homes`, in the order of their entries.

        Return how many jobs were moved, and how many of their entries were removed: the other entries have tombstones.
        """
        calls = [self._pack_move(queue, step) for step in split(homes.items(), STEP)]
        replies = self._namespace.scripts.run_all(calls)
        return sum(int(reply[1]) for reply in replies), sum(int(reply[2]) for reply in replies)

    def _pack_move(self, queue: str, step: Sequence[tuple[str, str]]) -> Call:
        jobids, homes = zip(*step, strict=True)
        return self._namespace.pack("transfer", number_queues([queue, *homes]), jobs=jobids, homes=homes)

    def claim(self) -> bool:
        """Remove the timer if its time has come, and return whether it had: then no other dispatcher searches."""
        return bool(self._namespace.run("transfer", timer=TIMER)[1])
