"""Run the commands set and unset: set one job, or unset one or those with a tag."""

import time
from typing import Any, cast

from redbike.cli.arguments import Arguments, parse_time, prepare_time
from redbike.cli.bike import note_pauses, open_bike
from redbike.cli.calendars import exclude_days, find_holidays
from redbike.cli.messages import complain
from redbike.config.definitions import OPTIONS
from redbike.config.file import Config
from redbike.config.labels import read_filter
from redbike.config.options import DATA, JobOptions, parse_data, read_changes
from redbike.config.settings import check_zone
from redbike.control.operator import check_after
from redbike.control.remarks import describe_owner
from redbike.errors import NoSuchJob, RedbikeError
from redbike.facade.redbike import Redbike
from redbike.loop.host_jobs import check_unset
from redbike.loop.requests import parse_to_set
from redbike.schedule.parser import parse
from redbike.store.patterns import Steered, expand
from redbike.store.shell import check_own_jobid


def set_job(arguments: Arguments, config: Config) -> None:
    """Set a job; print a message if its schedule has no run left."""
    jobid, schedule, tz = arguments["<JOBID>"], arguments["<SCHEDULE>"], arguments["--tz"]
    check_own_jobid(jobid)
    now, zone = time.time(), config.settings.timezone if tz is None else check_zone(tz)
    schedule = exclude_days(schedule, find_holidays(arguments["--except"], now), zone, jobid, now)
    parsed = parse(schedule, zone, jobid, now)
    parse_to_set(schedule, zone, jobid, now, config.settings)  # refuses a schedule that no job, or no base, can have
    check_after(arguments["--after"], parsed, "--after")
    prepare_time(arguments["--after"], config, tz)
    flags = read_flags(arguments)
    bike = open_bike(config, needs_queues=True)
    after = parse_time(arguments["--after"], config, tz, read_clock=bike.store.timeline.read_clock)
    runs = bike.enter(jobid, schedule, after, tz, **flags)
    if not runs and not parsed.never_runs:
        complain(f"{jobid}: nothing is left to run of {schedule!r}")
    if runs and parsed.is_immediate:
        note_pauses(bike, [jobid])
    if parsed.is_awaiting:
        _note_unknown(bike, jobid)


def _note_unknown(bike: Redbike, jobid: str) -> None:
    """Print for which unknown jobs a new follower waits. This is only advice: the job is set already."""
    # Imported here, because few jobs follow others.
    from redbike.queries.following.remarks import describe_unknown

    try:
        for said in describe_unknown(bike.store, jobid):
            complain(said)
    except RedbikeError as error:
        complain(f"{jobid}: it is set; for what it waits cannot be read: {error}")


def read_flags(arguments: Arguments) -> JobOptions:
    """Return the options and data in the command line. Raise `BadConfig` if one is invalid."""
    flags = {name: arguments[f"--{name}"] for name in (*OPTIONS, DATA) if arguments[f"--{name}"] is not None}
    if DATA in flags:
        flags[DATA] = parse_data(flags[DATA])
    read_changes(flags)
    given: Any = {name.replace("-", "_"): value for name, value in flags.items()}
    return cast(JobOptions, given)


def unset_job(arguments: Arguments, config: Config) -> None:
    """Unset a job; or unset the jobs that have a tag, and print their ids. Raise `NoSuchJob` if there is none."""
    jobid, bike = arguments["<JOBID>"], open_bike(config, needs_queues=True)
    if tags := read_filter(arguments["--tag"]):
        found = list(expand(bike.store.catalog, (), tags=tags))
        steered = [Steered(each, "") for each in found] if arguments["--dry-run"] else bike.unset_many(tag=tags)
        for each in steered:
            print(each.jobid)
        return
    if arguments["--dry-run"]:
        check_unset(bike.store, jobid)
        if is_found := bike.store.catalog.has_job(jobid, also_bad=True):
            print(jobid)
    else:
        if group := bike.tell(jobid).get("group"):
            complain(describe_owner(jobid, group))
        is_found = bike.unset(jobid)
    if not is_found:
        raise NoSuchJob(f"no such job: {jobid!r}")
