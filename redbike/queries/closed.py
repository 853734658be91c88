"""Pauses of the queue of a job, or of everything, which hold a job that is not paused itself."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from redbike.loop.every_host import BY
from redbike.schedule.clock import Clock
from redbike.store.namespace import PAGE, split
from redbike.store.queue_limits import QueueLimits
from redbike.store.store import Store

MOST_LOOKED_AT, MOST_NAMED = 1000, 10  # jobs and queues


def read_limits(store: Store, jobid: str) -> Sequence[QueueLimits]:
    """Return the pauses and limits of the queue of a job, if it is known, and of all queues."""
    shard = store.find_shard(jobid)
    # Without the last run: for this, the whole journal would be read.
    queues = (each.queue for each in shard.overview.read_named([jobid], {}))
    return [shard.queue_limits.read(name) for name in dict.fromkeys([*queues, ""])]


def list_closed(store: Store, jobids: Sequence[str], zone: str, due: float | None = None) -> Iterator[str]:
    """Yield why jobs that are due wait: the queue of the first of them, or everything, is paused.

    They are due at `due`, in epoch seconds, or now. Each queue is named once. At most a thousand jobs are read, and
    ten of their queues.
    """
    first = dict[str, str]()
    for job in store.overview.read_named(jobids[:MOST_LOOKED_AT], {}):
        first.setdefault(job.queue, job.jobid)
    found = (find_closed(store, jobid, zone, due) for jobid in islice(first.values(), MOST_NAMED))
    yield from dict.fromkeys(said for said in found if said)


def find_closed(store: Store, jobid: str, zone: str, due: float | None = None) -> str | None:
    """Return a sentence if the queue of a job, or everything, is paused when the job is due; else None."""
    limits = read_limits(store, jobid)
    if not any(each.pause for each in limits):
        return None
    now = store.find_shard(jobid).timeline.read_clock() if due is None else due
    clock = Clock(now, zone)
    if closed := describe_closed([each for each in limits if each.queue], clock):
        return f"{jobid}: {closed}"
    return describe_closed(limits, clock) or None


def list_paused(store: Store, jobids: Sequence[str], zone: str) -> Iterator[tuple[str, str]]:
    """Yield (job id, description of its pause) for those of `jobids` that are paused themselves."""
    for page in split(jobids, PAGE):
        for state in store.questions.inspect(page):
            if state.pause:
                pause, clock = state.pause.to_dict(), Clock(state.now, zone)
                said = describe_pause(pause["since"], pause["until"], pause["by"], pause["reason"], clock)
                yield state.jobid, f"paused {said}"


def describe_closed(found: Iterable[QueueLimits], clock: Clock) -> str:
    """Return which of these queues is paused, as the end of a sentence; "" if none is. "" is everything."""
    for limits in found:
        pause = limits.pause
        if pause and pause.holds(clock.now):
            what = f"its queue {limits.queue} is" if limits.queue else "everything is"
            return f"{what} paused {describe_pause(pause.since, pause.until, pause.by, pause.reason, clock)}"
    return ""


def describe_pause(since: float, until: float | None, by: str | None, reason: str | None, clock: Clock) -> str:
    """Return the start, the operator, the end and the reason of a pause, as the end of a sentence."""
    resumed = "until a worker is back" if by == BY else "until somebody resumes it"
    end = resumed if until is None else f"until {clock.name(until)}"
    return f"since {clock.name(since)}{f' by {by}' if by else ''}, {end}{f' ({reason})' if reason else ''}"
