"""The pages: each makes an answer of what it reads of the jobs."""

from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig, BadJobId, NoSuchJob, RedbikeError
from redbike.schedule.forecast import Clock
from redbike.web.pages.job import show_job
from redbike.web.pages.jobs import show_jobs
from redbike.web.pages.lists import show_failures, show_log, show_queues, show_runs, show_workers
from redbike.web.pages.overview import show_overview
from redbike.web.site import Endpoint, Site

__all__ = ["PAGES", "read_target", "show_login", "show_problem"]

PAGES: dict[str, Endpoint] = {
    "": show_overview,
    "jobs": show_jobs,
    "job": show_job,
    "runs": show_runs,
    "failures": show_failures,
    "queues": show_queues,
    "workers": show_workers,
    "log": show_log,
}
STATUSES = {NoSuchJob: 404, BadJobId: 400, BadConfig: 400}


def show_problem(site: Site, request: Request, error: RedbikeError) -> Response:
    """Answer with what went wrong, in words."""
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 503)
    clock = Clock(site.clock, site.bike.settings.timezone)
    return site.answer(request, "problem.html", clock, status, error=str(error), is_away=status == 503)


def show_login(site: Site, request: Request, problem: str, status: int = 200) -> Response:
    """Ask for the token."""
    clock = Clock(site.clock, site.bike.settings.timezone)
    to = request.query_params.get("to", "")
    return site.answer(request, "login.html", clock, status, problem=problem, to=to)


def read_target(request: Request) -> str:
    """Return where the login leads to: a place on this site, relative to the login."""
    to = unquote(request.query_params.get("to", ""))
    # "//elsewhere" and "https://elsewhere" lead away from it.
    is_own = to.isprintable() and not to.startswith(("/", "\\")) and ":" not in to.partition("?")[0]
    return f"./{to}" if is_own else "./"
