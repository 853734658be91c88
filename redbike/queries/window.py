"""A span of time around an instant, as people write it: ``03:05±20m``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from redbike.errors import BadConfig, BadSchedule
from redbike.queries.incident import Incident, Lane, Moment
from redbike.schedule.moments import END_OF_TIME, parse_timestamp
from redbike.text.durations import measure_duration
from redbike.text.printable import escape, name_number, quote

WIDTH = "20m"  # before and after the instant, if nobody says
LEAST, MOST = 1.0, 86400.0  # seconds before and after it
NOW = "now"

_SIGN = re.compile(r"±|\+-")
_DIGITS = re.compile(r"\d{3,4}", re.ASCII)  # a time without its colon, or an instant of 1970
_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2})?", re.ASCII)
LONG = 300  # characters of a line
NAMES = {
    Lane.RUNS: ("run without a failure", "runs without a failure"),
    Lane.FAILURES: ("failure", "failures"),
    Lane.CHANGES: ("change", "changes"),
    Lane.PROCESSES: ("process began or lost", "processes began or lost"),
}


@dataclass(frozen=True, slots=True)
class Window:
    """The time from `since` to `until` around `at`, in epoch seconds. It does not go beyond now."""

    at: float
    width: float  #: seconds before and after `at`
    since: float
    until: float


def parse_window(text: str, now: float, zone: str) -> Window:
    """Read ``<INSTANT>``, or ``<INSTANT>±<DURATION>``, also with ``+-``. Raise `BadConfig`.

    An instant is a timestamp, ``now``, or a time of day such as 03:05: then it is the last 03:05 in `zone`.
    """
    parts = [part.strip() for part in _SIGN.split(text)]
    if len(parts) > 2 or not parts[0]:
        raise BadConfig(f"bad window {quote(text)}: an instant is needed, such as 03:05 or 03:05±20m")
    width = measure_duration(parts[1] if len(parts) == 2 else WIDTH)
    if width is None or not LEAST <= width <= MOST:
        raise BadConfig(f"bad window {quote(text)}: behind the instant, 1s to 24h is needed, such as ±20m")
    at = _find_instant(parts[0], now, zone)
    if at > now:
        raise BadConfig(f"bad window {quote(text)}: this instant is to come")
    return Window(at, width, max(0.0, at - width), min(now, at + width))


def _find_instant(text: str, now: float, zone: str) -> float:
    if text.lower() == NOW:
        return now
    if _DIGITS.fullmatch(text):
        raise BadConfig(f"bad instant {quote(text)}: is {text.zfill(4)[:2]}:{text.zfill(4)[2:]} meant?")
    if _TIME.fullmatch(text):
        return _find_last(text, now, zone)
    try:
        return parse_timestamp(text, zone)
    except BadSchedule:
        raise BadConfig(
            f"bad instant {quote(text)}: now, a time such as 03:05, epoch seconds or ISO 8601 is needed"
        ) from None


def _find_last(text: str, now: float, zone: str) -> float:
    """Return when it was last this time of day. A day on which clocks change may have it twice, or not at all."""
    try:
        wanted = time.fromisoformat(text.zfill(5) if text.count(":") == 1 else text.zfill(8))
    except ValueError:
        raise BadConfig(f"bad instant {quote(text)}: no day has this time") from None
    place = ZoneInfo(zone)
    today = datetime.fromtimestamp(now, place).date()
    for days in range(3):
        for fold in (1, 0):
            moment = datetime.combine(today - timedelta(days), wanted.replace(fold=fold), place).timestamp()
            is_there = datetime.fromtimestamp(moment, place).time() == wanted
            if is_there and moment <= now:
                return moment
    return now - 86400  # no zone changes its clocks on two days in a row


def format_report(incident: Incident, zone: str, prefix: str, moments: Sequence[Moment] | None = None) -> str:
    """Return the report; with `moments`, only these are listed. Every character of a line is visible."""
    return "".join(f"{clean(line)}\n" for line in _list_lines(incident, zone, prefix, moments))


def _list_lines(incident: Incident, zone: str, prefix: str, moments: Sequence[Moment] | None) -> Iterator[str]:
    begin, end = name_instant(incident.since, zone), name_instant(incident.until, zone)
    yield f"Redbike {prefix}: {begin} to {end} ({zone})"
    yield f"As of {name_instant(incident.now, zone)}: {count_moments(incident)}."
    yield f"First unusual: {tell_first(incident, zone)}"
    if incident.skipped:
        yield f"{tell_skipped(incident)}."
    yield from (f"Not complete: {cut}." for cut in incident.cuts)
    yield ""
    listed = incident.moments if moments is None else moments
    for moment in listed:
        job = f" {moment.jobid}" if moment.jobid else ""
        yield f"{name_instant(moment.time, zone)} {moment.lane.single}{job}: {moment.text}"
    if len(listed) < len(incident.moments):
        yield f"… and {len(incident.moments) - len(listed):,} runs and others that are not listed here"


def count_moments(incident: Incident) -> str:
    """Return how much there is of each kind."""
    return ", ".join(f"{incident.counts[lane]:,} {NAMES[lane][incident.counts[lane] != 1]}" for lane in Lane)


def tell_first(incident: Incident, zone: str) -> str:
    """Return the first unusual thing as a sentence."""
    first = incident.first
    if first is None:
        return "nothing, by the rules that there are."
    return f"{name_instant(first.time, zone)}, because {first.because}."


def tell_skipped(incident: Incident) -> str:
    """Return what was skipped of the jobs that failed or were changed."""
    said = ", ".join(f"{number:,} {reason}" for reason, number in sorted(incident.skipped.items()))
    jobs = name_number(incident.concerned, "job")
    return f"So far, these occurrences of the {jobs} that failed or changed then were skipped, at any time: {said}"


def clean(line: str) -> str:
    """Return a line of limited length of which every character is visible."""
    return escape((line if len(line) <= LONG else f"{line[:LONG]}…").encode(errors="surrogateescape"))


def name_instant(moment: float, zone: str) -> str:
    """Return an instant in a zone, with the distance from UTC: a day may have an hour twice."""
    inside = min(max(moment, 0.0), END_OF_TIME - 86400)
    return datetime.fromtimestamp(inside, UTC).astimezone(ZoneInfo(zone)).isoformat(timespec="seconds")
