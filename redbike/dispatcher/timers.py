"""What a dispatcher does when a timer has come."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from redbike.config.settings import Settings
from redbike.dispatcher.expiring import skip_expired
from redbike.loop.blackouts import begin_blackouts
from redbike.loop.resuming import resume_over
from redbike.store.misplaced import TIMER
from redbike.store.names import is_queue_name
from redbike.store.quotas import Late
from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")


def run_timers(store: Store, settings: Settings, timers: Sequence[str], divide: Callable[[str], None]) -> bool:
    """Resume the jobs, skip what has expired, and open the queues, whose timers have come; begin blackouts.

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
