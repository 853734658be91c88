"""The command next: when a schedule, or a job, runs next. A schedule needs no server."""

import time
from typing import Any

from redbike.cli.arguments import Arguments, Command, read_count, read_time
from redbike.cli.messages import DONE, complain
from redbike.config import Config, check_zone
from redbike.errors import BadJobId, BadSchedule, ServerError
from redbike.schedule.forecast import describe_job, list_runs
from redbike.schedule.parser import parse, parse_stored


def print_next(arguments: Arguments, config: Config) -> int:
    """Print what a schedule, or that of a job, says in words, and its coming instants."""
    now = time.time()
    given, zone = arguments["<SCHEDULE>"], config.settings.timezone
    zone = zone if arguments["--tz"] is None else check_zone(arguments["--tz"])
    after = read_time(arguments["--after"], config, arguments["--tz"])
    count = read_count(arguments, "--count", 5)
    stored, where = None, ""
    try:
        schedule = parse(given, zone, anchor=now)
    except BadSchedule as error:
        told = _find_job(given, config, error)
        stored, (where, goes_on) = told["next_run"], describe_job(told, now)
        if not goes_on:
            print(where)
            return DONE
        schedule = parse_stored(told["schedule"])
    for line in filter(None, (schedule.explain(), where)):
        print(line)
    if not where and schedule.runs_once and after is None and not schedule.is_immediate and schedule.next(now) is None:
        print("That is past: it is due at once when it is set.")
        return DONE
    local = schedule.timezone or zone
    start = now if after is None else after
    lines = [] if where and schedule.is_immediate else list(list_runs(schedule, start, now, count, local, stored))
    for line in lines:
        print(line)
    if len(lines) < count and not schedule.is_immediate:
        complain("no further runs")
    return DONE


def _find_job(jobid: str, config: Config, error: BadSchedule) -> dict[str, Any]:
    """What is told of the job of this id; raises `error`, why it is no schedule, if there is none, or no server."""
    # Only now: this loads redis-py, and a schedule is to be told quickly.
    from redbike.cli.bike import find_embedded_server, open_bike

    server = find_embedded_server(config)
    if server and not server.status()["running"]:
        raise error
    try:
        told = open_bike(config).tell(jobid)
    except (BadJobId, ServerError):
        raise error from None
    if told["schedule"] is None and told["status"] is None:
        # Text with blanks is unlikely to be a job id.
        raise error if " " in jobid else BadSchedule(f"{error}; nor is there a job {jobid!r:.80}") from None
    return told


COMMANDS: dict[str, Command] = {"next": print_next}
