"""Show rows as tables on a terminal. Colours mark rows that need attention."""

import heapq
import math
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from rich.console import Console
from rich.text import Text

from redbike.cli.columns import BUSY, DIM, GOOD, ODD, WRONG, Column, Width, make_table, make_text
from redbike.cli.pager import open_console, open_paged
from redbike.control.sync.changes import Change
from redbike.errors import BadSchedule
from redbike.queries.shards import ShardState
from redbike.schedule.clock import NOTHING, Clock, format_length, format_took
from redbike.schedule.parser import parse_stored
from redbike.store.enums import Difference, Event, Outcome
from redbike.store.history import PastRun
from redbike.store.job import Job
from redbike.store.log import LogEntry, localize
from redbike.store.processes import CommandLines, Process
from redbike.store.tokens import Token
from redbike.store.totals import Queue
from redbike.text.printable import format_size

ROWS = 100  # the default number of jobs on a terminal
EVENTS = {Event.DIE: WRONG, Event.BAD: WRONG, Event.WRK: BUSY, Event.ENQ: BUSY, Event.STP: DIM}
DIFFERENCES = {Difference.ADDED: GOOD, Difference.CHANGED: ODD, Difference.REMOVED: WRONG}
OUTCOMES = {Outcome.OK: GOOD, Outcome.RETRY: ODD, Outcome.CANCELLED: ODD}  # all others are `WRONG`


def choose_jobs(jobs: Iterable[Job], limit: int | None) -> tuple[list[Job], int]:
    """Return the first `limit` jobs, by default `ROWS`, and the number of all jobs.

    Jobs that are dead, failed or bad, overdue, paused, or running come first, in this order; then by due time.
    """
    numbers = count()
    first = heapq.nsmallest(limit or ROWS, (job for job, _ in zip(jobs, numbers, strict=False)), key=_urgency)
    return first, next(numbers)


def show_jobs(jobs: Sequence[Job], clock: Clock, number: int, lines: CommandLines) -> None:
    """Show `jobs`, the first ones of `number`. If any has a command line in `lines`, show these too."""
    columns = list_job_columns(clock)
    found = {job.jobid: lines.find(job.jobid, job.queue) for job in jobs}
    if any(found.values()):
        columns.append(Column("COMMAND", lambda job: found[job.jobid] or NOTHING, Width.CUT, is_extra=True))
    more = number - len(jobs)
    _print(columns, jobs, f"{more:,} more: --limit=N shows them" if more else "")


def list_job_columns(clock: Clock) -> list[Column]:
    """Return the columns of a table of jobs."""
    return [
        Column("JOB", lambda job: job.jobid, Width.FOLDED),
        Column("STATUS", _show_status),
        Column("SINCE", lambda job: make_text(clock.measure(job.since), DIM), is_extra=True),
        Column("NEXT RUN", lambda job: _show_next(job, clock)),
        Column("LAST RUN", lambda job: _show_last(job, clock), Width.CUT),
        Column("SCHEDULE", lambda job: _show_schedule(job.schedule), Width.CUT),
    ]


def _show_schedule(text: str | None) -> str:
    """Return a schedule without the instant from which it counts, which people do not need."""
    try:
        return parse_stored(text).label if text else NOTHING
    except BadSchedule:
        return text or NOTHING


def show_runs(runs: Iterable[PastRun], clock: Clock, names_jobs: bool = True) -> None:
    """Show runs in the given order."""
    columns = [
        Column(f"STARTED ({clock.zone})", lambda run: clock.format(run.started)),
        Column("JOB", lambda run: run.jobid, Width.FOLDED),
        Column("TOOK", lambda run: format_took(run.took), is_number=True),
        Column("OUTCOME", lambda run: make_text(run.outcome, OUTCOMES.get(run.outcome, WRONG))),
        Column("TRY", lambda run: str(run.attempt), is_number=True, is_extra=True),
        Column("ERROR", lambda run: make_text(run.error, WRONG), Width.CUT),
        Column("WORKER", lambda run: make_text(run.worker or NOTHING, DIM), is_extra=True),
    ]
    shown = list(runs)
    if any(run.cpu is not None for run in shown):
        columns[3:3] = [
            Column("CPU", lambda run: NOTHING if run.cpu is None else format_took(run.cpu), is_number=True),
            Column("MEMORY", lambda run: NOTHING if run.memory is None else format_size(run.memory), is_number=True),
        ]
    if not names_jobs:
        del columns[1]
    _print(columns, shown)


