"""Skip occurrences that wait in a queue and have not begun within ``expires``.

A job that has this option, or the setting, gets a timer when it is enqueued. When that comes, the dispatcher looks at
the job. So nobody looks at jobs that do not expire, and a queue needs no worker for that.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from redbike.config.settings import Settings, override
from redbike.loop.occurrences import JUST_BEFORE, find_expiry, give_up_expired
from redbike.store.records import Pause, RetryState, Waiting
from redbike.store.run import Run
from redbike.store.schedules import read_schedule
from redbike.store.store import Store
from redbike.store.timeline import Expiration, Expiring
from redbike.text.printable import name_number

log = logging.getLogger("redbike.dispatcher")

TIMER = "expires:"  # what the timer of a job begins with that may expire
SKIPPED = ("timeline", "held", "stopped")  # where a job may be then


def skip_expired(store: Store, settings: Settings, timers: Sequence[str]) -> None:
    """Skip what has expired of the jobs whose timers have come."""
    jobids = [timer.removeprefix(TIMER) for timer in timers if timer.startswith(TIMER)]
    if not jobids:
        return
    waiting = store.timeline.read_expiring(jobids)
    words = store.timeline.expire([decide_expired(each, override(settings, each.options)) for each in waiting])
    skipped = [each.jobid for each, word in zip(waiting, words, strict=True) if word in SKIPPED]
    if skipped:
        more = f" and {name_number(len(skipped) - 1, 'more job')}" if len(skipped) > 1 else ""
        log.info("%s%s: an occurrence has expired in its queue, and is skipped", skipped[0], more)


def decide_expired(job: Expiring, settings: Settings) -> Expiration:
    """Decide for a job whose timer has come: a pure function of what is known of it."""
    waiting, pause = job.waiting, Pause.parse(job.found.get("pause", ""))
    schedule = read_schedule(job.jobid, job.found.get("schedule"), job.options)
    if waiting is None or schedule is None:
        return Expiration(job, never=True)
    # What came due since the job was paused is for whoever resumes it.
    until = min(job.now, pause.since) if pause else job.now
    run = _make_run(job, waiting, until)
    # The order of somebody counts from its own time, which the timer has.
    expiry = find_expiry(replace(run, after=None), schedule, settings)
    if expiry is None:
        return Expiration(job, never=True)
    expiry = job.at if run.was_asked_for else expiry
    if job.now < expiry - JUST_BEFORE:
        return Expiration(job, at=expiry)
    decided = give_up_expired(run, schedule, settings, until)
    due = decided.due if isinstance(decided.due, float) else None
    return Expiration(job, due=due, retry_state=decided.retry_state, skipped=decided.skipped)


def _make_run(job: Expiring, waiting: Waiting, now: float) -> Run:
    kept = RetryState.parse(job.found.get("retry_state", ""))
    counts = kept.failures, kept.losses, job.found.get("schedule", ""), waiting.queue
    run = Run(job.jobid, waiting.due, "", now, now, *counts, tries=kept.tries, after=kept.after, options=job.options)
    run.alone, run.failed = kept.alone, kept.failed
    return run
