"""Run the command load, which makes the stored jobs match the rows of a file."""

import errno
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain, islice
from typing import IO

from redbike.cli.arguments import Arguments, parse_time, prepare_time
from redbike.cli.bike import open_bike
from redbike.cli.messages import BAD, DONE, complain, open_progress
from redbike.cli.rows import print_rows, show_with
from redbike.config.file import Config
from redbike.control.remarks import describe_owner
from redbike.control.sync.changes import Change, describe_counts
from redbike.errors import BadConfig, RedbikeError
from redbike.facade.redbike import Redbike
from redbike.process import streams
from redbike.store.enums import Difference
from redbike.text.printable import name_number
from redbike.worker.functions import Jobs
from redbike.worker.loader import quote_spec

SHOWN = 50  # changes of each kind that a terminal shows
NOTES = "notes"  # messages that say why no job was removed
MOST_OWNERS = 5  # other groups that messages name
FIELDS = ("difference", "jobid", "detail")


def load_jobs(arguments: Arguments, config: Config) -> int:
    """Make the stored jobs match a CSV file, and print the differences. Count equal rows. Return the exit status."""
    tz = arguments["--tz"]
    name, source = _find_source(arguments["<CSV>"])
    prepare_time(arguments["--after"], config, tz)
    bike = open_bike(config, needs_queues=True)
    after = parse_time(arguments["--after"], config, tz, read_clock=bike.store.timeline.read_clock)
    # A reader that ends early, such as head, must not interrupt the load.
    streams.forgive_output()
    counts: Counter[str] = Counter()
    owners: dict[str, tuple[str, int]] = {}
    group, dry_run = arguments["--group"], arguments["--dry-run"]
    chosen: list[tuple[list[Change], int]] = []
    with open_progress(in_bytes=True) as report:
        changes = bike.sync_file(
            source, after, tz, group=group, prune=arguments["--prune"], prune_all=arguments["--prune-all"],
            take=arguments["--take"], dry_run=dry_run, report=report
        )  # fmt: skip
        try:
            with closing(changes):
                differences = _list_differences(_note_owners(changes, owners), name, counts)
                print_rows(arguments, differences, FIELDS, lambda rows: chosen.append(choose_first(rows)), False)
        except KeyboardInterrupt:
            if counts:
                _conclude(name, counts, "; interrupted")
            raise
    for first, number in chosen:
        if first:
            show_with("show_changes", number)(first)
    for owner, (jobid, number) in islice(owners.items(), MOST_OWNERS):
        complain(f"{name}: {describe_owner(jobid, owner, number - 1)}")
    status = _conclude(name, counts, "; nothing was changed" if dry_run else "")
    if loss := streams.find_loss():
        raise RedbikeError(loss)
    return status


def load_rows(bike: Redbike, csvfilename: str, after: float | None) -> int:
    """Make the stored jobs match a CSV file, print only problems and numbers, and return the exit status."""
    name, source = _find_source(csvfilename)
    counts: Counter[str] = Counter()
    with closing(bike.sync_file(source, after, mark_bad=True)) as changes:
        for _ in _list_differences(changes, name, counts):
            pass
    return _conclude(name, counts)


def set_schedules(bike: Redbike, spec: str) -> None:
    """Set the jobs that a `Jobs` worker defines in its code, with exactly the options that are in the code.

    Print what differed. Raise `BadConfig` for a job that cannot be set, after the others are set.
    """
    if not isinstance(bike.worker, Jobs):
        return
    rows = bike.worker.schedules()
    group = quote_spec(spec)
    changes = bike.sync(rows, group=group, take=True)
    _report_taken(group, changes.taken)
    complain(f"{group}: {changes if rows else 'none of its functions has a schedule'}")
    for jobid, error in changes.bad.items():
        raise BadConfig(f"{group}: {jobid!r}: {error}")


def _report_taken(name: str, taken: Mapping[str, str]) -> None:
    """Print which jobs were taken over from each group. This explains it if the group takes them back later."""
    owners: dict[str, list[str]] = {}
    for jobid, owner in taken.items():
        owners.setdefault(owner, []).append(jobid)
    for owner, jobids in sorted(owners.items(), key=lambda item: -len(item[1]))[:MOST_OWNERS]:
        number, sample = len(jobids), repr(jobids[0])
        what = f"the job {sample}" if number == 1 else f"{number:,} jobs, such as {sample},"
        complain(f"{name}: took over {what} from the group {owner!r}")
    if (more := len(owners) - MOST_OWNERS) > 0:
        complain(f"{name}: took over jobs from {name_number(more, 'more group')}")


def _find_source(csvfilename: str) -> tuple[str, str | IO[bytes]]:
    """Return the name of the source for messages, and the source: a path, or standard input. Raise `BadConfig`."""
    if csvfilename != "-":
        if not os.path.exists(csvfilename):
            raise BadConfig(f"cannot read {csvfilename!r}: {os.strerror(errno.ENOENT)}")
        return csvfilename, csvfilename
    if sys.stdin is None:
        raise BadConfig("cannot read standard input: it is closed")
    return "standard input", sys.stdin.buffer


def _list_differences(changes: Iterable[Change], name: str, counts: Counter[str]) -> Iterator[Change]:
    """Count all changes, print refused rows and notes, and yield jobs that were added, changed or removed."""
    for change in changes:
        if change.is_note:
            complain(f"{name}: {change.error}")
            counts[NOTES] += 1
            continue
        counts[change.difference] += 1
        if change.difference == Difference.BAD:
            complain(f"{name} line {change.line}: {f'{change.jobid!r}: ' if change.jobid else ''}{change.error}")
        elif change.difference != Difference.UNCHANGED:
            yield change


def _note_owners(changes: Iterable[Change], owners: dict[str, tuple[str, int]]) -> Iterator[Change]:
    """Yield `changes`. Note in `owners` each other group with a changed job: its first such job, and their number."""
    for change in changes:
        if owner := change.row_of:
            jobid, number = owners.get(owner, (change.jobid, 0))
            owners[owner] = jobid, number + 1
        yield change


def choose_first(changes: Iterable[Change]) -> tuple[list[Change], int]:
    """Return the first `SHOWN` changes of each kind, in the order of kinds, and the number of all changes."""
    kinds: dict[Difference, list[Change]] = {difference: [] for difference in Difference}
    number = 0
    for change in changes:
        number += 1
        if len(kinds[change.difference]) < SHOWN:
            kinds[change.difference].append(change)
    return list(chain(*kinds.values())), number


def _conclude(name: str, counts: Counter[str], ending: str = "") -> int:
    complain(f"{name}: {describe_counts(counts)}{ending}")
    return BAD if counts[Difference.BAD] or counts[NOTES] else DONE
