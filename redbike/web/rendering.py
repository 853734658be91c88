"""How things look on a page: instants, lengths, numbers, and texts that come from anywhere."""

import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from redbike.schedule.forecast import Clock, format_length
from redbike.schedule.moments import END_OF_TIME
from redbike.texts import escape as make_visible

NOTHING = "–"
LONG = 300  # characters of a text in a table


def make_environment() -> Environment:
    """Return the templates with all that they may call. What is not marked as markup is escaped in each of them."""
    environment = Environment(
        loader=PackageLoader("redbike.web"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "text": show_text,
        "number": show_number,
        "duration": show_length,
        "part": quote_part,
    }
    environment.globals |= {"asset": name_asset}
    return environment


def show_text(value: object, most: int = LONG) -> str:
    """Return a text of which every character is visible, cut after `most` characters; it is not escaped for HTML."""
    text = str(value)
    cut = text if len(text) <= most else f"{text[:most]}…"
    return make_visible(cut.encode(errors="surrogateescape"))


def show_number(value: float | None) -> str:
    """Return a number with its thousands apart."""
    return NOTHING if value is None else f"{value:,.0f}"


def show_length(seconds: float | None) -> str:
    """Return a duration, such as 1 h 5 min."""
    return NOTHING if seconds is None else format_length(seconds)


def quote_part(text: str) -> str:
    """Return a text as one part of a path: an id may have slashes, dots and question marks in it."""
    # Browsers remove parts that are only dots, however they are quoted; so an id never stands alone.
    return quote(text, safe="", errors="surrogateescape")


def show_instant(moment: float | None, clock: Clock) -> Markup:
    """Return an instant as the distance from now, with the time in the zone of the clock for those who ask for it."""
    if moment is None:
        return Markup(NOTHING)
    inside = min(max(moment, 0.0), END_OF_TIME - 86400)
    machine = datetime.fromtimestamp(inside, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}" tabindex="0">{}</time>').format(
        machine, clock.name(moment), clock.measure(moment)
    )


@cache
def read_asset(name: str) -> bytes | None:
    """Return a file that pages load; None if there is none of that name."""
    if name not in ("style.css", "live.js"):
        return None
    return files("redbike.web").joinpath("static", name).read_bytes()


def name_asset(name: str) -> str:
    """Return the address of a file below ``static/``, which changes with what is in it."""
    return f"static/{name}?{hashlib.sha256(read_asset(name) or b'').hexdigest()[:12]}"


__all__ = ["Markup", "escape", "make_environment", "read_asset", "show_instant"]

Context = dict[str, Any]
