"""Where a job is, in a sentence for people."""

from collections.abc import Mapping
from typing import Any

from redbike.schedule.clock import Clock
from redbike.schedule.moments import END_OF_TIME, join_words
from redbike.store.enums import Event
from redbike.text.printable import escape


def describe_job(job: Mapping[str, Any], clock: Clock) -> tuple[str, bool]:
    """Return a sentence on what a job does, from the answer of `Redbike.tell`, and whether its schedule goes on.

    The sentence is empty for a job that waits for its due time.
    """
    event, _, since = (job["status"] or "").partition(":")
    when = f"since {clock.name(float(since))} ({event})" if since.isdecimal() and len(since) < 12 else "now"
    if job["schedule"] is None and event != Event.BAD:
        return "It has no schedule; redbike fsck says more.", False
    if "paused" in job:
        return _describe_pause(job, when, clock), False
    if job["working"]:
        return f"It runs {when}.", True
    if "queued_for" in job:
        return f"It waits for a worker {when}.", True
    if job["next_run"] is not None:
        if not 0 <= job["next_run"] < END_OF_TIME:
            return f"Its next run is no time at all, {job['next_run']:g}; redbike fsck says more.", False
        return ("It is due, and waits for a dispatcher." if job["next_run"] <= clock.now else ""), True
    if event == Event.BAD:
        return f"It was never scheduled, as its schedule is bad, {when}.", False
    if event == Event.DIE:
        return f"It has failed for good {when}, and is not scheduled.", False
    if event == Event.STP:
        return f"It is stopped or has run out {when}, and is not scheduled.", False
    if "hosts" in job and all(each.get("gone") for each in job["hosts"]):
        return "It runs on no host, as none has a worker of its queue.", True
    if "hosts" in job:
        return "It runs as a job of its own on each host of its queue.", True
    if waits_for := job.get("waits_for"):
        return f"It waits for {join_words(escape(each.encode(errors='replace')) for each in waits_for)}.", True
    if group := job.get("follows_group"):
        name = escape(group["name"].encode(errors="replace"))
        return f"It waits for the group {name}, of which {group['left']:,} of {group['total']:,} jobs are left.", True
    return "It is nowhere, though it should be; redbike fsck says more.", False


def _describe_pause(job: Mapping[str, Any], when: str, clock: Clock) -> str:
    pause = job["paused"]
    place = f"It runs {when}. " if job["working"] else f"It waits for a worker {when}. " if "queued_for" in job else ""
    by, reason = (escape(str(pause[name] or "").encode(errors="replace")) for name in ("by", "reason"))
    until = "it is resumed" if pause["until"] is None else clock.name(pause["until"])
    said = f"It is paused since {clock.name(pause['since'])}{f' by {by}' if by else ''}, until {until}"
    return f"{place}{said}{f': {reason}' if reason else '.'}"
