"""The list of jobs, with filters, a search and an order. The work for a page is limited.

The palette finds jobs, queues, pages and actions by a part of their names.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from redbike.config.labels import read_filter
from redbike.config.options import find_all_of, find_backfill
from redbike.errors import BadJobId
from redbike.queries.late import read_late_page
from redbike.queries.unusual import Durations, measure_durations
from redbike.store.cursors import Cursor
from redbike.store.enums import Event
from redbike.store.history import PastRun
from redbike.store.job import Job, JobPage, JobSearch, read_event
from redbike.store.names import check_jobid
from redbike.store.overview import PAGE_TIMEOUT
from redbike.store.patterns import escape, find_within, is_pattern
from redbike.store.schedules import read_schedule
from redbike.store.shell import is_of_shell
from redbike.store.tokens import Role
from redbike.web.charts import draw_outcomes
from redbike.web.pages.parameters import (
    MOST_QUEUES,
    compile_pattern,
    list_queues,
    make_link,
    read_choice,
    read_pattern,
    read_queue,
    read_text,
)
from redbike.web.permits import Permit
from redbike.web.rendering import quote_part, show_text
from redbike.web.selection import ALL, FLAGS, TEXTS, Selection
from redbike.web.site import Site

STATUSES = {
    Event.TML: "scheduled",
    Event.ENQ: "waits for a worker",
    Event.WRK: "runs",
    Event.STP: "stopped",
    Event.DIE: "failed for good",
    Event.BAD: "bad schedule",
}
# The orders within a page. Only the order by the next run is that of all jobs.
SORTS: dict[str, Callable[[Job], tuple[bool, float, str]]] = {
    "id": lambda job: (False, 0.0, job.jobid),
    "status": lambda job: (False, list(STATUSES).index(job.status) if job.status else -1.0, job.jobid),
    "last": lambda job: (job.last_started is None, -(job.last_started or 0.0), job.jobid),
    "queue": lambda job: (not job.queue, 0.0, f"{job.queue} {job.jobid}"),
}
# The actions that the palette finds, and the roles that they need.
VERBS: dict[str, Role] = {
    **dict.fromkeys(("run", "pause", "resume", "cancel"), "operate"),
    **dict.fromkeys(("edit", "unset"), "write"),
}
APPLIES: dict[str, Callable[[Job], bool]] = {
    "resume": lambda job: job.paused is not None,
    "cancel": lambda job: job.is_running or job.status == Event.ENQ or job.has_failed,  # it may be tried again
}
MOST = 10  # results of each kind
SOME_TAGS = 5  # tags that the page offers as filters
SEARCH_TIMEOUT = 0.05  # seconds for which the palette searches for jobs
LIVE_TIMEOUT = 0.2  # seconds after which a live update reads no further jobs
LONGEST = 512  # characters of a text in the palette

Found = dict[str, str]


def show_jobs(site: Site, request: Request) -> Response:
    """Show the jobs that match the parameters."""
    asked, sort = _read_selection(request), read_choice(request, "sort", "", "next", *SORTS)
    given: dict[str, object] = {name: getattr(asked, name) for name in (*TEXTS, *FLAGS)} | {"sort": sort}
    cursor = Cursor.parse(read_text(request, "cursor"))
    # With the full name of the queue, and the pattern of a search.
    named = replace(asked, queue=read_queue(site, request), pattern=read_pattern(request))
    exact = _find_exact(site, asked)
    page = JobPage([exact], 1, 1, None) if exact else _read_page(site, request, named, sort, cursor)
    # Some filters give jobs in the order of a time. Otherwise jobs in trouble come first, and then by id.
    is_ordered = bool(sort or asked.planned or asked.overdue or asked.late or asked.failed)
    matching = Selection((exact.jobid,)) if exact else replace(named, pattern=named.pattern or ALL)
    tags, queues = _read_tags(site, page.jobs), list_queues(site, "")
    return site.answer(
        request,
        "jobs.html",
        site.read_clock(),
        here="jobs",
        jobs=_sort(page.jobs, sort, is_ordered),
        page=page,
        tags=tags,
        some_tags=[tag for tag, _ in Counter(chain.from_iterable(tags.values())).most_common(SOME_TAGS)],
        runs=_describe_runs(site, page.jobs),
        schedules=_explain_schedules(site, page.jobs),
        pauses=site.bike.store.questions.read_pauses([job.jobid for job in page.jobs if job.paused is not None]),
        **_describe_troubles(site),
        given=given,
        is_filtered=not asked.is_empty,
        is_filtered_further=bool(sort) or asked != Selection(pattern=asked.pattern),
        is_first=cursor == Cursor(),
        is_exact=exact is not None,
        matching=matching.params(),
        queues=queues,
        queue=named.queue,
        is_unknown_queue=named.queue not in ("", *queues) and len(queues) < MOST_QUEUES,
        words=STATUSES,
        is_sorted_here=sort in SORTS and (page.following is not None or cursor != Cursor()),
        link=lambda **changes: make_link("jobs", given, **changes),
    )


def _sort(jobs: Sequence[Job], sort: str, is_ordered: bool) -> Sequence[Job]:
    if sort in SORTS:
        return sorted(jobs, key=SORTS[sort])
    return jobs if is_ordered else sorted(jobs, key=_rank)


def _rank(job: Job) -> tuple[bool, str]:
    """Return the default sort key: jobs in trouble come first, and then by id."""
    return not (job.has_failed or job.status == Event.BAD or job.is_overdue), job.jobid


def _read_selection(request: Request) -> Selection:
    """Return the filters as they were typed. Raise `BadConfig`."""
    text = read_text(request, "status")
    status = str(read_event(text)) if text else ""
    flags = {name: bool(read_text(request, name)) for name in FLAGS}
    tag = " ".join(sorted(read_filter(read_text(request, "tag") or None)))
    return Selection((), read_text(request, "pattern"), request.query_params.get("queue", ""), status, **flags, tag=tag)


def _read_page(site: Site, request: Request, named: Selection, sort: str, cursor: Cursor) -> JobPage:
    search = JobSearch(
        named.queue or None,
        Event[named.status] if named.status else None,
        **{name: getattr(named, name) for name in FLAGS if name != "late"},
        tags=frozenset(named.tag.split()),
        pattern=named.pattern or None,
        matches=compile_pattern(named.pattern),
        by_next=sort == "next",
    )
    if named.late:
        return read_late_page(site.bike.store, site.view.get().glance.late, search, cursor)
    # Only this filter needs all runs that are not archived yet, which may take a while to read.
    newest = site.newest.get() if named.never_ran else None
    # Nobody waits for a live update. If it were cut short, rows would disappear that a person has selected.
    patience = PAGE_TIMEOUT if request.state.browser else LIVE_TIMEOUT
    return site.bike.store.overview.read_page(search, cursor, newest, patience=patience)


def _describe_troubles(site: Site) -> dict[str, Any]:
    """Return why jobs are late, by job id, and the queues that are paused."""
    glance = site.view.get().glance
    paused = {each.queue for each in glance.queues if each.paused is not None}
    return {"late": {each.jobid: each.text for each in glance.late}, "paused_queues": paused}


def _read_tags(site: Site, jobs: Iterable[Job]) -> dict[str, Sequence[str]]:
    """Return the tags by job id, for jobs that have some."""
    labels = site.bike.store.questions.read_labels([job.jobid for job in jobs])
    return {jobid: each["tags"] for jobid, each in labels.items() if "tags" in each}


def _describe_runs(site: Site, jobs: Iterable[Job]) -> dict[str, tuple[Markup, Durations]]:
    """Return by job id a strip with the outcomes of the stored runs, and their durations."""
    ran = [job.jobid for job in jobs if job.last_outcome]
    found: dict[str, list[PastRun]] = {}
    for run in site.bike.store.journal.list_runs(ran) if ran else ():
        found.setdefault(run.jobid, []).append(run)
    return {jobid: (draw_outcomes(runs), measure_durations(runs)) for jobid, runs in found.items()}


def _explain_schedules(site: Site, jobs: Sequence[Job]) -> dict[str, str]:
    """Return the schedules in words by job id. A schedule that cannot be read is the stored text."""
    jobids, found = [job.jobid for job in jobs], dict[str, str]()
    stored = site.bike.store.questions.read_schedules(jobids) if jobids else ()
    for jobid, (text, options) in zip(jobids, stored, strict=True):
        schedule = read_schedule(jobid, text, options)
        zone = (schedule.timezone if schedule else None) or site.settings.timezone
        words = schedule.explain(zone) if schedule and not schedule.never_runs else text or ""
        # Only the page of the job says from when a period counts.
        found[jobid] = words.partition(", counted from ")[0]
    return found


def _find_exact(site: Site, asked: Selection) -> Job | None:
    """Return the job whose id is exactly the pattern, if there are no other filters; else None."""
    if not asked.pattern or asked != Selection(pattern=asked.pattern) or is_pattern(asked.pattern):
        return None
    found = site.bike.store.overview.read_named([asked.pattern])
    return found[0] if found else None


def find(site: Site, request: Request) -> Response:
    """Answer the palette: what the text may mean, the nearest first, and whether jobs may be missing, as JSON."""
    text = request.query_params.get("q", "").strip()[:LONGEST]
    pages = [_name("page", name, path or "./") for path, name in site.pages if name.lower().startswith(text.lower())]
    if not text:
        return JSONResponse({"found": pages, "is_more": False})
    queues = [
        _name("queue", queue.queue, f"jobs?queue={quote_part(queue.queue)}")
        for queue in site.view.get().glance.queues
        if text.lower() in queue.queue.lower()
    ]
    actions = _find_actions(site, request.state.permit, text)
    jobs, is_more = _find_jobs(site, text)
    if actions:
        return JSONResponse({"found": actions, "is_more": False})
    found = [*pages, *(_name("job", jobid, f"job?id={quote_part(jobid)}") for jobid in jobs), *queues[:MOST]]
    # For a text that is a job id, the list would show only this job. So make it a pattern.
    pattern = f"*{escape(text)}*" if is_pattern(text) or text in jobs else text
    rest = _name("search", f"all jobs with {text} in their ids", f"jobs?pattern={quote(pattern)}")
    return JSONResponse({"found": [*found, rest], "is_more": is_more})


def _find_actions(site: Site, permit: Permit, text: str) -> list[Found]:
    """Return the actions that a text such as ``pause backup`` may mean, if permitted. Each links to its button."""
    verb, _, named = text.partition(" ")
    role = VERBS.get(verb.lower())
    if role is None or not named.strip() or not permit.may(role):
        return []
    jobs, _ = _find_jobs(site, named.strip())
    # Leave out jobs whose page does not have this button.
    fits = APPLIES.get(verb.lower())
    known = site.bike.store.overview.read_named(jobs, {}) if jobs else ()
    found = [job.jobid for job in known if fits is None or fits(job)]
    if role == "write" and found:
        stored = site.bike.store.questions.read_schedules(found)
        found = [
            jobid for jobid, (_, own) in zip(found, stored, strict=True) if verb.lower() in list_write_verbs(jobid, own)
        ]
    queues = site.view.get().glance.queues if verb.lower() in ("pause", "resume") else ()
    held = [
        each.queue
        for each in queues
        if named.strip().lower() in each.queue.lower() and (each.paused is not None) is (verb.lower() == "resume")
    ]
    return [
        *(_name(verb.lower(), jobid, f"job?id={quote_part(jobid)}#do-{verb.lower()}") for jobid in found),
        *(
            _name(f"{verb.lower()} queue", queue, f"queues?queue={quote_part(queue)}#act-until")
            for queue in held[:MOST]
        ),
    ]


def list_write_verbs(jobid: str, options: str) -> Sequence[str]:
    """Return which of the actions ``edit`` and ``unset`` a job with these stored options allows."""
    if find_all_of(options)[0]:
        return ()
    return ("unset",) if find_backfill(options)[0] or is_of_shell(jobid) else ("edit", "unset")


def _name(kind: str, text: str, href: str) -> Found:
    return {"kind": kind, "text": show_text(text), "href": href}


def _find_jobs(site: Site, text: str) -> tuple[list[str], bool]:
    """Return job ids that contain `text`, the nearest first, and whether there may be more: the search is limited."""
    catalog, exact, wanted = site.bike.store.catalog, list[str](), text.lower()
    with suppress(BadJobId):
        exact = [text] if catalog.has_job(check_jobid(text), also_bad=True) else []
    found, are_all = catalog.search(find_within(text), MOST * 10, SEARCH_TIMEOUT)
    nearest = sorted(
        {*exact, *found},
        key=lambda jobid: (jobid != text, jobid.lower() != wanted, not jobid.lower().startswith(wanted), jobid),
    )
    return nearest[:MOST], not are_all or len(nearest) > MOST
