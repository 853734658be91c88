"""Who takes a job: the workers that are alive say which queues they work, and some of them which jobs they can do."""

import time
from collections.abc import Callable, Iterable, Iterator

from redbike.errors import RedbikeError
from redbike.store.records import ProcessRecord

REREAD = 1.0  # seconds after which the workers are asked for again, because of a job that nobody seems to take
KNOWN = 10.0  # seconds for which a worker is believed to be there
TOLD = 60.0  # seconds in which `MOST` different reasons are told
MOST = 10


class Takers:
    """Tells of jobs that are set, and that nobody takes. `read` gives what is known of the workers that are alive."""

    def __init__(self, read: Callable[[], Iterable[ProcessRecord]]) -> None:
        self._read = read
        self._takes: dict[str, frozenset[str] | None] = {}  # by queue; None: any job
        self._is_sure = False  # whether the queues of all workers are known, and there is one
        self._has_workers = False
        self._read_at = self._told_at = float("-inf")
        self._told: set[str] = set()

    def explain(self, jobid: str, queue: str) -> Iterator[str]:
        """Yield why no worker takes a job of this queue. Nothing is said where there is no worker at all."""
        now = time.monotonic()
        age = now - self._read_at
        if age < KNOWN and not self._find_reason(jobid, queue):
            return
        if age >= REREAD:
            self._update()
            self._read_at = now
        if now - self._told_at >= TOLD:
            self._told_at = now
            self._told.clear()
        why = self._find_reason(jobid, queue)
        if why and why not in self._told and len(self._told) < MOST:
            self._told.add(why)
            yield why

    def has_taker(self, jobid: str, queue: str) -> bool:
        """Tell whether a worker takes a job of this queue, as far as anybody knows; without a worker, none does."""
        now = time.monotonic()
        age = now - self._read_at
        if age >= KNOWN or (age >= REREAD and self._find_reason(jobid, queue)):
            self._update()
            self._read_at = now
        return self._has_workers and not self._find_reason(jobid, queue)

    def _update(self) -> None:
        try:
            workers = list(self._read())
        except RedbikeError:
            workers = []  # it is only advice: what has set the job tells of the server
        # A long list of queues ends in a mark for the others.
        self._is_sure = bool(workers) and not any(name.startswith("…") for each in workers for name in each.queues)
        self._has_workers = bool(workers)
        self._takes = {}
        for each in workers:
            for name in each.queues:
                known = self._takes.get(name, frozenset())
                self._takes[name] = None if known is None or each.takes is None else known | each.takes

    def _find_reason(self, jobid: str, queue: str) -> str:
        """Return why no worker takes the job; "" if one does, or if nobody can know."""
        if not self._is_sure:
            return ""
        if queue not in self._takes:
            return f"no worker works its queue {queue!r}"
        takes, name = self._takes[queue], jobid.partition(":")[0]
        if takes is None or jobid in takes or name in takes:
            return ""
        return f"no worker of its queue {queue!r} has anything for {name!r}"
