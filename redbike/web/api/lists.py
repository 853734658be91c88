"""The handlers of the API that return lists, with the same fields as the command line."""

import time
from collections.abc import Callable
from dataclasses import fields
from itertools import chain
from typing import Any

from redbike.loop.alerts.late import find_late
from redbike.loop.host_jobs import replace_bases
from redbike.loop.worker_class import find_queue
from redbike.queries.fields import AGENDA, JOBS, LOG, PAST_RUNS, QUEUES, WORKERS
from redbike.queries.forecast import MOST_HOURS
from redbike.queries.late import read_late_page
from redbike.store.cursors import Cursor, make_bad_cursor
from redbike.store.history import PastRun
from redbike.store.job import JobSearch, read_event
from redbike.store.log import LogSearch, check_who
from redbike.store.names import check_known_jobid, check_queue_name
from redbike.store.past_runs import Failure, RunSearch
from redbike.store.patterns import escape, expand, is_pattern
from redbike.store.sharded.missing import note_missing
from redbike.web.api.calls import Answer, Call, compile_both
from redbike.web.api.jobs import SECRET_OF_FAILURE
from redbike.web.api.paging import PATIENCE, Page, Row, cut, fill, read_cursor, show, write_cursor
from redbike.web.api.problems import Problem
from redbike.web.background import Report

HOURS = 24  # the default length of the agenda
STEP = 100  # runs, or failures, that are read in one step
AGENDA_TIMEOUT, NAP = 20.0, 0.05  # seconds: for a forecast, and between two polls of it
LATE = "late"
# The filters of jobs that are true or false.
FLAGS = LATE, *(each.name for each in fields(JobSearch) if each.default is False and each.name != "by_next")


def list_jobs(call: Call) -> Answer:
    """Return a page of jobs."""
    store, fits, patterns = call.site.bike.store, call.compile(), call.patterns
    status = call.query.get("status")
    one = patterns[0] if len(patterns) == 1 else None
    flags: dict[str, Any] = {name: call.get_flag(name) for name in FLAGS if name != LATE}
    search = JobSearch(
        _read_queue(call),
        read_event(status) if status else None,
        tags=call.tags,
        pattern=escape(one) if one is not None and not is_pattern(one) else one,
        matches=fits,
        **flags,
    )
    newest = call.site.newest.get() if search.never_ran else None
    late = find_late(store, call.site.settings) if call.get_flag(LATE) else None

    def read(place: str) -> tuple[list[tuple[str, Row]], str | None]:
        cursor = Cursor.parse(place)
        if late is None:
            # One request to the server per step, so that the same place gives the same step again.
            page = store.overview.read_page(search, cursor, newest, rows=1, patience=0.0)
        else:
            page = read_late_page(store, late, search, cursor)
        rows = [(job.jobid, show(job, JOBS)) for job in page.jobs if fits(job.jobid)]
        return rows, page.following and page.following.format()

    return _answer(fill(call.limit, call.query.get("cursor") or "", read))


def _read_queue(call: Call) -> str | None:
    """Return the full name of the queue in the query; None without one. Raise `BadQueueName`."""
    text = call.query.get("queue")
    if text is None:
        return None
    bike = call.site.bike
    return find_queue(bike.worker, check_queue_name(text), bike.store.queue_limits.list_queues())


def list_runs(call: Call) -> Answer:
    """Return a page of ended runs."""
    return _answer(_read_runs(call, None))


def list_runs_of_job(call: Call) -> Answer:
    """Return a page of the ended runs of a job."""
    return _answer(_read_runs(call, call.known_jobid))


def _read_runs(call: Call, jobid: str | None) -> Page:
    """Return a page of runs of all jobs, or of one. The newest come first, unless very many jobs have runs."""
    past, fits = call.site.bike.store.past, call.compile() if jobid is None else jobid.__eq__
    jobids = None if jobid is None else [jobid]
    if call.tags:
        jobids = list(expand(call.site.bike.store.catalog, call.patterns, may_miss=True, tags=call.tags))
    failed, since = call.get_flag("failed"), call.get_time("since", looks_back=True)

    def read(place: str) -> tuple[list[tuple[str, Row]], str | None]:
        kind, _, rest = place.partition(" ")
        before = read_cursor(rest, float, str) if kind == "before" else None
        # The next cursor names the last run that is found, so the search must only find runs that may be shown.
        search = RunSearch(failed, since, (before[0], before[1]) if before else None, matches=fits)
        if kind == "many":
            if jobids is not None:
                raise make_bad_cursor(place)  # only a list of the runs of all jobs has such cursors
            page = past.read_runs_of_many(search, Cursor.parse(rest), STEP, 0.0)
        else:
            page = past.read_runs(search, jobids, STEP)
        following = f"many {page.following.format()}" if page.following else None
        if page.is_more:
            following = f"before {write_cursor(page.runs[-1].started, page.runs[-1].jobid)}"
        rows = [(f"{run.started!r} {run.jobid}", show_run(call, run)) for run in page.runs]
        return rows, following

    return fill(call.limit, call.query.get("cursor") or "", read)


def show_run(call: Call, run: PastRun) -> Row:
    """Return the fields of a run; with ``--show-data``, also its result."""
    return show(run, PAST_RUNS) | (run.show_result() if call.site.show_data else {})


