"""Parse a text to a schedule: one of `redbike.schedule.kinds`, or a cron or iCal schedule, which are defined here."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Self

from redbike.errors import BadSchedule, quoted
from redbike.schedule.after import After, Group
from redbike.schedule.amendments import AmendedCron
from redbike.schedule.cron import Cron
from redbike.schedule.explain import explain_amendments, explain_cron, explain_recurrence
from redbike.schedule.kinds import At, Continue, Every, In, Keyword, Now, Schedule, Stop
from redbike.schedule.moments import AWAITED, END_OF_TIME, MAX_TEXT, check_size
from redbike.schedule.rrule.recurrence import Recurrence
from redbike.schedule.rrule.rule import format_day, unfold, write_dates
from redbike.schedule.zones import find_zone, resolve


class EveryHost(Keyword):
    """The schedule of a job for every host. Each host has its own job with `inner`; the job itself is never due."""

    keyword = "ALL:"
    is_for_hosts = True

    def __init__(self, inner: Schedule, asked: str = "") -> None:
        self.inner, self.timezone = inner, inner.timezone
        self.asked = asked or inner.asked
        self.text = check_size(f"{self.keyword}{inner.text}")
        if inner.anchor_span:
            head, tail = inner.anchor_span
            self.anchor_span = head + len(self.keyword), tail

    @classmethod
    def wrap(cls, inner: Schedule, asked: str = "") -> Self:
        """Make a schedule from `inner`, the schedule of each host, and `Schedule.asked`. Raise `BadSchedule`."""
        if inner.is_awaiting:
            raise BadSchedule(f"bad schedule {quoted(inner.text)}: a job on every host cannot follow others")
        return cls(inner, asked)

    @property
    def label(self) -> str:
        """The text without instants that belong to one job, so that similar jobs have the same label."""
        return f"{self.keyword}{self.inner.label}"

    @classmethod
    def needs_anchor(cls, rest: str) -> bool:
        """Tell whether the schedule of each host has no instant to count from, but needs one. Raise `BadSchedule`."""
        if _find_kind(rest.lstrip(_BLANKS))[0] is cls:
            raise BadSchedule(f"bad schedule {quoted(cls.keyword + rest)}: {cls.keyword} is allowed only once")
        return _examine(rest).needs_anchor

    def is_over(self, since: float) -> bool:
        """Tell whether each host was to run it once, at an instant that is not after `since`; False for NOW."""
        return self.inner.runs_once and self.asked != Now.text and self.inner.next(since) is None

    def find_place(self, after: float) -> float | None:
        """Return `AWAITED`: it is never due."""
        return AWAITED

    def with_zone(self) -> "Schedule":
        """Return the same schedule with its zone in its text, even if that is UTC."""
        return EveryHost(self.inner.with_zone(), self.asked)

    def is_stored_as(self, text: str) -> bool:
        """Tell whether `text` means the same. For a schedule set as IN or NOW, any instant does, see `In`."""
        if self.asked:
            return text.startswith(f"{self.keyword}{At.keyword}")
        return text.startswith(self.keyword) and self.inner.is_stored_as(text.removeprefix(self.keyword))

    def exclude(self, days: Iterable[int]) -> str:
        """Return the text of the schedule without the runs of each host on these days. Raise `BadSchedule`."""
        return f"{self.keyword}{self.inner.exclude(days)}"

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        text = self.inner.explain(timezone)
        return f"On every host of its queue: {text[:1].lower()}{text[1:]}"


# The class of a text that begins with a keyword.
KEYWORDS = {kind.keyword: kind for kind in (Now, Continue, Stop, At, In, Every, After, Group, EveryHost)}
_EXDATE_SIZE = 16  # bytes of a date and time, with its comma
_RULE = re.compile(r"RRULE|FREQ=|^(DTSTART|RDATE)", re.ASCII | re.IGNORECASE)
_BLANKS = " \t\r\n"
_UNANCHORED = re.compile(r"(?!.*dtstart).*freq=", re.IGNORECASE | re.DOTALL)
_HASHED = re.compile(r"(?:^|^all:|[\s,]|\\n)h(?![a-z])", re.IGNORECASE)
_CRON_ZONE = re.compile(r"CRON_TZ=(\S+)\s+", re.IGNORECASE)


def parse(text: str, timezone: str = "UTC", jobid: str = "", anchor: float | None = None) -> Schedule:
    """Parse `text` to a schedule.

    Times without a zone are in `timezone`. The values of ``H`` are hashed from `jobid`. `anchor` is the instant (epoch
    seconds) at which the schedule is set; None is the epoch. EVERY without @, a rule without DTSTART and IN count from
    it. Raise `BadSchedule`, and only that, for an invalid text.
    """
    if not (isinstance(text, str) and isinstance(timezone, str) and isinstance(jobid, str)):
        raise BadSchedule(f"bad schedule {text!r:.80}: it, its zone and its job id must be texts")
    found = _examine(text)
    # The cache key contains only the arguments that matter for this text.
    since = float(anchor or 0) if found.needs_anchor else 0.0
    if not 0 <= since < END_OF_TIME:
        raise BadSchedule(f"bad schedule {found.text!r:.80}: {anchor!r:.40} is no instant to count from")
    return _parse(found.text, timezone, jobid if found.is_hashed else "", since)


@lru_cache(4096)
def parse_stored(text: str) -> Schedule:
    """Return the schedule of a complete text, as Redis stores it; cached. Raise `BadSchedule`."""
    return Every.read(text) or parse(text)


def is_hashed(text: str) -> bool:
    """Tell whether a schedule has an ``H``, so that its instants depend on the job id."""
    return _examine(text).is_hashed


def is_one_off(text: str) -> bool:
    """Tell whether a job with this stored schedule runs once; False for an invalid text."""
    try:
        return parse_stored(text).runs_once
    except BadSchedule:
        return False


def recurs(text: str) -> bool:
    """Tell whether a job with this stored schedule runs more than once; False for an invalid text."""
    try:
        schedule = parse_stored(text)
    except BadSchedule:
        return False
    return not (schedule.runs_once or schedule.never_runs)


def find_inner(text: str | None) -> Schedule | None:
    """Return the schedule of each host in a stored schedule for every host. Return a STOP itself, None for others."""
    try:
        schedule = parse_stored(text or "")
    except BadSchedule:
        return None
    if isinstance(schedule, EveryHost):
        return schedule.inner
    return schedule if schedule.never_runs else None


def is_follower(text: str | None) -> bool:
    """Tell whether other jobs make a job with this stored schedule due; False for an invalid text, and for None."""
    kind, _ = _find_kind(text or "")
    return kind is not None and kind.is_awaiting


def _find_kind(text: str) -> tuple[type[Keyword] | None, str]:
    """Return the kind of a text by its keyword, and the text after the keyword. The kind is None without a keyword."""
    keyword, colon, rest = text.partition(":")
    # Some letters of other alphabets become ASCII in upper case.
    return KEYWORDS.get(keyword.upper() + colon) if keyword.isascii() else None, rest


def _has_letters(text: str) -> bool:
    """Tell whether a text has letters. Without letters, as in most cron lines, it has no keyword, rule or ``H``."""
    return text.lower() != text.upper()


class _Examined(NamedTuple):
    """A text, and which other arguments of `parse` matter for it."""

    text: str  # without blanks at its ends
    needs_anchor: bool
    is_hashed: bool  # from the job id


@lru_cache(4096)
def _examine(text: str) -> _Examined:
    """Examine a text that is not parsed yet. Raise `BadSchedule` if it is too long; this is not cached."""
    text = check_size(text).strip(_BLANKS)
    if not _has_letters(text):
        return _Examined(text, needs_anchor=False, is_hashed=False)
    kind, rest = _find_kind(text)
    needs_anchor = kind.needs_anchor(rest) if kind else _UNANCHORED.match(text) is not None
    return _Examined(text, needs_anchor, _HASHED.search(text) is not None)


@lru_cache(4096)
def _parse(text: str, timezone: str, jobid: str, anchor: float) -> Schedule:
    kind, rest = _find_kind(text)
    if not (text.isascii() or kind in (After, Group)):
        raise BadSchedule(f"bad schedule {text!r:.80}: no keyword, cron expression or rule")
    if kind is EveryHost:
        return EveryHost.wrap(parse(rest, timezone, jobid, anchor))
    if kind:
        return kind.parse(rest, timezone, anchor)
    if _has_letters(text) and _RULE.search(text):
        return _parse_recurrence(text, timezone, anchor)
    return _parse_cron(text, timezone, jobid)


def _parse_recurrence(text: str, timezone: str, anchor: float) -> Schedule:
    schedule = RecurrenceSchedule(Recurrence(text, timezone, anchor, find_zone))
    if _UNANCHORED.match(text):
        start, _, rest = schedule.text.partition("\n")
        schedule.anchor_span = start.index(":") + 1, len(rest) + 1
    return schedule


def _parse_cron(text: str, timezone: str, jobid: str) -> Schedule:
    first, *lines = (unfold(text) if "\n" in text or "\\" in text else [text]) or [""]
    found = _CRON_ZONE.match(first)
    name = found[1] if found else timezone
    expression = (first[found.end() :] if found else first).replace("\t", " ")
    if not expression.isprintable() or (len(expression.split()) < 2 and expression[:1] != "@"):
        raise BadSchedule(f"bad schedule {text!r:.80}: no keyword, cron expression or rule")
    zoned = f"CRON_TZ={name} " if found or name != "UTC" else ""
    if not lines:
        cron = Cron(expression, find_zone(name), jobid)
        return CronSchedule(f"{zoned}{cron.fields.text}", cron, name)
    amended = AmendedCron(expression, lines, name, jobid, find_zone)
    return CronSchedule("\n".join((f"{zoned}{amended.fields.text}", *map(str, amended.lines))), amended, name)


class CronSchedule(Schedule):
    """Run at the times of `cron`, which may have EXDATE and RDATE lines, in the zone `timezone`."""

    def __init__(self, text: str, cron: Cron | AmendedCron, timezone: str) -> None:
        self.text = check_size(text)  # the complete text is longer than what the user gave
        self.timezone = timezone
        self._cron = cron

    def next(self, after: float) -> float | None:
        """Return the first occurrence after `after`, both in epoch seconds; None after the year 9999."""
        return self._cron.next(after)

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the due times in (after, until], up to `limit`; the cost grows with days, not with due times."""
        number = self._cron.count(after, until, limit)
        return super().count(after, until, limit) if number is None else number

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        words = explain_cron(self._cron.fields)
        if isinstance(self._cron, AmendedCron):
            words += explain_amendments(self._cron)
        return f"{words}, {self.timezone} time."

    def with_zone(self) -> Schedule:
        """Return the same schedule with its zone in its text, even if that is UTC."""
        if self.text.startswith("CRON_TZ="):
            return self
        return CronSchedule(f"CRON_TZ=UTC {self.text}", self._cron, "UTC")

    def exclude(self, days: Iterable[int]) -> str:
        """Return the text with a further line, an EXDATE with these days."""
        return f"{self.text}\nEXDATE:{','.join(map(format_day, days))}"