def show_failures(failures: Iterable[Any], clock: Clock) -> None:
    """Show failures in the given order."""
    found = list(failures)
    columns = [
        Column(f"FAILED ({clock.zone})", lambda each: _show_moment(each.failed, clock)),
        Column("JOB", lambda each: str(each.jobid or NOTHING), Width.FOLDED),
        Column("OUTCOME", lambda each: make_text(each.outcome or NOTHING, WRONG)),
        Column("TRY", lambda each: str(each.attempt or NOTHING), is_number=True, is_extra=True),
        Column("ERROR", lambda each: make_text(" ".join(str(each.error or NOTHING).split()), WRONG), Width.CUT),
        Column("OWNER", lambda each: str(each.owner or NOTHING), Width.CUT),
        Column("NOTE", lambda each: str(each.note or NOTHING), Width.CUT, is_extra=True),
    ]
    given = {name for name in ("owner", "note") if any(getattr(each, name) for each in found)}
    _print([each for each in columns if each.title.lower() in given or each.title not in ("OWNER", "NOTE")], found)


def _show_moment(moment: object, clock: Clock) -> str:
    return clock.format(moment) if isinstance(moment, int | float) else NOTHING


def show_queues(queues: Iterable[Queue], clock: Clock) -> None:
    """Show queues. The queue whose oldest job waits longest comes first."""
    shown = sort_queues(queues)
    coming = Column("NEXT BLACKOUT", lambda queue: clock.measure(queue.blackout))
    more = [coming] if any(queue.blackout is not None for queue in shown) else []
    _print([*list_queue_columns(clock), *more], shown)


def sort_queues(queues: Iterable[Queue]) -> list[Queue]:
    """Return sorted queues. The queue whose oldest job waits longest comes first."""
    return sorted(queues, key=lambda queue: math.inf if queue.oldest_due is None else queue.oldest_due)


def list_queue_columns(clock: Clock) -> list[Column]:
    """Return the columns of a table of queues."""
    return [
        Column("QUEUE", lambda queue: queue.queue, Width.FOLDED),
        Column(
            "WAITING", lambda queue: make_text(f"{queue.waiting:,}", BUSY if queue.waiting else DIM), is_number=True
        ),
        Column("OLDEST DUE", lambda queue: clock.measure(queue.oldest_due)),
        Column("IN FLIGHT", lambda queue: f"{queue.in_flight:,}", is_number=True),
        Column("AT ONCE", lambda queue: NOTHING if queue.at_once is None else str(queue.at_once), is_number=True),
        Column("LAST MINUTE", lambda queue: f"{queue.rate:,}", is_number=True),
        Column("PAUSED", lambda queue: make_text(clock.measure(queue.paused), "" if queue.paused is None else ODD)),
    ]


def show_workers(workers: Iterable[Process], clock: Clock) -> None:
    """Show processes in the given order."""
    _print(list_worker_columns(clock), list(workers))


def list_worker_columns(clock: Clock) -> list[Column]:
    """Return the columns of a table of processes."""
    return [
        Column("KIND", lambda each: each.kind),
        Column("HOST", lambda each: each.host, Width.FOLDED),
        Column("PID", lambda each: str(each.pid), is_number=True),
        Column("STATE", lambda each: make_text(each.state, {"alive": GOOD, "stopping": ""}.get(each.state, WRONG))),
        Column("SINCE", lambda each: clock.measure(each.since), is_extra=True),
        Column("SEEN", lambda each: clock.measure(each.seen)),
        Column("QUEUES", lambda each: " ".join(each.queues), Width.CUT),
        Column("JOBS", lambda each: make_text(" ".join(each.jobs) or NOTHING, BUSY if each.jobs else DIM), Width.CUT),
    ]


def show_log(entries: Iterable[LogEntry], clock: Clock) -> None:
    """Show the changes that people have made, in the given order, a page at a time."""
    columns = (
        Column(f"TIME ({clock.zone})", lambda entry: clock.format(entry.time)),
        Column("WHO", lambda entry: entry.who, is_extra=True),
        Column("ACTION", lambda entry: entry.action),
        Column("JOB", lambda entry: entry.jobid or NOTHING, Width.FOLDED),
        Column("DETAIL", lambda entry: localize(entry.detail, clock.name), Width.CUT),
    )
    with open_paged() as console:
        _print(columns, list(entries), console=console)


