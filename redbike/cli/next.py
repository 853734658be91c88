"""Run the command next, which prints when a schedule or a job runs next. Most schedules need no server."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from redbike.cli.arguments import Arguments, parse_count, parse_time, prepare_time
from redbike.cli.calendars import exclude_days, find_holidays
from redbike.cli.messages import complain
from redbike.config.file import Config
from redbike.config.settings import check_zone
from redbike.errors import BadJobId, BadSchedule, ServerError
from redbike.schedule.after import After
from redbike.schedule.clock import Clock, list_runs
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import EveryHost, is_hashed, parse, parse_stored

if TYPE_CHECKING:
    from redbike.facade.redbike import Redbike


class _Span(NamedTuple):
    """Which due times to print: `number` of them after `after`, or else after `now`. Times are in epoch seconds."""

    now: float
    after: float | None
    number: int
    zone: str  # the zone of the output, if the schedule has none

    @property
    def start(self) -> float:
        """The instant after which due times are printed."""
        return self.now if self.after is None else self.after


def print_next(arguments: Arguments, config: Config) -> None:
    """Print a schedule, or that of a job, in words, and its next due times."""
    now, text = time.time(), arguments["<SCHEDULE>"]
    zone = config.settings.timezone if arguments["--tz"] is None else check_zone(arguments["--tz"])
    number = parse_count(arguments, "--count", 5)
    days = find_holidays(arguments["--except"], now)
    try:
        schedule = parse(exclude_days(text, days, zone, "", now), zone, anchor=now)
    except BadSchedule as error:
        if days:
            raise
        prepare_time(arguments["--after"], config, arguments["--tz"])
        bike, job = _find_job(text, config, error)
        # For jobs, only the server's clock counts.
        now = bike.store.timeline.read_clock()
        after = parse_time(arguments["--after"], config, arguments["--tz"], read_clock=lambda: now)
        _print_job(bike, text, job, config, _Span(now, after, number, zone))
        return
    after = parse_time(arguments["--after"], config, arguments["--tz"], read_clock=lambda: now)
    span = _Span(now, after, number, zone)
    if isinstance(schedule, After):
        _print_follower(schedule, "", config, span)
        return
    print(schedule.explain(zone))
    if isinstance(schedule, EveryHost):
        schedule = schedule.inner
    if schedule.runs_once and after is None and not schedule.is_immediate and schedule.next(now) is None:
        print("That is past: it is due at once when it is set.")
        return
    if is_hashed(text):
        complain("H is its lowest value here. Each job has its own: redbike next JOBID shows it")
    _print_runs(schedule, span, schedule.timezone or zone)


def _print_job(bike: "Redbike", jobid: str, job: Mapping[str, Any], config: Config, span: _Span) -> None:
    """Print the schedule of a job in words, its present state, and its next due times."""
    # Imported here, because a schedule alone needs no stored data.
    from redbike.queries.blackouts import make_remark
    from redbike.queries.closed import read_limits
    from redbike.queries.next_runs import find_times
    from redbike.queries.paused import describe_left
    from redbike.queries.place import describe_job

    limits = read_limits(bike.store, jobid)
    state, goes_on = describe_job(job, Clock(span.now, config.settings.timezone), limits)
    if not goes_on:
        print(state)
        return
    _, schedule, times = find_times(bike.store, bike.settings, jobid, job, span.number)
    zone = schedule.timezone or span.zone
    remark = make_remark(job.get("blackouts", []), Clock(span.now, zone), limits)
    if isinstance(schedule, After):
        is_awaiting = not (job["working"] or "paused" in job or "queued_for" in job)
        _print_follower(schedule, jobid, config, span, remark, "" if is_awaiting else state)
        return
    own = parse_stored(job["schedule"])
    for line in filter(None, ((own if own.is_for_hosts else schedule).explain(span.zone), state)):
        print(line)
    if not (state and times.is_immediate):
        _print_runs(times, span, zone, job["next_run"], *describe_left(times, remark, Clock(span.now, zone)))


def _print_runs(
    schedule: Schedule,
    span: _Span,
    zone: str,
    stored: float | None = None,
    *shown: Callable[[float], Any],
) -> None:
    lines = list(list_runs(schedule, span.start, span.now, span.number, zone, stored, *shown))
    for line in lines:
        print(line)
    # For a schedule that is due at once, its explanation has already said that it runs once.
    if len(lines) < span.number and (not schedule.is_immediate or (stored is not None and not lines)):
        complain("no further runs")


def _print_follower(
    schedule: After,
    jobid: str,
    config: Config,
    span: _Span,
    remark: Callable[[float], str] = lambda due: "",
    state: str = "",
) -> None:
    """Print for what a follower waits, and when its parents are due next. `jobid` is "" for a follower that is not set.

    `remark` returns a text to print after a due time. `state` says where the job is, if it waits for no parents now.
    """
    # Imported here, because few schedules need a server.
    from redbike.cli.bike import find_stopped_server, open_to_look
    from redbike.cli.kin import list_parent_times

    for line in filter(None, (schedule.explain(span.zone), state)):
        print(line)
    if find_stopped_server(config):
        complain("its parents are not known: no server is running")
        return
    try:
        store = open_to_look(config).store
        said, note, lines = list_parent_times(store, schedule, jobid, span.zone, span.start, span.number, remark)
    except ServerError as problem:
        complain(f"its parents are not known: {problem}")
        return
    ending = "if they fail" if schedule.ending == "failed" else "when they have ended"
    heading = f"It is due for these times of its parents, {ending}:" if lines else note
    for line in filter(None, (said, heading, *lines)):
        print(line)
    if len(lines) < span.number and not note and not schedule.runs_once:
        complain("no further runs")


def _find_job(jobid: str, config: Config, error: BadSchedule) -> "tuple[Redbike, Mapping[str, Any]]":
    """Return the facade, and the answer of `Redbike.tell` for this job.

    `error` says why the text is not a schedule. If there is no such job, or the embedded server does not run, raise it,
    or an error that adds to it. If the server or a shard does not answer, raise `ServerError`.
    """
    # Imported here, because this loads redis-py, which a schedule does not need.
    from redbike.cli.bike import find_stopped_server, open_to_look

    if find_stopped_server(config):
        raise error
    try:
        job = open_to_look(config).tell(jobid)
    except BadJobId:
        raise error from None
    except ServerError as problem:
        # Text with blanks is unlikely to be a job id.
        raise error if " " in jobid else ServerError(f"{problem}; whether it is a job is unknown; {error}") from None
    if job["schedule"] is None and job["status"] is None:
        raise error if " " in jobid else BadSchedule(f"{error}; there is no such job either: {jobid!r:.80}") from None
    # Load the worker class only now that the text is known to be a job.
    return open_to_look(config, names_queues=True), job
