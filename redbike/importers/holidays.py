"""Read the holidays in a calendar, as days that schedules leave out."""

from collections.abc import Iterator
from typing import IO

from redbike.errors import BadConfig, BadSchedule
from redbike.importers.calendar import Event, read_calendar
from redbike.importers.events import Importer
from redbike.schedule.kinds import Schedule

_AHEAD = 731  # days for which holidays are found: two years


def read_holidays(file: IO[bytes], name: str, now: float) -> list[int]:
    """Return the days (since 1970-01-01) of all-day events in a calendar, for two years from `now` (epoch seconds) on.

    Raise `BadConfig`, which calls the file `name`, also if the calendar has no such event.
    """
    calendar = read_calendar(file, name)
    importer = Importer(calendar, "", "UTC", "UTC", now)
    if calendar.timezone:
        importer.read_times_in(calendar.timezone)
    today, days = int(now) // 86400 - 1, set[int]()  # the day in the zone where it is earliest
    # If two versions of an event are equally new, the days of both count, because both are in the file.
    series = (*importer.groups.series, *([event] for event in importer.groups.conflicts))
    for events in (part for each in series for part in _split(each)):
        own = events[-1]
        if own.problem or (own.start is not None and "T" not in own.start.value):
            try:
                days |= _list_days(importer.make_schedule(events), own.days, today)
            except BadSchedule as error:
                raise BadConfig(f"cannot read {name!r}: {own.title}: {error}") from None
    if not days:
        raise BadConfig(f"cannot read {name!r}: it has no all-day event in the next two years")
    return sorted(days)


def _split(events: list[Event]) -> Iterator[list[Event]]:
    """Yield a series without its changed occurrences, and each of these alone. It may have another length, or times."""
    own, changes = events[-1], [event for event in events if event.replaces]
    if not own.replaces:
        yield [*(change._replace(is_cancelled=True) if change.start else change for change in changes), own]
    if own.replaces or not own.is_cancelled:
        yield from ([change._replace(replaces=None, lines=())] for change in changes)


def _list_days(schedule: Schedule | None, length: int, today: int) -> set[int]:
    """Return the days (since 1970-01-01) of occurrences that take `length` days each, from `today` on."""
    days, end = set[int](), today + _AHEAD
    due = schedule.next((today - length) * 86400 - 1) if schedule else None
    while schedule and due is not None and due < end * 86400:
        first = int(due) // 86400
        days.update(range(max(first, today), min(first + length, end)))
        # Other occurrences on the same day add nothing, nor do occurrences after one that reaches the end.
        due = schedule.next((first + 1) * 86400 - 1) if first + length < end else None
    return days
