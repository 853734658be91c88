"""Explain why a job did not run at a past instant, or does not run now."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from redbike.config.settings import Settings
from redbike.errors import BadConfig, NoSuchJob
from redbike.loop.blackouts import describe_name
from redbike.loop.host_jobs import explain_missed
from redbike.queries.blackouts import find_for, read_blackouts, warn_of
from redbike.queries.closed import describe_closed, list_paused
from redbike.queries.following.family import Family, list_due_times
from redbike.queries.following.holds import read_holds
from redbike.queries.following.remarks import find_hidden
from redbike.queries.following.streams import NEVER
from redbike.queries.following.words import explain_follower
from redbike.queries.hosts import explain_hosts, list_hosts
from redbike.queries.why.now import ENDS, FAR, Situation, describe_drop, explain_now
from redbike.queries.why.pending import CLOSE, explain_behind_run, explain_pending, find_due
from redbike.schedule.clock import Clock, format_length, format_took
from redbike.store.backfill import BackfillDetails, describe_backfill
from redbike.store.blackouts import OF_JOB, name_all
from redbike.store.enums import Event, Skip
from redbike.store.every_host import is_base
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.log import LogEntry, find_until, localize, moves_job
from redbike.store.names import check_known_jobid
from redbike.store.records import Status
from redbike.store.sharded.missing import name_if_silent, tolerate_missing
from redbike.store.store import Store
from redbike.text.printable import name_number

MOST_GENERATIONS = 256  # above a follower that are searched for what its chain waits for
HIDDEN = "It waits for other jobs, not all of which may be shown."
HIDDEN_HOSTS = "It runs as a job of its own on each host, not all of which may be shown."
UNKNOWN_DISPATCHER = "Whether a dispatcher was running then is not known: none that is registered now had begun."
MOVES = 3  # times that a job is read again because it has moved


def explain_past(situation: Situation, log: Sequence[LogEntry], at: float, clock: Clock) -> str:
    """Return what became of the last occurrence that was due until `at`."""
    schedule, due = situation.schedule, find_due(situation, at, clock)
    if due is None and situation.job.dropped is not None and situation.job.dropped <= at:
        return f"It {describe_drop(situation.job, situation.settings.grace, clock)}."
    # A person may have requested a later run. And a schedule does not show its earlier values, or when it ran out.
    rests = schedule is not None and schedule.allows_pause
    first, current = 0.0 if due is None or rests else due - CLOSE, situation.job.run
    runs = [run for run in situation.runs if run.due > first]
    going = [run for run in runs if run.started <= at <= run.started + run.took]
    if current and not going and first < current.due < at + CLOSE:
        return f"An occurrence was due at {clock.name(current.due)}; it runs now, since {clock.name(current.start)}."
    known = [run for run in runs if run.due < at + CLOSE and (run.started > at or not rests)]
    if run := next(iter(going or known), None):
        return _describe_run(run, clock)
    if due is None:
        if schedule is not None and schedule.is_awaiting:
            return f"It follows other jobs, and Redbike keeps no run of it that was due by {clock.name(at)}."
        return f"By its present schedule, no occurrence was due by {clock.name(at)}."
    return _explain_skip(situation, log, due, clock)


def _describe_run(run: PastRun, clock: Clock) -> str:
    error = f": {run.error}" if run.error else ""
    where = f" on {run.worker}" if run.worker else ""
    late = run.started - run.due
    after = f", {format_length(late)} late" if late >= 1 else ""
    return (
        f"It ran: due {clock.name(run.due)}, it began at {clock.name(run.started)}{after}, took "
        f"{format_took(run.took)}{where} and {ENDS[run.outcome]}{error}."
    )


def _explain_skip(situation: Situation, log: Sequence[LogEntry], due: float, clock: Clock) -> str:
    """Return why the occurrence of `due` did not run, as far as it is known."""
    job, jobid = situation.job, situation.job.jobid
    was_due = f"An occurrence was due at {clock.name(due)}"
    if ended := _describe_end(job, due, clock):
        return f"{was_due} by its schedule, and did not run: {ended}."
    if pending := explain_pending(situation, due, clock):
        return pending
    if change := next((each for each in log if each.jobid == jobid and moves_job(each) and each.time > due), None):
        return f"{was_due} by the schedule as it is now, but {change.who} has set it at {clock.name(change.time)}."
    if before := next((run for run in situation.runs if run.started < due < run.started + run.took), None):
        worker = f", on {before.worker}," if before.worker else ""
        went_on = f"from {clock.name(before.started)} for {format_took(before.took)}"
        return f"{was_due}, and was skipped: the run before it{worker} still went on, {went_on}."
    if flying := explain_behind_run(situation, due, clock):
        return flying
    known = {name: replace(each, begins=None) for name, each in situation.blackouts.items() if each.since <= due}
    if falls := find_for(known, due):
        of = "its blackout" if falls.name.startswith(OF_JOB) else f"the blackout of {describe_name(falls.name)}"
        return f"{was_due}, and did not run then: it fell into {of}, {falls.describe(clock)}."
    if pause := _find_pause(log, jobid, situation.queue, due):
        detail = f" ({localize(pause.detail, clock.name)})" if pause.detail else ""
        return f"{was_due}, and did not run: {pause.who} had paused it at {clock.name(pause.time)}{detail}."
    return _describe_rest(situation, due, clock) or f"{was_due}{_explain_unknown(situation, due, clock)}"


def _describe_rest(situation: Situation, at: float, clock: Clock) -> str:
    """Return the runs before and after `at` of a job with CONTINUE; "" for any other job, or if no run is kept."""
    job, runs, schedule = situation.job, situation.runs, situation.schedule
    before = next((run for run in runs if run.due < at), None)
    if before is None or schedule is None or not schedule.allows_pause:
        return ""
    ran, next_due = _describe_run(before, clock), min((run.due for run in runs if run.due > at), default=job.due)
    was = "is" if next_due is None or next_due > clock.now else "was"
    return ran if next_due is None else f"{ran} The next one {was} due at {clock.name(next_due)}."


def _describe_end(job: JobState, due: float, clock: Clock) -> str:
    """Return that the job had ended before `due`, and has not run since, as the end of a sentence; "" if not."""
    status = Status.parse(job.status)
    if status is None or status.event not in (Event.DIE, Event.STP):
        return ""
    failed = (job.failure or {}).get("failed") if status.event is Event.DIE else None
    since = failed if isinstance(failed, int | float) else status.time
    # A status has whole seconds: it may come from the end of this occurrence.
    if since > due or (failed is None and status.time + 1 > due):
        return ""
    if status.event is Event.STP:
        return f"it had stopped at {clock.name(since)}"
    error = f": {said}" if (said := str((job.failure or {}).get("error", ""))) else ""
    return f"it had failed for good at {clock.name(since)}{error}"


def _explain_unknown(situation: Situation, due: float, clock: Clock) -> str:
    """Explain an occurrence by the counts of skipped ones, if no run and no log entry does. Return a sentence's end."""
    job, runs = situation.job, situation.runs
    also = _describe_skipped(job)
    if runs and due < runs[-1].started:
        oldest = clock.name(runs[-1].started)
        return f"; it did not run, or that run is no longer kept: the oldest one began at {oldest}.{also}"
    if set(job.skipped) == {Skip.EXPIRED}:
        return f", and did not run: it had not begun in time, and expired.{also}"
    # Dispatchers of that time may have ended since: a process that ends in order is forgotten.
    is_known = any(each.since <= due for each in situation.processes if each.kind == "dispatcher")
    unknown = "" if is_known or not set(job.skipped) <= {Skip.MISSED, Skip.LATE} else f" {UNKNOWN_DISPATCHER}"
    if also:
        return f", and did not run.{also}{unknown}"
    return f", and no run is known: the job keeps no runs, or had another schedule then.{unknown}"


