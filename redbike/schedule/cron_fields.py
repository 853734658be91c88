"""Parse a cron expression, as Debian's cron does (crontab(5)). Each field becomes a mask, in which bit n is value n.

An expression has five fields. A sixth one is seconds, a seventh one is years.
"""

import re
from binascii import crc32
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from redbike.errors import BadSchedule, quoted

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Examples of schedules with a keyword, by the word that people write instead of the keyword.
EXAMPLES = {"at": "AT:2030-01-31T22:45", "in": "IN:2h", "every": "EVERY:15m", "after": "AFTER:backup:A"}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class Field(NamedTuple):
    """One field of an expression."""

    name: str
    low: int
    high: int  # the highest value that is allowed
    top: int  # the highest distinct value; values above it, up to `high`, are other names for lower ones
    place: int  # in the expression, from 0
    names: tuple[str, ...] = ()  # of the values, from `low` on


FIELDS = (
    Field("minute", 0, 59, 59, 0),
    Field("hour", 0, 23, 23, 1),
    Field("day of month", 1, 31, 31, 2),
    Field("month", 1, 12, 12, 3, MONTHS),
    Field("day of week", 0, 8, 6, 4, WEEKDAYS),  # 7 is Sunday again, and 8 Monday
    Field("second", 0, 59, 59, 5),
    Field("year", 1970, 2099, 2099, 6),
)
_CACHED_LENGTH = 40  # characters: the values of a longer field are not cached
_ITEM = re.compile(r"(?P<low>\*|\w{1,9})(?:-(?P<high>\w{1,9}))?(?:/(?P<step>\d{1,9}))?", re.ASCII)
_HASH = re.compile(r"h(?:\((?P<low>\d{1,4})-(?P<high>\d{1,4})\))?(?:/(?P<step>\d{1,9}))?", re.ASCII | re.IGNORECASE)
_NEAREST = re.compile(r"w?(\d{1,2})w?", re.ASCII)
_NTH = re.compile(r"(?P<days>[\w-]+)#(?P<nth>[1-5])", re.ASCII)
_LAST_DAY = re.compile(r"l([0-7])|([0-7])l", re.ASCII)


class DayFields(NamedTuple):
    """The three fields that select days. Days of the week count from Sunday, 0."""

    months: int
    dom: int  # days of the month
    last: bool  # the last day of the month
    nearest: tuple[int, ...]  # the weekdays nearest to these days
    dow: int  # days of the week
    nth: tuple[tuple[int, int], ...]  # (day of the week, number in the month); 0 is the last
    either: bool  # True: a day matches when one of the fields does. False: when both do.


class CronFields(NamedTuple):
    """A parsed expression."""

    text: str  # the expression, with a value in place of each ``H``
    minutes: int
    hours: int
    seconds: int
    days: DayFields
    years: int | None  # None for every year
    follows_clock: bool  # when clocks change, it follows the wall clock (cron(8), "Debian-specific")


def parse_expression(expression: str, jobid: str) -> CronFields:
    """Return the fields of `expression`. The values of ``H`` are hashed from `jobid`.

    Raise `BadSchedule`, which quotes the invalid part.
    """
    words = expression.split()
    full = expression.lower() if expression.startswith("@") else " ".join(words)
    if full == "@reboot":
        raise BadSchedule("bad cron '@reboot': it names no time; NOW runs a job right away")
    if full not in ALIASES and not 5 <= len(words) <= 7:
        first = expression.partition(" ")[0].lower()
        meant = f"; is one like {EXAMPLES[first]} meant?" if first in EXAMPLES else ""
        raise BadSchedule(f"bad cron {quoted(expression)}: 5 to 7 fields are needed, it has {len(words)}{meant}")
    if "h" in full or "H" in full:
        full = " ".join(_replace_hashes(full.split(), jobid))
    texts = ALIASES.get(full, full.lower()).split()
    return CronFields(
        text=full,
        minutes=_parse_field(texts[0], FIELDS[0]),
        hours=_parse_field(texts[1], FIELDS[1]),
        seconds=_parse_field(texts[5], FIELDS[5]) if len(texts) > 5 else 1,
        days=_parse_days(texts[2], texts[3], texts[4]),
        years=_parse_field(texts[6], FIELDS[6]) if texts[6:] and texts[6] != "*" else None,
        follows_clock=len(texts) > 5 or texts[0][0] == "*" or texts[1][0] == "*",
    )


# The fields of days


@lru_cache(1024)
def _parse_days(dom: str, month: str, dow: str) -> DayFields:
    dom, dow = ("*" if text == "?" else text for text in (dom, dow))
    special = [item for item in dom.split(",") if item in ("l", "lw") or _is_nearest(item)]
    plain = ",".join(item for item in dom.split(",") if item not in special)
    counted = [item for item in dow.split(",") if "#" in item or _LAST_DAY.fullmatch(item)]
    weekly = ",".join(item for item in dow.split(",") if item not in counted)
    week = _parse_field(weekly, FIELDS[4]) if weekly or not counted else 0
    return DayFields(
        months=_parse_field(month, FIELDS[3]),
        dom=_parse_field(plain, FIELDS[2]) if plain or not special else 0,
        last="l" in special,
        nearest=tuple(dict.fromkeys(_parse_nearest(item) for item in special if item != "l")),
        dow=week,
        nth=tuple(dict.fromkeys(pair for item in counted for pair in _parse_nth(item))),
        either=not (dom[0] == "*" or dow[0] == "*"),
    )


