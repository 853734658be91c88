"""Cancelling: an operator drops the occurrence of a job that waits in a queue, is overdue, is tried again or runs."""

from collections.abc import Iterable
from itertools import islice

from redbike.config.settings import Settings
from redbike.loop.cancelling import compute_cancellation
from redbike.store.jobs import Cancellation
from redbike.store.namespace import STEP
from redbike.store.patterns import Steered
from redbike.store.store import Store


def cancel_jobs(store: Store, jobids: Iterable[str], settings: Settings) -> list[Steered]:
    """Cancel the occurrence of each job that waits or runs; the schedule goes on.

    The words are ``cancelled``, ``unchanged`` (its run was cancelled before), ``idle`` (nothing of it waits or runs)
    and ``missing``.
    """
    words: dict[str, str] = {}
    rest = iter(jobids)
    while page := list(islice(rest, STEP)):
        words |= dict.fromkeys(page, "")
        while page:
            found = {state.jobid: compute_cancellation(state, settings) for state in store.questions.inspect(page)}
            words |= {jobid: plan for jobid, plan in found.items() if isinstance(plan, str)}
            plans = [plan for plan in found.values() if isinstance(plan, Cancellation)]
            answers = zip(plans, store.jobs.cancel(plans), strict=True)
            words |= {plan.jobid: word for plan, word in answers}
            # A job that has moved on meanwhile is looked at again.
            page = [jobid for jobid in page if words[jobid] == "stale"]
    return [Steered(*each) for each in words.items()]