class RecurrenceSchedule(Schedule):
    """Run at the instants of `recurrence`, a set of iCal rules and dates."""

    def __init__(self, recurrence: Recurrence) -> None:
        self.text = check_size(recurrence.text)
        self.timezone = recurrence.timezone
        self._recurrence = recurrence

    def next(self, after: float) -> float | None:
        """Return the first occurrence after `after`, both in epoch seconds; None when there is none."""
        return self._recurrence.next(after)

    def count(self, after: float, until: float, limit: int) -> int:
        """Count the due times in (after, until], up to `limit`; fewer if rules and exceptions make that too costly."""
        return self._recurrence.count(after, until, limit)[0]

    def count_safely(self, after: float, until: float, limit: int) -> tuple[int, bool]:
        """Return the number of `count`, and whether it is complete: False if counting was given up before `limit`."""
        return self._recurrence.count(after, until, limit)

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"{explain_recurrence(self._recurrence)}, {self.timezone} time."

    def exclude(self, days: Iterable[int]) -> str:
        """Return the text with further EXDATE lines for the runs on these days. Raise `BadSchedule` for too many."""
        zone, runs = self._recurrence.zone, list[int]()
        for day in days:
            for due in self.list_due(resolve(day * 86400, zone) - 1, resolve((day + 1) * 86400, zone) - 1):
                runs.append(int(due))
                if len(runs) > MAX_TEXT // _EXDATE_SIZE:
                    raise BadSchedule(f"bad schedule {quoted(self.text)}: it has too many runs on these days")
        return "\n".join((self.text, *write_dates("EXDATE", runs, zone)))
