"""Pages of lists: a cursor is a text that only these functions read, and says where the next page begins."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from redbike.errors import BadConfig
from redbike.text.parsing import load_json

PATIENCE = 0.5  # seconds after which a page ends, however few rows it has

Row = dict[str, Any]


class Page(NamedTuple):
    """Rows, and where the next page begins; None if nothing is left."""

    items: list[Row]
    cursor: str | None


def show(row: Any, fields: Sequence[str]) -> Row:
    """Return the fields of a row, as JSON of the command line has them."""
    return {name: getattr(row, name) for name in fields}


def write_cursor(*parts: Any) -> str:
    """Return a cursor that has `parts`, which JSON can carry."""
    return json.dumps(parts, separators=(",", ":")).encode(errors="surrogateescape").hex()


def read_cursor(text: str | None, *kinds: type) -> list[Any] | None:
    """Return the parts of a cursor, of these types; None for none. Raise `BadConfig` for another text."""
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
    """Return a page of all rows, which are put in the order of their keys: of these types, none comes twice."""
    after = read_cursor(cursor, *kinds)
    rest = sorted((row for row in rows if after is None or key(row) > after), key=key)
    return Page(rest[:limit], write_cursor(*key(rest[limit - 1])) if len(rest) > limit else None)


def fill(limit: int, cursor: str, read: Callable[[str], tuple[list[tuple[str, Row]], str | None]]) -> Page:
    """Return a page made of steps. `read` returns the rows from a place on, each by its name, and the next place.

    A cursor has the place where its step begins, and the last name of it that was on a page. If that is not there any
    more, the step is on the next page as a whole: so a row may come twice, and none is left out.
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
