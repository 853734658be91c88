"""The hosts of a job for every host, and the state of its job on each host."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from redbike.config.options import find_all_of
from redbike.loop.every_host import GONE
from redbike.loop.host_jobs import MOST_NAMED, say_taken
from redbike.schedule.clock import Clock
from redbike.schedule.jitter import add_jitter
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import find_inner, parse_stored
from redbike.store.enums import Event
from redbike.store.every_host import HostDetails, is_base, name_job
from redbike.store.host_names import split_host
from redbike.store.inspected import JobState
from redbike.store.store import Store
from redbike.text.printable import cut


def list_hosts(store: Store, state: JobState) -> list[HostDetails]:
    """Return the hosts of a job, by name; none for a job that is not for every host."""
    if not is_base(state.jobid) or state.schedule is None:
        return []
    seen = dict(sorted(store.hosts.read(state.jobid).seen.items()))
    states = store.questions.inspect([name_job(state.jobid, host) for host in seen]) if seen else []
    return [_describe(state, host, at, own) for (host, at), own in zip(seen.items(), states, strict=True)]


def _describe(state: JobState, host: str, seen: float, own: JobState) -> HostDetails:
    is_own = find_all_of(own.options)[0] == state.jobid
    status, due = (own.status, own.due) if is_own else (None, None)
    found: HostDetails = {"host": host, "jobid": own.jobid, "status": status, "next_run": due, "seen": seen}
    if own.schedule is not None and not is_own:
        found["taken"] = True
    if is_own and own.pause:
        found["paused"] = own.pause.to_dict()
    if state.now - seen > GONE:
        found["gone"] = True
    return found


def find_next(hosts: list[HostDetails]) -> float | None:
    """Return the earliest due time of the jobs; None if none is due."""
    return min((each["next_run"] for each in hosts if each["next_run"] is not None), default=None)


def has_next(each: HostDetails) -> bool:
    """Tell whether the host will run the job by its schedule; True also if the host has no job yet."""
    if each["next_run"] is not None:
        return True
    pause = each.get("paused")
    if "gone" in each or "taken" in each or (pause and pause["until"] is None):
        return False
    return (each["status"] or "").partition(":")[0] not in (Event.STP, Event.DIE, Event.BAD)


def find_timed(jobid: str, job: Mapping[str, Any]) -> tuple[str, Schedule]:
    """Return the job that runs next for `jobid`, and its schedule with jitter. `job` is the answer of `Redbike.tell`.

    This is the job itself; for a job for every host, it is the job on a host that is due first. If there is none, it is
    the job for every host itself: with the schedule of each host, if it is not paused and has no host now; else with
    its own schedule, which is never due. Raise `BadSchedule`.
    """
    schedule = parse_stored(job["schedule"])
    if schedule.is_for_hosts:
        hosts: Sequence[HostDetails] = job.get("hosts", ())
        first = min((each for each in hosts if each["status"] is not None and has_next(each)), key=_rank, default=None)
        inner = find_inner(job["schedule"])
        if inner is None or (first is None and ("paused" in job or not all("gone" in each for each in hosts))):
            return jobid, schedule
        jobid, schedule = first["jobid"] if first else jobid, inner
    return jobid, add_jitter(schedule, jobid, (job.get("options") or {}).get("spread", 0))


def _rank(each: HostDetails) -> tuple[bool, float]:
    """Return a sort key: the job that is due first has the smallest one. Jobs paused until an instant come last."""
    if (due := each["next_run"]) is not None:
        return False, due
    until = each["paused"]["until"] if "paused" in each else None
    return True, math.inf if until is None else until


def describe_host(each: HostDetails, clock: Clock) -> str:
    """Return the state of the job on a host, in words."""
    if each.get("gone"):
        return f"gone, no worker of its queue since {clock.name(each['seen'])}"
    if each.get("taken"):
        return f"none, as {each['jobid']} is a job of its own"
    if each["status"] is None:
        return "no job yet"
    event = each["status"].partition(":")[0]
    if pause := each.get("paused"):
        return f"{event}, paused" if pause["until"] is None else f"{event}, paused until {clock.name(pause['until'])}"
    return event if each["next_run"] is None else f"{event}, due {clock.name(each['next_run'])}"


def explain_hosts(base: str, hosts: list[HostDetails], queue: str, clock: Clock) -> str:
    """Return in a sentence where a job for every host runs."""
    own = split_host(queue)[0]
    if not hosts:
        return f"It runs on every host with a worker of {own}, and there is none yet."
    named = cut([f"{each['host']} ({describe_host(each, clock)})" for each in hosts], MOST_NAMED)
    taken = [each["jobid"] for each in hosts if each.get("taken")]
    said = f" But {say_taken(base, taken)}." if taken else ""
    return f"It runs as a job of its own on each host with a worker of {own}: {', '.join(named)}.{said}"
