"""Pairs of a job id and its schedule, as programs pass them to `set_many` and `sync`."""

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from redbike.config.options import NO_CHANGES, OptionChanges, read_changes
from redbike.errors import BadConfig
from redbike.schedule.objects import ScheduleLike
from redbike.text.printable import quote

Pair = tuple[str, ScheduleLike] | tuple[str, ScheduleLike, Mapping[str, Any]]
"""Job id and schedule, or job id, schedule and options: these and ``data`` by the names that `Redbike.set` has."""

PAIRS = "(job id, schedule) or (job id, schedule, options)"


class Wanted(NamedTuple):
    """What `Setter.set_many` is to do with a job."""

    jobid: str
    schedule: ScheduleLike | None
    changes: OptionChanges = NO_CHANGES
    error: BadConfig | None = None  # why the options are refused


def read_pair(pair: Any) -> Wanted:
    """Parse a pair, with or without options. Raise `TypeError` for anything else."""
    if type(pair) is tuple and len(pair) == 2:
        return Wanted(*pair)  # most pairs are like this
    jobid, schedule, options = split_pair(pair)
    try:
        return Wanted(jobid, schedule, read_changes(options) if options else NO_CHANGES)
    except BadConfig as error:
        return Wanted(jobid, schedule, error=error)


def split_pair(pair: Any) -> tuple[Any, Any, Mapping[str, Any]]:
    """Return the job id, the schedule and the options of a pair. Raise `TypeError` for anything that is no pair."""
    try:
        # A text of two characters could be unpacked, too, and a dict would give its keys.
        values = () if isinstance(pair, str | bytes | Mapping | Set) else tuple(pair)
    except TypeError:
        values = ()
    if not 2 <= len(values) <= 3:
        raise TypeError(f"bad pair {quote(pair)}: {PAIRS} is needed")
    jobid, schedule, options = (*values, {})[:3]
    if not isinstance(options, Mapping):
        raise TypeError(f"bad options {options!r:.80} of the job {jobid!r:.80}: a dict is needed")
    return jobid, schedule, options
