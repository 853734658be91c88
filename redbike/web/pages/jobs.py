"""The list of jobs: filtered, searched, and by their next run. A page takes a limited amount of work."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig
from redbike.store.enums import Event
from redbike.store.matching import compile_patterns
from redbike.store.overview import Job, Wanted
from redbike.store.paging import JobPage, Place, Search
from redbike.store.patterns import is_pattern
from redbike.web.pages.parameters import make_link, read_choice, read_pattern, read_queue, read_text
from redbike.web.selection import ALL, FLAGS
from redbike.web.site import Site

STATUSES = {
    Event.TML: "waits for its time",
    Event.ENQ: "waits for a worker",
    Event.WRK: "runs",
    Event.STP: "stopped",
    Event.DIE: "failed for good",
    Event.BAD: "bad schedule",
}
MOST_QUEUES = 200  # that one may choose from


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
    place = Place.parse(read_text(request, "cursor"))
    queue, pattern = read_queue(site, request), read_pattern(request)
    exact = _find_exact(site, asked)
    if exact:
        page = JobPage([exact], 1, 1, None)
    else:
        search = Search(_read_wanted(asked, queue), pattern or None, _compile(pattern), asked.sort == "next")
        # To read all runs that are not archived yet may take a while: only one filter needs them.
        page = site.bike.store.paging.read(search, place, site.newest.get() if asked.flags["never_ran"] else None)
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
        is_first=place == Place(),
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
