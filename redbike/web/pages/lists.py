"""Pages that are one list: runs, failures, queues, workers and what people have changed."""

import time
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig, NoSuchJob
from redbike.schedule.forecast import Clock
from redbike.web.charts import draw_hour
from redbike.web.site import Site

ROWS, MOST = 100, 1000
PATIENCE = 0.5  # seconds for which a page looks for entries that fit


def show_runs(site: Site, request: Request) -> Response:
    """Show the runs that have ended last, of all jobs or of those that a pattern names."""
    pattern, failed = request.query_params.get("pattern", ""), bool(request.query_params.get("failed"))
    try:
        runs = site.bike.runs(*([pattern] if pattern else []), failed=failed, limit=ROWS)
    except NoSuchJob:
        runs = []
    return site.answer(request, "runs.html", _clock(site), here="runs", runs=runs, pattern=pattern, failed=failed)


def show_failures(site: Site, request: Request) -> Response:
    """Show the last failure of each job that has not succeeded since, the newest first."""
    number = _read_number(request, "rows", ROWS)
    found = site.bike.store.questions.list_newest_failures(number + 1)
    return site.answer(
        request, "failures.html", _clock(site), here="failures", failures=found[:number], is_more=len(found) > number
    )


def show_queues(site: Site, request: Request) -> Response:
    """Show all queues."""
    view = site.view.get()
    now = view.glance.now
    charts = {queue.queue: draw_hour(site.samples.list_points(queue.queue), now) for queue in view.glance.queues}
    clock = Clock(now, site.bike.settings.timezone)
    return site.answer(request, "queues.html", clock, here="queues", queues=view.glance.queues, charts=charts)


def show_workers(site: Site, request: Request) -> Response:
    """Show all dispatchers and workers, and what they do."""
    view = site.view.get()
    clock = Clock(view.glance.now, site.bike.settings.timezone)
    return site.answer(request, "workers.html", clock, here="workers", processes=view.glance.processes)


def show_log(site: Site, request: Request) -> Response:
    """Show what people have changed, or what they have changed of one job."""
    jobid = request.query_params.get("id") or None
    until = time.monotonic() + PATIENCE
    entries = []
    for entry in islice(site.bike.log(jobid), ROWS + 1):
        entries.append(entry)
        if time.monotonic() > until:
            break
    return site.answer(
        request,
        "log.html",
        _clock(site),
        here="log",
        entries=entries[:ROWS],
        is_more=len(entries) > ROWS,
        jobid=jobid or "",
    )


def _clock(site: Site) -> Clock:
    return Clock(site.bike.store.timeline.read_clock(), site.bike.settings.timezone)


def _read_number(request: Request, name: str, default: int) -> int:
    """Return a number that is asked for, `MOST` at most. Raise `BadConfig`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
        raise BadConfig(f"bad {name} {text!r:.40}: a whole number from 1 is needed")
    return min(int(text), MOST)
