"""The list of jobs: filtered, searched, and by their next run."""

import time
from contextlib import suppress
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig, NoSuchJob
from redbike.schedule.forecast import Clock
from redbike.state.overview import Job
from redbike.web.site import Site
from redbike.words import Event

ROWS = 50
PATIENCE = 0.5  # seconds for which a page looks for jobs that fit
FLAGS = ("failed", "paused", "overdue", "never_ran")


def show_jobs(site: Site, request: Request) -> Response:
    """Show those jobs that the parameters name."""
    given = request.query_params
    pattern, queue, status = given.get("pattern", ""), given.get("queue") or None, given.get("status") or None
    flags = {name: bool(given.get(name)) for name in FLAGS}
    sort = given.get("sort", "")
    if sort not in ("", "next"):
        raise BadConfig(f"bad sort {sort!r:.40}: next is allowed")
    found, is_more = _find(site, pattern, queue, status, flags, sort)
    clock = Clock(site.bike.store.timeline.read_clock(), site.bike.settings.timezone)
    return site.answer(
        request,
        "jobs.html",
        clock,
        here="jobs",
        jobs=found,
        is_more=is_more,
        given={"pattern": pattern, "queue": queue or "", "status": status or "", "sort": sort, **flags},
        events=list(Event),
    )


def _find(
    site: Site, pattern: str, queue: str | None, status: str | None, flags: dict[str, bool], sort: str
) -> tuple[list[Job], bool]:
    """Return the jobs of a page, and whether there may be more."""
    if sort == "next" and not (pattern or queue or any(flags.values())):
        found = site.bike.store.overview.list_soonest(ROWS + 1)
        return found[:ROWS], len(found) > ROWS
    until = time.monotonic() + PATIENCE
    patterns = [pattern] if pattern else []
    jobs = site.bike.jobs(
        *patterns,
        queue=queue,
        status=status,
        failed=flags["failed"],
        paused=flags["paused"],
        overdue=flags["overdue"],
        never_ran=flags["never_ran"],
    )
    found = []
    with suppress(NoSuchJob):
        for job in islice(jobs, ROWS + 1):
            found.append(job)
            if time.monotonic() > until:
                return sorted(found[:ROWS], key=_by_next), True
    return sorted(found[:ROWS], key=_by_next), len(found) > ROWS


def _by_next(job: Job) -> tuple[bool, float, str]:
    return job.next_run is None, job.next_run or 0.0, job.jobid
