"""The state of a job and of its queue and processes, and why the job does not run now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from redbike.config.options import find_backfill, parse_options
from redbike.config.settings import Settings
from redbike.queries.blackouts import UNDECIDED, Calendar, warn_of
from redbike.queries.closed import describe_closed, describe_pause
from redbike.queries.place import add_pause, has_ended
from redbike.schedule.clock import Clock, format_length
from redbike.schedule.kinds import Schedule
from redbike.schedule.windows import Window
from redbike.store.blackouts import Blackout
from redbike.store.enums import Event, Outcome, Skip
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.keys import OWNER
from redbike.store.processes import Process, ProcessRecord
from redbike.store.queue_limits import QueueLimits
from redbike.store.records import RetryState, Status
from redbike.store.schedules import read_schedule
from redbike.store.shell import get_taker, say_need
from redbike.text.printable import name_number

FAR = 10_000  # jobs before one in its queue; more are not counted
SOON = 10.0  # seconds within which a free worker takes the next job

ENDS = {
    Outcome.OK: "succeeded",
    Outcome.RETRY: "ended one try of several",
    Outcome.FAILED: "failed",
    Outcome.OVERRUN: "overran",
    Outcome.LOST: "was lost with its worker",
    Outcome.CANCELLED: "was cancelled",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """A job, and all that its next run depends on."""

    job: JobState
    runs: Sequence[PastRun]  # the kept runs, the newest first
    queue: str
    queue_limits: Sequence[QueueLimits]  # first those of its queue, then those of all queues
    processes: Sequence[Process]
    ahead: int | None = None  # jobs before it in its queue; None for more than `FAR`
    flying: int = 0  # runs of its queue, in all shards
    opens: float | None = None  # when the rate of its queue lets the next job begin; None if it lets one begin now
    is_of_shard: bool = False  # whether it is in one shard of several
    settings: Settings = field(default_factory=Settings)
    refusal: str = ""  # why the server takes no changes
    awaited: str = ""  # what a follower waits for, as a sentence
    blackouts: Mapping[str, Blackout] = field(default_factory=dict)  # of the job, of its queue, and of everything

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of the job; None if it has none, or a damaged one."""
        return read_schedule(self.job.jobid, self.job.schedule, self.job.options)

    def foretell(self, due: float, window: Window) -> str:
        """Return what becomes of an occurrence that is due in this window of a blackout, as the end of a sentence."""
        schedule, calendar = self.schedule, Calendar(self.blackouts, self.settings, due, window.end)
        held = calendar.find(self.job.jobid, self.queue, self.job.options)
        return held.foretell(due, schedule) if held and schedule else UNDECIDED

    def list_alive(self, kind: str) -> list[Process]:
        """Return the processes of this kind that are alive. Only workers of the queue count."""
        found = [each for each in self.processes if each.kind == kind and each.state == "alive"]
        if kind == "dispatcher":
            return found
        return [each for each in found if each.works(self.queue)]


def describe_drop(job: JobState, grace: float, clock: Clock) -> str:
    """Return how a job that was to run once was dropped, as the end of a sentence; "" if it was not.

    `grace` (seconds) is the current setting, for a job without this option. If it is 0 now, it is not shown.
    """
    if job.dropped is None:
        return ""
    was_due, own = f"never ran: it was due at {clock.name(job.dropped)}", parse_options(job.options)
    if Skip.EXPIRED in job.skipped and Skip.LATE in job.skipped:
        return f"{was_due}, and was too late when it could run"
    if Skip.EXPIRED in job.skipped:
        length = f" after {format_length(float(own['expires']))}" if own.get("expires") else ""
        return f"{was_due}, and had not begun when it expired{length}"
    length = f" of {format_length(seconds)}" if (seconds := float(own.get("grace", grace))) else ""
    return f"{was_due}, and its grace{length} had passed before it could run"


def explain_now(situation: Situation, clock: Clock) -> str:
    """Return why the job does not run now."""
    job = situation.job
    if job.run:
        return _explain_run(situation, clock)
    pause = explain_pause(job, clock) if job.pause else ""
    if job.waiting:
        # A person has requested this run, so the pause of the job does not hold it.
        return f"{explain_waiting(situation, clock)}{add_pause(pause)}"
    if pause and not has_ended(job.to_dict()):
        return pause
    if situation.awaited and job.timeline is not None and job.due is None:
        return situation.awaited
    if job.timeline is not None:
        return explain_timeline(situation, clock)
    if job.has_event(Event.BAD):
        return "It was never scheduled: its schedule is bad, and nobody has set another one."
    if job.has_event(Event.DIE):
        return f"{_explain_failure(situation, clock)}{add_pause(pause)}"
    if job.has_event(Event.STP):
        return f"{_explain_stop(situation, clock)}{add_pause(pause)}"
    return "It is nowhere, though it should be; redbike fsck says more."


