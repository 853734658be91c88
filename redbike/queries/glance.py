"""The overview of jobs, queues and processes. Its cost does not grow with the number of jobs.

It grows only with the number of jobs that alert if they are late.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from redbike.config.settings import Settings
from redbike.loop.alerts.late import Late, find_late
from redbike.queries.running import Running, list_running
from redbike.queries.unhosted import find_unhosted
from redbike.store.cursors import Cursor
from redbike.store.job import Job, JobSearch
from redbike.store.past_runs import Dead, Failure
from redbike.store.patterns import compile_patterns, make_search
from redbike.store.processes import Process
from redbike.store.questions import Refusal
from redbike.store.records import RetryState
from redbike.store.store import Store
from redbike.store.totals import Queue, Total
from redbike.store.upkeep import Rewind

NAMED = 5  # dead jobs whose failures are read


class Unplaced(NamedTuple):
    """A due job whose queue a dispatcher could not name. It tries again at `again`, every two seconds."""

    jobid: str
    why: str
    due: float  # epoch seconds
    again: float


@dataclass(frozen=True, slots=True)
class Glance:
    """All queues and processes, and the number of jobs in each place."""

    total: Total
    processes: Sequence[Process]  # lost ones first
    queues: Sequence[Queue]
    is_paused: bool  # whether everything is paused
    dead: Dead
    lacking: Sequence[tuple[str, str]] = ()  # (job id, queue) of jobs without a worker that has their command
    unplaced: Sequence["Unplaced"] = ()
    rewinds: Sequence[Rewind] = ()  # those that nobody has acknowledged
    late: Sequence[Late] = ()  # jobs that have not begun, or not ended, in the time that their options give them
    refusal: Refusal | None = None  # why the server takes no changes
    unhosted: Sequence[tuple[str, str]] = ()  # jobs for every host that run on none, and why

    @property
    def now(self) -> float:
        """Redis' clock, in epoch seconds."""
        return self.total.now

    @property
    def knows_processes(self) -> bool:
        """Whether running processes are known: if the server refuses all changes, they cannot send heartbeats."""
        return self.refusal is None or self.refusal.is_full

    @property
    def unworked(self) -> set[str]:
        """The open queues in which jobs wait, but that no worker works, as far as workers are known."""
        if not self.knows_processes:
            return set()
        alive = [each for each in self.processes if each.state == "alive"]
        waiting = (queue.queue for queue in self.queues if queue.waiting and queue.paused is None)
        return {name for name in waiting if not any(each.works(name) for each in alive)}


@dataclass(frozen=True, slots=True)
class View:
    """A glance, and lists of jobs to show."""

    glance: Glance
    soonest: Sequence[Job]  # the jobs that are due first, without their last runs
    failures: Sequence[Failure]  # first those of dead jobs, then the newest ones
    running: Sequence[Running]  # the oldest first
    in_flight: int  # number of all runs in flight
    found: Sequence[Job] | None = None  # the results of a search; None without a search


def read_glance(
    store: Store, max_lag: float = 0.0, with_rates: bool = True, settings: Settings | None = None
) -> Glance:
    """Read the overview. A job counts as due only if it has been due for more than `max_lag` seconds."""
    total = store.totals.read(max_lag)
    queues = store.depths.list_all(with_rates, total.now - max_lag if max_lag else None)
    processes = store.workers.list_all()
    is_paused = is_all_paused(store, total.now)
    dead = store.past.find_dead(NAMED) if total.failing else Dead({}, [])
    lacking, unplaced = list(_find_lacking(store, processes)), list(find_unplaced(store, processes))
    total = add_unplaced(total, unplaced, max_lag)
    rewinds, refusal = store.rewinds.list_all(), store.questions.find_refusal()
    late = find_late(store, settings or Settings())
    unhosted = list(find_unhosted(store, processes, total.now))
    return Glance(total, processes, queues, is_paused, dead, lacking, unplaced, rewinds, late, refusal, unhosted)


def is_all_paused(store: Store, now: float) -> bool:
    """Return whether everything is paused at `now`, by a person or a blackout: then no dispatcher enqueues jobs."""
    pause = store.queue_limits.read("").pause
    return pause is not None and pause.holds(now)


def _find_lacking(store: Store, processes: Sequence[Process]) -> Iterator[tuple[str, str]]:
    """Yield (job id, queue) for each job that workers could not run, if still no worker has its command."""
    alive = [each for each in processes if each.kind == "worker" and each.state == "alive"]
    lacking = dict(pair for each in alive for pair in each.lacks)
    for job in store.questions.list_states(sorted(lacking)) if lacking else ():
        queue = lacking[job.jobid]
        is_pending = job.timeline is not None or job.waiting is not None
        if is_pending and not job.pause and not any(each.works(queue) and each.has_for(job.jobid) for each in alive):
            yield job.jobid, queue


def find_unplaced(store: Store, processes: Sequence[Process]) -> Iterator[Unplaced]:
    """Yield the jobs that `processes` could not place, at most 20 of each process in a shard, if they are still due."""
    told = dict(pair for each in processes if each.state == "alive" for pair in each.unplaced)
    for job in store.questions.list_states(sorted(told)) if told else ():
        due = RetryState.parse(job.retry_state).due
        if job.due is not None and due is not None and not job.pause:
            yield Unplaced(job.jobid, told[job.jobid], due, job.due)


def add_unplaced(total: Total, unplaced: Iterable[Unplaced], max_lag: float = 0.0) -> Total:
    """Count these jobs as due, too, if they have been due for more than `max_lag` seconds.

    On the timeline, they seem to be due only at the next attempt.
    """
    dues = [each.due for each in unplaced if each.again > total.now and each.due < total.now]
    late = sum(due < total.now - max_lag for due in dues)
    firsts = dues if total.first_due is None else [*dues, total.first_due]
    return replace(total, due=total.due + late, first_due=min(firsts, default=None))


def find_jobs(store: Store, text: str) -> Sequence[Job]:
    """Return some jobs that match a pattern, or whose ids contain `text`. Raise `BadJobId` for a bad pattern."""
    pattern = make_search(text)
    search = JobSearch(pattern=pattern, matches=compile_patterns([pattern]))
    return store.overview.read_page(search, Cursor()).jobs


def read_view(store: Store, number: int, max_lag: float = 0.0, settings: Settings | None = None) -> View:
    """Read a glance, the `number` jobs that are due first, and up to `number` failures and runs in flight."""
    # Before the clock is read: otherwise a run that begins meanwhile would begin in the future.
    flying, in_flight = store.questions.list_in_flight(number)
    glance = read_glance(store, max_lag, settings=settings)
    first, known = glance.dead.failures, glance.dead.times
    newest = store.past.read_failures(None, number).failures if glance.total.failing else []
    failures = [*first, *(each for each in newest if each.jobid not in known)]
    # The jobs that are due next have no last run here if it is not archived yet.
    soonest = store.overview.read_named(store.timeline.list_soonest(number), {})
    return View(glance, soonest, failures[:number], list_running(flying, glance.processes), in_flight)
