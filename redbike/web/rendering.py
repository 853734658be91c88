"""Format values for a page: instants, durations, numbers, and untrusted texts."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from redbike.schedule.clock import Clock, format_length, format_took
from redbike.schedule.moments import END_OF_TIME
from redbike.store.names import is_jobid, is_queue_name
from redbike.store.patterns import escape as escape_id
from redbike.text.printable import escape as make_visible
from redbike.text.printable import format_size, name_some

NOTHING = "–"
LONG = 300  # characters of a text in a table
# The files that pages load, and their kinds.
SCRIPTS = ("live.js", "set.js", "palette.js", "ticks.js", "timeline.js")
ASSETS = {
    "style.css": "text/css; charset=utf-8",
    **dict.fromkeys(SCRIPTS, "text/javascript; charset=utf-8"),
    "icon.svg": "image/svg+xml",
}


def make_environment() -> Environment:
    """Return the environment of the templates, with their filters. All values are escaped, except `Markup`."""
    environment = Environment(
        loader=PackageLoader("redbike.web"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "text": show_text,
        "value": make_value,
        "number": show_number,
        "duration": show_length,
        "took": show_took,
        "size": format_size,
        "short": shorten_number,
        "list_texts": show_list,
        "lines": show_lines,
        "part": quote_part,
        "pattern": escape_id,
    }
    environment.tests |= {"jobid": is_jobid, "queue_name": is_queue_name}
    environment.globals |= {"asset": name_asset}
    return environment


def show_text(value: object, most: int = LONG) -> str:
    """Return a text in which every character is visible, cut after `most` characters. It is not escaped for HTML."""
    text = str(value)
    cut = text if len(text) <= most else f"{text[:most]}…"
    return make_visible(encode_all(cut))


def describe_warnings(warnings: Iterable[str], jobid: str = "") -> str:
    """Return warnings as further sentences of a note. The note already names `jobid`, so they do not repeat it."""
    known = (show_text(text.removeprefix(f"{jobid}: ")) for text in warnings)
    return "".join(f" Warning: {text}." for text in known)


def show_lines(text: str) -> str:
    """Return a text of several lines, in which every character but the line ends is visible."""
    return "\n".join(make_visible(encode_all(line)) for line in text.split("\n"))


def encode_all(text: str) -> bytes:
    """Return any text as bytes. Bytes that were not UTF-8 come back; other surrogates become escapes."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


def show_number(value: float | None) -> str:
    """Return a number with separators for thousands."""
    return NOTHING if value is None else f"{value:,.0f}"


def make_value(text: str) -> str:
    """Return a text as the value of a field, which a browser sends back unchanged. Bytes beyond UTF-8 are replaced."""
    return encode_all(text).decode(errors="replace")


def shorten_number(value: float) -> str:
    """Return a number in at most five characters: 950, 1.2k, 35k, 1.0M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{unit}" if value < 10 * size else f"{value / size:.0f}{unit}"
    return f"{value:.0f}"


def show_took(seconds: float | None) -> str:
    """Return how long a run took, such as 2 ms or 1.24 s."""
    return NOTHING if seconds is None else format_took(seconds)


def show_list(texts: Sequence[str], most: int = 5) -> str:
    """Return the first texts of a list, visible, and how many more there are."""
    return name_some([show_text(text, 100) for text in texts], most)


def show_length(seconds: float | None) -> str:
    """Return a duration, such as 1 h 5 min."""
    return NOTHING if seconds is None else format_length(seconds)


def quote_part(text: str) -> str:
    """Return a text quoted as one part of a URL. An id may contain slashes, dots and question marks."""
    # Browsers remove segments that are only dots, even quoted ones. So an id must not be a whole segment.
    return quote(encode_all(text), safe="")


def format_utc(moment: float) -> str:
    """Return an instant for machines, in UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def show_instant(moment: float | None, clock: Clock) -> Markup:
    """Return an instant as its distance from now. Its tooltip is the time in the zone of the clock."""
    if moment is None:
        return Markup(NOTHING)
    inside = min(max(moment, 0.0), END_OF_TIME - 86400)
    return Markup('<time datetime="{}" data-at="{:.1f}" title="{}" tabindex="0">{}</time>').format(
        format_utc(inside), inside, clock.name(moment), clock.measure(moment)
    )


def draw_svg(kind: str, wide: int, high: int, label: str, parts: Iterable[Markup], **attributes: object) -> Markup:
    """Return a picture, `wide` by `high` units. `label` says in words what it shows."""
    more = Markup("").join(Markup(' {}="{}"').format(*each) for each in attributes.items())
    return Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}"{}>{}</svg>').format(
        kind, wide, high, label, more, Markup("").join(parts)
    )


@cache
def read_asset(name: str) -> bytes | None:
    """Return the content of a static file; None if there is no such file."""
    if name not in ASSETS:
        return None
    return files("redbike.web").joinpath("static", name).read_bytes()


def name_asset(name: str) -> str:
    """Return the relative URL of a static file. It changes with the content of the file."""
    return f"static/{name}?{hashlib.sha256(read_asset(name) or b'').hexdigest()[:12]}"