def _explain_run(situation: Situation, clock: Clock) -> str:
    job = situation.job
    assert job.run
    process = ProcessRecord.parse(job.worker)
    where = f" on {process.format_id(job.run.tag[:OWNER])}" if process else ""
    told = "; it was cancelled, and has not ended yet" if job.run.cancelled else ""
    late = clock.now - job.run.deadline
    beyond = f", {format_length(late)} beyond its deadline" if late > 0 else ""
    refused = f" The server takes no changes: {situation.refusal}." if situation.refusal else ""
    return f"It runs now: since {clock.name(job.run.start)}{where}{beyond}{told}.{refused}"


def explain_pause(job: JobState, clock: Clock) -> str:
    """Return a sentence on the pause of a job, and on the occurrence that it holds."""
    assert job.pause
    pause, tried, held = job.pause.to_dict(), RetryState.parse(job.retry_state).due, ""
    if job.held is not None and job.held <= clock.now:
        held = f" An occurrence of {clock.name(job.held if tried is None else tried)} is held."
    elif job.held is not None:
        goes_on = pause["until"] is not None and pause["until"] <= job.held
        what = "It is due" if tried is None else f"Its occurrence of {clock.name(tried)} is tried again"
        held = f" {what} at {clock.name(job.held)}{'' if goes_on else ', and is held then'}."
    again = " Its blackout recurs." if job.pause.is_of_blackout else ""
    said = describe_pause(pause["since"], pause["until"], pause["by"], pause["reason"], clock)
    return f"It is paused {said}.{again}{held}"


def _warn(situation: Situation, due: float, clock: Clock, is_try: bool = False) -> str:
    """Return a sentence on what will pause the job, its queue or everything when it is due; "" if nothing will."""
    foretell = None if is_try else partial(situation.foretell, due)
    if blackout := warn_of(situation.blackouts, due, clock, foretell):
        return blackout
    # A pause that is on at the due time has begun already.
    closed = describe_closed(situation.queue_limits, Clock(due, clock.zone))
    return f" {closed[0].upper()}{closed[1:]}." if closed else ""


def explain_waiting(situation: Situation, clock: Clock) -> str:
    """Return what a job waits for in its queue, and when it expires."""
    said, until = _describe_waiting(situation, clock), situation.job.waits_until
    if until is None:
        return said
    expires = "expires" if until > clock.now else "does not run any more: it expired"
    return f"{said.rstrip('.')}. It {expires} at {clock.name(until)}, {clock.measure(until)}."


def _describe_waiting(situation: Situation, clock: Clock) -> str:
    job = situation.job
    assert job.waiting
    waits = f"It has been due since {clock.name(job.waiting.due)} and waits in {situation.queue}"
    if situation.refusal:
        return f"{waits}, but the server takes no changes: {situation.refusal}"
    if closed := describe_closed(situation.queue_limits, clock):
        return f"{waits}, but {closed}."
    workers = situation.list_alive("worker")
    if not workers:
        return f"{waits}, but no worker works this queue."
    if lack := _find_lack(situation):
        return f"{waits}, but {lack}."
    if not any(each.surely_works(situation.queue) for each in workers):
        return f"{waits}; whether a worker works this queue is unknown, as workers have too many queues to name them."
    return f"{waits}{_describe_turn(situation, workers, clock)}"


