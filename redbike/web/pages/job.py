"""One job: what it is, why it does not run now, what is to come, and how it went."""

import json
from contextlib import suppress
from itertools import islice
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadSchedule, NoSuchJob
from redbike.schedule.forecast import Clock
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse_stored
from redbike.schedule.spread import spread
from redbike.state.overview import Wanted
from redbike.web.site import Site

COMING, RUNS = 10, 50


def show_job(site: Site, request: Request) -> Response:
    """Show the job with the id that is asked for."""
    jobid = request.query_params.get("id", "")
    told = site.bike.tell(jobid)
    if not (told["status"] or told["schedule"] or told["working"]):
        raise NoSuchJob(f"no such job: {jobid!r:.80}")
    clock = Clock(site.bike.store.timeline.read_clock(), site.bike.settings.timezone)
    schedule = _parse(jobid, told)
    seen = list(site.bike.store.overview.list_jobs(Wanted(), [jobid]))
    return site.answer(
        request,
        "job.html",
        clock,
        here="jobs",
        jobid=jobid,
        job=told,
        queue=seen[0].queue if seen else "",
        words=schedule.explain() if schedule and not schedule.never_runs else "",
        zone=(schedule.timezone if schedule else None) or clock.zone,
        why=site.bike.why(jobid),
        coming=list(_list_coming(schedule, told, clock)),
        runs=site.bike.runs(jobid, limit=RUNS) if told.get("runs") else [],
        data=json.dumps(told["data"], indent=2, ensure_ascii=False) if site.show_data and "data" in told else None,
    )


def _parse(jobid: str, told: dict[str, Any]) -> Schedule | None:
    with suppress(BadSchedule):
        if told["schedule"] is not None:
            return spread(parse_stored(told["schedule"]), jobid, told.get("options", {}).get("spread", 0))
    return None


def _list_coming(schedule: Schedule | None, told: dict[str, Any], clock: Clock) -> "list[float]":
    """Return when it runs next, in epoch seconds."""
    if schedule is None or schedule.is_immediate or "paused" in told or told["next_run"] is None:
        return []
    found = [told["next_run"]]
    for _ in islice(range(COMING), COMING - 1):
        following = schedule.next(max(found[-1], clock.now))
        if following is None:
            break
        found.append(following)
    return found