def _describe_skipped(job: JobState) -> str:
    """Return the number of occurrences of the job that were skipped so far, as a sentence; "" for none."""
    skipped = ", ".join(f"{number:,} {reason}" for reason, number in job.skipped.items())
    number = sum(job.skipped.values())
    said = f" So far, {name_number(number, 'occurrence')} of it {'was' if number == 1 else 'were'} skipped: {skipped}."
    return said if number else ""


def _find_pause(log: Sequence[LogEntry], jobid: str, queue: str, due: float) -> LogEntry | None:
    """Return the log entry of a pause of the job, of its queue or of everything that was on at `due`; else None."""
    for subject in ((jobid, ""), ("", f"queue {queue}"), ("", "all")):
        last = next((each for each in log if each.time <= due and _is_about(each, *subject)), None)
        until = find_until(last.detail) if last else None
        if last and last.action == "pause" and (until is None or until > due):
            return last
    return None


def _is_about(entry: LogEntry, jobid: str, subject: str) -> bool:
    """Tell whether an entry has paused, resumed or unset the job `jobid`; if it is "", the `subject` of its detail."""
    if entry.action not in ("pause", "resume", "unset") or entry.jobid != jobid:
        return False
    return not subject or re.fullmatch(rf"{re.escape(subject)}( until \d{{4}}-\S+)?(: .*)?", entry.detail) is not None


