"""The oracle: was every occurrence run, or counted as skipped, and nothing else?

Between two snapshots of Redis (there is one at the start, one at the end, one on either side of each loss of the end of
the append-only file, and one of each master that takes over, as soon as it does) each job has gone from one pending due
time to another. Every occurrence from the first up to the second must have been run to its end in that time, or the
counts of skipped ones have risen by as many. For a job that a client has changed in between, this holds from its last
change on.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise

from tests.chaos.endings import judge_halts, judge_memory, judge_rest
from tests.chaos.excuses import Excuses
from tests.chaos.expand import occurrences
from tests.chaos.followers import judge_followers
from tests.chaos.history import Entry, History, Run, Snapshot, key
from tests.chaos.sets import judge_sets
from tests.chaos.steering import judge_steering
from tests.chaos.verdict import Verdict, told

SLACK = 0.003  # seconds by which two clocks of one machine may be read differently
COMING = 600.0  # seconds within which whatever has runs to come has one
EXPLICIT = ("NOW", "CONTINUE")
CHANGES = frozenset({"set", "unset"})  # of a schedule; what else is done to a job that is steered is accounted for


@dataclass
class Stretch:
    """A time in which one job had one schedule: what was due in it, and how often that was counted as skipped."""

    job: str
    schedule: str
    expected: dict[int, float]
    runs: list[Run]
    counted: int
    exact: bool
    spare: int = 0  # of the runs, those that the servers may not know of


def judge(history: History) -> Verdict:
    """Sort every occurrence and every run."""
    verdict, excuses = Verdict(), Excuses(history)
    for start, end in history.segments:
        for job in sorted({*start.held["schedules"], *end.held["schedules"], *history.operations}):
            if not job.partition(".")[2].startswith(("shared", "follow")):
                _judge_job(history, verdict, excuses, job, start, end)
    for job, runs in history.runs.items():
        _judge_runs(history, verdict, excuses, job, runs)
    judge_steering(history, verdict, excuses)
    judge_followers(history, verdict)
    judge_sets(history, verdict, excuses)
    judge_rest(history, verdict)
    judge_memory(history, verdict, excuses)
    judge_halts(history, verdict, excuses)
    return verdict


def _judge_job(history: History, verdict: Verdict, excuses: Excuses, job: str, start: Snapshot, end: Snapshot) -> None:
    changes = [
        change
        for change in history.operations.get(job, ())
        if change["ended"] > start.began and change["began"] < end.ended and change["kind"] in CHANGES | _asking(job)
    ]
    runs = [
        run
        for run in history.runs.get(job, ())
        if run.end is not None and run.taken < end.ended and (run.taken >= start.began or run.tag == start.tag(job))
    ]
    if not changes:
        stretch = _left_alone(job, start, end, runs)
        stretch.spare = sum(excuses.is_overtaken(run.taken) for run in runs if key(run.due) in stretch.expected)
        _judge_stretch(history, verdict, stretch, end)
    elif excuses.is_overtaken(changes[-1]["ended"]):
        verdict.occurrences["not judged: changed at a master that was replaced"] += 1
    elif changes[-1]["answer"] == "unknown" or changes[-1]["began"] < start.ended or changes[-1]["ended"] > end.began:
        verdict.occurrences["not judged: changed without an answer"] += 1
    else:
        _judge_changed(history, verdict, changes[-1], runs, end)


def _asking(job: str) -> set[str]:
    """What else changes a job: an explicit run, unless all that is done to the job is accounted for."""
    return set() if ".steered." in job else {"rerun"}


def _left_alone(job: str, start: Snapshot, end: Snapshot, runs: list[Run]) -> Stretch:
    pending, schedule = start.pending(job), start.held["schedules"].get(job, "STOP")
    expected = {}
    if pending is not None:
        after = max(pending, start.counted_until(job))
        expected = _due(schedule, after, _until(job, end), *start.awaited(job))
    return Stretch(job, schedule, expected, runs, end.skipped(job) - start.skipped(job), exact=".still." in job)


def _until(job: str, end: Snapshot) -> float:
    """Up to when everything must be accounted for: what is pending, or given up, is not."""
    pending, died = end.pending(job), end.died(job)
    return pending if pending is not None else died if died is not None else end.began


def _due(schedule: str, after: float, until: float, *more: float) -> dict[int, float]:
    found = [due for due in (*more, *occurrences(schedule, after, until)) if due < until - SLACK]
    return {key(due): due for due in found}


def _judge_changed(history: History, verdict: Verdict, change: Entry, runs: list[Run], end: Snapshot) -> None:
    job, schedule = change["job"], change["schedule"]
    if change["kind"] != "set":
        schedule = end.held["schedules"].get(job, "STOP")
    met = [run for run in runs if run.taken >= change["began"] - SLACK and run.due <= change["ended"] + SLACK]
    asked = change["answer"] == "ok" and (change["kind"] == "rerun" or _is_due_at_once(change))
    pending = end.pending(job)
    waits = (
        end.left_behind(job).startswith("due:")
        or (pending is not None and pending <= change["ended"])
        or end.died(job) is not None
    )
    if asked and not met and not waits:
        verdict.wrong["lost"].append(told(history, job, change["began"], f"asked for at {change['began']:.3f}"))
    ended = change["answer"] == "ok" and (change["kind"] == "unset" or change["schedule"] == "STOP")
    if ended and any(run.taken > change["ended"] + SLACK for run in runs):
        verdict.wrong["unexplained"].append(told(history, job, change["ended"], "it ran after it was stopped"))
    expected = _due(schedule, change["ended"], _until(job, end))
    counted = max(0, end.skipped(job) - change["skipped"])  # to unset a job sets them back
    _judge_stretch(history, verdict, Stretch(job, schedule, expected, runs, counted, exact=False), end)


def _is_due_at_once(change: Entry) -> bool:
    """Whether a job was set to run now, or at an instant that was past."""
    keyword, _, instant = change["schedule"].partition(":")
    return keyword == "NOW" or (keyword == "AT" and float(instant) <= change["began"])


def _judge_stretch(history: History, verdict: Verdict, stretch: Stretch, end: Snapshot) -> None:
    ran = Counter(key(run.due) for run in stretch.runs)
    missing = [due for number, due in stretch.expected.items() if number not in ran]
    verdict.occurrences["run once"] += sum(ran[number] == 1 for number in stretch.expected)
    verdict.occurrences["run again"] += sum(ran[number] > 1 for number in stretch.expected)
    verdict.occurrences["counted as skipped"] += min(len(missing), max(0, stretch.counted))
    if len(missing) > stretch.counted:
        said = f"{len(missing)} were not run, {stretch.counted} counted: {missing[:5]}"
        verdict.wrong["lost"].append(told(history, stretch.job, missing[0], said))
    elif stretch.exact and len(missing) + stretch.spare < stretch.counted:
        said = f"{stretch.counted} counted as skipped, but {len(missing)} were not run"
        verdict.wrong["unexplained"].append(told(history, stretch.job, end.began, said))
    if _has_vanished(stretch, end):
        verdict.wrong["lost"].append(told(history, stretch.job, end.began, "it is nowhere, and has runs to come"))


def _has_vanished(stretch: Stretch, end: Snapshot) -> bool:
    if end.pending(stretch.job) is not None or end.died(stretch.job) is not None:
        return False
    return stretch.schedule == "CONTINUE" or bool(occurrences(stretch.schedule, end.ended, end.ended + COMING))


def _judge_runs(history: History, verdict: Verdict, excuses: Excuses, job: str, runs: list[Run]) -> None:
    by_due: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        verdict.runs[run.outcome or "no end"] += 1
        by_due[key(run.due)].append(run)
        if run.outcome == "foreign":
            verdict.wrong["foreign"].append(told(history, job, run.start, "it found what another occurrence has saved"))
        if min(run.start, run.taken) < run.due - SLACK - history.drift:
            verdict.wrong["early"].append(told(history, job, run.due, f"{run.due - run.start:.4f} s early"))
        if not _was_due(history, job, run):
            verdict.wrong["unexplained"].append(told(history, job, run.due, "there is no such occurrence"))
    for same in by_due.values():
        if ".still." in job:
            verdict.lateness.append(same[0].start - same[0].due)
        for run, again in pairwise(same):
            _judge_repeat(history, verdict, excuses, run, again)
    for run, other in pairwise(runs):
        if other.start < _last_moment(history, run) and not excuses.for_both(run, other):
            verdict.wrong["overlapping"].append(told(history, job, other.start, f"{run} | {other}"))


def _judge_repeat(history: History, verdict: Verdict, excuses: Excuses, run: Run, again: Run) -> None:
    reasons = excuses.of(run, again)
    if not reasons and _changed_between(history, run, again):
        reasons = ["set again"]
    if reasons:
        verdict.repeats[reasons[0]].append(run)
    else:
        verdict.wrong["unexplained"].append(told(history, run.job, again.start, f"run again: {run} | {again}"))


def _changed_between(history: History, run: Run, again: Run) -> bool:
    changes = [change for change in history.operations.get(run.job, ()) if change["kind"] in {*CHANGES, "rerun"}]
    return any(change["began"] <= again.taken and change["ended"] >= run.taken for change in changes)


def _last_moment(history: History, run: Run) -> float:
    return history.processes[run.pid].died if run.end is None else run.end


def _was_due(history: History, job: str, run: Run) -> bool:
    """Whether any schedule that the job ever had, or any request, has this instant."""
    if ".follow" in job:
        return True  # see followers.py and sets.py
    changes = history.operations.get(job, ())
    if any(change["began"] - SLACK <= run.due <= change["ended"] + SLACK for change in changes):
        return True
    texts = {start.held["schedules"].get(job, "STOP") for start, _ in history.segments[:1]}
    texts |= {change["schedule"] for change in changes if change["kind"] == "set"}
    return any(text in EXPLICIT or occurrences(text, run.due - SLACK, run.due + SLACK) for text in texts)
