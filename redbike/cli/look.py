"""Run the commands that only read: statuses, schedules, tell, workers, failures, runs, queues, log."""

import csv
import json
import sys
from itertools import islice

from redbike.cli.arguments import Arguments, Command, parse_count, parse_time
from redbike.cli.bike import open_bike
from redbike.cli.messages import DONE, FAILED
from redbike.config import Config
from redbike.options import COLUMNS
from redbike.texts import escape

RUNS = 100  # that are printed, if nothing else is asked for


def print_statuses(arguments: Arguments, config: Config) -> int:
    """Print the last event of every job, as CSV."""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerows(open_bike(config).get_statuses(parse_time(arguments["--before"], config)))
    return DONE


def print_schedules(arguments: Arguments, config: Config) -> int:
    """Print the schedule of every job, as CSV that ``load`` reads; with ``--full`` also its options and data."""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    bike = open_bike(config)
    if arguments["--full"]:
        rows.writerow(COLUMNS)
        rows.writerows(bike.get_rows())
    else:
        rows.writerows(bike.get_schedules())
    return DONE


def tell_job(arguments: Arguments, config: Config) -> int:
    """Print everything about one job, as JSON; fail if there is no such job."""
    job = open_bike(config).tell(arguments["<JOBID>"])
    print(json.dumps(job, indent=2, ensure_ascii=False))
    exists = job["status"] or job["schedule"] or job["working"]
    return DONE if exists else FAILED


def print_workers(arguments: Arguments, config: Config) -> int:
    """Print every dispatcher and worker, as CSV."""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    for each in open_bike(config).workers():
        times = f"{each.since:.3f}", f"{each.seen:.3f}"
        known = (each.id, each.kind, each.host, each.pid, " ".join(each.queues), each.state)
        rows.writerow((*known, *times, " ".join(each.jobs)))
    return DONE


def print_failures(arguments: Arguments, config: Config) -> int:
    """Print the failures that are kept, one JSON object a line."""
    for failure in open_bike(config).failures():
        print(json.dumps(failure, ensure_ascii=False))
    return DONE


def print_log(arguments: Arguments, config: Config) -> int:
    """Print what people have changed, as CSV, the newest first."""
    limit = None if arguments["--limit"] is None else parse_count(arguments, "--limit", most=1_000_000)
    rows = csv.writer(sys.stdout, lineterminator="\n")
    for entry in islice(open_bike(config).log(arguments["<JOBID>"]), limit):
        shown = (escape(text.encode(errors="surrogateescape")) for text in (entry.who, entry.action, entry.detail))
        who, action, detail = shown
        rows.writerow((f"{entry.time:.6f}", who, action, entry.jobid, detail))
    return DONE


def print_runs(arguments: Arguments, config: Config) -> int:
    """Print the last ended runs, the newest first, as CSV."""
    since, limit = parse_time(arguments["--since"], config), parse_count(arguments, "--limit", RUNS, most=1_000_000)
    bike = open_bike(config)
    found = bike.runs(*arguments["<PATTERN>"], since=since, failed=arguments["--failed"], limit=limit)
    rows = csv.writer(sys.stdout, lineterminator="\n")
    for run in found:
        due, started, took = (f"{seconds:.6f}".rstrip("0").rstrip(".") for seconds in (run.due, run.started, run.took))
        error, worker = (escape(text.encode()) for text in (run.error, run.worker))
        rows.writerow((run.jobid, due, started, took, run.outcome, run.attempt, error, worker))
    return DONE


def print_queues(arguments: Arguments, config: Config) -> int:
    """Print every queue, as CSV."""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    for each in open_bike(config).queues():
        oldest, paused = ("" if moment is None else f"{moment:.3f}" for moment in (each.oldest_due, each.paused))
        at_once = "" if each.at_once is None else each.at_once
        rows.writerow((each.queue, each.waiting, oldest, each.in_flight, paused, at_once, each.rate))
    return DONE


COMMANDS: dict[str, Command] = {
    "statuses": print_statuses,
    "schedules": print_schedules,
    "tell": tell_job,
    "workers": print_workers,
    "failures": print_failures,
    "log": print_log,
    "runs": print_runs,
    "queues": print_queues,
}
