"""The list of jobs: filtered, searched, and by their next run. A page takes a limited amount of work.

The palette finds jobs, queues and pages by a part of their names.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from redbike.errors import BadConfig, BadJobId
from redbike.store.cursors import Cursor
from redbike.store.enums import Event
from redbike.store.keys import check_jobid, escape_pattern
from redbike.store.overview import Job, Wanted
from redbike.store.paging import JobPage, Search
from redbike.store.patterns import compile_patterns, is_pattern
from redbike.web.pages.parameters import make_link, read_choice, read_pattern, read_queue, read_text
from redbike.web.rendering import quote_part, show_text
from redbike.web.selection import ALL, FLAGS
from redbike.web.site import Site

STATUSES = {
    Event.TML: "scheduled",
    Event.ENQ: "waits for a worker",
    Event.WRK: "runs",
    Event.STP: "stopped",
    Event.DIE: "failed for good",
    Event.BAD: "bad schedule",
}
MOST_QUEUES = 200  # that one may choose from
MOST = 10  # of a kind
SEARCH_TIMEOUT = 0.05  # seconds for which jobs are looked for
LONGEST = 512  # characters

Found = dict[str, str]


@dataclass(frozen=True, slots=True)
class Filter:
    """What is asked for, as it stands in the URL."""

    pattern: str
    queue: str
    status: str
    sort: str
    flags: dict[str, bool]

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters of a link to the same jobs."""
        return {"pattern": self.pattern, "queue": self.queue, "status": self.status, "sort": self.sort, **self.flags}


def show_jobs(site: Site, request: Request) -> Response:
    """Show those jobs that the parameters name."""
    asked = _read_filter(request)
    cursor = Cursor.parse(read_text(request, "cursor"))
    queue, pattern = read_queue(site, request), read_pattern(request)
    exact = _find_exact(site, asked)
    if exact:
        page = JobPage([exact], 1, 1, None)
    else:
        search = Search(_read_wanted(asked, queue), pattern or None, _compile(pattern), asked.sort == "next")
        # To read all runs that are not archived yet may take a while: only one filter needs them.
        newest = site.newest.get() if asked.flags["never_ran"] else None
        page = site.bike.store.overview.read_page(search, cursor, newest)
    clock, given = site.read_clock(), asked.to_dict()
    names = [each.queue for each in site.view.get().glance.queues]
    return site.answer(
        request,
        "jobs.html",
        clock,
        here="jobs",
        jobs=_sort(page.jobs, asked),
        page=page,
        pauses=site.bike.store.questions.read_pauses([job.jobid for job in page.jobs if job.paused is not None]),
        given=given,
        is_filtered=any(value for name, value in given.items() if name != "sort"),
        is_first=cursor == Cursor(),
        is_exact=exact is not None,
        matching=_list_matching(asked, pattern, queue, exact),
        queues=[*names[:MOST_QUEUES], *({queue} - {"", *names[:MOST_QUEUES]})],
        queue=queue,
        words=STATUSES,
        link=lambda **changes: make_link("jobs", given, **changes),
    )


def _read_filter(request: Request) -> Filter:
    status = read_text(request, "status").upper()
    if status and status not in Event.__members__:
        raise BadConfig(f"bad status {status!r:.40}: {', '.join(Event)} are allowed")
    return Filter(
        pattern=read_text(request, "pattern"),
        queue=read_text(request, "queue"),
        status=status,
        sort=read_choice(request, "sort", "", "next"),
        flags={name: bool(read_text(request, name)) for name in FLAGS},
    )


def _list_matching(asked: Filter, pattern: str, queue: str, exact: Job | None) -> list[tuple[str, str]]:
    """Return the fields of a form about all jobs that are shown here and on the pages after it."""
    if exact:
        return [("id", exact.jobid)]
    flags = [(name, "1") for name, is_asked in asked.flags.items() if is_asked]
    return [("pattern", pattern or ALL), ("queue", queue), ("status", asked.status), *flags]


def _read_wanted(asked: Filter, queue: str) -> Wanted:
    return Wanted(queue or None, Event[asked.status] if asked.status else None, **asked.flags)


def _find_exact(site: Site, asked: Filter) -> Job | None:
    """Return the job that has the text that is looked for as its id, if nothing else is asked for."""
    others = [value for name, value in asked.to_dict().items() if name not in ("pattern", "sort")]
    if not asked.pattern or any(others) or is_pattern(asked.pattern):
        return None
    found = site.bike.store.overview.read_named([asked.pattern])
    return found[0] if found else None


def _compile(pattern: str) -> Any:
    return compile_patterns([pattern] if pattern else [])


def _sort(jobs: list[Job], asked: Filter) -> list[Job]:
    # Those that have a time come in its order, all others by their ids.
    return jobs if asked.sort or asked.flags["overdue"] or asked.flags["failed"] else sorted(jobs, key=_get_id)


def _get_id(job: Job) -> str:
    return job.jobid


def find(site: Site, request: Request) -> Response:
    """Answer with what the text that is asked for may mean, the nearest first, and whether jobs may be missing."""
    text = request.query_params.get("q", "").strip()[:LONGEST]
    pages = [_name("page", name, path or "./") for path, name in site.pages if name.lower().startswith(text.lower())]
    if not text:
        return JSONResponse({"found": pages, "is_more": False})
    queues = [
        _name("queue", queue.queue, f"jobs?queue={quote_part(queue.queue)}")
        for queue in site.view.get().glance.queues
        if text.lower() in queue.queue.lower()
    ]
    jobs, is_more = _find_jobs(site, text)
    found = [*pages, *(_name("job", jobid, f"job?id={quote_part(jobid)}") for jobid in jobs), *queues[:MOST]]
    rest = _name("search", f"all jobs with {text} in their ids", f"jobs?pattern={quote(f'*{escape_pattern(text)}*')}")
    return JSONResponse({"found": [*found, rest], "is_more": is_more})


def _name(kind: str, text: str, href: str) -> Found:
    return {"kind": kind, "text": show_text(text), "href": href}


def _find_jobs(site: Site, text: str) -> tuple[list[str], bool]:
    """Return the ids of jobs with `text` in them, and whether there may be more: so many jobs are not all looked at."""
    questions, exact = site.bike.store.questions, list[str]()
    with suppress(BadJobId):
        exact = [text] if questions.has_job(check_jobid(text), also_bad=True) else []
    found, are_all = questions.search(f"*{escape_pattern(text)}*", MOST * 10, SEARCH_TIMEOUT)
    nearest = sorted({*exact, *found}, key=lambda jobid: (jobid != text, not jobid.startswith(text), jobid))
    return nearest[:MOST], not are_all or len(nearest) > MOST
