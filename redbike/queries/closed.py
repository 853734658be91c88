"""What pauses the queue of a job, or everything: it holds a job that is not paused itself."""

from collections.abc import Iterable, Sequence

from redbike.loop.every_host import BY
from redbike.schedule.clock import Clock
from redbike.store.queue_limits import QueueLimits
from redbike.store.store import Store


def read_limits(store: Store, jobid: str) -> Sequence[QueueLimits]:
    """Return what stands before the queue of a job, if that is known, and before all queues."""
    shard = store.find_shard(jobid)
    queues = (each.queue for each in shard.overview.read_named([jobid]))
    return [shard.queue_limits.read(name) for name in dict.fromkeys([*queues, ""])]


def describe_closed(found: Iterable[QueueLimits], clock: Clock) -> str:
    """Return which of these queues is paused, as the end of a sentence; "" if none is. "" is everything."""
    for limits in found:
        pause = limits.pause
        if pause and pause.holds(clock.now):
            what = f"its queue {limits.queue} is" if limits.queue else "everything is"
            return f"{what} paused {describe_pause(pause.since, pause.until, pause.by, pause.reason, clock)}"
    return ""


def describe_pause(since: float, until: float | None, by: str | None, reason: str | None, clock: Clock) -> str:
    """Return since when something is paused, by whom, until when and why, as the end of a sentence."""
    resumed = "until a worker is back" if by == BY else "until somebody resumes it"
    end = resumed if until is None else f"until {clock.name(until)}"
    return f"since {clock.name(since)}{f' by {by}' if by else ''}, {end}{f' ({reason})' if reason else ''}"
