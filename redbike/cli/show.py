"""Run the command show, which describes one job, for a person or as ``--format`` says."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from redbike.cli.arguments import Arguments
from redbike.cli.bike import open_to_look
from redbike.cli.kin import Kin
from redbike.cli.missing import names_missing
from redbike.cli.rows import find_format, make_writer, print_json
from redbike.commands.once import find_problem
from redbike.commands.worker import NO_TIMEOUT
from redbike.config.file import Config
from redbike.config.labels import LABELS
from redbike.errors import BadSchedule, NoSuchJob
from redbike.facade.redbike import Redbike
from redbike.queries.blackouts import describe_details, make_remark
from redbike.queries.closed import read_limits
from redbike.queries.hosts import describe_host, find_timed
from redbike.queries.next_runs import find_times
from redbike.queries.paused import describe_left
from redbike.queries.place import describe_job
from redbike.schedule.clock import Clock, list_runs
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse_stored
from redbike.store.backfill import describe_backfill
from redbike.store.every_host import is_base
from redbike.store.patterns import escape as escape_id
from redbike.store.processes import CommandLines
from redbike.store.queue_limits import QueueLimits
from redbike.store.shell import is_of_shell
from redbike.text.printable import escape, escape_lines

COMING, SHOWN = 5, 10  # the numbers of next runs and of ended runs that are shown
LONG = 2000  # characters of data that are shown

Job = Mapping[str, Any]  # as `Redbike.tell` returns it


@names_missing
def show_job(arguments: Arguments, config: Config) -> None:
    """Print all about a job: for people, or as ``--format`` says."""
    shown_as = find_format(arguments)
    bike, jobid = open_to_look(config, names_queues=True), arguments["<JOBID>"]
    job = read_job(bike, jobid)
    match shown_as:
        case "json":
            print_json({"jobid": jobid, **job}, indent=2)
        case "csv":
            writer = make_writer()
            writer.writerow(("jobid", jobid))
            writer.writerows((name, _format_value(value)) for name, value in job.items())
        case _:
            print_job(bike, jobid, job)


def read_job(bike: Redbike, jobid: str) -> Job:
    """Return the answer of `Redbike.tell` for a job. Raise `NoSuchJob`."""
    job = bike.tell(jobid)
    if not (job["status"] or job["schedule"] or job["working"]):
        raise NoSuchJob(f"no such job: {jobid!r}")
    return job


def _format_value(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def print_job(bike: Redbike, jobid: str, job: Job) -> None:
    """Print all about a job for a person."""
    # Imported here, because it loads the library for tables.
    from redbike.cli import tables

    clock, schedule = Clock(bike.store.timeline.read_clock(), bike.settings.timezone), _parse(jobid, job)
    limits = read_limits(bike.store, jobid)
    state, goes_on = describe_job(job, clock, limits)
    kin = Kin(bike.store, jobid, clock) if job.get("followers") or (schedule and schedule.is_awaiting) else None
    state = kin.explain(state) if kin else state
    tables.print_title(jobid)
    if schedule and not schedule.never_runs:
        print(schedule.explain(clock.zone))
    print(state or f"It waits until it is due, {clock.measure(job['next_run'])}.")
    facts = dict(chain(kin.list_facts() if kin else (), _list_facts(bike, jobid, job, clock)))
    for name, value in facts.items():
        print(f"  {name:<{max(map(len, facts))}}  {value}")
    if kin and kin.after and goes_on:
        remark = make_remark(job.get("blackouts", ()), clock, limits)
        times = kin.list_times(COMING, remark)
        _print_section(f"Due times of its parents ({_name_zones(clock.zone)})", times)
    elif schedule and goes_on:
        _print_coming(bike, jobid, job, clock, limits)
    if kin:
        _print_section("What follows what", kin.list_tree())
    if job.get("runs"):
        _print_section("Last runs")
        tables.show_runs(bike.runs(escape_id(jobid), limit=SHOWN), clock, names_jobs=False)
    if job.get("output"):
        _print_section("Last output", escape_lines(job["output"].encode(errors="replace")))
    if failure := job.get("failure"):
        _print_section("Last failure", _describe_failure(failure, clock))


def _print_coming(bike: Redbike, jobid: str, job: Job, clock: Clock, limits: Sequence[QueueLimits]) -> None:
    _, schedule, times = find_times(bike.store, bike.settings, jobid, job, COMING)
    zone = schedule.timezone or clock.zone
    if times.never_runs or times.is_immediate or times.is_for_hosts:
        return
    remark = make_remark(job.get("blackouts", ()), Clock(clock.now, zone), limits)
    more = describe_left(times, remark, Clock(clock.now, zone))
    runs = list_runs(times, clock.now, clock.now, COMING, zone, job["next_run"], *more)
    _print_section(f"Next runs ({_name_zones(zone)})", runs)


def _name_zones(zone: str) -> str:
    return zone if zone == "UTC" else f"{zone}, then UTC"


def _print_section(title: str, lines: Iterable[str] = ()) -> None:
    from redbike.cli import tables

    print()
    tables.print_title(title)
    for line in lines:
        print(f"  {line}")


def _parse(jobid: str, job: Job) -> Schedule | None:
    """Return the schedule as it applies to the job; None if it has none, or a damaged one."""
    with suppress(BadSchedule):
        if job["schedule"] is not None:
            own = parse_stored(job["schedule"])
            return own if own.is_for_hosts else find_timed(jobid, job)[1]
    return None


def _list_facts(bike: Redbike, jobid: str, job: Job, clock: Clock) -> Iterator[tuple[str, str]]:
    """Yield the properties of a job, as names and values."""
    if job["schedule"] is not None:
        yield "schedule", _show(job["schedule"])
    yield "status", _describe_status(job["status"], clock)
    for seen in bike.store.overview.read_named([jobid]):
        if not is_base(jobid):  # each host has a queue of its own
            yield "queue", _show(seen.queue)
        if line := CommandLines(bike.workers()).find(job.get("backfill_of", jobid), seen.queue):
            yield "command", _show(line)
    yield from _list_backfills(job, clock)
    yield from _list_hosts(job, clock)
    for each in job.get("blackouts", ()):
        yield "blackout" if each["of"] == "job" else f"blackout of {each['of']}", describe_details(each, clock)
    options = dict(job.get("options", {}))
    for name in LABELS:
        if text := options.pop(name, ""):
            yield name, _show(text)
    if options:
        yield "options", ", ".join(f"{name}={value}" for name, value in options.items())
    yield from _list_data(jobid, job)
    if group := job.get("group"):
        yield "group", _show(group)
    if "expires_at" in job:
        yield "expires", f"{clock.name(job['expires_at'])}, {clock.measure(job['expires_at'])}"
    if "forget_at" in job:
        yield "forgotten", clock.measure(job["forget_at"])
    yield from _list_run_facts(job, clock)
    for name in ("failures", "losses"):
        if name in job:
            yield f"{name} in a row", str(job[name])
    if skipped := job.get("skipped"):
        yield "skipped", ", ".join(f"{number} {reason}" for reason, number in skipped.items())


def _list_data(jobid: str, job: Job) -> Iterator[tuple[str, str]]:
    """Yield the data and the results of a job, as names and values."""
    if is_of_shell(jobid) and not find_problem(job.get("data")):
        # Leave out the environment, which may contain secrets. ``redbike tell`` prints all.
        yield "command", _show(shlex.join(job["data"]["argv"]))
        yield "folder", _show(job["data"]["cwd"])
    elif "data" in job:
        yield "data", _show(json.dumps(job["data"], ensure_ascii=False))
    if "result" in job:
        yield "result", _show(json.dumps(job["result"], ensure_ascii=False))
    if refused := _find_refused(job):
        yield "newer result" if "result" in job else "result", f"not kept: {_show(refused)}"


def _find_refused(job: Job) -> str:
    """Return why the newest result is not kept; "" if it is kept, or if there is none."""
    newest: Mapping[str, Any] = next(
        (run for run in job.get("runs", ()) if {"result", "result_error"} & run.keys()), {}
    )
    return str(newest.get("result_error", ""))


def _list_run_facts(job: Job, clock: Clock) -> Iterator[tuple[str, str]]:
    """Yield the properties of the run in flight, as names and values."""
    if worker := job.get("worker"):
        yield "worker", _show(worker)
    if progress := job.get("progress"):
        yield "progress", f"{progress['share']:.0%} {_show(progress['text'])}".rstrip()
    if "deadline" in job:
        is_limited = job["deadline"] - job["working_since"] < NO_TIMEOUT - 1
        yield "deadline", clock.name(job["deadline"]) if is_limited else "none"


def _list_backfills(job: Job, clock: Clock) -> Iterator[tuple[str, str]]:
    for name in ("backfill", "last_backfill"):
        if found := job.get(name):
            yield name.replace("_", " "), describe_backfill(found, clock)
    if base := job.get("backfill_of"):
        yield "backfill of", _show(base)


def _list_hosts(job: Job, clock: Clock) -> Iterator[tuple[str, str]]:
    for each in job.get("hosts", ()):
        yield f"on {each['host']}", describe_host(each, clock)
    if base := job.get("host_of"):
        yield "for every host", _show(base)


def _describe_status(status: str | None, clock: Clock) -> str:
    event, _, since = (status or "").partition(":")
    return f"{event} since {clock.name(float(since))}" if since.isdecimal() and len(since) < 12 else event


def _describe_failure(failure: Job, clock: Clock) -> Iterator[str]:
    moment = failure.get("failed")
    if isinstance(moment, int | float):
        yield f"{clock.name(moment)}, {clock.measure(moment)}, try {failure.get('attempt', 1)}"
    for name in ("traceback", "output"):
        yield from escape_lines(str(failure.get(name) or "").encode(errors="replace"))
    if not failure.get("traceback"):
        yield escape(str(failure.get("error") or "").encode(errors="replace"))


def _show(text: str) -> str:
    cut = text if len(text) <= LONG else f"{text[:LONG]}…"
    return escape(cut.encode(errors="surrogateescape"))
