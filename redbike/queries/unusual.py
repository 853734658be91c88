"""Find the first unusual event in a span of time. The rules are simple to check, and the result is only a hint.

Each rule names an instant and the reason. The earliest instant is the first unusual event; see `RULES`.

This also computes how long a run usually takes.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from redbike.queries.why.now import ENDS
from redbike.schedule.clock import format_length, format_took
from redbike.store.enums import Outcome
from redbike.store.history import PastRun, get_end
from redbike.store.log import LogEntry
from redbike.store.processes import Process

LATE = 60.0  # seconds after its due time from which the start of a run is late
SLOW, LONGER, ENOUGH = 3, 10.0, 3  # times the median, and seconds longer; it takes so many other runs
BEFORE = 600.0  # seconds before a failure in which a change may have caused it

RULES = (
    "a process is lost: it was last seen then, and has not ended in order",
    "a run fails, and the run of that job before it did not, or is not kept",
    f"a person changes that job, a queue or everything, in the {format_length(BEFORE)} before the first such failure",
    f"a run takes more than {SLOW} times the median of the other kept runs of its job, and {LONGER:.0f} s more; that "
    f"counts from when it had taken {SLOW} times as long, and needs {ENOUGH} other runs",
    f"the first try of an occurrence begins more than {format_length(LATE)} after it was due",
)
LEAST = 4  # successful runs that are needed to call one unusual
TIMES, SECONDS = 3.0, 0.05  # an unusual run takes more than so many times the median, and so many seconds more


@dataclass(frozen=True, slots=True, order=True)
class Unusual:
    """An unusual event."""

    time: float  #: epoch seconds
    rule: int  #: its number in `RULES`, from 0
    because: str  #: one sentence, without a full stop
    jobid: str = ""


def judge_processes(processes: Iterable[Process], since: float, until: float) -> Iterator[Unusual]:
    """Yield the processes that were lost."""
    for each in processes:
        if each.state == "lost" and since <= each.seen <= until:
            because = f"the {each.kind} {each.id} was last seen then, and has not ended in order"
            yield Unusual(each.seen, 0, because)


def judge_runs(runs: Sequence[PastRun], since: float, until: float) -> Iterator[Unusual]:
    """Yield the unusual events in the runs of one job. `runs` are all of its kept runs."""
    ordered = sorted(runs, key=get_end)
    for number, run in enumerate(ordered):
        before = ordered[number - 1] if number else None
        for found in (_judge_failure(run, before), _judge_length(run, runs), _judge_start(run)):
            if found and since <= found.time <= until:
                yield found


def _judge_failure(run: PastRun, before: PastRun | None) -> Unusual | None:
    if not run.has_failed or (before is not None and before.has_failed):
        return None
    said = "no run before it is kept" if before is None else "its run before that had not"
    error = f" ({run.error})" if run.error else ""
    return Unusual(get_end(run), 1, f"{run.jobid} {describe_end(run)}{error}, and {said}", run.jobid)


def _judge_length(run: PastRun, runs: Sequence[PastRun]) -> Unusual | None:
    others = [each.took for each in runs if each is not run]
    if len(others) < ENOUGH:
        return None
    usual = median(others)
    if run.took <= usual * SLOW or run.took - usual <= LONGER:
        return None
    because = f"a run of {run.jobid} took {format_took(run.took)}, and its other runs {format_took(usual)} (median)"
    return Unusual(run.started + usual * SLOW, 3, because, run.jobid)


def _judge_start(run: PastRun) -> Unusual | None:
    late = run.started - run.due
    if run.attempt > 1 or late <= LATE:
        return None
    because = f"a run of {run.jobid} began {format_length(late)} after it was due"
    return Unusual(run.started, 4, because, run.jobid)


def judge_changes(changes: Iterable[LogEntry], failure: Unusual | None) -> Unusual | None:
    """Return the last change shortly before the first `failure`, which may have caused it; None if there is none."""
    if failure is None:
        return None
    near = [
        each
        for each in changes
        if failure.time - BEFORE <= each.time <= failure.time and each.jobid in ("", failure.jobid)
    ]
    if not near:
        return None
    last = max(near, key=lambda each: each.time)
    what = last.jobid or last.detail or "everything"
    later = f"{format_length(failure.time - last.time)} later {failure.because}"
    because = f"{last.who} used {last.action} on {what}, and {later}"
    return Unusual(last.time, 2, because, last.jobid)


def describe_end(run: PastRun, when: str = "") -> str:
    """Return how `run` ended, as a part of a sentence; `when` follows the verb."""
    if run.outcome is not Outcome.RETRY:
        return f"{ENDS[run.outcome]}{when}"
    # The stored run does not show whether it failed, or asked for a retry by `Again` with a reason.
    return f"ended{when} and was to be tried again{'' if run.error else ', as it asked'}"


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of the runs of a job, in seconds."""

    median: float | None  #: of the successful runs; None if there is none
    most: float | None  #: the 95th percentile of the successful runs
    longest: float
    succeeded: float | None  #: the share of successful runs, from 0 to 1; None without runs
    unusual: frozenset[int]  #: indexes of the runs that took much longer than the others


def measure_durations(runs: Sequence[PastRun]) -> Durations:
    """Return the durations of `runs`."""
    good = [run.took for run in runs if run.outcome is Outcome.OK]
    usual = median(good) if good else None
    unusual = frozenset(
        number
        for number, run in enumerate(runs)
        if usual is not None and len(good) >= LEAST and run.took > max(TIMES * usual, usual + SECONDS)
    )
    most = sorted(good)[math.ceil(0.95 * len(good)) - 1] if good else None
    longest = max((run.took for run in runs), default=0.0)
    return Durations(usual, most, longest, len(good) / len(runs) if runs else None, unusual)
