"""The log of changes by people: who did what, when, to which job."""

import math
import time
from collections.abc import Iterable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from redbike.store.log import LogEntry, LogSearch, check_who, localize
from redbike.store.names import check_known_jobid
from redbike.web.pages.parameters import make_link, read_float, read_last, read_number, read_text
from redbike.web.site import Site

ROWS = 100
FEW = 5  # entries on the page of a job or a run
MOST_SKIPPED = 100_000  # entries of the same instant
SEARCH_TIMEOUT = 0.05  # seconds for which the page of the log searches
LOOK_TIMEOUT = 0.02  # seconds for which the page of a job or a run searches


def show_log(site: Site, request: Request) -> Response:
    """Show the changes that people have made, filtered by job, by time, and by person."""
    clock, jobid, who = site.read_clock(), request.query_params.get("id", ""), read_text(request, "who")
    until, (since, said) = read_float(request, "until", "the next page"), read_last(request, "since", clock)
    search = LogSearch(check_known_jobid(jobid) if jobid else None, since, until, check_who(who or None, "who") or "")
    skip = read_number(request, "skip", 1, MOST_SKIPPED) - 1
    entries, following = _read(site.bike.store.log.list_moments(search), until, skip)
    given = {"id": jobid, "since": said, "who": who}
    return site.answer(
        request,
        "log.html",
        clock,
        here="log",
        localize=lambda detail: localize(detail, clock.name),
        entries=entries,
        looked_back=following[0] if following else None,
        is_first=until is None,
        jobid=jobid,
        given=given,
        following=make_link("log", given, until=repr(following[0]), skip=following[1] + 1) if following else "",
        link=lambda **changes: make_link("log", given, **changes),
    )


class Changes(NamedTuple):
    """The last changes of a job by people, the newest first."""

    entries: list[LogEntry]
    is_known: bool  # whether there was time to read enough of the log


def list_changes(site: Site, jobid: str, until: float, since: float = 0.0) -> Changes:
    """Return up to `FEW` changes of a job from `since` to `until` (epoch seconds), as far as the time allows."""
    end, found = math.inf, list[LogEntry]()
    for _, entries in site.bike.store.log.list_moments(LogSearch(jobid, since, until)):
        found += entries
        if len(found) >= FEW:
            break
        # The time begins after the first entries have arrived, because many are read in one request.
        end = min(end, time.monotonic() + LOOK_TIMEOUT)
        if time.monotonic() > end:
            return Changes(found, is_known=False)
    return Changes(found[:FEW], is_known=True)


def _read(
    kept: Iterable[tuple[float, list[LogEntry]]], until: float | None, skip: int
) -> tuple[list[LogEntry], tuple[float, int] | None]:
    """Return the entries of a page, without the first `skip` of the instant `until`, and where the next page begins."""
    end, entries, same, last = time.monotonic() + SEARCH_TIMEOUT, list[LogEntry](), 0, until
    for moment, found in kept:
        same = same + 1 if moment == last else 1
        last = moment
        if moment == until and same <= skip:
            continue
        entries += found
        if len(entries) >= ROWS or time.monotonic() > end:
            return entries, (moment, same)
    return entries, None
