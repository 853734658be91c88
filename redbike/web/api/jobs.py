"""The handlers of the API for one job: tell, set, unset, run, cancel, pause, resume, next and why."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from redbike.config.definitions import OPTIONS
from redbike.config.options import parse_options
from redbike.config.settings import check_zone
from redbike.control.blackouts import check_together, end_for_jobs, make_blackout, set_for_jobs
from redbike.control.jobs import cancel_jobs, pause_jobs, resume_jobs, run_jobs
from redbike.control.operator import check_after, check_reason, check_until
from redbike.control.options import change_options
from redbike.control.setter import Setter, read_since
from redbike.errors import BadConfig, NoSuchJob, ServerError
from redbike.loop.requests import GROUP_OF
from redbike.queries.blackouts import make_remark
from redbike.queries.closed import read_limits
from redbike.queries.following.remarks import describe_unknown
from redbike.queries.next_runs import list_next_due
from redbike.queries.place import describe_job
from redbike.queries.why.past import Reasons
from redbike.schedule.after import After
from redbike.schedule.kinds import Schedule, Stop
from redbike.schedule.parser import is_follower, parse
from redbike.store.enums import Event
from redbike.store.patterns import Steered
from redbike.store.store import Store
from redbike.text.group_names import name_parent
from redbike.text.printable import quote
from redbike.web.api.calls import Answer, Call
from redbike.web.api.problems import Problem

COUNT, MOST_COUNT = 5, 1000  # due times
SECRET = ("data", "result", "output")  # members that are sent only with ``--show-data``
SECRET_OF_FAILURE = ("traceback", "output")
VARIOUS = "various"  # stands for several different words
SET = ("schedule", "tz", "after", "options", "data")  # the members of a body that sets a job


def tell_job(call: Call) -> Answer:
    """Return all that is known of a job, as ``redbike tell`` prints it."""
    return Answer(_tell(call, call.known_jobid))


def _tell(call: Call, jobid: str) -> dict[str, Any]:
    found: dict[str, Any] = {"jobid": jobid, **call.site.bike.tell(jobid)}
    for name in ("followers", "waits_for"):
        if name in found:
            found[name] = [each for each in found[name] if call.permit.fits(each)]
    if "hosts" in found:
        found["hosts"] = [each for each in found["hosts"] if call.permit.fits(each["jobid"])]
    if call.site.show_data:
        return found
    shown = {name: value for name, value in found.items() if name not in SECRET}
    if failure := shown.get("failure"):
        shown["failure"] = {name: value for name, value in failure.items() if name not in SECRET_OF_FAILURE}
    if runs := shown.get("runs"):
        shown["runs"] = [{name: value for name, value in run.items() if name != "result"} for run in runs]
    return shown


def set_job(call: Call) -> Answer:
    """Set a new or an existing job. Options and data that are not given do not change."""
    jobid, schedule = call.jobid, call.get_text("schedule")
    if schedule is None:
        raise BadConfig("a schedule is needed: when the job runs")
    options = {} if call.body.get("options") is None else call.body["options"]
    if not isinstance(options, dict):
        raise BadConfig(f"bad options {quote(options)}: an object is needed")
    for name in options:
        if name not in OPTIONS:
            raise BadConfig(f"unexpected option {name!r:.80}: {', '.join(OPTIONS)} are known")
    changes = {name.replace("-", "_"): value for name, value in options.items()}
    if "data" in call.body:
        changes["data"] = call.body["data"]
    warnings, zone = list[str](), call.get_text("tz")
    setter = Setter(call.steerer.store, call.steerer.settings, warnings.append, call.permit.fits)
    local = setter.settings.timezone if zone is None else check_zone(zone)
    parsed = parse(schedule, local, jobid, setter.read_clock())
    _check_ties(call, parsed, options)
    after = read_since(call.get_instant("after", zone), zone)
    check_after(call.body.get("after"), parsed)
    # Another request may set the job at the same time.
    with call.site.memory.changing:
        is_new = not call.site.bike.store.catalog.has_job(jobid)
        if not is_new and call.headers.get("if-none-match") == "*":
            raise Problem(412, f"there is a job {jobid!r}, and If-None-Match allows only a new one")
        if parsed.never_runs and _rests(setter.store, jobid):
            change_options(setter.store, setter.settings, jobid, warnings.append, **changes)
            has_runs = False
        else:
            has_runs = setter.enter(jobid, schedule, after, zone, **changes)
    call.site.drop_seen()
    found: dict[str, Any] = {"jobid": jobid}
    try:
        warnings += _list_remarks(call, jobid, parsed, has_runs)
        found = _tell(call, jobid)
    except ServerError as error:
        # No error: a client would set the job again, which may run it again.
        warnings.append(f"{jobid}: it is set; what is known of it cannot be read: {error}")
    return Answer(add_warnings(found, warnings), 201 if is_new else 200)


def _rests(store: Store, jobid: str) -> bool:
    """Tell whether a job has failed for good and has no further runs. To stop it would only remove the failure."""
    [state] = store.questions.inspect([jobid])
    return state.schedule == Stop.text and state.has_event(Event.DIE)


def _list_remarks(call: Call, jobid: str, schedule: Schedule, has_runs: bool) -> Iterator[str]:
    """Yield why a job that was set does not run now, as ``redbike set`` prints it."""
    if not (has_runs or schedule.never_runs):
        yield f"{jobid}: nothing is left to run of {schedule.text!r}"
    if has_runs and schedule.is_immediate:
        yield from call.steerer.list_closed([jobid])
    if schedule.is_awaiting:
        yield from describe_unknown(call.site.bike.store, jobid)


def add_warnings(found: dict[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    """Return the answer `found`, with a member ``warnings`` if there are some."""
    return {**found, "warnings": list(warnings)} if warnings else found


def _check_ties(call: Call, schedule: Schedule, options: Mapping[str, Any]) -> None:
    """Raise `Problem` if a token for some jobs ties this job to others: it must not follow them, nor join a group."""
    if not call.permit.jobs:
        return
    only = f"the token of {call.permit.name} is for some jobs only"
    if options.get(GROUP_OF) is not None:
        raise Problem(403, f"{only}: it cannot put a job into a group")
    [state] = call.site.bike.store.questions.inspect([call.jobid])
    if state.member_of or GROUP_OF in parse_options(state.options):
        raise Problem(403, f"{only}: it cannot set a job that is in a group")
    parents = schedule.parents if isinstance(schedule, After) else ()
    if foreign := [each for each in parents if not call.permit.fits(each)]:
        raise Problem(403, f"{only}: none follows {name_parent(foreign[0])!r}")


def unset_job(call: Call) -> Answer:
    """Unset a job."""
    jobid, warnings = call.jobid, list[str]()
    if not Setter(call.steerer.store, call.steerer.settings, warnings.append, call.permit.fits).unset(jobid):
        raise NoSuchJob(f"no such job: {jobid!r}")
    call.site.drop_seen()
    return Answer(add_warnings(Steered(jobid, "unset")._asdict(), warnings))


def run_job(call: Call) -> Answer:
    """Run a job once now."""
    answer = _steer(call, lambda jobid: run_jobs(call.steerer.store, [jobid]))
    steered = [each["jobid"] for each in answer.value.get("jobs", [answer.value])]
    return Answer(add_warnings(answer.value, call.steerer.list_closed(steered)))


def cancel_job(call: Call) -> Answer:
    """Cancel the waiting or running occurrence of a job."""
    return _steer(call, lambda jobid: cancel_jobs(call.steerer.store, [jobid], call.steerer.settings))


def pause_job(call: Call) -> Answer:
    """Pause a job until it is resumed; with ``every``, set a blackout."""
    store, (until, reason, every, lasting) = call.steerer.store, read_pause(call)
    if every is None:
        return _steer(call, lambda jobid: pause_jobs(store, [jobid], until, reason))
    blackout = make_blackout(store, every, lasting, reason, call.steerer.settings.timezone)
    return _steer(call, lambda jobid: set_for_jobs(store, [jobid], blackout, call.steerer.settings))


def read_pause(call: Call) -> tuple[float | None, str, str | None, Any]:
    """Return the end and the reason of a pause, and the schedule and the length of a blackout. Raise `BadConfig`."""
    reason, every, lasting = call.get_text("reason") or "", call.get_text("every"), call.body.get("for")
    check_reason(reason)
    until = call.get_instant("until")
    check_together(until, every, lasting)
    return check_until(until, call.clock.now), reason, every, lasting


def resume_job(call: Call) -> Answer:
    """Resume a job; with ``every``, end its blackout for good."""
    store, settings = call.steerer.store, call.steerer.settings
    if read_every(call):
        return _steer(call, lambda jobid: end_for_jobs(store, [jobid], settings))
    return _steer(call, lambda jobid: resume_jobs(store, [jobid], settings))


def read_every(call: Call) -> bool:
    """Return whether to end a blackout for good. Raise `BadConfig`."""
    every = call.body.get("every", False)
    if not isinstance(every, bool):
        raise BadConfig(f"bad every {quote(every)}: true and false are allowed")
    return every


def _steer(call: Call, verb: Any) -> Answer:
    jobid = call.jobid
    # A job whose only schedule was refused can be read, but not controlled.
    is_there = call.site.bike.store.catalog.has_job(jobid)
    found: list[Steered] = verb(jobid) if is_there else [Steered(jobid, "missing")]
    words = {each.jobid: each.word for each in found}
    # A job for every host stands for its jobs on the hosts.
    word = words[jobid] if jobid in words else found[0].word if len(set(words.values())) == 1 else VARIOUS
    if word == "missing":
        raise NoSuchJob(f"no such job: {jobid!r}")
    call.site.drop_seen()
    content: dict[str, Any] = Steered(jobid, word)._asdict()
    shown = [each._asdict() for each in found if call.permit.fits(each.jobid)]
    return Answer(content if list(words) == [jobid] else {**content, "jobs": shown})


def list_next(call: Call) -> Answer:
    """Return the next due times of a job. It has none if it has ended for good, or is paused without an end."""
    jobid, count, after = call.known_jobid, call.get_count("count", COUNT, MOST_COUNT), call.get_time("after")
    job = call.site.bike.tell(jobid)
    goes_on = job["schedule"] is not None and describe_job(job, call.clock)[1]
    found = list(islice(_list_due(call, jobid, job, after, count), count) if goes_on else ())
    limits = read_limits(call.site.bike.store, jobid) if found else ()
    held = list(filter(make_remark(job.get("blackouts", []), call.clock, limits), found))
    return Answer({"jobid": jobid, "items": found, **({"held": held} if held else {})})


def _list_due(call: Call, jobid: str, job: Mapping[str, Any], after: float | None, count: int) -> Iterable[float]:
    """Return the due times of a job after `after`, or from now on, in epoch seconds: at least the first `count`."""
    bike, stored = call.site.bike, job["next_run"]
    if is_follower(job["schedule"]) and call.list_hidden([jobid]):
        # Only a due time that the job already has may be shown, not those of its parents.
        return [stored] if stored is not None and (after is None or stored > after) else []
    return list_next_due(bike.store, bike.settings, jobid, job, call.clock.now, count, after)


def explain_job(call: Call) -> Answer:
    """Return why a job does not run now; with ``at``, why it did not run at that instant."""
    jobid, at = call.known_jobid, call.get_time("at", looks_back=True)
    bike, fits = call.site.bike, call.permit.fits if call.permit.jobs else None
    reasons = Reasons(bike.store.find_shard(jobid), bike.settings, fits)
    return Answer({"jobid": jobid, "why": reasons.explain(jobid, at)})
