"""Find what is wrong now with jobs, processes and the server, as far as people are told of it.

It is found from the present state, not from events. So every process finds the same, and nothing is lost with a process
that dies: what has been told is compared with what is found.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from redbike.config.settings import Settings
from redbike.loop.alerts.late import find_late
from redbike.schedule.clock import format_length
from redbike.store.alerts import DISPATCHER, JOB, PROCESS, REWIND, SHARD, Known, Told
from redbike.store.archived import read_newest
from redbike.store.enums import Alert, Event, Outcome
from redbike.store.history import get_end
from redbike.store.inspected import JobState
from redbike.store.job import Job
from redbike.store.records import Status, format_time
from redbike.store.store import Store

MOST_FAILING = 1000  # jobs that have failed last, of which people are told
RECENT = 600.0  # seconds for which the loss of a worker counts
FAILED = (Outcome.RETRY, Outcome.FAILED, Outcome.OVERRUN, Outcome.LOST)


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is wrong. Times are epoch seconds."""

    alert: Alert
    since: float
    text: str = ""  # "" if it lasts, but is not to be told
    due: float | None = None
    jobid: str = ""


Found = dict[str, dict[Alert, Condition]]
"""By the field that a job, a process or the server has in ``-alerts``, and by the alert."""


def find_conditions(store: Store, known: Known, settings: Settings, of_processes: bool) -> tuple[Found, set[str]]:
    """Return what is wrong, also with processes if `of_processes`; and the fields of told jobs that are gone."""
    found: Found = {}
    for late in find_late(store, settings, known, has_unknown=True):
        text = f"{late.jobid} {late.text}" if late.text else ""
        _add(found, JOB + late.jobid, Condition(Alert.LATE, late.since, text, late.due))
    _add_failures(store, found, known)
    if of_processes:
        _add_processes(store, found, known.now)
    for rewind in store.rewinds.list_all():
        text = rewind.describe()
        _add(found, REWIND + format_time(rewind.back), Condition(Alert.REWOUND, rewind.noted, text))
    gone = _add_lasting(store, found, known)
    return found, gone


def _add(found: Found, name: str, condition: Condition) -> None:
    found.setdefault(name, {})[condition.alert] = condition


def _add_failures(store: Store, found: Found, known: Known) -> None:
    failing = dict(store.alerts.list_failing(MOST_FAILING))
    if not failing:
        return
    dead = store.past.find_dead(0).times
    failing = dead | failing  # of too many alerts, the last ones are left out
    told = {jobid: Told.parse(known.told.get(JOB + jobid, "")) for jobid in failing}
    # Each may have a long traceback, so what is kept is read only of those that are to be told.
    new = [
        jobid
        for jobid, before in told.items()
        if before.is_new(Alert.FAILED) or (jobid in dead and before.is_new(Alert.STOPPED))
    ]
    kept = store.alerts.read_failures(new)
    for jobid, failed in failing.items():
        error, due = kept.get(jobid, ("", None))
        text = f"{jobid} has failed: {error}" if jobid in kept else ""
        _add(found, JOB + jobid, Condition(Alert.FAILED, failed, text, due))
        if jobid in dead:
            text = f"{jobid} has failed for good, and its schedule does not go on" if jobid in kept else ""
            _add(found, JOB + jobid, Condition(Alert.STOPPED, failed, text, due))


def _add_processes(store: Store, found: Found, now: float) -> None:
    for process in store.workers.list_all():
        if process.kind == "worker" and process.state == "lost" and 0 <= now - process.seen < RECENT:
            text = f"the worker {process.id} was lost {format_length(now - process.seen)} ago"
            _add(found, PROCESS + process.id, Condition(Alert.WORKER_LOST, process.seen, text))


def _add_lasting(store: Store, found: Found, known: Known) -> set[str]:
    """Add told alerts of jobs that last, though no list has them; return the fields of told jobs that are gone."""
    told = {
        name: active
        for name, record in known.told.items()
        if name.startswith(JOB) and (active := Told.parse(record).active) and active.keys() - found.get(name, {}).keys()
    }
    jobs = {JOB + job.jobid: job for job in store.overview.read_named([name.removeprefix(JOB) for name in told])}
    for name, active in told.items():
        for alert in _list_lasting(jobs[name], active) if name in jobs else ():
            found.setdefault(name, {}).setdefault(alert, Condition(alert, active[alert]))
    return told.keys() - jobs.keys()


def _list_lasting(job: Job, active: Mapping[str, float]) -> Iterable[Alert]:
    """Yield which alerts of a job last until it runs well again."""
    # Somebody has asked for a run of what had failed; or there are too many failures to keep them all.
    is_to_run = job.last_outcome is None and job.status == Event.ENQ
    if Alert.FAILED in active and (job.has_failed or job.last_outcome in FAILED or is_to_run):
        yield Alert.FAILED
    if Alert.STOPPED in active and job.is_dead:
        yield Alert.STOPPED
    # Nothing has happened to the job since that look, by a status in whole seconds.
    if Alert.RECOVERED in active and (job.since is None or job.since <= active[Alert.RECOVERED] - 1.0):
        yield Alert.RECOVERED


def has_run_well(store: Store, failures_limit: int, jobid: str, active: Mapping[str, float]) -> bool | None:
    """Tell whether a job without a lasting alert has begun since its alerts began, or has run well.

    Return None if it is still to run, and False if it is stopped. `active` says since when each alert has lasted.
    """
    since = min(active.values())
    [state] = store.questions.inspect([jobid])
    if state.run and state.run.start >= since - 1.0 and Alert.RECOVERED not in active:
        return True  # it was to begin, and has
    run = store.journal.read_newest([jobid]).get(jobid) or read_newest(jobid, state.history)
    run = run or store.journal.find_last(jobid)
    if run is not None:
        is_well = run.outcome is Outcome.OK and get_end(run) >= since - 1.0
    else:
        # No run is kept of it. Its failure leaves when it has run well, or when there are too many.
        is_known = Alert.FAILED in active and len(store.alerts.list_failing(failures_limit)) < failures_limit
        is_well = is_known and _has_ended(state, since)
    return is_well or (False if state.has_event(Event.STP) else None)


def _has_ended(state: JobState, since: float) -> bool:
    """Tell whether a job has no failure, and has been placed since then as after the end of a run."""
    status = Status.parse(state.status)
    has_place = status is not None and status.event in (Event.TML, Event.STP) and status.time >= since - 1.0
    return has_place and state.failure is None and state.dropped is None


def find_shard_away(prefix: str, since: float, now: float) -> Found:
    """Return what is wrong if a shard has not answered since the instant `since`."""
    text = f"the shard {prefix} has not answered for {format_length(now - since)}: its jobs wait"
    return {f"{SHARD}{prefix}": {Alert.SHARD_AWAY: Condition(Alert.SHARD_AWAY, since, text)}}


def find_no_dispatcher(since: float, now: float) -> Found:
    """Return what is wrong if no dispatcher has run since the instant `since`."""
    text = f"no dispatcher has been running for {format_length(now - since)}: no job comes due"
    return {DISPATCHER: {Alert.NO_DISPATCHER: Condition(Alert.NO_DISPATCHER, since, text)}}
