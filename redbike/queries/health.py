"""Whether all is well: a dispatcher runs, no job is overdue or waits for long, no process is lost, and more.

The cost does not grow with the number of jobs, except for jobs that are named, and jobs that alert if they are late.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from redbike.config.settings import Settings
from redbike.queries.glance import Glance, read_glance
from redbike.queries.named import NamedJobs
from redbike.schedule.clock import Clock, format_length
from redbike.schedule.moments import END_OF_TIME
from redbike.store.past_runs import Dead
from redbike.store.processes import Process
from redbike.store.questions import Refusal
from redbike.store.shell import get_taker, say_need
from redbike.store.store import Store
from redbike.store.timeline import is_ahead
from redbike.store.upkeep import MINE, REPAIR
from redbike.text.printable import escape, name_number

MAX_LAG = 60.0  # seconds for which jobs may wait, by default
MOST_LAG = 1e10  # seconds, the limit of every duration
RECENT = 600.0  # seconds for which a lost process is a problem: after that, others have its jobs
MOST = 5  # problems of each kind that are listed


@dataclass(frozen=True, slots=True)
class Health:
    """Whether all is well, at one instant. A pause is no problem: somebody wants it.

    `problems` are sentences without a full stop; there are none if all is well. `metrics` are numbers by name: ``lag``
    (seconds for which the oldest due job has waited), ``overdue`` (jobs that no dispatcher has moved in time),
    ``waiting`` and ``in_flight`` (jobs), ``failing`` (jobs that have failed and not succeeded since), ``dead`` (jobs
    among these that have failed for good, although their schedules would go on), ``dispatchers`` and ``workers``
    (processes that are alive), ``lost`` (processes that were lost in the last 10 minutes) and ``late`` (jobs that have
    not begun, or not ended, in the time that their options allow).
    """

    problems: tuple[str, ...]
    metrics: dict[str, float] = field(default_factory=dict)
    max_lag: float = MAX_LAG
    paused: tuple[str, ...] = ()  #: what is paused: "everything", or names of queues
    #: the topic of each problem: ``server``, ``dead``, ``dispatchers``, ``overdue``, ``queues``, ``commands``,
    #: ``lost``, ``stuck``, ``late``, ``rewound`` or ``jobs``
    topics: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Tell whether there is no problem."""
        return not self.problems

    def format_line(self) -> str:
        """Return one line for Nagios: OK or PROBLEM, a text, a bar, and the metrics."""
        problems = f"{'; '.join(self.problems)}{self._describe_pauses()}"
        text = f"PROBLEM: {problems}" if self.problems else f"OK: {self.describe()}"
        metrics = [f"{name}={self._format_metric(name, value)}" for name, value in self.metrics.items()]
        line = escape(text.encode(errors="replace")).replace("|", "/")
        return f"{line} | {' '.join(metrics)}" if metrics else line

    def _format_metric(self, name: str, value: float) -> str:
        return f"{value:.3f}s;{self.max_lag:g}" if name == "lag" else f"{value:.0f}"

    def describe(self) -> str:
        """Return the number of processes and jobs in words, for a line that says that all is well."""
        metrics = {name: int(value) for name, value in self.metrics.items()}
        dispatchers, workers = (name_number(metrics[f"{kind}s"], kind) for kind in ("dispatcher", "worker"))
        numbers = f"{dispatchers}, {workers}, {metrics['waiting']:,} waiting, {metrics['in_flight']:,} running"
        return f"{numbers}{self._describe_pauses()}"

    def _describe_pauses(self) -> str:
        return f"; paused: {', '.join(_list_some(iter(self.paused)))}" if self.paused else ""


def check_health(store: Store, patterns: Sequence[str], max_lag: float, settings: Settings) -> Health:
    """Return whether all is well. Each job that `patterns` name must have succeeded when it was last to run.

    No job may be due for more than `max_lag` seconds. Raise `BadJobId`.
    """
    found = read_glance(store, max_lag, with_rates=False, settings=settings)
    named = [failure.jobid for failure in found.dead.failures[:MOST]]
    clock = Clock(found.now, settings.timezone)
    jobs = NamedJobs(store, clock, max_lag, settings.grace, settings.history, named)
    return judge(found, max_lag, _list_some(jobs.check(patterns, MOST)))


