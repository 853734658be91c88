"""Parse times as people type them: ``22:45``, ``noon``, ``mon 9:00``, ``tomorrow 6:00``, ``+1h``, ``2h ago``.

A recurring time, such as ``9:00``, means the next such instant; for a command that looks back, the last one. A day
without a time of day means its first instant. An ambiguous text, such as ``1/2`` or ``mon midnight``, is invalid. A
number is epoch seconds.

Local times are in a zone. In a gap, the offset before the gap counts; in a repeated hour, the first instant. Only a
recurring time may also mean the second instant. A command that looks back skips recurring times in a gap.
"""

import math
import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from dateutil.parser import parse, parserinfo
from dateutil.relativedelta import relativedelta, weekday

from redbike.errors import BadSchedule
from redbike.schedule.moments import END_OF_TIME, EPOCH, parse_timestamp
from redbike.schedule.zones import find_gap_end, find_zone, load_zone_info, resolve
from redbike.text.parsing import measure_duration

EXAMPLES = "22:45, mon 9:00, tomorrow 6:00, +1h, 24 dec 18:00, epoch seconds or ISO 8601"
NOW = "now"
DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}  # from today
MOST_TEXT = 80  # characters
FURTHEST = 8  # years to the next 29 February

_NAMES = parserinfo()  # of months and days of the week, in English
_EPOCH = datetime(1970, 1, 1)
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
# Numbers that people may mean as a time, a year or a date, not as epoch seconds: the instant is shown to the user.
_DOUBTFUL = re.compile(r"0*[1-9]\d{0,3}(?:\.\d+)?|(19|20)\d\d[01]\d[0-3]\d", re.ASCII)
_STEP = re.compile(r"(?:now ?)?([+-]) ?(\w[\w.]*)", re.ASCII)
_LENGTH = re.compile(r"\d[\w.]*[smhd]", re.ASCII)
_AGO = re.compile(r"(\d[\w.]*?) ?(seconds?|minutes?|hours?|days?|[smhd]) ago", re.ASCII)
_NAMED = {"noon": "12:00", "midnight": "0:00"}
_HALF = r"(?:0?[1-9]|1[0-2])(?::\d\d(?::\d\d)?)? ?[ap]m"  # of a day
_CLOCK = rf"(?:{_HALF}|\d{{1,2}}:\d\d(?::\d\d)?|noon)"
_PARTS = re.compile(
    rf"(?P<clock>{_CLOCK})(?: (?P<day>.+))?|(?P<first>.+?)(?:(?: at)? (?P<then>{_CLOCK}))?", re.ASCII | re.DOTALL
)
_DAY_OF_MONTH = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"{_DAY_OF_MONTH}\.? (?P<month>[a-z]+)(?: (?P<year>[1-9]\d{{3}}))?|"
    rf"(?P<before>[a-z]+) {_DAY_OF_MONTH}(?: (?P<behind>[1-9]\d{{3}}))?|(?P<iso>\d{{4}}-\d\d-\d\d)",
    re.ASCII,
)


class SaidTime(NamedTuple):
    """An instant in epoch seconds, and whether the text is exact: epoch seconds, or ISO 8601.

    A number that people might mean as a time of day, a year or a date is not exact.
    """

    instant: float
    is_exact: bool


class _Days(NamedTuple):
    """The days that may be meant, the nearest first. With `is_one`, only one day can be meant."""

    dates: Iterator[date]
    is_one: bool


def read_time(text: str, now: float, timezone: str, looks_back: bool = False) -> SaidTime:
    """Return the instant of a text that is typed at `now` (epoch seconds). Local times are in `timezone`.

    It is the next such instant; the last one if the command `looks_back`. Raise `BadSchedule`, which quotes the text.
    """
    if not isinstance(text, str) or is_exact(text):
        is_doubtful = isinstance(text, str) and _DOUBTFUL.fullmatch(text)
        return SaidTime(parse_timestamp(text, timezone), not is_doubtful)
    said = " ".join(text.lower().replace(",", " ").split())
    instant = None
    if len(text) <= MOST_TEXT and said.isascii():
        try:
            instant = _read_step(f"{'-' if looks_back else '+'}{said}" if _LENGTH.fullmatch(said) else said, now)
            instant = _read_local(said, now, timezone, looks_back) if instant is None else instant
        except (ValueError, OverflowError) as error:
            if isinstance(error, BadSchedule):
                raise
    if instant is None:
        raise BadSchedule(f"bad timestamp {text!r:.80}: a time is needed, such as {EXAMPLES}")
    if not 0 <= instant < END_OF_TIME:
        raise BadSchedule(f"bad timestamp {text!r:.80}: it is before 1970 or after 9999")
    return SaidTime(instant, False)


