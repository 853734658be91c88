"""The report of a span of time: runs, failures, changes and processes, by time, and the first unusual event.

It can be written as plain text, to be pasted into a report.

Redis keeps no list of runs by time. So what is found without reading every job is read first: the failures, the
changes, the processes, and the runs of the jobs that these name. Then the runs of all other jobs are read for a limited
time. Jobs that were not read are counted.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from redbike.queries.unusual import Unusual, describe_end, judge_changes, judge_processes, judge_runs
from redbike.schedule.clock import Clock, format_took
from redbike.schedule.moments import END_OF_TIME
from redbike.store.history import PastRun, get_end
from redbike.store.journal import MOST_ENTRIES
from redbike.store.log import LogEntry, localize
from redbike.store.processes import Process
from redbike.store.store import Store
from redbike.text.printable import escape, name_number

MOST_FAILURES, MOST_CHANGES, MOST_RUNS = 1000, 2000, 5000
NAMED = 200  # jobs whose runs are read before those of all others; how many are read at a time
LONG = 300  # characters of a line


class Lane(StrEnum):
    """The kinds of events in a report."""

    RUNS = "runs"
    FAILURES = "failures"
    CHANGES = "changes"
    PROCESSES = "processes"

    @property
    def single(self) -> str:
        """Return the name of one such event."""
        return "process" if self is Lane.PROCESSES else self.value.removesuffix("s")


NAMES = {
    Lane.RUNS: ("run without a failure", "runs without a failure"),
    Lane.FAILURES: ("failure", "failures"),
    Lane.CHANGES: ("change", "changes"),
    Lane.PROCESSES: ("process began or lost", "processes began or lost"),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """An event at one instant."""

    time: float  #: epoch seconds; for a run, its end, if this is in the window
    lane: Lane
    text: str
    jobid: str = ""


@dataclass(slots=True)
class Incident:
    """All that is known of the time from `since` to `until`, in epoch seconds; it is `now`."""

    since: float
    until: float
    now: float
    moments: list[Moment] = field(default_factory=list)  #: by time
    first: Unusual | None = None
    counts: Counter[Lane] = field(default_factory=Counter)  #: of all events, also those that are not in `moments`
    skipped: Counter[str] = field(default_factory=Counter)  #: skipped occurrences of these jobs so far, by reason
    concerned: int = 0  #: of the `named` jobs, those that were read
    named: int = 0  #: all jobs that failed or were changed
    looked_at: int = 0  #: jobs whose kept runs were read
    jobs: int = 0  #: lower bound of the number of jobs with kept runs
    cuts: list[str] = field(default_factory=list)  #: what is missing, in words

    def add(self, moment: Moment) -> None:
        """Add a moment."""
        self.moments.append(moment)
        self.counts[moment.lane] += 1

    def list_first(self, most: int) -> list[Moment]:
        """Return `most` of the moments, by time. Ordinary runs are left out first, then moments far from the center.

        The center is the first unusual event, or else the middle of the window.
        """
        if len(self.moments) <= most:
            return self.moments
        center = self.first.time if self.first else (self.since + self.until) / 2
        ordered = sorted(self.moments, key=lambda each: (each.lane is Lane.RUNS, abs(each.time - center)))[:most]
        return sorted(ordered, key=lambda moment: moment.time)


def gather(store: Store, since: float, until: float, now: float, patience: float, zone: str = "UTC") -> Incident:
    """Return what is known of [`since`, `until`]; read the runs of all jobs for about `patience` seconds.

    `zone` is the IANA zone in which times are shown.
    """
    deadline = time.monotonic() + patience
    incident = Incident(since, until, now)
    processes = store.workers.list_all()
    name = Clock(now, zone).name
    changes, is_cut = read_changes(store, since, until, deadline)
    if is_cut:
        incident.cuts.append("not all changes were read")
    changes = [replace(each, detail=localize(each.detail, name)) for each in changes]
    failures = _read_failures(store, incident)
    named = list(dict.fromkeys([*failures, *(each.jobid for each in changes if each.jobid)]))
    busy = [jobid for process in processes for jobid in process.jobs]
    found = list(judge_processes(processes, since, until))
    for each in processes:
        _add_process(incident, each)
    for change in changes:
        incident.add(Moment(change.time, Lane.CHANGES, f"{change.who}: {change.action} {change.detail}", change.jobid))
    _add_present(store, incident, named, busy, deadline)
    found += _read_runs(store, incident, named[:NAMED], failures, deadline)
    first_failure = min((each for each in found if each.rule == 1), default=None)
    change_before = judge_changes(changes, first_failure)
    incident.first = min([*found, *([change_before] if change_before else [])], default=None)
    incident.moments.sort(key=lambda moment: moment.time)
    return incident


def read_changes(store: Store, since: float, until: float, deadline: float) -> tuple[list[LogEntry], bool]:
    """Return the changes of [`since`, `until`], the newest first, and whether some are missing.

    They are read until there are too many, or until `deadline`, by the monotonic clock.
    """
    found: list[LogEntry] = []
    for entry in store.log.list_entries():
        if entry.time < since:
            break
        if entry.time <= until:
            found.append(entry)
        if len(found) > MOST_CHANGES or time.monotonic() > deadline:
            return found[:MOST_CHANGES], True
    return found, False


def _read_failures(store: Store, incident: Incident) -> dict[str, dict[str, Any]]:
    """Return the kept failures by job: the last failure of each job that has not succeeded since."""
    found = store.past.list_failures_between(incident.since, incident.until, MOST_FAILURES + 1)
    if len(found) > MOST_FAILURES:
        incident.cuts.append(f"of the jobs that failed, the first {MOST_FAILURES:,} were read")
    readable = (each for each in found[:MOST_FAILURES] if isinstance(each.get("jobid"), str))
    return {each["jobid"]: each for each in readable if isinstance(each.get("failed"), int | float)}


def _add_process(incident: Incident, process: Process) -> None:
    if incident.since <= process.since <= incident.until:
        incident.add(Moment(process.since, Lane.PROCESSES, f"the {process.kind} {process.id} began"))
    if process.state == "lost" and incident.since <= process.seen <= incident.until:
        jobs = f", with {name_number(len(process.jobs), 'run')}" if process.jobs else ""
        incident.add(Moment(process.seen, Lane.PROCESSES, f"the {process.kind} {process.id} was lost{jobs}"))


def _read_runs(
    store: Store, incident: Incident, named: Sequence[str], failures: dict[str, dict[str, Any]], deadline: float
) -> Iterator[Unusual]:
    """Add the runs, and the failures of which no run is kept; yield unusual events."""
    incident.jobs = store.journal.count_jobs()
    left, kept = dict(failures), Counter[Lane]()
    if (entries := store.archiver.count_entries()) > MOST_ENTRIES:
        incident.cuts.append(f"of {entries:,} entries of runs that are not archived yet, {MOST_ENTRIES:,} were read")
    for runs in store.journal.list_since(incident.since, named):
        incident.looked_at += 1
        for run in runs:
            moment = _describe_run(run, incident)
            if moment is None:
                continue
            if moment.lane is Lane.FAILURES and (failure := left.get(run.jobid)) and failure.get("due") == run.due:
                del left[run.jobid]
            kept[moment.lane] += 1
            if kept[moment.lane] <= MOST_RUNS:
                incident.add(moment)
            else:
                incident.counts[moment.lane] += 1
        yield from judge_runs(runs, incident.since, incident.until)
        # The named jobs come first: they are read in any case.
        if time.monotonic() > deadline and incident.looked_at >= len(named):
            break
    incident.jobs = max(incident.jobs, incident.looked_at)
    if incident.looked_at < incident.jobs:
        incident.cuts.append(f"the kept runs of {incident.looked_at:,} of about {incident.jobs:,} jobs were read")
    for lane, number in kept.items():
        if number > MOST_RUNS:
            incident.cuts.append(f"of {number:,} {lane.value}, {MOST_RUNS:,} are listed")
    yield from _add_failures(incident, left)


def _add_failures(incident: Incident, failures: dict[str, dict[str, Any]]) -> Iterator[Unusual]:
    """Add failures of which no run is kept; yield them as unusual events."""
    for jobid, failure in failures.items():
        error = str(failure.get("error", ""))
        incident.add(Moment(failure["failed"], Lane.FAILURES, f"failed: {error}", jobid))
        yield Unusual(failure["failed"], 1, f"{jobid} failed ({error}), and no run of it is kept", jobid)


def _describe_run(run: PastRun, incident: Incident) -> Moment | None:
    """Return the moment of a run that began, went on or ended in the window; None for another run."""
    ended = get_end(run)
    if ended < incident.since or run.started > incident.until or not math.isfinite(ended):
        return None
    error = f": {run.error}" if run.error else ""
    where = f", on {run.worker}" if run.worker else ""
    tries = f", try {run.attempt}" if run.attempt > 1 else ""
    took = f" after {format_took(run.took)}"
    if ended <= incident.until:
        text = f"{describe_end(run, took)}{tries}{where}{error}"
        return Moment(ended, Lane.FAILURES if run.has_failed else Lane.RUNS, text, run.jobid)
    text = f"went on; it {describe_end(run, f' later,{took}')}{tries}{where}{error}"
    return Moment(max(run.started, incident.since), Lane.RUNS, text, run.jobid)


def _add_present(store: Store, incident: Incident, named: Sequence[str], busy: Sequence[str], deadline: float) -> None:
    """Add runs in flight, and count the skipped occurrences of the named jobs.

    The first `NAMED` jobs are read in any case, and further ones until `deadline`, by the monotonic clock.
    """
    concerned, jobids = set(named), list(dict.fromkeys([*named, *busy]))
    incident.named = len(concerned)
    for first in range(0, len(jobids), NAMED):
        if first and time.monotonic() > deadline:
            incident.cuts.append(f"of {len(jobids):,} jobs, {first:,} were asked whether they run still")
            return
        for state in store.questions.inspect(jobids[first : first + NAMED]):
            if state.jobid in concerned:
                incident.concerned += 1
                incident.skipped.update(state.skipped)
            run = state.run
            if run and run.start <= incident.until:
                text = f"runs still, on what was taken {format_took(incident.now - run.start)} ago"
                incident.add(Moment(max(run.start, incident.since), Lane.RUNS, text, state.jobid))


def format_report(incident: Incident, zone: str, prefix: str, moments: Sequence[Moment] | None = None) -> str:
    """Return the report; with `moments`, only these are listed. Every character of a line is visible."""
    return "".join(f"{clean(line)}\n" for line in _list_lines(incident, zone, prefix, moments))


def _list_lines(incident: Incident, zone: str, prefix: str, moments: Sequence[Moment] | None) -> Iterator[str]:
    begin, end = name_instant(incident.since, zone), name_instant(incident.until, zone)
    yield f"Redbike {prefix}: {begin} to {end} ({zone})"
    yield f"As of {name_instant(incident.now, zone)}: {count_moments(incident)}."
    yield f"First unusual: {describe_first(incident, zone)}"
    if incident.skipped:
        yield f"{describe_skipped(incident)}."
    yield from (f"Not complete: {cut}." for cut in incident.cuts)
    yield ""
    listed = incident.moments if moments is None else moments
    for moment in listed:
        job = f" {moment.jobid}" if moment.jobid else ""
        yield f"{name_instant(moment.time, zone)} {moment.lane.single}{job}: {moment.text}"
    if len(listed) < len(incident.moments):
        yield f"… and {len(incident.moments) - len(listed):,} runs and others that are not listed here"


def count_moments(incident: Incident) -> str:
    """Return the number of events of each kind, in words."""
    return ", ".join(f"{incident.counts[lane]:,} {NAMES[lane][incident.counts[lane] != 1]}" for lane in Lane)


def describe_first(incident: Incident, zone: str) -> str:
    """Return the first unusual event as a sentence."""
    first = incident.first
    if first is None:
        return "nothing that a rule covers."
    return f"{name_instant(first.time, zone)}, because {first.because}."


def describe_skipped(incident: Incident) -> str:
    """Return the number of skipped occurrences of the jobs that failed or were changed, in words."""
    said = ", ".join(f"{number:,} {reason}" for reason, number in sorted(incident.skipped.items()))
    jobs = name_number(incident.named, "job")
    if incident.concerned < incident.named:
        jobs = f"first {incident.concerned:,} of the {jobs}"
    return f"So far, these occurrences of the {jobs} that failed or changed then were skipped, at any time: {said}"


def clean(line: str) -> str:
    """Return a line of limited length in which every character is visible."""
    return escape((line if len(line) <= LONG else f"{line[:LONG]}…").encode(errors="surrogateescape"))


def name_instant(moment: float, zone: str) -> str:
    """Return an instant in a zone, with the distance from UTC: a day may have an hour twice."""
    inside = min(max(moment, 0.0), END_OF_TIME - 86400)
    return datetime.fromtimestamp(inside, UTC).astimezone(ZoneInfo(zone)).isoformat(timespec="seconds")
