"""The forecast: the heat map of a day or a week, by queue, and the times at which too much runs."""

from typing import cast

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from redbike.queries.forecast import Forecast
from redbike.queries.heat_map import CELL, HOURS, Cell, Span, list_strips, make_grid
from redbike.schedule.clock import Clock
from redbike.store.sharded.missing import note_missing
from redbike.text.printable import name_number
from redbike.web.background import Report
from redbike.web.charts import draw_strip
from redbike.web.pages.parameters import list_queues, make_link, read_choice, read_pattern, read_queue, read_text
from redbike.web.rendering import format_utc
from redbike.web.site import Site

EVERY = ("", "1m", "5m", "15m", "1h")  # jobs that run more often than this may be left out
AGAIN, LATER = 1, 10  # seconds between two loads during a computation: without a result, and with an older one


def show_forecast(site: Site, request: Request) -> Response:
    """Show the last forecast, or its progress. It is computed in the background."""
    span = cast(Span, read_choice(request, "span", "day", "week"))
    queue, pattern, every = read_queue(site, request), read_pattern(request), read_choice(request, "every", *EVERY)

    def count(report: Report) -> Forecast:
        patterns = (pattern,) if pattern else ()
        return site.bike.agenda(*patterns, hours=HOURS[span], queue=queue or None, report=report, every=every or None)

    task = site.background.get(("agenda", span, pattern, queue, every), count)
    note_missing(task.missing)
    forecast: Forecast | None = task.result
    clock = site.read_clock()
    given = {"span": span, "queue": queue, "pattern": read_text(request, "pattern"), "every": every}
    counted = {quarter.queue for quarter in forecast.quarters} if forecast else set[str]()
    return site.answer(
        request,
        "forecast.html",
        clock,
        here="agenda",
        task=task,
        again=AGAIN if forecast is None else LATER,
        forecast=forecast,
        span=span,
        grid=make_grid(forecast, span, clock.zone) if forecast else None,
        strips=_draw(forecast, span, clock) if forecast else [],
        open_cell=lambda cell: _link_cell(cell, span, {**given, "span": None}),
        every=every,
        choices=EVERY,
        queue=queue,
        queues=list_queues(site, queue, *counted),
        given=given,
        link=lambda **changes: make_link("agenda", given, **changes),
    )


def _link_cell(cell: Cell, span: Span, given: dict[str, object]) -> str:
    """Return a link to the time of a cell, on the timeline."""
    middle = format_utc(cell.start + CELL[span] / 2)
    return make_link("timeline", given, at=middle, span="15m" if span == "day" else "1h", lanes="job")


def _draw(forecast: Forecast, span: Span, clock: Clock) -> list[tuple[str | None, int, Markup, str]]:
    """Return for each strip its queue, its number of runs, its picture, and the same in words."""
    drawn = []
    for strip in list_strips(forecast, span):
        when = "" if strip.peak is None else f", at most {strip.most:,} from {clock.format_minute(strip.peak)} on"
        words = f"{name_number(strip.runs, 'run')}{when}"
        drawn.append((strip.queue, strip.runs, draw_strip(strip, words), words))
    return drawn
