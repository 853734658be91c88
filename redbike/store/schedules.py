"""The schedule of a job, from its text and its options."""

from redbike.config.options import parse_options
from redbike.errors import BadSchedule
from redbike.schedule.jitter import add_jitter
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse_stored


def find_schedule(jobid: str, text: str, options: str) -> Schedule:
    """Return the schedule of a job with this stored text and these stored options. Raise `BadSchedule`."""
    schedule = parse_stored(text)
    return apply_options(schedule, jobid, options) if options else schedule


def read_schedule(jobid: str, text: str | None, options: str) -> Schedule | None:
    """Return what `find_schedule` does; None for a damaged or missing schedule."""
    try:
        return find_schedule(jobid, text or "", options)
    except BadSchedule:
        return None


def apply_options(schedule: Schedule, jobid: str, options: str) -> Schedule:
    """Return `schedule` with the jitter that these stored options give the job."""
    seconds = find_jitter(options)
    return add_jitter(schedule, jobid, seconds) if seconds else schedule


def find_jitter(options: str) -> float:
    """Return the seconds over which the runs of jobs with these stored options are spread."""
    return float(parse_options(options).get("spread", 0)) if options else 0.0
