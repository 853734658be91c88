"""Name the queues of due jobs, and remember the jobs for which none can be named.

The worker class is the user's own: it may raise anything, and a prefix whose queues only a class can name may have a
dispatcher without that class. Such a job stays on the timeline and is tried again: perhaps another dispatcher can
name its queue. The entry of this dispatcher lists it, for ``health`` and ``why``: no queue shows that it waits.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from redbike.errors import ServerError
from redbike.store.neighbours import Neighbours
from redbike.store.store import Store
from redbike.store.timeline import DueJob
from redbike.text.printable import describe, name_number

log = logging.getLogger("redbike.dispatcher")

FORGOTTEN = 15.0  # seconds after which a job that was not tried again is forgotten: a try comes every two
TOLD_AGAIN = 60.0  # seconds between lines of the log about the same jobs
MOST, TOLD = 10_000, 20  # jobs that are remembered, and that the entry names
MAX_REASON = 300  # characters of a reason in the entry


@dataclass(frozen=True, slots=True)
class _Unplaced:
    why: str
    at: float  # when it was tried last, by the monotonic clock


class Placing:
    """Names the queues of the jobs of `store`, and remembers those that have none."""

    def __init__(self, store: Store) -> None:
        self._store, self._neighbours = store, Neighbours(store)
        self._unplaced: OrderedDict[str, _Unplaced] = OrderedDict()  # by job id, that which was tried last at the end
        self._told_at = float("-inf")

    def find_queues(self, jobs: Iterable[tuple[str, str]]) -> list[DueJob]:
        """Return due jobs with their queues; "" for one that has none, which is logged."""
        found, errors = list[DueJob](), dict[str, str]()
        for jobid, due in jobs:
            try:
                name = self._store.queue_for(jobid)
            except ServerError:
                raise
            except Exception as error:
                # The other jobs must go on.
                name = ""
                errors[jobid] = describe(error)
            found.append((jobid, due, name))
        if shared := self._neighbours.find_shared({name for _, _, name in found if name}):
            errors |= {jobid: shared[name] for jobid, _, name in found if name in shared}
            found = [(jobid, due, "" if name in shared else name) for jobid, due, name in found]
        if self._unplaced:
            for jobid, _, name in found:
                if name:
                    self._unplaced.pop(jobid, None)
        if errors:
            self._note(errors)
        return found

    def tell(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Return the jobs without a queue for its entry, see `redbike.store.processes.ProcessRecord`."""
        since = time.monotonic() - FORGOTTEN
        while self._unplaced and next(iter(self._unplaced.values())).at < since:
            self._unplaced.popitem(last=False)
        return {"unplaced": tuple((jobid, each.why) for jobid, each in islice(self._unplaced.items(), TOLD))}

    def _note(self, errors: dict[str, str]) -> None:
        now = time.monotonic()
        new = [jobid for jobid in errors if jobid not in self._unplaced]
        for jobid, why in errors.items():
            self._unplaced[jobid] = _Unplaced(why[:MAX_REASON], now)
            self._unplaced.move_to_end(jobid)
        while len(self._unplaced) > MOST:
            self._unplaced.popitem(last=False)
        if new or now - self._told_at >= TOLD_AGAIN:
            self._told_at = now
            first, others = next(iter(new or errors)), len(errors) - 1
            more = f" and {name_number(others, 'more job')}" if others else ""
            log.error("%s%s: no queue, so the dispatcher tries again: %s", first, more, errors[first])
