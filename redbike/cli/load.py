"""Run the command that makes the stored jobs those of a file: load."""

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

SHOWN = 50  # changes of a kind on a terminal
NOTES = "notes"  # lines that say why no job was removed
MOST_OWNERS = 5  # groups of which is said what was taken over, or changed
FIELDS = ("difference", "jobid", "detail")


def load_jobs(arguments: Arguments, config: Config) -> int:
    """Make the stored jobs those of a CSV file, and print what differed; rows that are the same are only counted."""
    tz = arguments["--tz"]
    name, source = _find_source(arguments["<CSV>"])
    prepare_time(arguments["--after"], config, tz)
    bike = open_bike(config, needs_queues=True)
    after = parse_time(arguments["--after"], config, tz, read_clock=bike.store.timeline.read_clock)
    # A reader that goes away, such as head, must not end it half-way.
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
    """Make the stored jobs those of a CSV file, print only what is wrong and how much, and return the exit status."""
    name, source = _find_source(csvfilename)
    counts: Counter[str] = Counter()
    with closing(bike.sync_file(source, after, mark_bad=True)) as changes:
        for _ in _list_differences(changes, name, counts):
            pass
    return _conclude(name, counts)


def set_schedules(bike: Redbike, spec: str) -> None:
    """Make the jobs that a worker made of functions has in its code as they are there, with no other options.

    Print what differed. Raise `BadConfig` for one that cannot be set, once the others are.
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
    """Print what was taken from each group: it may unset or change that again, and nobody would know why."""
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
    """Return the name of a file for messages, and the file; that is standard input for ``-``. Raise `BadConfig`."""
    if csvfilename != "-":
        if not os.path.exists(csvfilename):
            raise BadConfig(f"cannot read {csvfilename!r}: {os.strerror(errno.ENOENT)}")
        return csvfilename, csvfilename
    if sys.stdin is None:
        raise BadConfig("cannot read standard input: it is closed")
    return "standard input", sys.stdin.buffer


def _list_differences(changes: Iterable[Change], name: str, counts: Counter[str]) -> Iterator[Change]:
    """Count all changes, print rows that are refused, and yield what was added, changed or removed."""
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
    """Yield `changes`; note of which groups the jobs are, each with its first job that is changed, and how many are."""
    for change in changes:
        if owner := change.row_of:
            jobid, number = owners.get(owner, (change.jobid, 0))
            owners[owner] = jobid, number + 1
        yield change


def choose_first(changes: Iterable[Change]) -> tuple[list[Change], int]:
    """Return the first changes of each kind, in the order of kinds, and how many there are in all."""
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
