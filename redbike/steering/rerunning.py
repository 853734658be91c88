"""Explicit runs: an operator runs jobs once now, whatever their schedules say."""

from collections.abc import Iterable, Iterator

from redbike.state.questions import Questions
from redbike.state.records import Status
from redbike.state.store import Store
from redbike.steering.patterns import Steered, check_pattern
from redbike.words import Event


def run_jobs(store: Store, jobids: Iterable[str]) -> list[Steered]:
    """Run jobs once now. The word of each is ``queued``, ``owed`` (its run in flight ends first) or ``missing``.

    Raise `BadQueueName` or `BadJobId` for a job without a queue; then none is run.
    """
    jobids = list(jobids)
    return [Steered(*each) for each in zip(jobids, store.jobs.run(jobids), strict=True)]


def find_failed(questions: Questions, pattern: str) -> Iterator[str]:
    """Yield the jobs that have failed for good, and whose id matches `pattern`. Raise `BadJobId` for an invalid one."""
    for jobid, record in questions.list_statuses(check_pattern(pattern)):
        status = Status.parse(record)
        if status and status.event == Event.DIE:
            yield jobid
