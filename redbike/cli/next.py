"""Run the command next: print when a schedule or a job runs next. For a schedule, no server is needed."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redbike.cli.arguments import Arguments, parse_count, parse_time
from redbike.cli.calendars import exclude_days, find_holidays
from redbike.cli.messages import complain
from redbike.config.file import Config
from redbike.config.settings import check_zone
from redbike.errors import BadJobId, BadSchedule, ServerError
from redbike.schedule.after import After
from redbike.schedule.clock import Clock, list_runs
from redbike.schedule.jitter import add_jitter
from redbike.schedule.parser import parse, parse_stored

if TYPE_CHECKING:
    from redbike.store.blackouts import BlackoutDetails


def print_next(arguments: Arguments, config: Config) -> None:
    """Print a schedule in words, and its next due times; or do so for the schedule of a job."""
    now = time.time()
    text, zone = arguments["<SCHEDULE>"], config.settings.timezone
    zone = zone if arguments["--tz"] is None else check_zone(arguments["--tz"])
    after = parse_time(arguments["--after"], config, arguments["--tz"])
    start, count = now if after is None else after, parse_count(arguments, "--count", 5)
    stored, state, jobid, details = None, "", "", list["BlackoutDetails"]()
    days = find_holidays(arguments["--except"], now)
    try:
        schedule = parse(exclude_days(text, days, zone, "", now), zone, anchor=now)
    except BadSchedule as error:
        if days:
            raise
        # Imported here, as a schedule alone needs nothing of what is stored.
        from redbike.queries.place import describe_job

        job, jobid = _find_job(text, config, error), text
        stored, (state, goes_on) = job["next_run"], describe_job(job, Clock(now, config.settings.timezone))
        if not goes_on:
            print(state)
            return
        details = job.get("blackouts", [])
        schedule = add_jitter(parse_stored(job["schedule"]), text, job.get("options", {}).get("spread", 0))
    local = schedule.timezone or zone
    remark = _make_remark(details, Clock(now, local))
    if isinstance(schedule, After):
        _print_follower(schedule, jobid, config, zone, start, count, remark)
        return
    for line in filter(None, (schedule.explain(zone), state)):
        print(line)
    if not state and schedule.runs_once and after is None and not schedule.is_immediate and schedule.next(now) is None:
        print("That is past: it is due at once when it is set.")
        return
    found = list_runs(schedule, start, now, count, local, stored, remark)
    lines = [] if state and schedule.is_immediate else list(found)
    for line in lines:
        print(line)
    if len(lines) < count and not schedule.is_immediate:
        complain("no further runs")


def _print_follower(
    schedule: After,
    jobid: str,
    config: Config,
    zone: str,
    after: float,
    count: int,
    remark: Callable[[float], str],
) -> None:
    """Print what a follower waits for, and when its parents are due next; `jobid` is "" for one that is not set.

    `remark` is what stands behind a due time.
    """
    # Imported here, as few schedules need a server.
    from redbike.cli.bike import find_stopped_server, open_bike
    from redbike.cli.kin import list_parent_times

    print(schedule.explain(zone))
    if find_stopped_server(config):
        complain("its parents are not known: no server is running")
        return
    try:
        said, note, lines = list_parent_times(open_bike(config).store, schedule, jobid, zone, after, count, remark)
    except ServerError as problem:
        complain(f"its parents are not known: {problem}")
        return
    ending = "if they fail" if schedule.ending == "failed" else "when they have ended"
    heading = f"It is due for these times of its parents, {ending}:" if lines else note
    for line in filter(None, (said, heading, *lines)):
        print(line)
    if len(lines) < count and not note and not schedule.runs_once:
        complain("no further runs")


def _make_remark(details: "Sequence[BlackoutDetails]", clock: Clock) -> Callable[[float], str]:
    if not details:
        return lambda due: ""
    # Imported here, as a schedule alone needs nothing of what is stored.
    from redbike.queries.blackouts import make_remark

    return make_remark(details, clock)


def _find_job(jobid: str, config: Config, error: BadSchedule) -> Mapping[str, Any]:
    """Return the answer of `Redbike.tell` for the job of this id.

    If there is no such job, or no server, raise `error`, which says why the text is not a schedule, with what came of
    looking for a job.
    """
    # Imported here, as this loads redis-py, which a schedule does not need.
    from redbike.cli.bike import find_stopped_server, open_bike

    if find_stopped_server(config):
        raise error
    try:
        job = open_bike(config).tell(jobid)
    except BadJobId:
        raise error from None
    except ServerError as problem:
        # Text with blanks is unlikely to be a job id.
        raise error if " " in jobid else BadSchedule(f"{error}; it cannot be a job id either: {problem}") from None
    if job["schedule"] is None and job["status"] is None:
        raise error if " " in jobid else BadSchedule(f"{error}; there is no such job either: {jobid!r:.80}") from None
    return job
