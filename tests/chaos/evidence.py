"""What is known about something that is wrong, as lines for people."""

from typing import Any

from tests.chaos.history import History

NEAR = 30  # seconds to either side of it from which runs and changes are shown
FAULTS_NEAR = 20  # the same for faults
MOST_RUNS = 12


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
