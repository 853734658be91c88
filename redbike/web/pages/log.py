"""What people have changed: who did what, when, to which job."""

import time
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig
from redbike.state.keys import check_known_jobid
from redbike.state.log import LogEntry
from redbike.web.pages.parameters import make_link, read_number, read_text
from redbike.web.site import Site

ROWS = 100
MOST_SKIPPED = 1_000_000  # entries of the same instant
PATIENCE = 0.05  # seconds for which a page looks for entries that fit


def show_log(site: Site, request: Request) -> Response:
    """Show what people have changed, or what they have changed of one job."""
    jobid = request.query_params.get("id", "")
    until = _read_until(request)
    skip = read_number(request, "skip", 1, MOST_SKIPPED) - 1
    kept = site.bike.store.log.list_until(until, check_known_jobid(jobid) if jobid else None)
    entries, looked_back, is_more = _read(kept, until, skip)
    given = {"id": jobid}
    last = looked_back if is_more else None
    same = sum(entry.time == last for entry in entries) + (skip if last == until else 0)
    return site.answer(
        request,
        "log.html",
        site.read_clock(),
        here="log",
        entries=entries,
        looked_back=looked_back,
        is_first=until is None,
        jobid=jobid,
        following=make_link("log", given, until=repr(last), skip=same + 1) if last is not None else "",
        link=lambda **changes: make_link("log", given, **changes),
    )


def _read_until(request: Request) -> float | None:
    text = read_text(request, "until")
    try:
        return float(text) if text else None
    except ValueError:
        raise BadConfig(f"bad until {text!r:.40}: it comes from the link to the next page") from None


def _read(
    kept: Iterable[LogEntry | float], until: float | None, skip: int
) -> tuple[list[LogEntry], float | None, bool]:
    """Return the entries of a page, how far it has looked back, and whether there may be more."""
    end, entries, looked_back = time.monotonic() + PATIENCE, list[LogEntry](), until
    for each in kept:
        if isinstance(each, float):
            looked_back = each
        elif skip and each.time == until:
            skip -= 1
            continue
        else:
            if len(entries) == ROWS:
                return entries, entries[-1].time, True
            entries.append(each)
            continue
        if time.monotonic() > end:
            return entries, looked_back, True
    return entries, looked_back, False
