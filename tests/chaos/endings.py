"""What must have come to an end: overdue jobs when all is calm, and processes after a HALT."""

from tests.chaos.evidence import told
from tests.chaos.excuses import Excuses
from tests.chaos.history import History
from tests.chaos.population import LIMITED
from tests.chaos.verdict import Verdict

OVERDUE = 2.0  # seconds at the end, when everything is being stopped
CROWDED = 15.0  # the same for a queue with a limit: its slow jobs are due together, every 15 seconds
STARTING, HALTED = 10.0, 20.0  # seconds until a process surely hears a HALT, and has ended by it


def judge_rest(history: History, verdict: Verdict) -> None:
    """What is overdue at the end, long after the last fault."""
    _, last = history.segments[-1]
    end = history.notes["end"][-1]["at"]
    for job in {**last.held["timeline"], **last.held["queued"], **last.held["running"]}:
        pending = last.waits_until(job)
        patience = CROWDED if job.endswith(f":{LIMITED}") else OVERDUE
        if pending is not None and pending < end - patience:
            verdict.wrong["stuck"].append(told(history, job, pending, f"due {end - pending:.1f} s before the end"))


def judge_halts(history: History, verdict: Verdict, excuses: Excuses) -> None:
    """Who was there before a HALT must end, unless it was suspended, or the server has forgotten the HALT."""
    for halt in history.notes["halt"]:
        if halt["answer"] != "ok" or excuses.is_forgotten(halt["ended"]):
            continue
        for pid, process in history.processes.items():
            deaf = process.role == "client" or excuses.is_suspended(pid, halt["ended"], HALTED)
            if process.born + STARTING < halt["began"] and process.died > halt["ended"] + HALTED and not deaf:
                verdict.wrong["unexplained"].append(f"{process.role} {pid} goes on after a HALT at {halt['ended']:.3f}")
