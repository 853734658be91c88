"""What operators do to jobs that exist: cancel what waits or runs, pause and resume them, run them once now."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cache

from redbike.config.settings import Settings
from redbike.control.operator import name_operator
from redbike.control.setter import Setter
from redbike.errors import BadJobId
from redbike.loop import resuming
from redbike.loop.host_jobs import check_alone, list_on_hosts, list_others, name_bases
from redbike.loop.outlook import find_queue_pause, list_holds
from redbike.loop.requests import compute_cancellation
from redbike.store.catalog import Catalog
from redbike.store.enums import Event
from redbike.store.inspected import JobState
from redbike.store.jobs import Cancellation
from redbike.store.namespace import PAGE, STEP, split
from redbike.store.patterns import Steered, check_pattern
from redbike.store.records import RetryState, Status
from redbike.store.store import Store

NOWHERE = "nowhere"  # the word of a job for every host that has no job on any


def cancel_jobs(store: Store, jobids: Iterable[str], settings: Settings) -> list[Steered]:
    """Cancel the occurrence of each job that waits or runs; the schedule goes on. If a backfill runs, only end this.

    The words are ``cancelled``, ``unchanged`` (its run was cancelled before), ``ended`` (its backfill), ``idle``
    (no occurrence of it waits or runs), ``nowhere`` (it is for every host, and has no job on any) and ``missing``.
    """
    words: dict[str, str] = {}
    nowhere = list[str]()
    # Each shard knows the pauses of all queues. So only the shard of a job is asked: another one may be away.
    read_holds = cache(lambda shard: list_holds(shard.queue_limits.list_pauses()))

    def find_pause(state: JobState) -> tuple[float, float] | None:
        queue = state.waiting.queue if state.waiting else store.name_queue(state.jobid)
        holds = read_holds(store.find_shard(state.jobid))
        return find_queue_pause([*holds.get(queue, ()), *holds.get("", ())], state.now)

    for page in split(list_on_hosts(store, jobids, nowhere), STEP):
        words |= dict.fromkeys(page, "")
        while page:
            states = store.questions.inspect(page)
            # If no backfill can be ended, the occurrence of the job itself is cancelled.
            begun = [each.jobid for each in states if each.backfill or each.trails]
            ended = [jobid for jobid in begun if store.backfills.end(jobid)]
            words |= dict.fromkeys(ended, "ended")
            others = [each for each in states if each.jobid not in ended]
            found = {each.jobid: compute_cancellation(each, settings, find_pause) for each in others}
            words |= {jobid: plan for jobid, plan in found.items() if isinstance(plan, str)}
            plans = [plan for plan in found.values() if isinstance(plan, Cancellation)]
            answers = zip(plans, store.jobs.cancel(plans), strict=True)
            words |= {plan.jobid: word for plan, word in answers}
            # A job that has changed meanwhile is read again.
            page = [state.jobid for state in states if words[state.jobid] == "stale"]
    return [*(Steered(*each) for each in words.items()), *(Steered(base, NOWHERE) for base in nowhere)]


def pause_jobs(store: Store, jobids: Sequence[str], until: float | None, reason: str) -> list[Steered]:
    """Pause jobs, none of them twice. If `until` (epoch seconds) is not None, the pauses end at this instant.

    The word of each is ``held`` (it waited), ``paused`` (it did not), ``unchanged`` (it was paused before) or
    ``missing`` (it was unset meanwhile). The caller has checked the end and the reason.
    """
    by = store.who or name_operator()
    # The base first: if this is interrupted, the dispatcher does the rest.
    jobids = [*jobids, *list_others(store, jobids)]
    return [
        Steered(*each)
        for page in split(jobids, PAGE)
        for each in zip(page, store.pauses.pause(page, until, by, reason), strict=True)
    ]


def resume_jobs(store: Store, jobids: Sequence[str], settings: Settings) -> list[Steered]:
    """Resume jobs. The word of each says where the job is now, or is ``unchanged``: it was not paused.

    Raise `BadJobId` for a job on one host if its base stays paused: a dispatcher would pause the job again.
    """
    bases = name_bases(jobids)
    paused = store.questions.read_pauses([*dict.fromkeys(bases.values())]) if bases else {}
    check_alone(store, {jobid: base for jobid, base in bases.items() if base in paused}, "is paused, so resume that")
    # The base last: if this is interrupted, the next call resumes all.
    jobids = [*list_others(store, jobids), *jobids]
    return [Steered(*each) for each in zip(jobids, resuming.resume(store, settings, jobids), strict=True)]


def run_jobs(store: Store, jobids: Iterable[str], run: Callable[[list[str]], list[str]] | None = None) -> list[Steered]:
    """Run jobs once now. If `run` is given, it is called in place of ``store.jobs.run``.

    The word of each is ``queued``, ``owed`` (its run in flight ends first) or ``missing``. A job for every host that
    has no job on any host has the word ``nowhere``. Raise `BadQueueName` or `BadJobId` for a job without a queue; then
    no job is run.
    """
    nowhere = list[str]()
    jobids = list(list_on_hosts(store, jobids, nowhere))
    done = [Steered(*each) for each in zip(jobids, (run or store.jobs.run)(jobids), strict=True)]
    return done + [Steered(base, NOWHERE) for base in nowhere]


def find_tries(store: Store, jobids: Iterable[str]) -> dict[str, float]:
    """Return the jobs for which an explicit run is a new try, with the due time of its occurrence (epoch seconds).

    Such an occurrence has failed, was dropped, or is to be retried. Other jobs get a new run.
    """
    found = dict[str, float]()
    for page in split(jobids, PAGE):
        for state in store.questions.inspect(page):
            failed = (state.failure or {}).get("due")
            due = RetryState.parse(state.retry_state).due
            if due is None and isinstance(failed, int | float):
                due = float(failed)
            if due is not None and not (state.run or state.waiting):
                found[state.jobid] = due
    return found


def unset_jobs(setter: Setter, jobids: Iterable[str]) -> list[Steered]:
    """Unset jobs one by one.

    The word of each is ``unset``, ``missing`` (it was unset meanwhile), or ``of a base`` (a job on one host stays as
    long as its base).
    """
    steered = list[Steered]()
    for jobid in jobids:
        try:
            word = "unset" if setter.unset(jobid) else "missing"
        except BadJobId:
            word = "of a base"
        steered.append(Steered(jobid, word))
    return steered


def find_failed(catalog: Catalog, pattern: str, tags: Set[str] = frozenset()) -> Iterator[str]:
    """Yield the jobs that have failed for good, whose id matches `pattern`, and that have one of `tags`, if given.

    Raise `BadJobId` for an invalid pattern.
    """
    found = ((jobid, Status.parse(record)) for jobid, record in catalog.list_statuses(check_pattern(pattern)))
    return catalog.keep_tagged((jobid for jobid, status in found if status and status.event == Event.DIE), tags)
