"""The pages and forms of the site, by path, and the answers for errors and for the login."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import RedbikeError, ServerError, Unreachable
from redbike.web.control import Sent
from redbike.web.pages.act import carry_out
from redbike.web.pages.forecast import show_forecast
from redbike.web.pages.incident import ask_incident, show_incident
from redbike.web.pages.job import show_job
from redbike.web.pages.jobs import show_jobs
from redbike.web.pages.log import show_log
from redbike.web.pages.overview import show_overview, show_queues, show_workers
from redbike.web.pages.rehearsal import show_rehearsal
from redbike.web.pages.run import show_run
from redbike.web.pages.runs import show_failures, show_runs
from redbike.web.pages.setting import save, show_form, show_preview
from redbike.web.pages.timeline import show_timeline
from redbike.web.requests import is_target
from redbike.web.site import Endpoint, Site

__all__ = ["FORMS", "PAGES", "STILL", "FormEndpoint", "read_target", "show_failure", "show_login", "show_problem"]

PAGES: dict[str, Endpoint] = {
    "": show_overview,
    "jobs": show_jobs,
    "job": show_job,
    "timeline": show_timeline,
    "agenda": show_forecast,
    "runs": show_runs,
    "run": show_run,
    "failures": show_failures,
    "queues": show_queues,
    "workers": show_workers,
    "log": show_log,
    "rehearse": show_rehearsal,
    "at": ask_incident,
    "at/{where}": show_incident,
    "set": show_form,
    "preview": show_preview,
}
STILL = {"rehearse", "at", "at/{where}", "set", "preview"}  # pages without live updates
FormEndpoint = Callable[[Sent], Response]
FORMS: dict[str, FormEndpoint] = {"do": carry_out, "set": save}
AWAY, UNUSABLE, PROBLEM = "Redis does not answer", "Redis cannot be used", "This cannot be shown"  # headings
FAILURES = {
    404: "There is no such page.",
    405: "This page takes no changes. Nothing was changed.",
    500: "This page could not be made. The log of the process that shows it says why.",
}


def show_problem(site: Site, request: Request, error: RedbikeError) -> Response:
    """Return a page that shows an error of the library."""
    status = 404 if isinstance(error, LookupError) else 400 if isinstance(error, ValueError) else 503
    heading = AWAY if isinstance(error, Unreachable) else UNUSABLE if isinstance(error, ServerError) else PROBLEM
    return _show(site, request, status, str(error), heading)


def show_failure(site: Site, request: Request, status: int) -> Response:
    """Return the page for a request without a route, or for a page that has failed."""
    return _show(site, request, status, FAILURES.get(status, HTTPStatus(status).phrase))


def _show(site: Site, request: Request, status: int, error: str, heading: str = PROBLEM) -> Response:
    is_away, is_passing = heading == AWAY, heading in (AWAY, UNUSABLE)
    values: dict[str, Any] = {"error": error, "heading": heading, "is_away": is_away, "is_passing": is_passing}
    return site.answer(request, "problem.html", site.make_clock(), status, **values)


def show_login(site: Site, request: Request, problem: str, status: int = 200) -> Response:
    """Return the page that asks for the token."""
    to = request.query_params.get("to", "")
    return site.answer(request, "login.html", site.make_clock(), status, problem=problem, to=to)


def read_target(request: Request) -> str:
    """Return the place on this site to which the login leads, relative to the login."""
    to = request.query_params.get("to", "")
    return f"./{to}" if is_target(to) else "./"