def show_shards(shards: Iterable[ShardState]) -> None:
    """Show shards in the given order."""

    def show(number: int | None) -> str:
        return NOTHING if number is None else f"{number:,}"

    columns = (
        Column("SHARD", lambda each: str(each.shard), is_number=True),
        Column("PREFIX", lambda each: each.prefix, Width.FOLDED),
        Column("SERVER", lambda each: each.server or NOTHING, Width.FOLDED),
        Column("JOBS", lambda each: show(each.jobs), is_number=True),
        Column("WAITING", lambda each: show(each.waiting), is_number=True),
        Column("IN FLIGHT", lambda each: show(each.in_flight), is_number=True),
        Column("LAG", lambda each: NOTHING if each.lag is None else format_length(each.lag), is_number=True),
        Column("PROBLEM", lambda each: make_text(each.problem or NOTHING, WRONG if each.problem else DIM), Width.CUT),
    )
    _print(columns, list(shards))


def show_tokens(tokens: Iterable[Token], clock: Clock) -> None:
    """Show tokens in the given order, without their secrets."""
    columns = (
        Column("NAME", lambda token: token.name, Width.FOLDED),
        Column("ROLE", lambda token: token.role),
        Column("JOBS", lambda token: " ".join(token.jobs) or "all", Width.FOLDED),
        Column("EXPIRES", lambda token: _show_end(token, clock)),
        Column("SINCE", lambda token: make_text(clock.measure(token.since), DIM), is_extra=True),
        Column("BY", lambda token: make_text(token.by, DIM), is_extra=True),
    )
    _print(columns, list(tokens))


def _show_end(token: Token, clock: Clock) -> Text | str:
    if token.expires is None:
        return "never"
    said = clock.measure(token.expires)
    return said if token.is_valid(clock.now) else make_text(f"expired {said}", ODD)


def show_changes(changes: Sequence[Change], number: int) -> None:
    """Show `changes` of jobs, the first ones of `number`."""
    columns = (
        Column("", lambda change: make_text(change.difference, DIFFERENCES[change.difference])),
        Column("JOB", lambda change: change.jobid, Width.FOLDED),
        Column("WHAT", lambda change: change.detail, Width.FOLDED),
    )
    more = number - len(changes)
    _print(columns, changes, f"{more:,} more: --format=csv prints them" if more else "")


def print_title(title: str) -> None:
    """Print a title as one line, on a terminal in bold."""
    Console(highlight=False, soft_wrap=True).print(make_text(title, "bold"))


def _urgency(job: Job) -> tuple[int, float, str]:
    flags = (
        job.is_dead,
        job.has_failed or job.status == Event.BAD,
        job.is_overdue,
        job.paused is not None,
        job.is_running,
    )
    rank = next((number for number, flag in enumerate(flags) if flag), len(flags))
    return rank, math.inf if job.next_run is None else job.next_run, job.jobid


def _show_status(job: Job) -> Text:
    shown = make_text(job.status or NOTHING, EVENTS.get(job.status, "") if job.status else "")
    return shown if job.paused is None else shown.append(" paused", ODD)


def _show_next(job: Job, clock: Clock) -> Text:
    if job.is_running:
        return make_text("runs", BUSY)
    if job.is_overdue:
        return make_text("waits" if job.next_run is None else f"due {clock.measure(job.next_run)}", ODD)
    if job.paused is not None:
        until = job.paused_until
        return make_text("when resumed" if until is None else f"resumes {clock.measure(until)}", ODD)
    return make_text(clock.measure(job.next_run))


def _show_last(job: Job, clock: Clock) -> Text:
    if job.last_outcome is None:
        return make_text(NOTHING)
    return make_text(job.last_outcome, OUTCOMES.get(job.last_outcome, WRONG)).append(
        f" {clock.measure(job.last_started)}", DIM
    )


def _print(columns: Sequence[Column], rows: Sequence[Any], rest: str = "", console: Console | None = None) -> None:
    console = console or open_console()
    if not rows:
        console.print("none")
        return
    console.print(make_table(columns, rows, console.width))
    if rest:
        console.print(rest)
