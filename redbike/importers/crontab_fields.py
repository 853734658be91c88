"""Read the time of a crontab line as Debian's cron does, and write it so that Redbike means the same.

Cron skips what follows an item that it has understood: for cron, ``5#2`` and ``1-5-7`` are ``5`` and ``1-5``. Redbike
knows more kinds of items, or refuses these. So each field is put together again from what cron has read.
"""

import re
from typing import NamedTuple

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


class Field(NamedTuple):
    """A field of a line: its values are from `low` to `high`, and `names` are other words for those from `low` on."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day-of-month", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("day-of-week", 0, 7, WEEKDAYS),
)
ITEM = re.compile(r"(\*|[0-9a-z]+(?:-[0-9a-z]+)?)(/[0-9a-z]*)?", re.ASCII | re.IGNORECASE)


class BadTime(ValueError):
    """A time that cron refuses, with cron's own words for it; or one that means no instant at all."""


def read_schedule(texts: list[str]) -> str:
    """Return the schedule of five fields, or of a word such as ``@daily``. Raise `BadTime`."""
    if texts[0].startswith("@"):
        if texts[0] not in WORDS:
            raise BadTime(f"cron refuses {texts[0]!r:.80}: bad time specifier")
        return texts[0]
    fields = [_read_field(text, field) for text, field in zip(texts, FIELDS, strict=False)]
    if len(fields) < len(FIELDS):
        raise BadTime(f"cron refuses it: it has no {FIELDS[len(fields)].name}")
    return " ".join(fields)


def _read_field(text: str, field: Field) -> str:
    items, position = [], 0
    while True:
        found = ITEM.match(text, position)
        if found is None or (found[1].isalnum() and text[found.end() : found.end() + 1] == "-"):
            raise BadTime(f"cron refuses {text!r:.80}: bad {field.name}")
        if not _is_empty(found[1], found[2], text, field):
            items.append(found[0])
        position = found.end() + 1
        if text[found.end() : position] != ",":
            break
    if not items:
        raise BadTime(f"cron never runs it: no {field.name} is in {text!r:.80}")
    return ",".join(items)


def _is_empty(values: str, step: str | None, text: str, field: Field) -> bool:
    """Tell whether an item is a range that ends before it begins, such as ``22-2``. Raise `BadTime`."""
    numbers = [] if values == "*" else [_read_value(word, field) for word in values.split("-")]
    is_bad_step = step is not None and (len(numbers) == 1 or not step[1:].isdecimal() or not int(step[1:]))
    if is_bad_step or any(not field.low <= number <= field.high for number in numbers):
        raise BadTime(f"cron refuses {text!r:.80}: bad {field.name}")
    return len(numbers) == 2 and numbers[0] > numbers[1]


def _read_value(word: str, field: Field) -> int:
    """Return the value of a name or a number; -1, which no field has, for any other word."""
    if word.lower() in field.names:
        return field.low + field.names.index(word.lower())
    return int(word[:9]) if word.isdecimal() else -1
