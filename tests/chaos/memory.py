"""What Redis remembers of the runs must agree with what ran.

Each run that is remembered as begun was begun, for that due time and in that process. And the last runs of each job
that was left alone are remembered, if no server has lost what it was told: each by a run of the same due time, as a
worker may have been cut off, or killed, before it told how its run ended, and then that is remembered as lost, or as
cancelled if it was.
"""

from tests.chaos.evidence import told
from tests.chaos.excuses import Excuses
from tests.chaos.history import History, Run
from tests.chaos.verdict import Verdict

LAST = 3  # runs of a job that are looked for: there is room for those, however often an occurrence was tried


def judge_memory(history: History, verdict: Verdict, excuses: Excuses) -> None:
    """Compare what is remembered in the end, if that was noted."""
    remembered: dict[str, set[int]] = {}
    begun = {(run.job, _key(run.due), run.pid) for runs in history.runs.values() for run in runs}
    for job, due, outcome, pid in history.remembered or ():
        remembered.setdefault(job, set()).add(_key(due))
        verdict.occurrences["remembered"] += 1
        is_lost = outcome == "lost" or (outcome == "cancelled" and not pid and _was_cancelled(history, job))
        if not is_lost and (job, _key(due), pid) not in begun:
            verdict.wrong["misremembered"].append(told(history, job, due, f"remembered as {outcome}, of {pid}"))
    if history.remembered is None:
        return
    start, _ = history.segments[-1]
    for job, runs in history.runs.items():
        if job not in history.operations and ".shared" not in job:
            for run in _last(runs, start.ended, excuses):
                if _key(run.due) not in remembered.get(job, ()):
                    verdict.wrong["forgotten"].append(told(history, job, run.due, f"not remembered: {run}"))


def _was_cancelled(history: History, job: str) -> bool:
    """Whether somebody may have cancelled a run of the job. If that is lost then, it is remembered as cancelled."""
    changes = history.operations.get(job, ())
    return any(change["kind"] == "cancel" and change.get("word", "") in ("", "cancelled") for change in changes)


def _last(runs: list[Run], since: float, excuses: Excuses) -> list[Run]:
    known = [run for run in runs if run.end is not None and run.taken > since and not excuses.is_overtaken(run.taken)]
    return known[-LAST:]


def _key(due: float) -> int:
    return round(due * 1000)
