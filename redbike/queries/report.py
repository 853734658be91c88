"""Write what is known of a span of time as plain text, to be pasted into a report."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from redbike.queries.incident import Incident, Lane, Moment
from redbike.schedule.moments import END_OF_TIME
from redbike.text.printable import escape, name_number

LONG = 300  # characters of a line
NAMES = {
    Lane.RUNS: ("run without a failure", "runs without a failure"),
    Lane.FAILURES: ("failure", "failures"),
    Lane.CHANGES: ("change", "changes"),
    Lane.PROCESSES: ("process began or lost", "processes began or lost"),
}


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