def judge(found: Glance, max_lag: float, others: Iterable[str] = ()) -> Health:
    """Return the health of the jobs and processes in `found`. `others` are further problems."""
    total, now, queues, refusal = found.total, found.now, found.queues, found.refusal
    overdue, first = (0, None) if found.is_paused else (total.due, total.first_due)
    lost = [each for each in found.processes if each.state == "lost" and now - each.seen < RECENT]
    alive = [each for each in found.processes if each.state == "alive"]
    # A process that is alive works: its loop sends the heartbeats.
    kinds = Counter(each.kind for each in alive)
    is_known = found.knows_processes
    found_of = {
        "server": [] if refusal is None else [describe_refusal(refusal)],
        "dead": list(_check_dead(found.dead)),
        "dispatchers": [] if kinds["dispatcher"] or not is_known else ["no dispatcher is running"],
        "overdue": list(_check_overdue(overdue, first, now)),
        "queues": list(_list_some(_check_places(found, max_lag))) if is_known else [],
        "commands": list(_list_some(_check_commands(found))),
        "lost": list(_list_some(_check_lost(lost, now))) if is_known else [],
        "stuck": list(_list_some(_check_stuck(found.processes))),
        "late": list(_list_some(f"{each.jobid} {each.text}" for each in found.late)),
        "rewound": list(_list_some(_check_rewinds(found))),
        "jobs": list(others),
    }
    problems = tuple(chain.from_iterable(found_of.values()))
    topics = tuple(topic for topic, texts in found_of.items() for _ in texts)
    oldest = [queue.since for queue in queues if queue.since is not None and queue.paused is None]
    metrics = {
        "lag": max(0.0, now - min(oldest if first is None else [*oldest, first], default=now)),
        "overdue": overdue,
        "waiting": sum(queue.waiting for queue in queues),
        "in_flight": sum(queue.in_flight for queue in queues),
        "failing": total.failing,
        "dead": len(found.dead.times),
        "dispatchers": kinds["dispatcher"],
        "workers": kinds["worker"],
        "lost": len(lost),
        "late": len(found.late),
    }
    paused = ("everything",) if found.is_paused else tuple(each.queue for each in queues if each.paused is not None)
    return Health(problems, metrics, max_lag, paused, topics)


def _check_dead(dead: Dead) -> Iterator[str]:
    for failure in dead.failures[:MOST]:
        error = f": {failure.error}" if failure.error else ""
        yield f"{failure.jobid} has failed for good, and its schedule does not go on{error}"
    if (more := len(dead.times) - MOST) > 0:
        yield f"and {more:,} more of that kind"


def describe_refusal(refusal: Refusal) -> str:
    """Return what the server refuses, and why, in its own words."""
    what = "new jobs" if refusal.is_full else "all changes, so no job runs"
    return f"the server refuses {what}: {refusal.text}"


def _check_overdue(number: int, first: float | None, now: float) -> Iterator[str]:
    if number and first is not None:
        yield f"{name_number(number, 'job')} overdue and not enqueued, the first for {format_length(now - first)}"


def _check_places(found: Glance, max_lag: float) -> Iterator[str]:
    return chain(_check_unplaced(found), _check_queues(found, max_lag), _check_unhosted(found))


def _check_queues(found: Glance, max_lag: float) -> Iterator[str]:
    now, unworked = found.now, found.unworked
    for queue in found.queues:
        if queue.paused is not None or not queue.waiting:
            continue
        waiting = f"{queue.queue} has {name_number(queue.waiting, 'job')}"
        if queue.queue in unworked:
            yield f"{waiting} and no worker{f' (first {queue.first})' if queue.first else ''}"
        elif queue.since is not None and now - queue.since > max_lag:
            yield f"{waiting}, the first of which has waited for {format_length(now - queue.since)}"


def _check_unhosted(found: Glance) -> Iterator[str]:
    for jobid, why in () if found.is_paused else found.unhosted:
        yield f"{jobid} {why}"


def _check_unplaced(found: Glance) -> Iterator[str]:
    for each in found.unplaced:
        yield f"{each.jobid} is due, but a dispatcher cannot name its queue: {each.why}"


def _check_commands(found: Glance) -> Iterator[str]:
    for jobid, queue in found.lacking:
        yield f"{jobid} waits, but no worker of {queue} {say_need(get_taker(jobid))}"


def _check_lost(lost: Sequence[Process], now: float) -> Iterator[str]:
    for process in lost:
        if process.seen > now:
            yield f"the {process.kind} {process.id} was seen when the clock was ahead"
            continue
        yield f"the {process.kind} {process.id} was lost {format_length(now - process.seen)} ago"


def _check_stuck(processes: Sequence[Process]) -> Iterator[str]:
    for process in processes:
        if process.state != "lost" and process.is_stuck:
            slots = f"{len(process.stuck)} of {process.concurrency or 1} slots"
            jobs = ", ".join(_list_some(iter(process.stuck)))
            yield f"the worker {process.id} is stuck in {slots} after their deadlines: {jobs}"


def _check_rewinds(found: Glance) -> Iterator[str]:
    dispatched = found.total.dispatched
    if dispatched is not None and is_ahead(dispatched, found.now):
        length = format_length(min(dispatched, END_OF_TIME) - found.now)
        yield f"the clock of the server was ahead by {length} ({REPAIR})"
    for rewind in found.rewinds:
        yield f"{rewind.describe()} ({REPAIR if rewind.is_of_clock else MINE})"


def _list_some(problems: Iterator[str]) -> Iterator[str]:
    """Yield the first `MOST` problems, and how many more there are."""
    yield from islice(problems, MOST)
    if more := sum(1 for _ in problems):
        yield f"and {more:,} more of that kind"
