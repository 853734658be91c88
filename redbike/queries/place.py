"""The current state of a job, as a sentence for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redbike.queries.closed import describe_closed
from redbike.queries.hosts import has_next
from redbike.schedule.clock import Clock
from redbike.schedule.moments import END_OF_TIME, join_words
from redbike.store.enums import Event
from redbike.store.every_host import HostDetails
from redbike.store.queue_limits import QueueLimits
from redbike.text.printable import escape


def describe_job(job: Mapping[str, Any], clock: Clock, limits: Iterable[QueueLimits] = ()) -> tuple[str, bool]:
    """Return what a job does, as a sentence, and whether it will run by its schedule. `job` is what `tell` returned.

    `limits` are those of its queue and of everything, if they count. The sentence is empty for a job that only waits
    for its due time.
    """
    event, _, since = (job["status"] or "").partition(":")
    when = f"since {clock.name(float(since))} ({event})" if since.isdecimal() and len(since) < 12 else "now"
    if job["schedule"] is None and event != Event.BAD:
        return "It has no schedule; redbike fsck says more.", False
    if "paused" in job and has_ended(job):
        ended, goes_on = describe_job({name: value for name, value in job.items() if name != "paused"}, clock)
        return f"{ended}{add_pause(_describe_pause(job, when, clock))}", goes_on
    if "paused" in job:
        return _describe_pause(job, when, clock), None not in (job["schedule"], job["paused"]["until"])
    if job["working"]:
        return f"It runs {when}.", True
    if "queued_for" in job:
        closed = _name_closed(limits, clock)
        return f"It waits for a worker {when}{f', but {closed}' if closed else ''}.", True
    if job["next_run"] is not None:
        if not 0 <= job["next_run"] < END_OF_TIME:
            return f"Its next run is no time at all, {job['next_run']:g}; redbike fsck says more.", False
        return _describe_due(job["next_run"], clock, limits), True
    if event == Event.BAD:
        return f"It was never scheduled, as its schedule is bad, {when}.", False
    if event == Event.DIE:
        return f"It has failed for good {when}, and is not scheduled.", False
    if event == Event.STP:
        return f"It is stopped or has run out {when}, and is not scheduled.", False
    if "hosts" in job:
        return _describe_hosts(job["hosts"])
    if waits_for := job.get("waits_for"):
        return f"It waits for {join_words(escape(each.encode(errors='replace')) for each in waits_for)}.", True
    if group := job.get("follows_group"):
        name = escape(group["name"].encode(errors="replace"))
        return f"It waits for the group {name}, of which {group['left']:,} of {group['total']:,} jobs are left.", True
    return "It is nowhere, though it should be; redbike fsck says more.", False


def has_ended(job: Mapping[str, Any]) -> bool:
    """Tell from the answer of `Redbike.tell` whether a job has ended for good, so that resuming it changes nothing."""
    waits = job["next_run"] is not None or "queued_for" in job or "held_for" in job
    return not (job["working"] or waits) and (job["status"] or "").startswith((f"{Event.STP}:", f"{Event.DIE}:"))


def add_pause(said: str) -> str:
    """Return `said`, which describes a pause, as a further sentence after one on what is not held; "" for ""."""
    return f" Besides, {said[0].lower()}{said[1:]}" if said else ""


def _describe_hosts(hosts: Sequence[HostDetails]) -> tuple[str, bool]:
    if hosts and all(each.get("taken") for each in hosts):
        return "It runs on no host, as somebody has set jobs of their own there; redbike why says more.", True
    if all(each.get("gone") for each in hosts):
        return "It runs on no host, as none has a worker of its queue.", True
    if not any(map(has_next, hosts)):
        return "None of its jobs on hosts has a run to come, as things are; redbike show says more.", False
    return "It runs as a job of its own on each host of its queue.", True


def _name_closed(limits: Iterable[QueueLimits], clock: Clock) -> str:
    return escape(describe_closed(limits, clock).encode(errors="replace"))


def _describe_due(due: float, clock: Clock, limits: Iterable[QueueLimits]) -> str:
    if due <= clock.now:
        # Dispatchers also enqueue jobs into a paused queue.
        closed = _name_closed((each for each in limits if not each.queue), clock)
        return f"It is due, but {closed}." if closed else "It is due, and waits for a dispatcher."
    # A pause that is on at the due time has begun already.
    closed = _name_closed(limits, Clock(due, clock.zone))
    return f"It waits until it is due, {clock.measure(due)}. {closed[0].upper()}{closed[1:]}." if closed else ""


def _describe_pause(job: Mapping[str, Any], when: str, clock: Clock) -> str:
    pause = job["paused"]
    place = f"It runs {when}. " if job["working"] else f"It waits for a worker {when}. " if "queued_for" in job else ""
    by, reason = (escape(str(pause[name] or "").encode(errors="replace")) for name in ("by", "reason"))
    until = "it is resumed" if pause["until"] is None else clock.name(pause["until"])
    said = f"It is paused since {clock.name(pause['since'])}{f' by {by}' if by else ''}, until {until}"
    return f"{place}{said}{f': {reason}' if reason else '.'}"