def _describe_turn(situation: Situation, workers: Sequence[Process], clock: Clock) -> str:
    """Return why these workers do not take a job from its queue now, as the end of a sentence."""
    own, waiting = situation.queue_limits[0], situation.job.waiting
    assert waiting
    if own.at_once is not None and situation.flying >= own.at_once:
        return f", which has {name_number(own.at_once, 'job')} in flight, as many as its limit allows."
    number = f"more than {FAR:,}" if situation.ahead is None else f"{situation.ahead:,}"
    jobs = f"{'job' if situation.ahead == 1 else 'jobs'} before it{' in its shard' if situation.is_of_shard else ''}"
    before = f", with {number} {jobs}" if situation.ahead != 0 else ""
    if situation.opens is not None:
        # Other shards may pass on a part of their share of the limit.
        opens = "none begin now" if situation.is_of_shard else f"the next one begin at {clock.name(situation.opens)}"
        return f", whose limit of {own.rate} lets {opens}{before}."
    if before:
        return f"{before} and {_count(workers)}."
    busy = sum(each.is_busy for each in workers)
    if busy == len(workers):
        return f"; it is the next one, but {_count(workers)} {'is' if busy == 1 else 'are'} busy."
    if clock.now - waiting.due >= SOON:
        return "; it is the next one, but no worker takes it: a run that has overrun may hold it, see its log."
    return "; it is the next one, and a worker is about to take it."


def _find_lack(situation: Situation) -> str:
    """Return that no worker of the queue has what the job needs; "" if one has, or if there is no worker."""
    workers, job = situation.list_alive("worker"), situation.job
    jobid = find_backfill(job.options)[0] or job.jobid
    if not workers or any(each.has_for(jobid) for each in workers):
        return ""
    return f"no worker of {situation.queue} {say_need(get_taker(jobid))}"


def _find_unplaced(situation: Situation) -> str:
    """Return why a dispatcher cannot name the queue of the job; "" if all can."""
    told = (dict(each.unplaced).get(situation.job.jobid, "") for each in situation.list_alive("dispatcher"))
    return next(filter(None, told), "")


def _count(workers: Sequence[Process]) -> str:
    return "one worker" if len(workers) == 1 else f"{len(workers):,} workers"


def explain_timeline(situation: Situation, clock: Clock) -> str:
    """Return what a job waits for on the timeline."""
    due = situation.job.timeline
    assert due is not None
    if due > clock.now:
        tried, when = RetryState.parse(situation.job.retry_state), f"{clock.name(due)}, {clock.measure(due)}"
        if tried.due is None:
            text = situation.schedule.explain(clock.zone) if situation.schedule else ""
            said = f": {text[:1].lower()}{text[1:].rstrip('.')}" if text else ""
            return f"It is not due until {when}{said}.{_warn(situation, due, clock)}"
        waits = f"It has been due since {clock.name(tried.due)}"
        if why := _find_unplaced(situation):
            return f"{waits}, but a dispatcher cannot name its queue: {why}; it tries again at {when}."
        if lack := _find_lack(situation):
            return f"{waits}, but {lack}; it is offered again at {when}."
        if not tried.tries:
            waits += "; a worker without a command or function for it has left it to others"
            return f"{waits}; it is offered again at {when}."
        warning = _warn(situation, due, clock, is_try=True)
        return f"Its occurrence of {clock.name(tried.due)} is tried again at {when}.{warning}"
    waits = f"It has been due since {clock.name(due)}"
    if situation.refusal:
        return f"{waits}, but the server takes no changes: {situation.refusal}"
    if not situation.list_alive("dispatcher"):
        return f"{waits}, but no dispatcher is running."
    if closed := describe_closed(situation.queue_limits[1:], clock):
        return f"{waits}, but {closed}."
    return f"{waits}, and a dispatcher is about to move it to {situation.queue}."


def _explain_failure(situation: Situation, clock: Clock) -> str:
    failure = situation.job.failure or {}
    error = str(failure.get("error", "")) or next((run.error for run in situation.runs), "")
    moment = failure.get("failed")
    when = f" at {clock.name(moment)}" if isinstance(moment, int | float) else ""
    return f"It has failed for good{when}{f': {error}' if error else ''}. redbike run lets it run again."


def _explain_stop(situation: Situation, clock: Clock) -> str:
    status = Status.parse(situation.job.status)
    since = f" since {clock.name(status.time)}" if status else ""
    if dropped := describe_drop(situation.job, situation.settings.grace, clock):
        return f"It {dropped}. redbike run runs it all the same."
    schedule, last = situation.schedule, next(iter(situation.runs), None)
    if schedule is not None and schedule.never_runs and last:
        return (
            f"Its schedule is STOP{since}; its last run began at {clock.name(last.started)} and {ENDS[last.outcome]}."
        )
    if schedule is not None and schedule.never_runs:
        cancelled = ", or its run was cancelled" if situation.job.skipped.get(Skip.CANCELLED) else ""
        return f"Its schedule is STOP{since}: somebody has stopped it, or it ran once, as it was to{cancelled}."
    return f"Its schedule has run out{since}: it has no further occurrence."
