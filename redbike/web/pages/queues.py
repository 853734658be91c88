"""The queues and the processes."""

from starlette.requests import Request
from starlette.responses import Response

from redbike.schedule.clock import Clock
from redbike.web.pages.overview import draw_charts
from redbike.web.site import Site

SHOWN_JOBS, SHOWN_QUEUES = 5, 10  # of a process
MOST = 500  # queues, and processes, that are shown


def show_queues(site: Site, request: Request) -> Response:
    """Show all queues."""
    view = site.view.get()
    clock = Clock(view.glance.now, site.bike.settings.timezone)
    queue_limits = {limits.queue: limits for limits in site.queue_limits.get()}
    return site.answer(
        request,
        "queues.html",
        clock,
        here="queues",
        live="queues",
        queues=view.glance.queues[:MOST],
        more=max(0, len(view.glance.queues) - MOST),
        charts=draw_charts(site, clock.now),
        charts_since=site.samples.since,
        queue_limits=queue_limits,
        everything=queue_limits[""].pause if view.glance.is_paused and "" in queue_limits else None,
    )


def show_workers(site: Site, request: Request) -> Response:
    """Show all dispatchers and workers, and what they do."""
    view = site.view.get()
    clock = Clock(view.glance.now, site.bike.settings.timezone)
    processes = view.glance.processes
    lost = [each for each in processes if each.state == "lost"]
    alive = [each for each in processes if each.state != "lost"]
    return site.answer(
        request,
        "workers.html",
        clock,
        here="workers",
        live="workers",
        lost=lost[:MOST],
        dispatchers=[each for each in alive if each.kind == "dispatcher"][:MOST],
        workers=[each for each in alive if each.kind == "worker"][:MOST],
        total=len(processes),
        shown_jobs=SHOWN_JOBS,
        shown_queues=SHOWN_QUEUES,
    )
