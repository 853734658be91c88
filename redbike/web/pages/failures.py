"""The jobs that have failed and not succeeded since: in groups of the same error, or one by one."""

from starlette.requests import Request
from starlette.responses import Response

from redbike.queries.failures import group_failures, name_group, normalize
from redbike.store.paging import Place
from redbike.store.past_runs import Failure, FailurePage
from redbike.store.ranks import Entry
from redbike.web.pages.parameters import make_link, read_choice, read_text
from redbike.web.site import Site

ROWS = 100
MOST_GROUPS = 100  # that are shown


def show_failures(site: Site, request: Request) -> Response:
    """Show failures, the newest first, or their groups, the largest first."""
    shown_as, group = read_choice(request, "as", "groups", "list"), read_text(request, "group")
    given = {"as": "list" if shown_as == "list" else "", "group": group}
    page = _read_page(site, request, group) if group or shown_as == "list" else site.failures.get()
    groups = [] if group or shown_as == "list" else group_failures(page.failures)
    return site.answer(
        request,
        "failures.html",
        site.read_clock(),
        here="failures",
        page=page,
        groups=groups[:MOST_GROUPS],
        more_groups=max(0, len(groups) - MOST_GROUPS),
        is_list=bool(group) or shown_as == "list",
        group=group,
        message=normalize(page.failures[0]) if group and page.failures else "",
        cursor=Place(entry=page.following).format() if page.following else "",
        window=site.failures.get() if group else page,
        link=lambda **changes: make_link("failures", given, **changes),
    )


def _read_page(site: Site, request: Request, group: str) -> FailurePage:
    """Return a page of failures: of all, or of a group, as far as that is looked at."""
    last: Entry | None = Place.parse(read_text(request, "cursor")).entry
    if not group:
        return site.bike.store.past.read_failures(last, ROWS)
    found = [each for each in site.failures.get().failures if name_group(normalize(each)) == group]
    if last is not None:
        found = [each for each in found if _place(each) < last]
    page = found[:ROWS]
    return FailurePage(page, len(found), _place(page[-1]) if len(found) > ROWS else None)


def _place(failure: Failure) -> Entry:
    return failure.failed, failure.jobid.encode(errors="surrogateescape")
