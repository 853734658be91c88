"""Jobs that wait where no worker looks for them are moved to the queue of their function.

Whoever set or dispatched them did not know the function yet, or knew it in another queue: its first worker had not
started. Whenever a worker registers or ends, and there are functions, a timer asks to look for such jobs. Only those
move whose queue no worker works that is alive, if one works the queue of their function. No other job costs anything
but that its entry is looked at, if no worker works its queue.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence

from redbike.store.agreed import Naming, make_reader
from redbike.store.backfill import looks_like_one
from redbike.store.misplaced import TIMERS
from redbike.store.processes import ProcessRecord, may_work
from redbike.store.store import Store
from redbike.text.printable import name_number

log = logging.getLogger("redbike.dispatcher")

END = object()


class Moving:
    """Moves misplaced jobs, a page at a time."""

    def __init__(self) -> None:
        self._steps: Iterator[None] | None = None  # those that are left

    def go_on(self, store: Store, timers: Sequence[str]) -> None:
        """Look at a page of jobs of `store`, if a timer asks for that; it stays until all were looked at."""
        if self._steps is None and not set(TIMERS).intersection(timers):
            return
        # An error ends them; the timer is still there.
        steps, self._steps = self._steps or _move_all(store), None
        if next(steps, END) is not END:
            self._steps = steps


def _move_all(store: Store) -> Iterator[None]:
    timers = store.misplaced.read_timers()
    naming, workers = make_reader(store.client, store.keys)(), store.workers.list_working()
    homes = {function: name for function, name in naming.functions.items() if _is_worked(name, workers)}
    for queue in store.misplaced.list_used() if homes else ():
        if not _is_worked(queue, workers):
            yield from _empty(store, queue, naming, homes)
    for timer, at in timers.items():
        store.misplaced.finish(timer, at)


def _empty(store: Store, queue: str, naming: Naming, homes: Mapping[str, str]) -> Iterator[None]:
    """Move those jobs out of a queue whose functions have another one, which is worked."""
    passed_over = total = 0
    while page := store.misplaced.read_entries(queue, passed_over):
        # An occurrence of a backfill is worked by the function of its job.
        bases = store.backfills.find_bases([jobid for jobid in page if looks_like_one(jobid)])
        functions = ((jobid, naming.find_function(bases.get(jobid) or jobid)) for jobid in page)
        found = {jobid: homes[name] for jobid, name in functions if name is not None and name in homes}
        moved, gone = store.misplaced.move(queue, found) if found else (0, 0)
        passed_over, total = passed_over + len(page) - gone, total + moved
        yield
    if total:
        jobs = name_number(total, "job")
        log.info("moved %s out of the queue %s, which no worker works, to those of their functions", jobs, queue)


def _is_worked(queue: str, workers: Sequence[ProcessRecord]) -> bool:
    return any(may_work(each, queue) for each in workers)
