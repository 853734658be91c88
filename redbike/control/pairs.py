"""Pairs of a job and its schedule, as programs give many of them at once."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from redbike.config.options import NO_CHANGES, OptionChanges, read_changes
from redbike.errors import BadConfig
from redbike.schedule.objects import ScheduleLike
from redbike.text.printable import quote

Pair = tuple[str, ScheduleLike] | tuple[str, ScheduleLike, Mapping[str, Any]]
"""Job id and schedule, or job id, schedule and options: these and ``data`` by the names that `Redbike.set` has."""


class Wanted(NamedTuple):
    """What `Setter.set_many` is to do with a job."""

    jobid: str
    schedule: ScheduleLike | None
    changes: OptionChanges = NO_CHANGES
    error: BadConfig | None = None  # why its options are refused


def read_pair(pair: Any) -> Wanted:
    """Return what a pair, or a pair with options, asks for. Raise `TypeError`."""
    if type(pair) is tuple and len(pair) == 2:
        return Wanted(*pair)  # as most are
    try:
        # A text of two characters could be unpacked, too.
        values = [] if isinstance(pair, str | bytes) else list(pair)
    except TypeError:
        values = []
    if not 2 <= len(values) <= 3:
        raise TypeError(f"bad pair {quote(pair)}: (job id, schedule) or (job id, schedule, options) is needed")
    jobid, schedule, *options = values
    changes, error = read_row_changes(jobid, options[0]) if options else (NO_CHANGES, None)
    return Wanted(jobid, schedule, changes, error)


def read_row_changes(jobid: str, options: Any) -> tuple[OptionChanges, BadConfig | None]:
    """Return the changes of the options of a row, and why they are refused. Raise `TypeError` for no options."""
    if not isinstance(options, Mapping):
        raise TypeError(f"bad options {options!r:.80} of the job {jobid!r:.80}: a dict is needed")
    try:
        return read_changes(options), None
    except BadConfig as error:
        return NO_CHANGES, error
