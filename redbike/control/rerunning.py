"""Explicit runs: an operator runs jobs once now, whatever their schedules say."""

from collections.abc import Iterable, Iterator
from itertools import islice

from redbike.store.enums import Event
from redbike.store.namespace import PAGE
from redbike.store.patterns import Steered, check_pattern
from redbike.store.questions import Questions
from redbike.store.records import Status, Streak
from redbike.store.store import Store


def run_jobs(store: Store, jobids: Iterable[str]) -> list[Steered]:
    """Run jobs once now. The word of each is ``queued``, ``owed`` (its run in flight ends first) or ``missing``.

    Raise `BadQueueName` or `BadJobId` for a job without a queue; then none is run.
    """
    jobids = list(jobids)
    return [Steered(*each) for each in zip(jobids, store.jobs.run(jobids), strict=True)]


def find_tries(store: Store, jobids: Iterable[str]) -> dict[str, float]:
    """Return of which occurrence (epoch seconds) an explicit run is a new try, for those jobs of which it is one.

    That is the one that failed, or was dropped or is to be tried again. The other jobs have a new run.
    """
    found, rest = dict[str, float](), iter(jobids)
    while page := list(islice(rest, PAGE)):
        for state in store.questions.inspect(page):
            failed = (state.failure or {}).get("due")
            due = Streak.parse(state.streak).due
            if due is None and isinstance(failed, int | float):
                due = float(failed)
            if due is not None and not (state.run or state.waiting):
                found[state.jobid] = due
    return found


def find_failed(questions: Questions, pattern: str) -> Iterator[str]:
    """Yield the jobs that have failed for good, and whose id matches `pattern`. Raise `BadJobId` for an invalid one."""
    for jobid, record in questions.list_statuses(check_pattern(pattern)):
        status = Status.parse(record)
        if status and status.event == Event.DIE:
            yield jobid