def _is_nearest(item: str) -> bool:
    return _NEAREST.fullmatch(item) is not None and item.count("w") == 1


def _parse_nearest(item: str) -> int:
    """Return the day of the month of an item such as ``15w``; 31 for ``lw``."""
    day = int(item.strip("w").replace("l", "31"))
    if not 1 <= day <= 31:
        raise BadSchedule(f"bad day of month {item!r} in the cron expression: 1 to 31 are possible")
    return day


def _parse_nth(item: str) -> Iterator[tuple[int, int]]:
    """Yield (day of the week, number in the month) for an item such as ``fri#2`` or ``5l``; 0 is the last."""
    last = _LAST_DAY.fullmatch(item)
    if last:
        yield int(last[1] or last[2]) % 7, 0
        return
    found = _NTH.fullmatch(item)
    if not found:
        raise BadSchedule(f"bad day of week {quoted(item)} in the cron expression: 1#1 to 7#5 are possible")
    mask = _parse_field(found["days"], FIELDS[4])
    yield from ((day, int(found["nth"])) for day in range(7) if mask >> day & 1)


# Any field


def _parse_field(text: str, field: Field) -> int:
    """Return the mask of a field. Raise `BadSchedule`."""
    return _parse_cached(text, field.place) if len(text) < _CACHED_LENGTH else _parse_list(text, field)


@lru_cache(4096)
def _parse_cached(text: str, place: int) -> int:
    return _parse_list(text, FIELDS[place])


def _parse_list(text: str, field: Field) -> int:
    mask = 0
    for item in text.split(","):
        for value in _parse_item(item, field):
            mask |= 1 << value
    return mask


def _parse_item(item: str, field: Field) -> Iterable[int]:
    """Return the values of one item of a list. A range that wraps (22-2, FRI-MON) continues at the low end."""
    found = _ITEM.fullmatch(item)
    if not found or (found["low"] == "*" and found["high"]) or found["low"] == "l":
        raise _make_error(item, field)
    if found["step"] and not int(found["step"]):
        raise BadSchedule(f"bad {field.name} {quoted(item)} in the cron expression: a step is 1 or more")
    step = int(found["step"] or 1)
    if found["low"] == "*":
        return range(field.low, field.top + 1, step)
    low = _parse_value(found["low"], item, field)
    high = _parse_value(found["high"], item, field) if found["high"] else field.top if found["step"] else low
    size = field.top - field.low + 1
    last = high if high >= low else high + size * (2 if high + size < low else 1)
    return (field.low + (value - field.low) % size for value in range(low, last + 1, step))


def _parse_value(text: str, item: str, field: Field) -> int:
    if text in field.names:
        return field.low + field.names.index(text)
    if text == "l" and field.name == "day of month" and "-" in item:
        return field.high
    if not text.isdecimal() or not field.low <= int(text) <= field.high:
        raise _make_error(item, field)
    return int(text)


# H


def _replace_hashes(texts: Iterable[str], jobid: str) -> list[str]:
    """Return the texts of fields with values in place of each H."""
    crc = crc32(jobid.encode("utf-8", "surrogatepass"))
    return [_replace_in_field(text, field, crc) for text, field in zip(texts, FIELDS, strict=False)]


def _replace_in_field(text: str, field: Field, crc: int) -> str:
    if "h" not in text and "H" not in text:
        return text
    return ",".join(_replace_hash(item, field, crc) if item[:1] in "hH" else item for item in text.split(","))


def _replace_hash(item: str, field: Field, crc: int) -> str:
    """Return the item for H, H/15, H(0-29) or H(0-29)/10. The values are those of croniter, for older schedules."""
    found = _HASH.fullmatch(item)
    if not found:
        raise _make_error(item, field)
    low, high = (int(found["low"]), int(found["high"])) if found["low"] else (field.low, field.top)
    step = int(found["step"] or 1)
    if not field.low <= low < high <= field.top or not step:
        raise _make_error(item, field)
    width = min(step, high - low + 1) if found["step"] else high - low + 1
    value = (crc >> field.place) % width + low
    return f"{value}-{high}/{step}" if found["step"] and value < high else str(value)


def _make_error(item: str, field: Field) -> BadSchedule:
    if item[:1] == "r" and not item.isalpha():
        return BadSchedule(
            f"bad {field.name} {quoted(item)} in the cron expression: R would give another value each time, so use H"
        )
    return BadSchedule(
        f"bad {field.name} {quoted(item)} in the cron expression: {field.low} to {field.high} are possible"
    )
