"""The overview: is all well, and what happens."""

from starlette.requests import Request
from starlette.responses import Response

from redbike.schedule.forecast import Clock
from redbike.watching.health import MAX_LAG, judge
from redbike.web.charts import draw_hour
from redbike.web.rendering import show_length, show_number
from redbike.web.site import Site


def show_overview(site: Site, request: Request) -> Response:
    """Show it. Nothing that it reads grows with the number of jobs."""
    view = site.view.get()
    total = view.glance.total
    clock = Clock(view.glance.now, site.bike.settings.timezone)
    health = judge(view.glance, MAX_LAG)
    numbers = [
        ("jobs", show_number(total.jobs), "jobs"),
        ("wait for their time", show_number(total.timeline), "jobs?status=TML&sort=next"),
        ("wait for a worker", show_number(health.figures["waiting"]), "jobs?status=ENQ"),
        ("run", show_number(health.figures["in_flight"]), "jobs?status=WRK"),
        ("overdue", show_number(total.due), "jobs?overdue=1"),
        ("have failed", show_number(total.failing), "failures"),
        ("are paused", show_number(total.paused), "jobs?paused=1"),
        ("lag", show_length(health.figures["lag"]), ""),
    ]
    charts = {
        queue.queue: draw_hour(site.samples.list_points(queue.queue), view.glance.now) for queue in view.glance.queues
    }
    return site.answer(
        request,
        "overview.html",
        clock,
        live="overview",
        health=health,
        numbers=numbers,
        queues=view.glance.queues,
        charts=charts,
        failures=view.failures,
        soonest=view.soonest,
        processes=view.glance.processes,
    )
