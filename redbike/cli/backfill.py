"""Run the command backfill, which runs past occurrences of a job, in addition to its schedule."""

import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from types import SimpleNamespace

from redbike.cli.arguments import Arguments, parse_count, parse_time, prepare_time
from redbike.cli.bike import find_embedded_server, note_pauses, open_bike
from redbike.cli.messages import complain
from redbike.cli.rows import print_rows
from redbike.config.file import Config
from redbike.control.backfilling import MOST_AT_ONCE, Backfill, check_range
from redbike.errors import BadConfig, RedbikeError
from redbike.facade.redbike import Redbike
from redbike.queries.closed import list_paused
from redbike.schedule.clock import Clock
from redbike.schedule.moments import join_words
from redbike.store.backfill import make_jobid
from redbike.text.printable import name_number

FIELDS = ("jobid", "due")
SHOWN = 10  # occurrences


def backfill_job(arguments: Arguments, config: Config) -> None:
    """Begin a backfill. With ``--dry-run``, only print the occurrences that would run."""
    at_once, is_dry = parse_count(arguments, "--at-once", most=MOST_AT_ONCE), bool(arguments["--dry-run"])
    alone = bool(arguments["--alone"])
    texts = arguments["--from"], arguments["--to"]
    start, end = (prepare_time(text, config, looks_back=True) for text in texts)
    if start is None or end is None:
        raise BadConfig("no range: --from and --to are needed")
    if find_embedded_server(config):  # whose clock is that of this host
        check_range(start, end, time.time(), at_once, config.settings.timezone)
    bike = open_bike(config, needs_queues=True)
    read_clock = bike.store.timeline.read_clock
    start, end = (parse_time(text, config, looks_back=True, read_clock=read_clock) for text in texts)
    assert start is not None
    assert end is not None
    # Read the clock before the backfill begins. An error after that would make users begin it again.
    clock = Clock(read_clock(), bike.settings.timezone)
    found = bike.backfill(arguments["<JOBID>"], start, end, at_once, bool(arguments["--again"]), is_dry, alone)
    if is_dry:
        jobids = [found.jobid, *found.followers]
        rows = (SimpleNamespace(jobid=make_jobid(each, due), due=due) for due in found.dues for each in jobids)
        print_rows(arguments, rows, FIELDS, lambda rows: _show(rows, found, clock))
    for line in _explain(found, clock, is_dry):
        complain(line)
    if not is_dry:
        _note_pauses(bike, found, clock)


def _note_pauses(bike: Redbike, found: Backfill, clock: Clock) -> None:
    """Print which pauses keep occurrences of the job and its followers from running. Errors are ignored."""
    jobids = [found.jobid, *found.followers]
    with suppress(RedbikeError):
        for jobid, said in islice(list_paused(bike.store, jobids, clock.zone), SHOWN):
            complain(f"{jobid} is {said}")
    note_pauses(bike, jobids, clock.now)


def _show(rows: Iterable[SimpleNamespace], found: Backfill, clock: Clock) -> None:
    for row in islice(rows, 0, SHOWN * (1 + len(found.followers)), 1 + len(found.followers)):
        print(f"{row.jobid}  {clock.name(row.due)}")
    if (more := len(found.dues) - SHOWN) > 0:
        print(f"and {more:,} more")


def _explain(found: Backfill, clock: Clock, is_dry: bool) -> Iterable[str]:
    """Yield sentences that say what the backfill runs, and what it leaves out."""
    does = "would run" if is_dry else "run"
    first, last = found.dues[0], found.dues[-1]
    span = f"{clock.name(first)} to {clock.name(last)}"
    yield f"{found.jobid}: {name_number(len(found.dues), 'occurrence')} {does}, {span}, {found.at_once:,} at once"
    if found.followers:
        names = found.followers if len(found.followers) <= SHOWN else [*found.followers[:SHOWN], "others"]
        yield f"with each of them, its followers: {join_words(names)}"
    if found.done:
        yield f"{name_number(found.done, 'occurrence')} left out, because they have succeeded; --again runs them too"
    if found.busy:
        yield f"{name_number(found.busy, 'occurrence')} left out: they wait, run or may still run by the schedule"
    if found.known_since is None:
        yield "no run of its schedule is known"
    elif found.known_since > found.start:
        yield f"runs before {clock.name(found.known_since)} are not known any more"