def is_exact(text: str) -> bool:
    """Tell whether a text is epoch seconds or ISO 8601, which mean the same instant at any time."""
    if _NUMBER.fullmatch(text):
        return True
    try:
        return bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def _read_step(said: str, now: float) -> float | None:
    """Return the instant of ``now``, ``+1h``, ``now -2h`` or ``2h ago``; None for another text. A step needs a unit."""
    if said == NOW:
        return now
    found = _STEP.fullmatch(_AGO.sub(lambda ago: f"-{ago[1]}{ago[2][0]}", said))
    if found is None or EPOCH.fullmatch(found[2]):
        return None
    seconds = measure_duration(found[2])
    return None if seconds is None else now + math.copysign(seconds, -1 if found[1] == "-" else 1)


def _read_local(said: str, now: float, timezone: str, looks_back: bool) -> float | None:
    """Return the instant of a day, a time of day, or both; None for another text, and for a day that never comes."""
    # With a day, midnight is not allowed: it could be the beginning or the end of the day.
    parts = _PARTS.fullmatch(_NAMED.get(said, said))
    if parts is None:
        return None
    clock, day = parts["clock"] or parts["then"], parts["day"] or parts["first"]
    moment = parse(_NAMED.get(clock, clock), default=_EPOCH).time() if clock else time()
    today = datetime.fromtimestamp(now, load_zone_info(timezone)).date()
    days = _find_days(day, today, -1 if looks_back else 1)
    if days is None:
        return None
    for each in days.dates:
        found = _find_instants(datetime.combine(each, moment), timezone, looks_back and not days.is_one)
        if days.is_one:
            return found[0]
        if fitting := [instant for instant in found if (instant <= now if looks_back else instant >= now)]:
            return max(fitting) if looks_back else min(fitting)
    return None


def _find_days(said: str | None, today: date, direction: int) -> _Days | None:
    """Return the days that a text may mean; None for a text that is no day."""
    if said is None:
        # Several days, as a zone may skip a whole day, and then a time on the next one.
        return _Days((today + relativedelta(days=direction * number) for number in range(4)), False)
    if said in DAYS:
        return _Days(iter([today + relativedelta(days=DAYS[said])]), True)
    if (number := _NAMES.weekday(said)) is not None:
        nearest = today + relativedelta(weekday=weekday(number)(direction))
        return _Days((nearest + relativedelta(weeks=direction * week) for week in range(3)), False)
    found = _DATE.fullmatch(said)
    if found is None:
        return None
    if found["iso"] or found["year"] or found["behind"]:
        return _Days(_read_dates(said, found, [""]), True)
    years = (f" {today.year + direction * number:04}" for number in range(FURTHEST + 1))
    return _Days(_read_dates(said, found, years), False)


def _read_dates(said: str, found: re.Match[str], years: "Iterator[str] | list[str]") -> Iterator[date]:
    """Yield the date of a text in each of these years; years that do not have this day are left out."""
    name = found["month"] or found["before"]
    if name is not None and _NAMES.month(name) is None:
        return
    for year in years:
        try:
            yield parse(f"{said}{year}", default=_EPOCH).date()
        except (ValueError, OverflowError):
            continue


def _find_instants(local: datetime, timezone: str, must_be_there: bool) -> list[float]:
    """Return the instants of a local time: two in a repeated hour; none in a gap, if it `must_be_there`; else one."""
    zone, wall = find_zone(timezone), (local - _EPOCH) // timedelta(seconds=1)
    if must_be_there and find_gap_end(wall, zone) is not None:
        return []
    first = float(resolve(wall, zone))
    second = local.replace(tzinfo=load_zone_info(timezone), fold=1).timestamp()  # in a gap, this one is earlier
    return [first, second] if second > first else [first]
