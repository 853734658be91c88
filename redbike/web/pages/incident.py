"""The incident window: what is known of a span of time, on one strip, and as text for a report."""

import threading
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from redbike.queries.incident import (
    Incident,
    count_moments,
    format_report,
    gather,
    name_instant,
    tell_first,
    tell_skipped,
)
from redbike.queries.unusual import RULES
from redbike.queries.window import MOST, NOW, WIDTH, Window, parse_window
from redbike.schedule.clock import format_length
from redbike.web.charts import draw_incident
from redbike.web.rendering import quote_part
from redbike.web.site import Site

ROWS = 80  # that the page lists; the text has all
READ_TIMEOUT, LONG = 0.3, 10.0  # seconds for which the runs of all jobs are read; for long if that is asked for
TEXT = ".txt"

_reading = threading.Lock()  # one long reading at a time


def ask_incident(site: Site, request: Request) -> Response:
    """Lead from the form to the window."""
    at = request.query_params.get("at", "").strip() or NOW
    around = request.query_params.get("around", "").strip() or WIDTH
    window = f"{at}±{around}"
    # What is wrong with it is told where it was typed.
    clock = site.read_clock()
    parse_window(window, clock.now, clock.zone)
    return RedirectResponse(f"at/{quote_part(window)}", 303)


def show_incident(site: Site, request: Request) -> Response:
    """Show the window that the path names; as plain text, if it ends in .txt."""
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
        first=tell_first(incident, zone),
        skipped=tell_skipped(incident) if incident.skipped else "",
        rules=RULES,
        report=format_report(incident, zone, site.name, listed),
        strip=draw_incident(incident, label, lambda moment: _name_briefly(moment, zone)),
        around=[(name, _name_window(*place)) for name, place in _list_others(window, now)],
        width=format_length(window.width),
        at=name_instant(window.at, zone),
    )


def _read(site: Site, window: Window, now: float, is_long: bool) -> Incident:
    """Read what is known of a window; for long only for one viewer at a time."""
    is_long = is_long and _reading.acquire(blocking=False)
    timeout = LONG if is_long else READ_TIMEOUT
    try:
        return gather(site.bike.store, window.since, window.until, now, timeout, site.settings.timezone)
    finally:
        if is_long:
            _reading.release()


def _list_others(window: Window, now: float) -> list[tuple[str, tuple[float, float]]]:
    """Return windows beside this one, around it and in it."""
    at, width = window.at, window.width
    found = [("Earlier", (at - 2 * width, width)), ("Later", (at + 2 * width, width))]
    found += [("Narrower", (at, max(60.0, width / 2))), ("Wider", (at, min(MOST, width * 2)))]
    return [
        (name, (place, wide)) for name, (place, wide) in found if 0 <= place <= now and (place, wide) != (at, width)
    ]


def _name_window(at: float, width: float) -> str:
    return f"{_name_instant(at)}±{width:g}"


def _name_instant(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _name_briefly(moment: float, zone: str) -> str:
    return datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%H:%M:%S")
