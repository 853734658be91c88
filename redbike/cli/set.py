"""The commands that change what is to run: set, unset, load, requeue."""

import sys
from typing import IO

from redbike.cli.arguments import Arguments, Command, read_time
from redbike.cli.bike import open_bike
from redbike.cli.messages import BAD, DONE, complain
from redbike.config import Config
from redbike.errors import BadConfig, NoSuchJob
from redbike.redbike import Redbike


def set_job(arguments: Arguments, config: Config) -> int:
    """Enter a job; say so if nothing is left to run of its schedule."""
    bike = open_bike(config, placing=True)
    jobid, schedule, tz = arguments["<JOBID>"], arguments["<SCHEDULE>"], arguments["--tz"]
    state = bike.enter(jobid, schedule, read_time(arguments["--after"], config, tz), tz)
    if state.status and state.status.startswith("STP") and schedule.strip().upper() != "STOP":
        complain(f"{jobid}: nothing is left to run of {schedule!r}")
    return DONE


def unset_job(arguments: Arguments, config: Config) -> int:
    """Take a job out of the rotation."""
    jobid = arguments["<JOBID>"]
    if not open_bike(config, placing=True).unset(jobid):
        raise NoSuchJob(f"no such job: {jobid!r}")
    return DONE


def load_jobs(arguments: Arguments, config: Config) -> int:
    """Set the rows of a CSV file."""
    bike = open_bike(config, placing=True)
    tz = arguments["--tz"]
    return load_rows(bike, arguments["<CSV>"], read_time(arguments["--after"], config, tz), tz)


def requeue_job(arguments: Arguments, config: Config) -> int:
    """Run a job once now."""
    open_bike(config, placing=True).requeue(arguments["<JOBID>"])
    return DONE


def load_rows(bike: Redbike, csvfilename: str, after: float | None, tz: str | None = None) -> int:
    """Set the rows of a CSV file, - for standard input; name the bad ones, and return the exit status."""
    name, source = ("standard input", _find_stdin()) if csvfilename == "-" else (csvfilename, csvfilename)
    refused = done = 0
    for line, jobid, result in bike.load(source, after, tz):
        if result is True:
            done += 1
        else:
            refused += 1
            complain(f"{name} line {line}: {f'{jobid!r}: ' if jobid else ''}{result}")
    bad = f", {refused} row{'s' * (refused != 1)} refused" if refused else ""
    complain(f"{name}: {done} job{'s' * (done != 1)} set{bad}")
    return BAD if refused else DONE


def _find_stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise BadConfig("cannot read standard input: it is closed")
    return sys.stdin.buffer


COMMANDS: dict[str, Command] = {"set": set_job, "unset": unset_job, "load": load_jobs, "requeue": requeue_job}
