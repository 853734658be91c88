"""Pages of lists. A cursor is a text that says where the next page begins. Only these functions read it."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from redbike.errors import BadConfig
from redbike.text.parsing import load_json

PATIENCE = 0.5  # seconds after which a page ends, even with few rows or none

Row = dict[str, Any]


class Page(NamedTuple):
    """A page: its rows, and the cursor of the next page; None if this is the last page."""

    items: list[Row]
    cursor: str | None


def show(row: Any, fields: Sequence[str]) -> Row:
    """Return the `fields` of a row, as in the JSON of the command line."""
    return {name: getattr(row, name) for name in fields}


def write_cursor(*parts: Any) -> str:
    """Return a cursor with these parts, which are values for JSON."""
    return json.dumps(parts, separators=(",", ":")).encode(errors="surrogateescape").hex()


def read_cursor(text: str | None, *kinds: type) -> list[Any] | None:
    """Return the parts of a cursor, which have the types `kinds`; None for None. Raise `BadConfig`."""
    if text is None:
        return None
    try:
        found = load_json(bytes.fromhex(text).decode(errors="surrogateescape"))
    except ValueError:
        found = None
    if not isinstance(found, list) or [type(part) for part in found] != list(kinds):
        raise BadConfig(f"bad cursor {text!r:.40}: it comes from the page before")
    return found


def cut(rows: Iterable[Row], key: Callable[[Row], list[Any]], limit: int, cursor: str | None, *kinds: type) -> Page:
    """Return a page of `rows`, sorted by their keys. The parts of a key have the types `kinds`; each key is unique."""
    after = read_cursor(cursor, *kinds)
    rest = sorted((row for row in rows if after is None or key(row) > after), key=key)
    return Page(rest[:limit], write_cursor(*key(rest[limit - 1])) if len(rest) > limit else None)


def fill(limit: int, cursor: str, read: Callable[[str], tuple[list[tuple[str, Row]], str | None]]) -> Page:
    """Return a page that is read in steps. `read` returns the rows from a place on, with names, and the next place.

    A cursor has the place of its step, and the name of the last row of this step that was on a page. If this row is
    gone, the next page has the whole step. So a row may be on two pages, but none is left out.
    """
    place, last = read_cursor(cursor or None, str, str) or ("", "")
    items: list[Row] = []
    until = time.monotonic() + PATIENCE
    while True:
        step, following = read(place)
        names = [name for name, _ in step]
        step = step[names.index(last) + 1 :] if last and last in names else step
        room = limit - len(items)
        items += [row for _, row in step[:room]]
        if len(step) > room:
            return Page(items, write_cursor(place, step[room - 1][0] if room else last))
        if following is None:
            return Page(items, None)
        place, last = following, ""
        if len(items) >= limit or time.monotonic() > until:
            return Page(items, write_cursor(place, ""))
