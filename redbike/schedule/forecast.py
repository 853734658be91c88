"""The next runs of a schedule or a job, as lines for people: local time with its offset, UTC, and how long from now."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from redbike.schedule.kinds import END_OF_TIME, Schedule


def list_runs(
    schedule: Schedule, after: float, now: float, count: int, zone: str, stored: float | None = None
) -> Iterator[str]:
    """Yield up to `count` lines, for the due times strictly after `after` (epoch seconds), local in the IANA `zone`.

    `stored` is the due time of a job that exists. It comes first, since a retry or a pause may have moved it.
    """
    due = now if schedule.is_immediate else schedule.next(after)
    if stored is not None and (after <= now or stored > after):
        due = stored
    for _ in range(1 if schedule.is_immediate else count):
        if due is None:
            return
        yield _format_run(due, now, zone)
        # As after a run: the first one after both.
        due = schedule.next(due if stored is None else max(due, now))


def describe_job(told: Mapping[str, Any], now: float) -> tuple[str, bool]:
    """Return a sentence on what a job does, from the answer of `Redbike.tell`, and whether its schedule goes on.

    The sentence is empty for a job that waits for its due time.
    """
    event, _, since = (told["status"] or "").partition(":")
    when = f"since {_format_instant(float(since))} ({event})" if since.isdecimal() and len(since) < 12 else "now"
    if told["schedule"] is None and event != "BAD":
        return "It has no schedule; redbike fsck says more.", False
    if told["working"]:
        return f"It runs {when}.", True
    if "queued_for" in told:
        return f"It waits for a worker {when}.", True
    if told["next_run"] is not None:
        if not 0 <= told["next_run"] < END_OF_TIME:
            return f"Its next run is no time at all, {told['next_run']:g}; redbike fsck says more.", False
        return ("It is due, and waits for a dispatcher." if told["next_run"] <= now else ""), True
    if event == "BAD":
        return f"It was never scheduled, as its schedule is bad, {when}.", False
    if event == "DIE":
        return f"It has failed for good {when}, and is not scheduled.", False
    if event == "STP":
        return f"It is stopped or has run out {when}, and is not scheduled.", False
    return "It is nowhere, though it should be; redbike fsck says more.", False


def _format_run(due: float, now: float, zone: str) -> str:
    moment = datetime.fromtimestamp(due, UTC)
    # At the very end of the calendar a zone may be in the year 10000 already.
    local = (
        moment if moment.year == 9999 and (moment.month, moment.day) == (12, 31) else moment.astimezone(ZoneInfo(zone))
    )
    return f"{local.isoformat()}  {_format_instant(due)}  {format_distance(due - now)}"


def _format_instant(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


def format_distance(seconds: float) -> str:
    """Return a distance in time in its two largest units: ``in 2 d 3 h``, ``5 min 12 s ago``, ``now``."""
    whole = round(abs(seconds))
    if whole == 0:
        return "now"
    parts: list[str] = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, whole = divmod(whole, size)
        if number or parts:
            parts.append(f"{number} {name}" if number else "")
    shown = " ".join(filter(None, parts[:2]))
    return f"in {shown}" if seconds > 0 else f"{shown} ago"
