"""The page of one job: its properties, why it does not run now, its next runs, and its past runs."""

from itertools import islice
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from redbike.config.definitions import OPTIONS, SETTINGS
from redbike.config.options import find_backfill, parse_options, show_options
from redbike.errors import NoSuchJob
from redbike.queries.blackouts import describe_details, list_details, make_remark
from redbike.queries.closed import read_limits
from redbike.queries.following.family import Family
from redbike.queries.following.remarks import remark_parents
from redbike.queries.following.tree import MOST_LINES, look_around
from redbike.queries.hosts import describe_host, find_next, list_hosts
from redbike.queries.next_runs import list_next_due
from redbike.queries.place import describe_job, has_ended
from redbike.queries.unusual import measure_durations
from redbike.schedule.clock import Clock
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import is_follower
from redbike.store.backfill import describe_backfill
from redbike.store.enums import Event
from redbike.store.every_host import HostDetails, is_base
from redbike.store.inspected import JobState
from redbike.store.log import localize
from redbike.store.past_runs import Failure, RunSearch, read_failure
from redbike.store.processes import CommandLines
from redbike.store.records import Status
from redbike.store.schedules import read_schedule
from redbike.web.charts import draw_runs
from redbike.web.drafts import indent_data
from redbike.web.pages.jobs import STATUSES, list_write_verbs
from redbike.web.pages.log import list_changes
from redbike.web.site import Site
from redbike.web.tree import draw_tree

COMING = 10  # next runs that are listed
RUNS = 50  # ended runs that are listed
MOST_RUNS = 200  # ended runs that are read


class OptionRow(NamedTuple):
    """An option, with its value for the job, and its default."""

    name: str
    value: object  # None if the job does not set it
    default: object
    help: str


def show_job(site: Site, request: Request) -> Response:
    """Show the job whose id is in the query. Raise `NoSuchJob`."""
    jobid = request.query_params.get("id", "")
    why = site.bike.why(jobid)
    state = _read_state(site, jobid)
    clock = site.make_clock(state.now)
    schedule = read_schedule(jobid, state.schedule, state.options)
    zone = (schedule.timezone if schedule else None) or clock.zone
    hosts = list_hosts(site.bike.store, state)
    seen = site.bike.store.overview.read_named([jobid])
    status, family = Status.parse(state.status), Family(site.bike.store, presumes_success=False)
    kin = _read_kin(site, state, clock, family)
    return site.answer(
        request,
        "job.html",
        clock,
        here="jobs",
        jobid=jobid,
        why=why,
        told=state.to_dict(),
        state=state,
        queue=seen[0].queue if seen and not is_base(jobid) else "",
        command=_find_command(site, state, seen[0].queue) if seen else "",
        status_words=STATUSES[status.event] if status else "",
        stored_status=status,
        words=schedule.explain(zone) if schedule and not schedule.never_runs else "",
        zone=zone,
        zone_clock=Clock(clock.now, zone),
        schedule=schedule,
        options=list(_list_options(site, state)),
        kept=parse_options(state.options).get("history", site.bike.settings.history),
        failure=_find_failure(state),
        data=indent_data(state.data) if site.show_data else "",
        hosts=[(each, describe_host(each, clock)) for each in hosts],
        verbs=_list_verbs(state, hosts),
        **_read_blackouts(site, state, clock, zone, family),
        **kin,
        **_read_past(site, state, clock),
        coming=_list_coming(site, state, schedule, hosts, clock, family),
    )


def _read_blackouts(site: Site, state: JobState, clock: Clock, zone: str, family: Family) -> dict[str, Any]:
    """Return the blackouts of a job, and a function that remarks a due time, in `zone`, which a blackout holds."""
    [blackouts] = list_details(site.bike.store, [state])
    own = make_remark(blackouts, Clock(clock.now, zone), read_limits(site.bike.store, state.jobid))
    return {
        "blackouts": [f"{each['of']}: {describe_details(each, clock)}" for each in blackouts],
        "has_blackout": any(each["of"] == "job" for each in blackouts),
        "remark": remark_parents(family, [state.jobid], clock, own) if is_follower(state.schedule) else own,
    }


def _read_state(site: Site, jobid: str) -> JobState:
    [state] = site.bike.store.questions.inspect([jobid], with_data=True)
    if state.schedule is None and state.status is None and not state.running:
        raise NoSuchJob(f"no such job: {jobid!r:.80}")
    return state


