"""Run the commands that enter and remove jobs: set, unset, load."""

import sys
from typing import IO

from redbike.cli.arguments import Arguments, Command, parse_time
from redbike.cli.bike import open_bike
from redbike.cli.messages import BAD, DONE, complain
from redbike.config import Config
from redbike.errors import BadConfig, NoSuchJob
from redbike.options import DATA, OPTIONS, OptionChanges, parse_data, read_changes
from redbike.redbike import Redbike
from redbike.schedule.parser import parse


def set_job(arguments: Arguments, config: Config) -> int:
    """Set a job; print a message if its schedule has no run left."""
    bike = open_bike(config, needs_queues=True)
    jobid, schedule, tz = arguments["<JOBID>"], arguments["<SCHEDULE>"], arguments["--tz"]
    runs = bike.enter(jobid, schedule, parse_time(arguments["--after"], config, tz), tz, read_flags(arguments))
    if not runs and not parse(schedule).never_runs:
        complain(f"{jobid}: nothing is left to run of {schedule!r}")
    return DONE


def read_flags(arguments: Arguments) -> OptionChanges:
    """Return the options and data that are given. Raise `BadConfig`."""
    given = {name: arguments[f"--{name}"] for name in (*OPTIONS, DATA) if arguments[f"--{name}"] is not None}
    if DATA in given:
        given[DATA] = parse_data(given[DATA])
    return read_changes(given)


def unset_job(arguments: Arguments, config: Config) -> int:
    """Unset a job. Raise `NoSuchJob` if there is none."""
    jobid = arguments["<JOBID>"]
    if not open_bike(config, needs_queues=True).unset(jobid):
        raise NoSuchJob(f"no such job: {jobid!r}")
    return DONE


def load_jobs(arguments: Arguments, config: Config) -> int:
    """Set the jobs in the rows of a CSV file."""
    bike = open_bike(config, needs_queues=True)
    tz = arguments["--tz"]
    return load_rows(bike, arguments["<CSV>"], parse_time(arguments["--after"], config, tz), tz)


def load_rows(bike: Redbike, csvfilename: str, after: float | None, tz: str | None = None) -> int:
    """Set the jobs in a CSV file, or in standard input for ``-``; print invalid rows, and return the exit status."""
    name, source = ("standard input", _find_stdin()) if csvfilename == "-" else (csvfilename, csvfilename)
    refused = loaded = 0
    for line, jobid, result in bike.load(source, after, tz):
        if result is True:
            loaded += 1
        else:
            refused += 1
            complain(f"{name} line {line}: {f'{jobid!r}: ' if jobid else ''}{result}")
    ending = f", {refused} row{'s' * (refused != 1)} refused" if refused else ""
    complain(f"{name}: {loaded} job{'s' * (loaded != 1)} set{ending}")
    return BAD if refused else DONE


def _find_stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise BadConfig("cannot read standard input: it is closed")
    return sys.stdin.buffer


COMMANDS: dict[str, Command] = {"set": set_job, "unset": unset_job, "load": load_jobs}
