"""Convert the events of a calendar to jobs. Each job has an id and a schedule, in the form that `load` reads.

A series becomes a rule with its zone. A cancelled occurrence becomes an EXDATE, a moved occurrence an EXDATE and an
RDATE. A single event becomes an AT.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha1
from typing import NamedTuple

from redbike.errors import BadSchedule, quoted
from redbike.importers.calendar import MICROSOFT, RULES, Calendar, Event
from redbike.importers.local_days import cut_until, find_local_day
from redbike.importers.vtimezones import ZoneNames
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import MAX_TEXT, join_words
from redbike.schedule.parser import parse
from redbike.schedule.rrule.rule import Line, Moment, make_start, parse_moment, parse_moments, write_dates
from redbike.schedule.zones import find_zone, resolve
from redbike.text.printable import cut

_MOST = 100  # occurrences that one date may exclude
_SLUG = 40  # characters of a summary in the id of a job
_MOST_NAMED = 3  # dates without an effect that a message about an event names


class Job(NamedTuple):
    """The job that is made of an event. If it has no schedule, `problem` says why."""

    jobid: str
    title: str  # of the event, for messages
    schedule: Schedule | None
    problem: str = ""
    remark: str = ""  # which dates of the event have no effect


class Importer:
    """Makes jobs of the events of `calendar`, for the queue `queue`. `now` is in epoch seconds.

    Days, and times without a zone, are in `timezone`. If that is None, they are in the zone that the calendar names, or
    else in `default`. But if the DTSTART of a series names a zone, its other times without a zone are in this zone.
    The attribute `left_out` counts the events that are ``past``, ``cancelled`` or ``repeated``.
    Raise `BadSchedule` if the calendar names an unknown zone.
    """

    def __init__(self, calendar: Calendar, queue: str, timezone: str | None, default: str, now: float) -> None:
        self._queue = queue
        self._now = now
        self._zones = ZoneNames(calendar.definitions, calendar.locations, MICROSOFT, now)
        self.groups = group(calendar.events)
        own = calendar.timezone if timezone is None else None
        self._timezone = timezone or (self._zones.find(own) if own else default)
        self.local = find_zone(self._timezone)  # its local day is the one that a time in a series of days means
        self.left_out: Counter[str] = Counter(repeated=self.groups.copies) if self.groups.copies else Counter()

    def list_jobs(self) -> Iterator[Job]:
        """Yield a job for each event that has a run to come, and one with a problem for each that is refused."""
        known: set[str] = set()
        for events in self.groups.series:
            jobid, title, remarks = make_jobid(events[-1], self._queue), events[-1].title, list[str]()
            try:
                schedule = self.make_schedule(events, remarks.append)
            except BadSchedule as error:
                yield Job(jobid, title, None, str(error))
                continue
            if schedule is None:
                self.left_out["cancelled"] += 1
            elif schedule.next(self._now) is None:
                self.left_out["past"] += 1
            elif jobid in known:
                yield Job(jobid, title, None, f"another event has the same id, {jobid!r}")
            else:
                known.add(jobid)
                yield Job(jobid, title, schedule, remark="".join(remarks))
        yield from self.list_conflicts()

    def list_conflicts(self) -> Iterator[Job]:
        """Yield a job with a problem for each event that has another version which is not newer, unless it is past."""
        for event in self.groups.conflicts:
            problem = f"another event has the same UID, {quoted(event.uid)}, and the same SEQUENCE"
            try:
                schedule = self.make_schedule([event])
            except BadSchedule as error:
                problem = str(error)
            else:
                if schedule is not None and schedule.next(self._now) is None:
                    self.left_out["past"] += 1
                    continue
            yield Job(make_jobid(event, self._queue), event.title, None, problem)

    def read_times_in(self, tzid: str) -> None:
        """If the zone is known, use it to find the day that a time in a series of days means."""
        with suppress(BadSchedule):
            self.local = find_zone(self._zones.find(tzid))

    def make_schedule(self, events: list[Event], note: Callable[[str], None] = lambda remark: None) -> Schedule | None:
        """Return the schedule of a series; None if the series is cancelled. Raise `BadSchedule`.

        The last event is the series itself, unless the calendar lacks it. The other events change occurrences of the
        series. `note` is called with a text that names the dates which cancel or move nothing.
        """
        for event in events:
            if event.problem:
                raise BadSchedule(event.problem)
            if event.is_range:
                raise BadSchedule("it changes an occurrence and all later ones (RANGE), which is not supported")
        master = None if events[-1].replaces else events[-1]
        changes = [event for event in events if event.replaces]
        if master is not None and master.is_cancelled:
            return None
        series = _Series(self, master)
        for event in sorted(changes, key=lambda event: event.sequence):
            series.change(event)
        if missed := series.list_missed(self._now):
            note(_say_missed(missed))
        return series.make_schedule(self._now)

    def find_zone(self, line: Line, moment: Moment) -> str:
        """Return the IANA name of the zone of `moment`, which is a part of `line`."""
        if moment.is_utc:
            return "UTC"
        return self._zones.find(line.tzid) if line.tzid and not moment.is_date else self._timezone


class _Series:
    """The occurrences of a series, to which `change` applies changes. All instants are in epoch seconds."""

    def __init__(self, importer: Importer, master: Event | None) -> None:
        self._importer = importer
        self._rules: list[str] = []
        self._wall = 0  # the local time of DTSTART
        self._timezone = "UTC"
        self._is_date = False
        self._names_zone = False  # whether DTSTART names a zone
        self._plain: Schedule | None = None  # the schedule of the rules alone
        self._added: set[int] = set()
        self._excluded: set[int] = set()
        self._changes: dict[int, int | None] = {}  # to which instant an occurrence is moved; None if it is cancelled
        self._meant: list[tuple[Line, int, set[int]]] = []  # EXDATE or RECURRENCE-ID, about when, its occurrences
        if master is not None:
            self._begin(master)

    def _begin(self, master: Event) -> None:
        if master.start is None:
            raise BadSchedule("it has no DTSTART")
        moment = parse_moment(master.start.value, "DTSTART")
        self._is_date = moment.is_date
        self._timezone = self._importer.find_zone(master.start, moment)
        self._names_zone = bool(master.start.tzid) and not moment.is_date and not moment.is_utc
        self._wall = moment.wall
        start = self._resolve(master.start, moment)
        self._rules = [str(line) for line in master.lines if line.name in RULES]
        if self._is_date:
            self._rules = [cut_until(rule, self._importer.local) for rule in self._rules]
        if self._rules:
            self._plain = parse("\n".join((str(make_start(self._timezone, self._wall)), *self._rules)))
        # By the standard, DTSTART is an occurrence even if the rule does not contain it.
        if self._plain is None or self._plain.next(start - 1) != start:
            self._added.add(start)
        for line in master.lines:
            if line.name == "RDATE":
                self._added.update(self._resolve(line, moment) for moment in parse_moments(line))
            elif line.name == "EXDATE":
                for value in line.value.split(","):
                    self._excluded |= self._find(line._replace(value=value))

    def change(self, event: Event) -> None:
        """Cancel or move an occurrence. If an occurrence is changed twice, the later call counts."""
        assert event.replaces is not None
        before = self._find(event.replaces)
        if event.is_cancelled:
            self._changes |= dict.fromkeys(before)
            return
        if event.start is None:
            raise BadSchedule(f"its occurrence of {event.replaces.value} has no DTSTART")
        after = self._resolve(event.start, parse_moment(event.start.value, "DTSTART"))
        self._changes |= dict.fromkeys(before or {after}, after)

    def list_missed(self, now: float) -> list[Line]:
        """Return the EXDATE and RECURRENCE-ID lines that match no occurrence of the series, without past ones."""
        if self._plain is None and not self._added:
            return []  # the calendar lacks the series
        # Perhaps a line matches nothing because its zone is wrong. So it is past only if it is past in all zones.
        recent = [(line, dues) for line, about, dues in self._meant if about > now - 86400]
        return [line for line, dues in recent if not any(map(self._has, dues))]

    def _has(self, due: int) -> bool:
        return due in self._added or (self._plain is not None and self._plain.next(due - 1) == due)

    def make_schedule(self, now: float) -> Schedule | None:
        """Return the schedule; None if no occurrence is left. If its text is too long, leave out past dates."""
        # An occurrence may be moved to an instant from which another occurrence was moved away.
        moved = {after for after in self._changes.values() if after is not None}
        excluded = (self._excluded | self._changes.keys()) - moved
        added = moved | self._added - excluded
        if self._plain is None:
            return self._make_dates(added) if added else None
        added = {due for due in added if self._plain.next(due - 1) != due}
        text = self._format(added, excluded)
        if len(text) > MAX_TEXT:
            text = self._format({due for due in added if due > now}, {due for due in excluded if due > now})
        return parse(text)

    def _format(self, added: Iterable[int], excluded: Iterable[int]) -> str:
        zone = find_zone(self._timezone)
        dates = (*write_dates("RDATE", added, zone), *write_dates("EXDATE", excluded, zone))
        return "\n".join((str(make_start(self._timezone, self._wall)), *self._rules, *dates))

    def _make_dates(self, added: set[int]) -> Schedule:
        first = min(added)
        if len(added) == 1:
            return parse(f"AT:{datetime.fromtimestamp(max(first, 0), UTC):%Y-%m-%dT%H:%M:%SZ}")
        self._wall = first + find_zone(self._timezone)(first)[2]
        return parse(self._format(added, ()))

    def _resolve(self, line: Line, moment: Moment) -> int:
        is_floating = not (line.tzid or moment.is_utc or moment.is_date)
        zone = self._timezone if is_floating and self._names_zone else self._importer.find_zone(line, moment)
        return moment.wall if zone == "UTC" else resolve(moment.wall, find_zone(zone))

    def _find(self, line: Line) -> set[int]:
        """Return, and note, the occurrences that a line means: an EXDATE with one date, or a RECURRENCE-ID."""
        moment = next(parse_moments(line))
        found = set(self._expand(line, moment))
        self._meant.append((line, max(found, default=moment.wall), found))
        return found

    def _expand(self, line: Line, moment: Moment) -> Iterator[int]:
        """Yield the occurrences that `moment` means: one instant, or all occurrences on a day."""
        zone = find_zone(self._timezone)
        if self._is_date:
            yield resolve(find_local_day(moment, self._importer.local) * 86400, zone)
        elif not moment.is_date:
            yield self._resolve(line, moment)
        else:
            yield from self._list_day(resolve(moment.wall, zone), resolve(moment.wall + 86400, zone))

    def _list_day(self, begin: int, end: int) -> list[int]:
        """Return the occurrences from `begin` until `end`. Raise `BadSchedule` if there are too many."""
        found = [due for due in self._added if begin <= due < end]
        for due in self._plain.list_due(begin - 1, end - 1) if self._plain else ():
            found.append(int(due))
            if len(found) > _MOST:
                raise BadSchedule(f"it excludes a day with more than {_MOST} occurrences")
        return found


def _say_missed(lines: list[Line]) -> str:
    names = cut([quoted(str(line)) for line in lines], _MOST_NAMED)
    verbs = "cancels or moves" if len(lines) == 1 else "cancel or move"
    return f"{join_words(names)} {verbs} nothing: there is no occurrence then"


class Groups(NamedTuple):
    """The events of a calendar, by UID."""

    series: list[list[Event]]  # in the order of the calendar; the event without RECURRENCE-ID is the last of its series
    conflicts: list[Event]  # events of which there is another version that is not newer
    copies: int  # the number of exact repetitions of events


def group(events: Iterable[Event]) -> Groups:
    """Group the events of each UID. Of several versions of an event, the highest sequence number counts.

    But a version that cannot be read always counts, so that it is reported.
    """
    found: dict[str | int, dict[str, Event]] = {}  # by UID; an event without a UID is a group of its own
    conflicts: list[Event] = []
    copies = 0
    for number, event in enumerate(events):
        versions = found.setdefault(event.uid or number, {})
        key = str(event.replaces or "")
        other = versions.setdefault(key, event)
        if other is event:
            continue
        if other == event:
            copies += 1
            continue
        # The sequence number of an event that cannot be read means nothing.
        versions[key], loser = (other, event) if _rank(other) > _rank(event) else (event, other)
        if other.sequence == event.sequence:
            conflicts.append(loser)
    series = [sorted(versions.values(), key=lambda event: event.replaces is None) for versions in found.values()]
    return Groups(series, conflicts, copies)


def _rank(event: Event) -> tuple[bool, int]:
    return bool(event.problem), event.sequence


def make_jobid(event: Event, queue: str) -> str:
    """Return the id of a job, which consists of the summary, a hash of the UID, and the queue of the event."""
    slug = re.sub(r"[\W_]+", "-", event.summary.lower())[:_SLUG].strip("-")
    unique = event.uid or f"{event.summary}{event.start}"
    digest = sha1(unique.encode(errors="surrogateescape"), usedforsecurity=False).hexdigest()[:8]
    return f"{slug or 'event'}-{digest}:{queue}"
