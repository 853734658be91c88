"""Format the next runs of a schedule or a job for people: the local time, UTC, and the time from now."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import END_OF_TIME
from redbike.texts import escape
from redbike.words import Event

NOTHING = "–"  # in place of what there is not


class Clock(NamedTuple):
    """When and where somebody looks: Redis' clock in epoch seconds, and the IANA zone in which times are shown."""

    now: float
    zone: str

    def measure(self, moment: float | None) -> str:
        """Return an instant as the time from now."""
        return NOTHING if moment is None else format_distance(min(max(moment, 0.0), END_OF_TIME) - self.now)

    def format(self, moment: float) -> str:
        """Return an instant in local time, with the distance from UTC if that day has this hour twice."""
        moment = min(max(moment, 0.0), END_OF_TIME - 1)
        try:
            local = datetime.fromtimestamp(moment, ZoneInfo(self.zone))
        except (ValueError, OverflowError):
            # There the year 10000 has begun, which Python cannot write.
            return datetime.fromtimestamp(moment, UTC).isoformat(" ", "seconds")
        is_twice = local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
        return (local if is_twice else local.replace(tzinfo=None)).isoformat(" ", "seconds")

    def name(self, moment: float) -> str:
        """Return an instant in local time, with the zone."""
        return f"{self.format(moment)} {self.zone}"


def list_runs(
    schedule: Schedule, after: float, now: float, count: int, zone: str, stored: float | None = None
) -> Iterator[str]:
    """Yield up to `count` lines: one for each due time strictly after `after` (epoch seconds). `zone` is an IANA zone.

    `stored` is the due time of an existing job. It comes first, as a retry or a pause may have changed it.
    """
    due = now if schedule.is_immediate else schedule.next(after)
    if stored is not None and (after <= now or stored > after):
        due = stored
    for _ in range(1 if schedule.is_immediate else count):
        if due is None:
            return
        yield _format_run(due, now, zone)
        # As after a run: the first due time that is after the last one and after now.
        due = schedule.next(due if stored is None else max(due, now))


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
    return "It is nowhere, though it should be; redbike fsck says more.", False


def _describe_pause(job: Mapping[str, Any], when: str, clock: Clock) -> str:
    pause = job["paused"]
    place = f"It runs {when}. " if job["working"] else f"It waits for a worker {when}. " if "queued_for" in job else ""
    by, reason = (escape(str(pause[name] or "").encode(errors="replace")) for name in ("by", "reason"))
    until = "it is resumed" if pause["until"] is None else clock.name(pause["until"])
    said = f"It is paused since {clock.name(pause['since'])}{f' by {by}' if by else ''}, until {until}"
    return f"{place}{said}{f': {reason}' if reason else '.'}"


def _format_run(due: float, now: float, zone: str) -> str:
    moment = datetime.fromtimestamp(due, UTC)
    # At the end of the calendar, the local time of a zone may be in the year 10000.
    local = (
        moment if moment.year == 9999 and (moment.month, moment.day) == (12, 31) else moment.astimezone(ZoneInfo(zone))
    )
    return f"{local.isoformat()}  {_format_instant(due)}  {format_distance(due - now)}"


def _format_instant(moment: float) -> str:
    return datetime.fromtimestamp(min(moment, END_OF_TIME - 1), UTC).isoformat().replace("+00:00", "Z")


def format_distance(seconds: float) -> str:
    """Format a number of seconds from now in its two largest units: ``in 2 d 3 h``, ``5 min 12 s ago``, ``now``."""
    if round(abs(seconds)) == 0:
        return "now"
    text = format_length(seconds)
    return f"in {text}" if seconds > 0 else f"{text} ago"


def format_length(seconds: float) -> str:
    """Format a number of whole seconds, whatever its sign, in its two largest units: ``2 d 3 h``, ``0 s``."""
    whole, parts = round(abs(seconds)), list[str]()
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, whole = divmod(whole, size)
        if number or parts:
            parts.append(f"{number} {name}" if number else "")
    return " ".join(filter(None, parts[:2])) or "0 s"


def format_took(seconds: float) -> str:
    """Return for how long something ran: ``2 ms``, ``1.24 s``, ``5 min 12 s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 60 else format_length(seconds)
