"""Find the IANA zone that a calendar means, by its name, by a name of Microsoft, or by the rules of a VTIMEZONE."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import available_timezones

from redbike.errors import BadSchedule, quoted
from redbike.schedule.parser import parse
from redbike.text.parsing import load_zone

_BEFORE = 400 * 86400  # seconds; a rule of each year changes the offset within them
_AFTER = 5 * 366 * 86400  # seconds for which a zone must agree with the rules
_STEP = 10 * 86400  # seconds between two instants that are compared
_MOST_ZONES = 100  # zones of a calendar; the search for one takes up to a tenth of a second
_MOST = 64  # changes by one rule; no real zone has more


class Onsets(NamedTuple):
    """A STANDARD or DAYLIGHT part of a VTIMEZONE: when an offset begins to apply. Offsets are seconds east of UTC."""

    start: str  # a local time, as DTSTART has it
    before: int
    offset: int
    lines: tuple[str, ...]  # RRULE and RDATE


class ZoneNames:
    """Finds the IANA name for a TZID of a calendar.

    `definitions` are its VTIMEZONE components, by TZID. `locations` are the IANA names in them. `known` has IANA names
    by other names, such as those of Microsoft. A zone that is found by rules has the same offsets as these for some
    years around `now` (epoch seconds).
    """

    def __init__(
        self,
        definitions: Mapping[str, tuple[Onsets, ...]],
        locations: Mapping[str, str],
        known: Mapping[str, str],
        now: float,
    ) -> None:
        self._definitions = definitions
        self._locations = locations
        self._known = known
        self._now = int(now)
        self._found: dict[str, str | None] = {}

    def find(self, tzid: str) -> str:
        """Return the IANA name. Raise `BadSchedule` if there is none."""
        if tzid not in self._found:
            if len(self._found) == _MOST_ZONES:
                raise BadSchedule(f"unknown time zone {quoted(tzid)}: only {_MOST_ZONES} zones of a calendar are read")
            named = [name for name in self._list_names(tzid) if load_zone(name)]
            # An abbreviation means what the calendar defines. For example, EST of IANA has no summer time.
            defined = self._find_equal(tzid, named) if tzid.isupper() else None
            self._found[tzid] = defined or next(iter(named), None) or self._find_equal(tzid)
        found = self._found[tzid]
        if found is None:
            why = "no zone of IANA has its rules" if self._definitions.get(tzid) else "the calendar does not define it"
            raise BadSchedule(f"unknown time zone {quoted(tzid)}: {why}")
        return found

    def _list_names(self, tzid: str) -> Iterator[str]:
        """Yield the IANA names to try: `tzid` itself, its names in `known` and `locations`, and its last parts."""
        clean = tzid.strip("/")
        yield clean
        yield self._known.get(clean, "")
        yield self._locations.get(tzid, "")
        if tzid.startswith("/"):
            parts = clean.split("/")
            yield from ("/".join(parts[start:]) for start in range(max(1, len(parts) - 3), len(parts)))

    def _find_equal(self, tzid: str, named: Sequence[str] = ()) -> str | None:
        """Return the first zone with the offsets of the definition, one of `named` if possible; None for none."""
        try:
            changes = sorted(_list_changes(self._definitions.get(tzid, ()), self._now))
        except (BadSchedule, OverflowError):
            return None
        if not changes:
            return None
        # The first change of the last year. Before it, yearly rules do not say which offset applies.
        begin = min((at for at, _ in changes if at >= self._now - _BEFORE), default=self._now)
        offsets = {offset for _, offset in changes}
        fixed = [_name_fixed(*offsets)] if len(offsets) == 1 else []
        samples = list(_sample(changes, min(begin, self._now), self._now + _AFTER))
        # If several zones have these rules, prefer a city that is in the name: "(UTC+01:00) Amsterdam, Berlin, Bern".
        names = [*self._known.values(), *sorted(available_timezones())]
        names.sort(key=lambda name: name.rpartition("/")[2].replace("_", " ") not in tzid)
        return next((name for name in (*named, *fixed, *names) if _agrees(name, samples)), None)


def _list_changes(parts: Iterable[Onsets], now: int) -> Iterator[tuple[int, int]]:
    """Yield (instant, offset from then on) for each change of the last and next years, and each part's first change."""
    for part in parts:
        lines = part.lines or (f"RDATE:{part.start}Z",)
        schedule = parse("\n".join((f"DTSTART:{part.start}Z", *lines)))
        first = schedule.next(-1e11)
        yield from [] if first is None else [(int(first) - part.before, part.offset)]
        for number, due in enumerate(schedule.list_due(now - _BEFORE, now + _AFTER), 1):
            yield int(due) - part.before, part.offset
            if number == _MOST:
                raise BadSchedule("it changes too often for a zone")


def _sample(changes: list[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (instant, offset) at each change, just before the next one, and at some instants between them."""
    for number, (since, offset) in enumerate(changes):
        until = changes[number + 1][0] if number + 1 < len(changes) else end
        if until > begin:
            since = max(since, begin)
            yield from ((instant, offset) for instant in (*range(since, until, _STEP), until - 1) if instant >= since)


def _agrees(name: str, samples: Iterable[tuple[int, int]]) -> bool:
    zone = load_zone(name)
    return zone is not None and all(
        datetime.fromtimestamp(at, zone).utcoffset() == timedelta(seconds=offset) for at, offset in samples
    )


def _name_fixed(offset: int) -> str:
    """Return the name of the zone with a fixed offset in seconds; "" if the offset is not in whole hours."""
    hours, rest = divmod(offset, 3600)
    return "UTC" if not offset else "" if rest else f"Etc/GMT{-hours:+d}"
