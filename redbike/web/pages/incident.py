"""The incident window: all that is known about a span of time, as a strip, and as text for a report."""

import threading
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from redbike.queries.incident import (
    Incident,
    count_moments,
    describe_first,
    describe_skipped,
    format_report,
    gather,
    name_instant,
)
from redbike.queries.unusual import RULES
from redbike.queries.window import MOST, NOW, WIDTH, Window, parse_window
from redbike.schedule.clock import format_length
from redbike.text.parsing import measure_duration
from redbike.web.charts import draw_incident
from redbike.web.rendering import format_utc, quote_part
from redbike.web.site import Site

ROWS = 80  # rows on the page; the text has all
READ_TIMEOUT, LONG = 0.3, 10.0  # seconds for which the runs of all jobs are read; the longer one only on request
TEXT = ".txt"

_reading = threading.Lock()  # one long reading at a time


def ask_incident(site: Site, request: Request) -> Response:
    """Redirect from the form to the page of the window."""
    at = request.query_params.get("at", "").strip() or NOW
    around = request.query_params.get("around", "").strip() or WIDTH
    window = f"{at}±{around}"
    # Check the window here, so that an error is shown where it was typed.
    clock = site.read_clock()
    parse_window(window, clock.now, clock.zone)
    return RedirectResponse(f"at/{quote_part(window)}", 303)


def show_incident(site: Site, request: Request) -> Response:
    """Show the window in the path. If the path ends in .txt, return plain text."""
    where = request.path_params["where"]
    text = where.removesuffix(TEXT)
    clock = site.read_clock()
    now, zone = clock.now, clock.zone
    window = parse_window(text, now, zone)
    incident = _read(site, window, now, bool(request.query_params.get("all")))
    if where.endswith(TEXT):
        return PlainTextResponse(format_report(incident, zone, site.name))
    listed = incident.list_first(ROWS)
    label = f"{clock.name(window.since)} to {clock.name(window.until)}: {count_moments(incident)}"
    return site.answer(
        request,
        "incident.html",
        clock,
        here="at",
        text=text,
        window=window,
        incident=incident,
        listed=listed,
        counted=count_moments(incident),
        first=describe_first(incident, zone),
        skipped=describe_skipped(incident) if incident.skipped else "",
        rules=RULES,
        report=format_report(incident, zone, site.name, listed),
        strip=draw_incident(incident, label, lambda moment: clock.format(moment)[11:]),
        around=list(_list_others(window, now)),
        width=_write_width(window.width),
        at=name_instant(window.at, zone),
    )


def _read(site: Site, window: Window, now: float, is_long: bool) -> Incident:
    """Read what is known about a window. Only one viewer at a time gets the long reading."""
    is_long = is_long and _reading.acquire(blocking=False)
    timeout = LONG if is_long else READ_TIMEOUT
    try:
        return gather(site.bike.store, window.since, window.until, now, timeout, site.settings.timezone)
    finally:
        if is_long:
            _reading.release()


def _write_width(seconds: float) -> str:
    """Return a width as the form takes it: with up to two units if that is exact, else in seconds."""
    text = format_length(seconds).replace(" ", "").replace("min", "m")
    return text if measure_duration(text) == seconds else f"{seconds:.10g}s"


def _list_others(window: Window, now: float) -> Iterator[tuple[str, str]]:
    """Yield names and texts of related windows: earlier, later, narrower and wider ones."""
    at, width = window.at, window.width
    for name, center, wide in (
        ("Earlier", at - 2 * width, width),
        ("Later", at + 2 * width, width),
        ("Narrower", at, min(width, max(60.0, width / 2))),
        ("Wider", at, min(MOST, width * 2)),
    ):
        if 0 <= center <= now and (center, wide) != (at, width):
            yield name, f"{format_utc(center)}±{wide:g}"
