"""The lists of ended runs and of failures.

Runs are those of all jobs, of one job, or of jobs that match a pattern, the newest first. Failures are jobs that have
failed and not succeeded since. They are grouped by error, or listed one by one.
"""

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig
from redbike.queries.failures import group_failures, name_group, normalize
from redbike.store.cursors import Cursor
from redbike.store.namespace import Entry
from redbike.store.past_runs import Failure, FailurePage, RunPage, RunSearch
from redbike.web.pages.parameters import compile_pattern, make_link, read_choice, read_last, read_pattern, read_text
from redbike.web.site import Site

ROWS = 100
MOST_GROUPS = 100  # groups that are shown


def show_runs(site: Site, request: Request) -> Response:
    """Show a page of ended runs."""
    jobid, failed = request.query_params.get("id", ""), bool(read_text(request, "failed"))
    clock = site.read_clock()
    pattern, (since, said) = read_pattern(request), read_last(request, "since", clock)
    search = RunSearch(failed, since, _read_before(request), pattern or None, compile_pattern(pattern))
    cursor = read_text(request, "cursor")
    page = _read(site, search, jobid, Cursor.parse(cursor) if cursor else None)
    given = {"id": jobid, "pattern": read_text(request, "pattern"), "failed": failed, "since": said}
    return site.answer(
        request,
        "runs.html",
        clock,
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


def _read(site: Site, search: RunSearch, jobid: str, cursor: Cursor | None) -> RunPage:
    past = site.bike.store.past
    if jobid:
        return past.read_runs(search, [jobid])
    if cursor is not None:
        return past.read_runs_of_many(search, cursor)
    return past.read_runs(search)


def _read_before(request: Request) -> tuple[float, str] | None:
    """Return the start and the job id of the run after which the page begins; None for the first. Raise `BadConfig`."""
    text = read_text(request, "before")
    if not text:
        return None
    started, _, jobid = text.rpartition("-")
    try:
        return float(started), bytes.fromhex(jobid).decode(errors="surrogateescape")
    except ValueError:
        raise BadConfig(f"bad before {text!r:.40}: it comes from the link to the next page") from None


def show_failures(site: Site, request: Request) -> Response:
    """Show failures, the newest first; or groups of failures, the largest first."""
    shown_as, group = read_choice(request, "as", "groups", "list"), read_text(request, "group")
    given = {"as": "list" if shown_as == "list" else "", "group": group}
    is_list = bool(group) or shown_as == "list"
    page = _read_page(site, request, group) if is_list else site.failures.get()
    groups = [] if is_list else group_failures(page.failures)
    named = [failure.jobid for failure in page.failures] if is_list else []
    return site.answer(
        request,
        "failures.html",
        site.read_clock(),
        here="failures",
        page=page,
        groups=groups[:MOST_GROUPS],
        more_groups=max(0, len(groups) - MOST_GROUPS),
        is_list=is_list,
        labels=site.bike.store.questions.read_labels(named),
        group=group,
        message=normalize(page.failures[0]) if group and page.failures else "",
        cursor=Cursor(entry=page.following).format() if page.following else "",
        window=site.failures.get() if group else page,
        link=lambda **changes: make_link("failures", given, **changes),
    )


def _read_page(site: Site, request: Request, group: str) -> FailurePage:
    """Return a page of failures: of all, or of a group among the `GROUPED` newest ones."""
    last: Entry | None = Cursor.parse(read_text(request, "cursor")).entry
    if not group:
        return site.bike.store.past.read_failures(last, ROWS)
    found = [each for each in site.failures.get().failures if name_group(normalize(each)) == group]
    if last is not None:
        found = [each for each in found if _locate(each) < last]
    page = found[:ROWS]
    return FailurePage(page, len(found), _locate(page[-1]) if len(found) > ROWS else None)


def _locate(failure: Failure) -> Entry:
    return failure.failed, failure.jobid.encode(errors="surrogateescape")
