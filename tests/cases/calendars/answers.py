"""Write when the events of the calendars in this folder occur, as the package ``recurring-ical-events`` says.

usage: python -m tests.cases.calendars.answers

The package needs an older dateutil than Redbike asks for, so it is no dependency: ``pip install --no-deps
recurring-ical-events x-wr-timezone``, and ``pip install icalendar``. A line is an event and its instants in UTC.
"""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

FOLDER = Path(__file__).parent
NAMES = ("apple", "google", "outlook")
NOW = datetime(2026, 11, 1, tzinfo=UTC)
YEARS = timedelta(731)
ZONE = "Europe/Berlin"  # of days, and of times without a zone


def compute(name: str) -> dict[str, list[float]]:
    """The instants of each event in the two years from `NOW` on, by its UID; none of what is cancelled."""
    import icalendar
    import recurring_ical_events

    calendar = icalendar.Calendar.from_ical((FOLDER / f"{name}.ics").read_bytes())
    # The package would move times in UTC to this zone.
    calendar.pop("X-WR-TIMEZONE", None)
    found: dict[str, list[float]] = defaultdict(list)
    for event in recurring_ical_events.of(calendar).between(NOW - timedelta(2), NOW + YEARS + timedelta(2)):
        due = measure(event["DTSTART"].dt)
        if NOW.timestamp() < due <= (NOW + YEARS).timestamp() and event.get("STATUS") != "CANCELLED":
            found[str(event["UID"])].append(due)
    return {uid: sorted(set(found[uid])) for uid in sorted(found)}


def measure(moment: Any) -> float:
    """The epoch seconds of a date, or of a date and time."""
    if type(moment) is date:
        moment = datetime(moment.year, moment.month, moment.day)
    return float((moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(ZONE))).timestamp())


def read(name: str) -> dict[str, list[float]]:
    """What was written for a calendar."""
    rows = (line.split() for line in (FOLDER / f"{name}.txt").read_text().splitlines())
    return {uid: [datetime.fromisoformat(run).timestamp() for run in runs] for uid, *runs in rows}


def main() -> None:
    """Write the answers for each calendar."""
    for name in NAMES:
        lines = (
            " ".join((uid, *(datetime.fromtimestamp(run, UTC).strftime("%Y-%m-%dT%H:%MZ") for run in runs)))
            for uid, runs in compute(name).items()
        )
        (FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
