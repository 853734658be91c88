"""Begin blackouts: a dispatcher does when their time has come, and a caller that sets one which is on already.

A blackout is a pause with an end. So it ends as any pause, and what came due during it was missed.
"""

import logging
from collections.abc import Sequence

from redbike.loop.catchup import JUST_BEFORE
from redbike.schedule.clock import Clock
from redbike.schedule.windows import Window
from redbike.store.blackouts import OF_JOB, OF_QUEUE, TIMER, BlackoutState
from redbike.store.store import Store

log = logging.getLogger("redbike.dispatcher")

PAUSED = ("held", "paused", "extended", "shortened")


def begin_blackouts(store: Store, timers: Sequence[str]) -> bool:
    """Begin the blackouts whose timers have come; return False if none of `timers` is of a blackout."""
    names = [timer.removeprefix(TIMER) for timer in timers if timer.startswith(TIMER)]
    begin_named(store, names)
    return bool(names)


def begin_named(store: Store, names: Sequence[str]) -> None:
    """Begin those of the blackouts `names` that are on now, and set the timer of each for its next time.

    If a blackout is not on, a pause that an earlier one began there ends now.
    """
    for number, shard in enumerate(store.shards):
        _begin(shard, [name for name in names if not name.startswith(OF_JOB) or _number(store, name) == number])


def copy_blackout(store: Store, base: str, jobids: Sequence[str]) -> None:
    """Give new jobs on hosts the blackout of their base, if it has one.

    The jobs are set already, so a later change of the blackout finds them. A change meanwhile may not: so look again.
    """
    own, names, before = store.shards[store.number_shard(base)].blackouts, [f"{OF_JOB}{each}" for each in jobids], ""
    while names and (state := own.inspect([f"{OF_JOB}{base}"])[0]).record != before:
        if found := state.blackout:
            # If one is on now, the jobs have the pause of their base, unless somebody has resumed that.
            store.blackouts.set(names, found, state.timer or found.since, "")
        else:
            store.blackouts.end(names, "")
        before = state.record


def _number(store: Store, name: str) -> int:
    return store.number_shard(name.removeprefix(OF_JOB))


def _begin(store: Store, names: Sequence[str]) -> None:
    for state in store.blackouts.inspect(names) if names else ():
        if state.record and state.blackout is None:
            log.error("the blackout %r cannot be read, and is removed: %.80r", state.name, state.record)
        window, following = decide_begun(state)
        word = store.blackouts.begin(state, window, following)
        if window and word in PAUSED:
            end = Clock(0.0, "UTC").name(window.end)
            log.debug("%s: paused by its blackout until %s; %s", describe_name(state.name), end, word)


def decide_begun(state: BlackoutState) -> tuple[Window | None, float | None]:
    """Return the window in which a blackout pauses now, if any, and when it begins next, if ever: a pure function."""
    found = state.blackout
    window = found.find(state.now) if found else None
    if found is None or window is None or window.start > state.now:
        return None, window.start if window else None
    following = found.find(window.end)
    # A job that was dispatched before the blackout was set did not fall into it.
    # A job that is due at the instant at which it begins does.
    since = max(window.start - JUST_BEFORE, found.since)
    return Window(since, window.end), following.start if following else None


def describe_name(name: str) -> str:
    """Return in words what a blackout pauses."""
    if name.startswith(OF_JOB):
        return name.removeprefix(OF_JOB)
    queue = name.removeprefix(OF_QUEUE)
    return f"the queue {queue}" if queue else "everything"
