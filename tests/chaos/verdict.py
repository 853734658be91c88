"""What the oracle has found, and what is known about it, as lines for people."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.history import History, Run

WRONG = ("lost", "unexplained", "overlapping", "early", "stuck", "paused", "cancelled", "exceeded")
WRONG += ("misremembered", "forgotten", "foreign")
NEAR = 30  # seconds to either side of it from which runs and changes are shown
FAULTS_NEAR = 20  # the same for faults
MOST_RUNS = 12


@dataclass
class Verdict:
    """What was found. Each list of `wrong` must be empty."""

    occurrences: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in WRONG})
    repeats: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))  # by the reason why
    lateness: list[float] = field(default_factory=list)  # seconds, of each first run of a job that is left alone


def told(history: History, job: str, moment: float, said: str) -> str:
    """Enough to understand it: the job, its runs and its changes about `moment`, and the faults."""
    near = range(int(moment) - NEAR, int(moment) + NEAR + 1)
    runs = [run for run in history.runs.get(job, ()) if int(run.start) in near or int(run.due) in near]
    pids = {run.pid for run in runs}
    lines = [f"{job}: {said}", *(f"    run: {run}" for run in runs[:MOST_RUNS])]
    for change in history.operations.get(job, ()):
        if int(change["began"]) in near:
            lines.append(f"    change: {change}")
    for fault in history.faults:
        if (
            fault["began"] < moment + FAULTS_NEAR
            and fault["ended"] > moment - FAULTS_NEAR
            and fault.get("pid", -1) in {-1, *pids}
        ):
            more: Any = {name: value for name, value in fault.items() if name not in ("kind", "name", "began", "ended")}
            lines.append(f"    fault: {fault['name']} {fault['began']:.3f} to {fault['ended']:.3f} {more}")
    return "\n".join(lines)
