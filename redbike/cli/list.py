"""Run the commands that print lists, for people and programs: jobs, runs, failures, queues, workers, agenda, log."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

from redbike.cli.arguments import Arguments, parse_count, parse_time, prepare_time
from redbike.cli.bike import open_to_look
from redbike.cli.messages import open_progress
from redbike.cli.missing import names_missing
from redbike.cli.rows import choose_format, find_format, print_json, print_rows, show_with
from redbike.config.file import Config
from redbike.facade.redbike import Redbike
from redbike.queries.fields import AGENDA, FAILURES, JOBS, LOG, PAST_RUNS, QUEUES, WORKERS
from redbike.queries.forecast import MOST_HOURS
from redbike.schedule.clock import Clock
from redbike.store.history import PastRun
from redbike.store.job import read_event
from redbike.store.namespace import PAGE, split
from redbike.store.processes import CommandLines

HOURS = 24  # the default length of the agenda
RUNS = 100  # the default number of runs
MOST = 1_000_000  # the highest --limit


@names_missing
def print_jobs(arguments: Arguments, config: Config) -> None:
    """Print jobs. On a terminal, print only the first ones, and those that need attention first."""
    limit = _parse_limit(arguments)
    if (status := arguments["--status"]) is not None:
        read_event(status)
    bike = open_to_look(config, names_queues=True)
    flags = ("queue", "tag", "status", "failed", "paused", "overdue", "never-ran", "planned", "late")
    chosen = {name.replace("-", "_"): arguments[f"--{name}"] for name in flags}
    if choose_format(arguments):
        jobs = bike.jobs(*arguments["<PATTERN>"], **chosen)
        return _print(arguments, bike, islice(jobs, limit), JOBS)
    # Imported here, because only a terminal needs the library for tables.
    from redbike.cli.tables import choose_jobs

    with open_progress() as report:
        first, number = choose_jobs(bike.jobs(*arguments["<PATTERN>"], **chosen, report=report), limit)
    return _print(arguments, bike, first, JOBS, "show_jobs", number, CommandLines(bike.workers()))


@names_missing
def print_runs(arguments: Arguments, config: Config) -> None:
    """Print the last ended runs, the newest first."""
    limit = _parse_limit(arguments) or RUNS
    prepare_time(arguments["--since"], config)
    bike = open_to_look(config)
    since = parse_time(arguments["--since"], config, looks_back=True, read_clock=bike.store.timeline.read_clock)
    chosen = {name: arguments[f"--{name}"] for name in ("failed", "tag")}
    runs = bike.runs(*arguments["<PATTERN>"], since=since, limit=limit, **chosen)
    return _print(arguments, bike, runs, PAST_RUNS, "show_runs", show_more=PastRun.show_result)


@names_missing
def print_failures(arguments: Arguments, config: Config) -> None:
    """Print the failures that are kept. Without ``--format``: a table on a terminal, else one JSON object a line."""
    is_plain = not find_format(arguments) and choose_format(arguments)
    bike = open_to_look(config)
    found = bike.failures(*arguments["<PATTERN>"], tag=arguments["--tag"])
    if is_plain:
        for failure in found:
            print_json(failure)
        return None
    return _print(arguments, bike, _list_failures(bike, found), FAILURES, "show_failures", show_more=vars)


def _list_failures(bike: Redbike, found: Iterable[dict[str, Any]]) -> Iterator[SimpleNamespace]:
    """Yield failures as rows, with the outcome of the last run of each job. A missing field is None."""
    for page in split(found, PAGE):
        jobs = bike.store.overview.read_named([str(kept.get("jobid", "")) for kept in page])
        outcomes = {job.jobid: job.last_outcome for job in jobs}
        for kept in page:
            outcome = outcomes.get(str(kept.get("jobid", "")))
            yield SimpleNamespace(**{**dict.fromkeys(FAILURES), "outcome": outcome, **kept})


@names_missing
def print_queues(arguments: Arguments, config: Config) -> None:
    """Print every queue."""
    bike = open_to_look(config)
    return _print(arguments, bike, bike.queues(), QUEUES, "show_queues")


@names_missing
def print_workers(arguments: Arguments, config: Config) -> None:
    """Print every dispatcher and worker."""
    bike = open_to_look(config)
    return _print(arguments, bike, bike.workers(), WORKERS, "show_workers")


@names_missing
def print_agenda(arguments: Arguments, config: Config) -> None:
    """Print the runs in each quarter of an hour, by queue; on a terminal as bars, with the densest minutes."""
    hours = parse_count(arguments, "--hours", HOURS, most=MOST_HOURS)
    prepare_time(arguments["--after"], config)
    bike = open_to_look(config, names_queues=True)
    after = parse_time(arguments["--after"], config, read_clock=bike.store.timeline.read_clock)
    with open_progress() as report:
        agenda = bike.agenda(*arguments["<PATTERN>"], hours=hours, after=after, report=report, tag=arguments["--tag"])

    def show(_: object) -> None:
        from redbike.cli.chart import show_agenda

        show_agenda(agenda, Clock(agenda.start, bike.settings.timezone))

    rows = ((each.start, each.queue, each.runs, each.jobs) for each in agenda)
    print_rows(arguments, (SimpleNamespace(**dict(zip(AGENDA, row, strict=True))) for row in rows), AGENDA, show)


@names_missing
def print_log(arguments: Arguments, config: Config) -> None:
    """Print what people have changed, the newest first."""
    limit = _parse_limit(arguments)
    prepare_time(arguments["--since"], config)
    bike = open_to_look(config)
    since = parse_time(arguments["--since"], config, looks_back=True, read_clock=bike.store.timeline.read_clock)
    entries = bike.log(arguments["<JOBID>"], since, arguments["--who"])
    return _print(arguments, bike, islice(entries, limit), LOG, "show_log")


def _parse_limit(arguments: Arguments) -> int | None:
    return None if arguments["--limit"] is None else parse_count(arguments, "--limit", most=MOST)


def _print(
    arguments: Arguments,
    bike: Redbike,
    rows: Iterable[Any],
    fields: tuple[str, ...],
    name: str = "",
    *more: Any,
    show_more: Callable[[Any], dict[str, Any]] = lambda row: {},
) -> None:
    """Print rows: their `fields` as data, or for people by the function of `redbike.cli.tables` with this `name`.

    `show_more` is passed to `print_rows`, and `more` to that function.
    """

    def show(rows: Iterable[Any]) -> None:
        show_with(name, Clock(bike.store.timeline.read_clock(), bike.settings.timezone), *more)(rows)

    print_rows(arguments, rows, fields, show, show_more=show_more)
