"""What must be at the end: nothing is overdue, no process goes on after a HALT, and Redis remembers what ran.

Each run that is remembered as begun was begun, for that due time and in that process. And the last runs of each job
that was left alone are remembered, if no server has lost what it was told: each by a run of the same due time, as a
worker may have been cut off, or killed, before it told how its run ended, and then that is remembered as lost, or as
cancelled if it was.
"""

from tests.chaos.excuses import Excuses
from tests.chaos.history import MORE, History, Run, key
from tests.chaos.population import LIMITED
from tests.chaos.verdict import Verdict, told

OVERDUE = 8.0  # seconds at the end, when everything is being stopped, and the machine may stand still for some
CROWDED = 20.0  # the same for a queue with a limit: its slow jobs are due together, every 15 seconds
STARTING, HALTED = 10.0, 20.0  # seconds until a process surely hears a HALT, and has ended by it
LAST = 3  # runs of a job that are looked for: there is room for those, however often an occurrence was tried


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


def judge_memory(history: History, verdict: Verdict, excuses: Excuses) -> None:
    """Compare what is remembered in the end, if that was noted."""
    remembered: dict[str, set[int]] = {}
    begun = {(run.job, key(run.due), run.pid % MORE) for runs in history.runs.values() for run in runs}
    for job, due, outcome, pid in history.remembered or ():
        remembered.setdefault(job, set()).add(key(due))
        verdict.occurrences["remembered"] += 1
        is_lost = outcome == "lost" or (outcome == "cancelled" and not pid and _was_cancelled(history, job))
        if not is_lost and (job, key(due), pid) not in begun:
            verdict.wrong["misremembered"].append(told(history, job, due, f"remembered as {outcome}, of {pid}"))
    if history.remembered is None:
        return
    start, _ = history.segments[-1]
    for job, runs in history.runs.items():
        if job not in history.operations and ".shared" not in job:
            for run in _last(runs, start.ended, excuses):
                if key(run.due) not in remembered.get(job, ()):
                    verdict.wrong["forgotten"].append(told(history, job, run.due, f"not remembered: {run}"))


def _was_cancelled(history: History, job: str) -> bool:
    """Whether somebody may have cancelled a run of the job. If that is lost then, it is remembered as cancelled."""
    changes = history.operations.get(job, ())
    return any(change["kind"] == "cancel" and change.get("word", "") in ("", "cancelled") for change in changes)


def _last(runs: list[Run], since: float, excuses: Excuses) -> list[Run]:
    known = [run for run in runs if run.end is not None and run.taken > since and not excuses.is_overtaken(run.taken)]
    return known[-LAST:]
