"""Jobs that wait where no worker looks for them are moved to the queue of their function.

The process that set or dispatched them did not know the function yet, or knew it in another queue. A dispatcher looks
for such jobs soon after a process has registered, and once a minute, if there are functions. A job moves only if no
live worker works its queue, and one works the queue of its function. Only entries of queues without a worker are read:
other jobs cost nothing.
"""

import functools
import logging
import time
from collections.abc import Iterator, Sequence

from redbike.dispatcher.housekeeping import InMoments
from redbike.store.agreed import Naming, make_reader
from redbike.store.backfill import looks_like_one
from redbike.store.misplaced import TIMER
from redbike.store.processes import ProcessRecord, may_work
from redbike.store.store import Store
from redbike.text.printable import name_number

log = logging.getLogger("redbike.dispatcher")

INTERVAL = 60.0  # seconds between two looks
SHARE = 100  # the pause before the next look is at least so many times as long as the last look


class Moving(InMoments):
    """Moves misplaced jobs of `store`, a moment at a time."""

    def __init__(self, store: Store) -> None:
        super().__init__("jobs that wait where no worker looks cannot be moved")
        self._store = store

    def hear(self, store: Store, timers: Sequence[str]) -> None:
        """Begin if `timers` has the one for this, and no other dispatcher has claimed it; `store` has its clock."""
        if TIMER in timers and store.misplaced.claim():
            self.begin(self._look())

    def go_on(self, until: float) -> bool:
        """Look for a moment, if there is one before `until` (monotonic); return whether to go on with that."""
        if self.steps is None:
            if time.monotonic() - self.done < max(INTERVAL, SHARE * self.spent):
                return False
            self.begin(self._look())
        return self.step(until)

    def _look(self) -> Iterator[None]:
        store = self._store
        naming = make_reader(store.client, store.keys)()
        if not naming.functions:
            return
        workers = store.workers.list_working()
        for page in store.misplaced.list_used():
            for queue in page:
                if not _is_worked(queue, workers):
                    yield from self._empty(queue, naming, workers)
            yield

    def _empty(self, queue: str, naming: Naming, workers: Sequence[ProcessRecord]) -> Iterator[None]:
        """Move out of a queue the jobs whose functions have another queue that a worker works."""
        store, passed_over, total = self._store, 0, 0
        is_worked = functools.cache(lambda name: _is_worked(name, workers))
        while page := store.misplaced.read_entries(queue, passed_over):
            # An occurrence of a backfill is worked by the function of its job.
            bases = store.backfills.find_bases([jobid for jobid in page if looks_like_one(jobid)])
            named = ((jobid, bases.get(jobid) or jobid) for jobid in page)
            homes = {jobid: store.name_queue(base) for jobid, base in named if naming.find_function(base) is not None}
            found = {jobid: home for jobid, home in homes.items() if home not in ("", queue) and is_worked(home)}
            moved, gone = store.misplaced.move(queue, found) if found else (0, 0)
            passed_over, total = passed_over + len(page) - gone, total + moved
            yield
        if total:
            jobs = name_number(total, "job")
            log.info("moved %s out of the queue %s, which no worker works, to those of their functions", jobs, queue)


def _is_worked(queue: str, workers: Sequence[ProcessRecord]) -> bool:
    return any(may_work(each, queue) for each in workers)
