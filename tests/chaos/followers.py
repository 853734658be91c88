"""Followers: each occurrence of a parent that has ended well is followed by one run for its due time, or is counted.

A chain follows a job that is left alone; the last of three chains is followed by one job for all of them. Parents may
end again while a follower waits or runs: then one run is for the latest of them, and the others are counted.
"""

from tests.chaos.history import History, Run, Snapshot, key
from tests.chaos.verdict import Verdict, told

SETTLED = 8.0  # seconds after which the end of a run is known to the server, and what follows has been run
AWAITED = 1e11  # on the timeline, what waits for its parents


def judge_followers(history: History, verdict: Verdict) -> None:
    """Compare the runs of followers with those of their parents, between any two snapshots."""
    for start, end in history.segments:
        for job, text in start.held["schedules"].items():
            if text.startswith("AFTER:") and "@" not in job:  # those of backfills: see sets.py
                _judge(history, verdict, job, text.removeprefix("AFTER:").split(","), start, end)


def _judge(history: History, verdict: Verdict, job: str, parents: list[str], start: Snapshot, end: Snapshot) -> None:
    found = {key(run.due) for run in _list_between(history, job, start.began, end.ended)}
    given = {key(run.due) for parent in parents for run in history.runs.get(parent, ())}
    for due in sorted(found - given):
        verdict.wrong["unexplained"].append(told(history, job, due / 1000, "no parent has an occurrence of then"))
    ended = [_list_ended(history, parent, start, end) for parent in parents]
    if not all(ended) or any(end.died(parent) is not None for parent in (job, *parents)):
        return
    last, pending = min(dues[-1] for dues in ended), end.pending(job)
    is_idle = (pending is None or pending >= AWAITED) and not end.has_mail_of(parents)
    if is_idle and not any(due >= last for due in found):
        verdict.wrong["lost"].append(told(history, job, last / 1000, "its parents have ended, but it was not run"))
    if len(parents) == 1:
        # What is later may still be on its way.
        judged = [due for due in ended[0] if is_idle or due < max(found, default=0)]
        missing = [due for due in judged if due not in found]
        verdict.occurrences["followed"] += len(judged) - len(missing)
        if len(missing) > end.skipped(job) - start.skipped(job):
            said = f"{len(missing)} were not followed, {end.skipped(job) - start.skipped(job)} counted: {missing[:5]}"
            verdict.wrong["lost"].append(told(history, job, missing[0] / 1000, said))


def _list_ended(history: History, job: str, start: Snapshot, end: Snapshot) -> list[int]:
    """The due times of the occurrences that have ended well, and surely in this time, in their order."""
    runs = _list_between(history, job, start.ended + SETTLED, end.began - SETTLED)
    pending = end.pending(job)
    # A worker that is cut off, or killed, may have ended one without being able to say so: it is run again.
    open_still = None if pending is None else key(pending)
    return sorted({key(run.due) for run in runs if run.outcome == "done"} - {open_still})


def _list_between(history: History, job: str, begin: float, end: float) -> list[Run]:
    return [run for run in history.runs.get(job, ()) if run.taken >= begin and run.end is not None and run.end < end]
