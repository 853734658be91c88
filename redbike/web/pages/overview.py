"""The overview, and the pages of the queues and the processes."""

from collections.abc import Iterator
from dataclasses import replace

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from redbike.queries.blackouts import describe_of_queues
from redbike.queries.glance import View
from redbike.queries.health import MAX_LAG, Health, judge
from redbike.store.sharded.missing import list_missing
from redbike.store.totals import MOST_LATE
from redbike.web.charts import draw_hour
from redbike.web.pages.parameters import list_queues, read_queue
from redbike.web.rendering import show_length, show_number
from redbike.web.site import SHOWN, Site

SHOWN_JOBS, SHOWN_QUEUES = 5, 10  # jobs, and queues, of a process
MOST = 500  # queues, and processes, that are shown
# For each topic of a problem, a link to more details, and its text.
PLACES = {
    "server": ("workers", "see who is there"),
    "dead": ("failures?as=list", "see why, and run it again"),
    "dispatchers": ("workers", "see who works"),
    "overdue": ("jobs?overdue=1", "see which"),
    "queues": ("queues", "see the queues"),
    "commands": ("workers", "see who works"),
    "lost": ("workers", "see where"),
    "stuck": ("workers", "see where"),
    "late": ("jobs?late=1", "see which"),
    "rewound": ("log", "see what was changed"),
    "jobs": ("jobs?failed=1", "see which"),
}


def show_overview(site: Site, request: Request) -> Response:
    """Show the overview. The amount of data that it reads does not grow with the number of jobs."""
    view, read_at = site.view.get_with_time()
    clock = site.make_clock(view.glance.now)
    health = judge(view.glance, MAX_LAG)
    missing = [str(error) for error in list_missing()]
    problems, topics = (*missing, *health.problems), (*["server"] * len(missing), *health.topics)
    health = replace(health, problems=problems, topics=topics)
    return site.answer(
        request,
        "overview.html",
        clock,
        read_at=read_at,
        here="",
        health=health,
        problems=[(text, topic, *PLACES[topic]) for text, topic in zip(health.problems, health.topics, strict=True)],
        failing=view.glance.total.failing,
        all_paused=view.glance.is_paused,
        pauses={limits.queue: limits.pause for limits in site.queue_limits.get()},
        unworked=view.glance.unworked,
        numbers=list(_list_numbers(view, health)),
        queues=view.glance.queues,
        charts=draw_charts(site),
        running=view.running[:SHOWN],
        more_running=max(0, view.in_flight - len(view.running[:SHOWN])),
        failures=view.failures,
        late=view.glance.late[:SHOWN],
        soonest=view.soonest,
        processes=view.glance.processes[:SHOWN],
        more_processes=max(0, len(view.glance.processes) - SHOWN),
    )


def draw_charts(site: Site) -> dict[str, Markup]:
    """Return the chart of the last hour of each queue, by name."""
    hours = site.hours.get()
    return {queue.queue: draw_hour(hours.get(queue.queue, ())) for queue in site.view.get().glance.queues}


def _list_numbers(view: View, health: Health) -> Iterator[tuple[str, str, str]]:
    """Yield numbers: their names, their values, and links to what is counted."""
    total, metrics = view.glance.total, health.metrics
    yield "jobs", show_number(total.jobs), "jobs"
    yield "wait for their time", show_number(total.timeline), "jobs?planned=1"
    yield "wait for a worker", show_number(metrics["waiting"]), "jobs?status=ENQ"
    yield "run", show_number(metrics["in_flight"]), "jobs?status=WRK"
    late = [queue.late for queue in view.glance.queues if queue.paused is None]
    more = "+" if MOST_LATE in late else ""
    number = f"{show_number(metrics['overdue'] + sum(late))}{more}"
    yield f"overdue for {show_length(MAX_LAG)}", number, "jobs?overdue=1"
    yield "have failed", show_number(total.failing), "failures"
    yield "are paused", show_number(total.paused), "jobs?paused=1"
    yield "are late", show_number(metrics["late"]), "jobs?late=1"
    yield "lag", show_length(metrics["lag"]), "queues"


def show_queues(site: Site, request: Request) -> Response:
    """Show the queues, up to `MOST`."""
    view, read_at = site.view.get_with_time()
    clock = site.make_clock(view.glance.now)
    queue_limits = {limits.queue: limits for limits in site.queue_limits.get()}
    chosen = read_queue(site, request)
    return site.answer(
        request,
        "queues.html",
        clock,
        read_at=read_at,
        here="queues",
        queues=view.glance.queues[:MOST],
        chosen=chosen,
        choices=list_queues(site, chosen, most=MOST),
        more=max(0, len(view.glance.queues) - MOST),
        charts=draw_charts(site),
        pauses={queue: limits.pause for queue, limits in queue_limits.items()},
        unworked=view.glance.unworked,
        queue_limits=queue_limits,
        blackouts=list(describe_of_queues(site.bike.store, view.glance.queues[:MOST], clock)),
        everything=queue_limits[""].pause if view.glance.is_paused and "" in queue_limits else None,
    )


def show_workers(site: Site, request: Request) -> Response:
    """Show the dispatchers and workers, up to `MOST` of each kind, and what they do."""
    view, read_at = site.view.get_with_time()
    clock = site.make_clock(view.glance.now)
    processes = view.glance.processes
    lost = [each for each in processes if each.state == "lost"]
    alive = [each for each in processes if each.state != "lost"]
    return site.answer(
        request,
        "workers.html",
        clock,
        read_at=read_at,
        here="workers",
        lost=lost[:MOST],
        dispatchers=[each for each in alive if each.kind == "dispatcher"][:MOST],
        workers=[each for each in alive if each.kind == "worker"][:MOST],
        total=len(processes),
        shown_jobs=SHOWN_JOBS,
        shown_queues=SHOWN_QUEUES,
    )