def list_failures(call: Call) -> Answer:
    """Return a page of failures, the newest first."""
    store, fits = call.site.bike.store, call.compile()
    past = store.past
    if call.tags:
        tagged = frozenset(expand(store.catalog, call.patterns, may_miss=True, tags=call.tags))
        fits = compile_both(fits, tagged.__contains__)

    def read(place: str) -> tuple[list[tuple[str, Row]], str | None]:
        page = past.read_failures(Cursor.parse(place).entry, STEP, 0.0)
        rows = [(each.jobid, _show_failure(call, each)) for each in page.failures if fits(each.jobid)]
        return rows, Cursor(entry=page.following).format() if page.following else None

    return _answer(fill(call.limit, call.query.get("cursor") or "", read))


def _show_failure(call: Call, failure: Failure) -> Row:
    found = failure._asdict()
    hidden = () if call.site.show_data else SECRET_OF_FAILURE
    return {name: value for name, value in found.items() if name not in hidden}


def list_log(call: Call) -> Answer:
    """Return a page of the changes that people have made, the newest first."""
    fits, jobid = call.compile(), call.query.get("jobid")
    if jobid is not None:
        check_known_jobid(jobid)
    cursor = read_cursor(call.query.get("cursor"), float, int, int)
    until, entry, skip = cursor or (None, 0, 0)
    who = check_who(call.query.get("who"), "who") or ""
    search = LogSearch(jobid, call.get_time("since", looks_back=True), until, who)
    items: list[Row] = []
    same, last, end = 0, None, time.monotonic() + PATIENCE
    for moment, found in call.site.bike.store.log.list_moments(search):
        same, last = same + 1 if moment == last else 1, moment
        if moment == until and same < entry:
            continue
        for number, row in enumerate(found):
            if moment == until and same == entry and number < skip:
                continue
            if len(items) == call.limit or time.monotonic() > end:
                return _answer(Page(items, write_cursor(moment, same, number)))
            # A change of a queue, or of everything, belongs to no job. A token for some jobs does not show it.
            if fits(row.jobid):
                items.append(show(row, LOG))
    return _answer(Page(items, None))


def list_queues(call: Call) -> Answer:
    """Return a page of queues, by name."""
    rows = [show(queue, QUEUES) for queue in call.site.bike.queues()]
    return _answer(cut(rows, lambda row: [row["queue"]], call.limit, call.query.get("cursor"), str))


def show_queue(call: Call) -> Answer:
    """Return one queue."""
    name = call.steerer.queues.find_queue(call.params["name"])
    for queue in call.site.bike.queues():
        if queue.queue == name:
            return Answer(show(queue, QUEUES))
    raise Problem(404, f"no such queue: {name!r}")


def list_workers(call: Call) -> Answer:
    """Return a page of dispatchers and workers, by id."""
    fits = call.permit.fits
    rows = [show(each, WORKERS) for each in call.site.bike.workers()]
    for row in rows:
        row["jobs"] = [jobid for jobid in row["jobs"] if fits(jobid)]
    return _answer(cut(rows, lambda row: [row["id"]], call.limit, call.query.get("cursor"), str))


def list_agenda(call: Call) -> Answer:
    """Return a page of the forecast: the runs in each quarter of an hour, by queue."""
    hours, after, patterns = call.get_count("hours", HOURS, MOST_HOURS), call.get_time("after"), call.patterns
    bike, fits = call.site.bike, call.permit.fits
    followers = chain.from_iterable(bike.store.coming.list_followers()) if call.permit.jobs else ()
    hidden = call.list_hidden(filter(fits, followers))
    has_bases = bool(call.permit.jobs) and any(map(fits, bike.store.hosts.read_all()))
    if hidden or has_bases or (call.permit.jobs and patterns):
        found = replace_bases(bike.store, expand(bike.store.catalog, patterns or call.permit.jobs, may_miss=True))
        patterns = [escape(jobid) for jobid in found if fits(jobid) and jobid not in hidden]
        if not patterns:
            return _answer(Page([], None))
    wanted = tuple(patterns or call.permit.jobs)
    tags = call.tags or None
    key = ("api agenda", hours, after, wanted, tags)
    rows = _wait(
        call, key, lambda report: list(bike.agenda(*wanted, hours=hours, after=after, report=report, tag=tags))
    )
    shown = [dict(zip(AGENDA, (each.start, each.queue, each.runs, each.jobs), strict=True)) for each in rows]
    page = cut(shown, lambda row: [row["from"], row["queue"]], call.limit, call.query.get("cursor"), float, str)
    return _answer(page)


def _wait(call: Call, key: Any, read: Callable[[Report], Any]) -> Any:
    """Return what `read` computes in the background, once for all requests with this `key`. Raise `Problem` if late."""

    def compute(report: Report) -> Any:
        try:
            return read(report)
        except ValueError as error:
            return error  # the request is wrong, not the computation

    end = time.monotonic() + AGENDA_TIMEOUT
    while True:
        task = call.site.background.get(key, compute)
        if task.progress is None:
            if task.problem or task.result is None:
                # Do not return an older result: the answer cannot say how old it is.
                raise Problem(503, task.problem, {"retry-after": "5"})
            if isinstance(task.result, ValueError):
                raise task.result
            note_missing(task.missing)
            return task.result
        if time.monotonic() > end:
            raise Problem(503, "this is still being computed; ask again in a moment", {"retry-after": "5"})
        time.sleep(NAP)


def show_health(call: Call) -> Answer:
    """Return the health: whether all is well, the problems, and the metrics."""
    health = call.site.bike.health(*call.patterns)
    found = {"is_well": health.is_well, "line": health.format_line(), "problems": health.problems}
    return Answer({**found, "metrics": health.metrics, "paused": health.paused, "topics": health.topics})


def _answer(page: Page) -> Answer:
    return Answer(page._asdict())