def _list_verbs(state: JobState, hosts: list[HostDetails]) -> list[str]:
    """Return which of the actions ``cancel``, ``edit`` and ``unset`` are possible."""
    cancel = ["cancel"] if _is_cancellable(state, hosts) else []
    return [*cancel, *list_write_verbs(state.jobid, state.options)]


def _is_cancellable(state: JobState, hosts: list[HostDetails]) -> bool:
    """Tell whether an occurrence of a job waits, runs or will be tried again, perhaps that of its job on a host."""
    told = state.to_dict()
    found = (Status.parse(each["status"]) for each in hosts)
    is_busy = any(status and status.event in (Event.ENQ, Event.WRK) for status in found)
    return is_busy or bool(state.run or state.waiting or state.backfill or told.get("failures") or told.get("losses"))


def _find_command(site: Site, state: JobState, queue: str) -> str:
    """Return the command line of the job, or of the job that it backfills; "" for none."""
    base = find_backfill(state.options)[0] or state.jobid
    return CommandLines(site.view.get().glance.processes).find(base, queue)


def _describe_backfills(state: JobState, clock: Clock) -> list[tuple[str, str]]:
    """Return the progress of its backfill, and the result of the last one, each with its name."""
    told = state.to_dict()
    found = ("Backfill", told.get("backfill")), ("Last backfill", told.get("last_backfill"))
    return [(name, describe_backfill(each, clock)) for name, each in found if each]


def _read_kin(site: Site, state: JobState, clock: Clock, family: Family) -> dict[str, Any]:
    """Return the tree of parents and followers around the job, if it has some, with a picture. Read the `family`."""
    has_kin = state.followers or state.member_of or is_follower(state.schedule)
    around = look_around(site.bike.store, state.jobid, clock, family) if has_kin else None
    branches = list(islice(around.list_branches(), MOST_LINES)) if around else []
    return {"around": around, "branches": branches, "tree": draw_tree(around) if around else ""}


def _read_past(site: Site, state: JobState, clock: Clock) -> dict[str, Any]:
    """Return the past of a job: its last runs with a chart, its backfills, and its last changes."""
    runs = site.bike.store.past.read_runs(RunSearch(), [state.jobid], MOST_RUNS).runs
    durations = measure_durations(runs)
    chart = draw_runs(runs[:RUNS], durations) if runs else ""
    return {
        "backfills": _describe_backfills(state, clock),
        "has_ended": has_ended(state.to_dict()),
        "runs": runs[:RUNS],
        "number_of_runs": len(runs),
        "durations": durations,
        "chart": chart,
        "changes": list_changes(site, state.jobid, clock.now),
        "localize": lambda detail: localize(detail, clock.name),
    }


def _list_coming(
    site: Site, state: JobState, schedule: Schedule | None, hosts: list[HostDetails], clock: Clock, family: Family
) -> list[float]:
    """Return the next due times of a job, in epoch seconds, without a stored due time that is past."""
    job: dict[str, Any] = {**state.to_dict()}
    goes_on = is_base(state.jobid) or describe_job(job, clock)[1]  # a paused base may have jobs on hosts that go on
    if schedule is None or not goes_on:
        return []
    if is_base(state.jobid):
        job |= {"hosts": hosts, "next_run": find_next(hosts)}
    if job["next_run"] is not None and job["next_run"] <= clock.now:
        job["next_run"] = None
    bike = site.bike
    due = list_next_due(bike.store, bike.settings, state.jobid, job, clock.now, COMING, family=family)
    return list(islice(due, COMING))


def _list_options(site: Site, state: JobState) -> list[OptionRow]:
    """Return all options. Those that the job sets come first."""
    own = show_options(state.options)
    rows = []
    for name, option in OPTIONS.items():
        setting = getattr(site.bike.settings, option.key) if option.key in SETTINGS else option.default
        if option.kind == "url":
            # Do not show the URL: whoever knows it can report runs to the external check.
            setting = "set" if setting else None
        elif name == "timeout":
            setting = f"that of the worker, or {site.bike.settings.default_timeout:g}"
        elif isinstance(setting, float):
            setting = f"{setting:g}"
        rows.append(OptionRow(name, own.get(name), setting, option.help))
    return sorted(rows, key=lambda row: row.value is None)


def _find_failure(state: JobState) -> Failure | None:
    if state.failure is None:
        return None
    moment = state.failure.get("failed")
    return read_failure(state.jobid, float(moment) if isinstance(moment, int | float) else 0.0, state.failure)
