"""What the palette finds: pages, queues and jobs by a part of their names."""

from contextlib import suppress
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from redbike.errors import BadJobId
from redbike.store.keys import check_jobid, escape_pattern
from redbike.web.rendering import quote_part, show_text
from redbike.web.site import Site

MOST = 10  # of a kind
PATIENCE = 0.05  # seconds for which jobs are looked for
LONGEST = 512  # characters

Found = dict[str, str]


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
    found, are_all = questions.search(f"*{escape_pattern(text)}*", MOST * 10, PATIENCE)
    nearest = sorted({*exact, *found}, key=lambda jobid: (jobid != text, not jobid.startswith(text), jobid))
    return nearest[:MOST], not are_all or len(nearest) > MOST
