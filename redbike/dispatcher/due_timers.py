"""What a dispatcher does when a timer has come."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from redbike.config.settings import Settings, override
from redbike.loop.blackouts import begin_blackouts
from redbike.loop.catchup import JUST_BEFORE, find_expiry, give_up_expired
from redbike.loop.resuming import resume_over
from redbike.store.misplaced import TIMER
from redbike.store.names import is_queue_name
from redbike.store.quotas import Late
from redbike.store.records import Pause, RetryState, Waiting
from redbike.store.run import Run
from redbike.store.schedules import read_schedule
from redbike.store.store import Store
from redbike.store.timeline import Expiration, Expiring
from redbike.text.printable import name_number

log = logging.getLogger("redbike.dispatcher")

EXPIRY = "expires:"  # how the timer of a job that may expire begins
SKIPPED = ("timeline", "held", "stopped")  # where a job may be after the skip


def run_timers(store: Store, settings: Settings, timers: Sequence[str], divide: Callable[[str], None]) -> bool:
    """Handle timers that have come: begin blackouts, resume jobs, skip what has expired, and open queues.

    `divide` divides the limits of a queue among shards. Return whether there was a blackout among the timers.
    """
    begins = begin_blackouts(store, timers)
    resume_over(store, settings, timers)
    skip_expired(store, settings, timers)
    for member in timers:
        kind, _, name = member.partition(":")
        if kind == "queue" and (not name or is_queue_name(name)):
            store.queue_limits.open(name)
        elif kind == "quota" and is_queue_name(name):
            # If two dispatchers have seen the timer, only the first one divides.
            with suppress(Late):
                store.quotas.postpone(name, is_first=True)
                divide(name)
        elif kind not in ("job", "expires", "blackout") and member != TIMER:
            log.error("%r in the key %s is no timer: it is removed", member, store.keys.timers)
            store.upkeep.discard(store.keys.timers, member)
    return begins


def skip_expired(store: Store, settings: Settings, timers: Sequence[str]) -> None:
    """Skip what has expired of the jobs whose timers have come: it waits in a queue, and has not begun in time.

    A job that has the option ``expires``, or the setting, gets a timer when it is enqueued. So nobody looks at jobs
    that do not expire, and a queue needs no worker for that.
    """
    jobids = [timer.removeprefix(EXPIRY) for timer in timers if timer.startswith(EXPIRY)]
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
    # What came due since the pause is decided when the job is resumed.
    until = min(job.now, pause.since) if pause else job.now
    run = _make_run(job, waiting, until)
    # A run that somebody has asked for expires by the time of that request, which the timer has.
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
