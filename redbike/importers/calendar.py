"""Read a calendar in the iCalendar format (RFC 5545). This is the only module that needs the package ``icalendar``."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import IO, Any, NamedTuple

from icalendar import Calendar as Component
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from redbike.errors import BadConfig, quoted
from redbike.importers.vtimezones import Onsets
from redbike.schedule.rrule.rule import Line

MAX_SIZE = 32 << 20  # bytes: some ten thousands of events, which take the parser a minute
MICROSOFT: Mapping[str, str] = WINDOWS_TO_OLSON  # the IANA name of each zone of Windows
RULES = ("RRULE", "EXRULE")
DATES = ("RDATE", "EXDATE")
_NEEDED = ("DTSTART", "RECURRENCE-ID", *RULES, *DATES)


class Event(NamedTuple):
    """An event, or a changed occurrence of an event. The texts are unchanged from the calendar."""

    uid: str
    summary: str
    sequence: int
    is_cancelled: bool
    start: Line | None
    days: int  # its length in whole days, at least 1
    lines: tuple[Line, ...] = ()  # RRULE, EXRULE, RDATE, EXDATE
    replaces: Line | None = None  # the occurrence that it changes
    is_range: bool = False  # it changes all later occurrences too
    problem: str = ""  # why it cannot be read

    @property
    def title(self) -> str:
        """The name of the event in messages."""
        if self.summary:
            return f"event {quoted(self.summary)}"
        return f"event with the UID {quoted(self.uid)}" if self.uid else "event without SUMMARY and UID"


class Calendar(NamedTuple):
    """The content of a calendar."""

    events: list[Event]
    timezone: str | None  # the zone that the calendar names for times without a zone
    definitions: dict[str, tuple[Onsets, ...]]  # of zones, by TZID
    locations: dict[str, str]  # the IANA names of zones, by TZID
    ignored: Counter[str]  # the number of components of other kinds, by name


def read_calendar(file: IO[bytes], name: str) -> Calendar:
    """Return the calendar in an open binary file. Raise `BadConfig`, which calls the file `name`."""
    data = file.read(MAX_SIZE + 1)
    if len(data) > MAX_SIZE:
        raise BadConfig(f"cannot read {name!r}: it has more than {MAX_SIZE >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadConfig(f"cannot read {name!r}: line {line} is not UTF-8") from None
    if "BEGIN:VCALENDAR" not in text[:4096].upper():
        raise BadConfig(f"cannot read {name!r}: it is not a calendar: it has no BEGIN:VCALENDAR")
    try:
        # The package warns of zones that it guesses. No time is computed from these zones here.
        with warnings.catch_warnings(action="ignore"):
            # With a line end: the package takes a text without one for the name of a file.
            found = Component.from_ical(f"{text}\n", multiple=True)
    except Exception as error:  # for an invalid text, the package raises more than ValueError
        raise BadConfig(f"cannot read {name!r}: {_shorten(error)}") from None
    if not found:
        raise BadConfig(f"cannot read {name!r}: the calendar has no end, it seems to be cut off")
    parts = [part for component in found for part in component.subcomponents]
    zones = [part for part in parts if part.name == "VTIMEZONE"]
    events = [part for part in parts if part.name == "VEVENT"]
    ignored = Counter(str(part.name) for part in parts if part.name not in ("VEVENT", "VTIMEZONE"))
    ignored.update(str(part.name) for event in events for part in event.subcomponents)
    return Calendar(
        [_read_event(event) for event in events],
        next((_get_text(component, "X-WR-TIMEZONE") for component in found if "X-WR-TIMEZONE" in component), None),
        {_get_text(zone, "TZID"): tuple(_read_onsets(zone)) for zone in zones},
        {_get_text(zone, "TZID"): _get_text(zone, "X-LIC-LOCATION") for zone in zones},
        ignored,
    )


def _read_event(event: Any) -> Event:
    try:
        return _make_event(event)
    except Exception as error:  # as above: the value of a property may have a type that the property cannot have
        return Event(_get_text(event, "UID"), _get_text(event, "SUMMARY"), 0, False, None, 1, problem=_shorten(error))


def _make_event(event: Any) -> Event:
    wrong = [f"{name}: {_shorten(why)}" for name, why in event.errors if name in _NEEDED]
    lines = [line for name in (*RULES, *DATES) for line in _read_lines(event, name)] if not wrong else []
    sequence = _get_text(event, "SEQUENCE")
    return Event(
        uid=_get_text(event, "UID"),
        summary=_get_text(event, "SUMMARY"),
        sequence=int(sequence) if sequence.isdecimal() and len(sequence) < 10 else 0,
        is_cancelled=_get_text(event, "STATUS").upper() == "CANCELLED",
        start=next(_read_lines(event, "DTSTART"), None) if not wrong else None,
        days=_count_days(event) if not wrong else 1,
        lines=tuple(lines),
        replaces=next(_read_lines(event, "RECURRENCE-ID"), None) if not wrong else None,
        is_range="RECURRENCE-ID" in event and "RANGE" in getattr(event["RECURRENCE-ID"], "params", {}),
        problem="; ".join(wrong),
    )


def _read_lines(component: Any, name: str) -> Iterator[Line]:
    """Yield each property called `name`."""
    found = component.get(name, [])
    for value in found if isinstance(found, list) else [found]:
        yield Line(name, str(value.params.get("TZID", "")), value.to_ical().decode())


def _get_text(component: Any, name: str) -> str:
    value = component.get(name, "")
    return str(value[0] if isinstance(value, list) and value else value)


def _count_days(event: Any) -> int:
    """Return the length of an event in whole days, at least 1. An end with a time does not count."""
    start, end, duration = (event.get(name) for name in ("DTSTART", "DTEND", "DURATION"))
    first, last = getattr(start, "dt", None), getattr(end, "dt", None)
    span = getattr(duration, "dt", None)
    if type(first) is date and type(last) is date:
        span = last - first
    return max(1, span.days) if isinstance(span, timedelta) else 1


def _read_onsets(zone: Any) -> Iterator[Onsets]:
    """Yield the parts of a VTIMEZONE that have each needed property exactly once."""
    for part in zone.subcomponents:
        start, *offsets = (part.get(name) for name in ("DTSTART", "TZOFFSETFROM", "TZOFFSETTO"))
        if not part.errors and not any(each is None or isinstance(each, list) for each in (start, *offsets)):
            before, offset = (int(each.td.total_seconds()) for each in offsets)
            lines = (str(line) for name in ("RRULE", "RDATE") for line in _read_lines(part, name))
            yield Onsets(start.to_ical().decode(), before, offset, tuple(lines))


def _shorten(error: object) -> str:
    """Return a message of the package as one line of limited length."""
    return " ".join(str(error).split())[:120]
