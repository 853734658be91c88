"""The runs that have ended: the newest of all, of one job, or of those that a pattern names."""

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig
from redbike.store.matching import compile_patterns
from redbike.store.paging import Place
from redbike.store.past_runs import RunPage, RunSearch
from redbike.web.pages.parameters import make_link, read_moment, read_pattern, read_text
from redbike.web.site import Site


def show_runs(site: Site, request: Request) -> Response:
    """Show a page of runs."""
    jobid, failed = request.query_params.get("id", ""), bool(read_text(request, "failed"))
    pattern, since = read_pattern(request), read_moment(site, request, "since")
    search = RunSearch(failed, since, _read_before(request), pattern or None)
    cursor = read_text(request, "cursor")
    page = _read(site, search, jobid, Place.parse(cursor) if cursor else None)
    given = {
        "id": jobid,
        "pattern": read_text(request, "pattern"),
        "failed": failed,
        "since": read_text(request, "since"),
    }
    return site.answer(
        request,
        "runs.html",
        site.read_clock(),
        here="runs",
        page=page,
        runs=page.runs,
        given=given,
        is_first=not cursor and search.before is None,
        before=f"{page.runs[-1].started!r}-{page.runs[-1].jobid.encode(errors='surrogateescape').hex()}"
        if page.is_more
        else "",
        link=lambda **changes: make_link("runs", given, **changes),
    )


def _read(site: Site, search: RunSearch, jobid: str, place: Place | None) -> RunPage:
    past = site.bike.store.past
    if jobid:
        return past.read_runs(search, [jobid])
    if place is not None:
        return past.read_runs_of_many(search, place)
    fits = compile_patterns([search.pattern] if search.pattern else [])
    page = past.read_runs(search)
    return page._replace(runs=[run for run in page.runs if fits(run.jobid)]) if search.pattern else page


def _read_before(request: Request) -> tuple[float, str] | None:
    """Return behind which run the page begins. Raise `BadConfig`."""
    text = read_text(request, "before")
    if not text:
        return None
    started, _, jobid = text.rpartition("-")
    try:
        return float(started), bytes.fromhex(jobid).decode(errors="surrogateescape")
    except ValueError:
        raise BadConfig(f"bad before {text!r:.40}: it comes from the link to the next page") from None
