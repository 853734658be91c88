"""What must not be when jobs are steered: a run while paused, a try of what was cancelled, too many at once."""

from collections.abc import Iterator

from tests.chaos.excuses import OUTAGES, Excuses, overlaps
from tests.chaos.history import Entry, History, Run
from tests.chaos.verdict import Verdict, told

SLACK = 0.01  # seconds by which two clocks of one machine may be read differently
OVERDUE = 15.0  # seconds after which a pause that should have ended by itself goes on
UNKNOWN = 30.0  # seconds for which a request without an answer may still take effect
LIMITED = ":L"  # how the jobs of the queue with a limit end
LIMIT = 3  # at once, when it begins


def judge_steering(history: History, verdict: Verdict, excuses: Excuses) -> None:
    """Judge all jobs that are steered, and the queue with a limit."""
    for job, operations in history.operations.items():
        if ".steered." in job:
            _judge_pauses(history, verdict, excuses, job, operations)
            _judge_cancellations(history, verdict, excuses, job, operations)
    _judge_limit(history, verdict, excuses)
    _judge_ends(history, verdict)


def _judge_pauses(history: History, verdict: Verdict, excuses: Excuses, job: str, operations: list[Entry]) -> None:
    """No run is taken while its job is paused, unless somebody has asked for it."""
    for pause in operations:
        if pause["kind"] != "pause" or pause["word"] not in ("held", "paused") or excuses.is_forgotten(pause["ended"]):
            continue
        until = min((other["began"] for other in operations if _ends_pause(other, pause)), default=float("inf"))
        if pause["schedule"]:
            until = min(until, pause["began"] + float(pause["schedule"]))
        until = min([until, *(since for since, _ in excuses.forgotten if since > pause["began"])])
        for run in history.runs.get(job, ()):
            if pause["ended"] + SLACK < run.taken < until - SLACK - history.drift:
                said = f"it ran while it was paused: from {pause['ended']:.3f} to {until:.3f}"
                verdict.wrong["paused"].append(told(history, job, run.taken, said))


def _ends_pause(other: Entry, pause: Entry) -> bool:
    """Whether an operation may end a pause, or ask for a run in spite of it; without an answer, it may come later."""
    begins_later = other["began"] >= pause["began"]
    is_unknown = other["answer"] == "unknown" and other["began"] >= pause["began"] - UNKNOWN
    return other["kind"] in ("resume", "rerun") and other is not pause and (begins_later or is_unknown)


def _judge_cancellations(
    history: History, verdict: Verdict, excuses: Excuses, job: str, operations: list[Entry]
) -> None:
    """What was cancelled in flight is not run again."""
    for cancel in operations:
        if cancel["kind"] != "cancel" or cancel["word"] != "cancelled" or excuses.is_forgotten(cancel["ended"]):
            continue
        asked = [
            other for other in operations if other["kind"] == "rerun" and other["ended"] >= cancel["began"] - UNKNOWN
        ]
        runs = history.runs.get(job, ())
        for run in runs:
            flies = run.start < cancel["began"] and run.end is not None and run.end > cancel["ended"]
            again = [other for other in runs if other.due == run.due and other.taken > cancel["ended"] + SLACK]
            if flies and again and not asked and not excuses.is_replaced(run, again[0]):
                said = f"it ran again after it was cancelled at {cancel['ended']:.3f}"
                verdict.wrong["cancelled"].append(told(history, job, again[0].taken, said))


def _judge_limit(history: History, verdict: Verdict, excuses: Excuses) -> None:
    """When a job is taken from the queue with a limit, no more than that are in flight."""
    runs = sorted(
        (run for job, found in history.runs.items() if job.endswith(LIMITED) for run in found),
        key=lambda run: run.taken,
    )
    for number, run in enumerate(runs):
        open_runs = [other for other in runs[:number] if _flies(other, run.taken)]
        sure = [other for other in open_runs if not _may_be_lost(history, excuses, other, run.taken)]
        allowed = max(_limits_at(history, run.taken))
        if len(sure) + 1 > allowed and not excuses.is_forgotten(run.taken):
            said = f"{len(sure) + 1} at once, {allowed} are allowed: {'; '.join(map(str, sure))}"
            verdict.wrong["exceeded"].append(told(history, run.job, run.taken, said))
        elif len(open_runs) + 1 > allowed:
            verdict.occurrences["begun beyond a limit, beside runs that were lost and go on"] += 1
    if runs:
        verdict.occurrences["run from the queue with a limit"] += len(runs)


def _flies(run: Run, moment: float) -> bool:
    return run.end is not None and run.end > moment + SLACK


def _may_be_lost(history: History, excuses: Excuses, run: Run, moment: float) -> bool:
    """Whether the server may not count a run any more, or again: its worker or the server was struck."""
    outages = [fault for fault in history.faults if fault["name"] in OUTAGES]
    struck = any(overlaps(fault, run.taken - SLACK, moment) for fault in outages)
    return struck or excuses.is_struck(run, moment) or moment - run.taken > excuses.timeout(run)


def _limits_at(history: History, moment: float) -> Iterator[int]:
    """The limits that may have been in force."""
    operations = sorted(history.notes["limit"], key=lambda entry: entry["began"])
    begun = [entry for entry in operations if entry["began"] <= moment + SLACK]
    sure = [entry for entry in begun if entry["answer"] == "ok" and entry["ended"] <= moment - SLACK]
    last = max((entry["began"] for entry in sure), default=0.0)
    if not sure:
        yield LIMIT
    yield from (int(entry["schedule"]) for entry in begun if entry["ended"] >= last)
    # After a loss of the end of the append-only file an earlier one is in force.
    if any("since" in fault and fault["began"] <= moment for fault in history.faults):
        yield from (LIMIT, *(int(entry["schedule"]) for entry in begun))


def _judge_ends(history: History, verdict: Verdict) -> None:
    """At the end no pause goes on whose time is over."""
    _, last = history.segments[-1]
    end = history.notes["end"][-1]["at"]
    for job in last.held.get("pauses", {}):
        until = last.paused_until(job)
        if until is not None and until < end - OVERDUE:
            verdict.wrong["stuck"].append(told(history, job, until, f"its pause was over {end - until:.1f} s before"))