class Reasons:
    """Explains jobs of `store`. Times are shown in the zone of `settings`.

    With `fits`, other jobs that a job waits for, or as which it runs, are named only if all of them fit.
    """

    def __init__(self, store: Store, settings: Settings, fits: Callable[[str], bool] | None = None) -> None:
        self._store = store
        self._settings = settings
        self._fits = fits

    def explain(self, jobid: str, at: float | None = None) -> str:
        """Return why `jobid` does not run now, or why it did not run when it was last due until `at` (epoch seconds).

        Raise `BadJobId`, `NoSuchJob`, and `BadConfig` for a future `at`.
        """
        with name_if_silent(self._store):
            return self._explain(jobid, at)

    def _explain(self, jobid: str, at: float | None) -> str:
        [job] = self._store.questions.inspect([check_known_jobid(jobid)], with_data=True)
        if job.schedule is None and job.status is None and not job.running:
            raise NoSuchJob(f"no such job: {jobid!r}")
        clock = Clock(job.now, self._settings.timezone)
        if at is not None and at > job.now:
            raise BadConfig(
                f"bad --at: {clock.name(at)} is in the future, {clock.measure(at)}; redbike next shows the future"
            )
        situation = self._read(job)
        for _ in range(MOVES):
            if situation.ahead is not None:
                break
            # The job is far back in its queue, or was just taken.
            [again] = self._store.questions.inspect([jobid], with_data=True)
            if (again.queued, again.running) == (job.queued, job.running):
                break
            job, situation, clock = again, self._read(again), Clock(again.now, self._settings.timezone)
        if at is None:
            return f"{explain_now(situation, clock)}{self._explain_backfill(situation, clock)}"
        # The log of its own shard does not have changes for all shards, such as a pause of a queue.
        with tolerate_missing():
            return explain_past(situation, list(self._store.whole.log.list_entries()), at, clock)

    def _read(self, job: JobState) -> Situation:
        store, queue = self._store, self._find_queue(job)
        runs = sorted(store.journal.list_runs([job.jobid]), key=lambda run: run.started, reverse=True)
        with tolerate_missing():
            found = {each.queue: each for each in store.whole.depths.list_all(with_rates=False)}
        situation = Situation(
            job=job,
            runs=runs,
            queue=queue,
            queue_limits=(store.queue_limits.read(queue), store.queue_limits.read("")),
            processes=store.workers.list_all(),
            ahead=store.depths.count_before(queue, job.jobid, FAR) if job.waiting else 0,
            flying=found[queue].in_flight if queue in found else 0,
            opens=store.queue_limits.find_opening(queue, job.now),
            is_of_shard=store.whole is not store,
            settings=self._settings,
            blackouts=read_blackouts(store, name_all(job.jobid, queue), [job]),
            refusal=refusal.text if (refusal := store.questions.find_refusal()) and not refusal.is_full else "",
        )
        awaited = self._explain_awaited(situation) if job.follows else self._explain_hosts(job, queue)
        return replace(situation, awaited=awaited)

    def _explain_hosts(self, job: JobState, queue: str) -> str:
        """Return where a job for every host runs; "" for any other job."""
        if not is_base(job.jobid):
            return ""
        if missed := explain_missed(job, self._store.hosts.read(job.jobid).began):
            return f"It {missed}."
        hosts = list_hosts(self._store, job)
        if self._fits and not all(self._fits(each["jobid"]) for each in hosts):
            return HIDDEN_HOSTS
        return explain_hosts(job.jobid, hosts, queue, Clock(job.now, self._settings.timezone))

    def _explain_awaited(self, situation: Situation) -> str:
        """Return what a follower waits for, and whether it will be paused when its parents make it due."""
        job, blackouts = situation.job, situation.blackouts
        family = Family(self._store.whole)
        family.add([job])
        family.read_parents([job.jobid], MOST_GENERATIONS)
        if self._fits and job.jobid in find_hidden(family, self._fits):
            return HIDDEN
        family.holds = read_holds(self._store.whole, family.states)
        clock = Clock(job.now, self._settings.timezone)
        said, due_times = explain_follower(family, job, clock), list_due_times(family, job) if blackouts else NEVER
        due = None if due_times.allows_pause else due_times.next(job.now)
        if due is None or not (paused := warn_of(blackouts, due, clock, partial(situation.foretell, due))):
            return said
        return f"{said} It is due at {clock.name(due)} at the earliest.{paused}"

    def _explain_backfill(self, situation: Situation, clock: Clock) -> str:
        """Return the progress of the backfill of the job, and what holds it, as a further sentence; "" without one."""
        found, _ = self._store.backfills.read(situation.job.jobid)
        if not found:
            return ""
        held = self._find_hold(situation, found, clock)
        how = f"waits, as {held}" if held else "goes on beside that"
        return f" Its backfill {how}: {describe_backfill(found, clock)}."

    def _find_hold(self, situation: Situation, found: BackfillDetails, clock: Clock) -> str:
        """Return why no further occurrence of the backfill runs, as a part of a sentence; "" if one does."""
        if not found["preparing"] and (closed := describe_closed(situation.queue_limits, clock)):
            return closed
        own = situation.job.jobid
        jobids = self._store.backfills.list_holding(own) if found["left"] and not found["preparing"] else []
        for jobid, said in list_paused(self._store, jobids, clock.zone):
            if jobid == own:
                return "the job is paused"
            is_shown = self._fits is None or self._fits(jobid)
            return f"{jobid if is_shown else 'another job'}, which follows it, is {said}"
        return ""

    def _find_queue(self, job: JobState) -> str:
        # A damaged job may have nothing but the record of its run.
        found = self._store.overview.read_named([job.jobid])
        return found[0].queue if found else job.run.queue if job.run else ""
