"""Requests to set a job, or to cancel its occurrence: compute by its options when the job goes on.

A request to set a job becomes the job with its first due time. An occurrence that is cancelled waits, or runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redbike.config.options import NO_CHANGES, OptionChanges, parse_options
from redbike.config.settings import Settings, override
from redbike.errors import BadConfig, BadJobId, BadSchedule, quoted
from redbike.loop.catchup import find_first_due, keep_failed
from redbike.loop.policies import decide_rescheduled
from redbike.loop.timefile import Timefile
from redbike.schedule.kinds import Schedule, Stop
from redbike.schedule.objects import ScheduleLike, format_schedule
from redbike.schedule.parser import EveryHost, is_one_off, parse
from redbike.store.every_host import MAX_BASE, HostStart, add_start, is_base, name_job
from redbike.store.host_names import split_host
from redbike.store.inspected import JobState
from redbike.store.jobs import Cancellation, JobToSet, SetMode
from redbike.store.records import RetryState
from redbike.store.run import Run
from redbike.store.schedules import apply_options, find_jitter

GROUP_OF = "group-of"


@dataclass(slots=True)
class Request:
    """A job to set, whose occurrences count from `since`. Times are epoch seconds by Redis' clock."""

    jobid: str
    schedule: Schedule  # without the options
    queue: str
    now: float
    since: float
    is_given: bool  # whether the user has said from when occurrences count
    changes: OptionChanges = NO_CHANGES  # of the options and the data
    stays: bool = False  # this is the schedule that the job has: only its options, data and group are set
    found: str = ""  # it is not set if it has another schedule than this by then, or none
    wants_run: bool = False  # the job is to run again, even if it has failed for good
    membership: str | None = None  # the record of whose row it is; None leaves it as it is
    known: str = ""  # the options that the job has, as far as is known: most jobs have none
    paused: str = ""  # the record of the pause that it has at once if it is new

    @property
    def options(self) -> str:
        """The options that the job will have."""
        options = self.changes.apply(self.known) if self.changes.options else self.known
        return add_start(options, self._find_start()) if is_base(self.jobid) else options

    def _find_start(self) -> HostStart | None:
        """Return what the jobs of a base on hosts need of it, see `HostStart`; None for nothing."""
        known = HostStart.parse(self.known)
        if self.stays:
            return known
        if not isinstance(self.schedule, EveryHost) or self.schedule.inner.runs_once:
            return None
        if known and known.is_given and not self.is_given and self.schedule.is_stored_as(known.schedule):
            return known
        has_other = self.is_given or self.since != self.now
        return HostStart(self.since, self.now, self.is_given, self.schedule.text) if has_other else None

    @property
    def timed_schedule(self) -> Schedule:
        """The schedule with the options that the job will have."""
        return apply_options(self.schedule, self.jobid, self.options)

    def make_job(self, settings: Settings) -> JobToSet:
        """Return the job with its first due time."""
        options = self.options
        schedule, own = self.schedule, settings
        if options:  # most jobs have none
            schedule, own = apply_options(schedule, self.jobid, options), override(settings, options)
        # If the user has not said from when, a one-off that is past is due at once.
        since = float("-inf") if schedule.runs_once and (schedule.is_awaiting or not self.is_given) else self.since
        due, skipped = find_first_due(schedule, since, self.now, own)
        is_over = self.is_given and isinstance(self.schedule, EveryHost) and self.schedule.is_over(since)
        if is_over:
            due = None
        # Stored as STOP: set again elsewhere, the text of a one-off that is never due would be due.
        text = Stop.text if is_over or (due is None and schedule.runs_once) else schedule.text
        new_jitter = options != self.known and self._has_new_jitter(schedule, options)
        keeps_place = not self.is_given and not schedule.is_command
        # In the order of the fields: by their names it takes twice as long, for each job.
        return JobToSet(
            self.jobid,
            text,
            due,
            schedule.runs_once,
            self.queue,
            SetMode.KEEP_SCHEDULE if self.stays and not new_jitter else self._choose_mode(keeps_place),
            schedule.anchor_span if keeps_place else None,
            self.found,
            self.known,
            None if options == self.known else options,
            new_jitter,
            self.changes.data,
            self.membership,
            self.paused,
            skipped,
            0.0 if schedule.allows_pause else own.expires,
            self._find_links(schedule),
        )

    def _has_new_jitter(self, schedule: Schedule, options: str) -> bool:
        has_clock = not (schedule.is_immediate or schedule.never_runs or schedule.is_awaiting)
        return has_clock and find_jitter(options) != find_jitter(self.known)

    def _find_links(self, schedule: Schedule) -> dict[str, object] | None:
        """Return its parents, and the group that it is in from now on ("" for none); None if there is neither."""
        if not (schedule.is_awaiting or self.known or self.changes.options):
            return None  # as most jobs
        links = dict(schedule.find_parents() or {})
        before = parse_options(self.known).get(GROUP_OF) if GROUP_OF in self.known else None
        name = self.changes.options.get(GROUP_OF, before)
        # A row that was in the group already was counted, and may have ended.
        if name != before or (name and not self.stays):
            links["member"] = name or ""
        return links or None

    def _choose_mode(self, keeps_place: bool) -> SetMode:
        keeps_rest = not self.is_given and not self.wants_run and (keeps_place or self.schedule.never_runs)
        if keeps_place:
            return SetMode.KEEP if keeps_rest else SetMode.KEEP_PLACE
        return SetMode.KEEP_REST if keeps_rest else SetMode.REPLACE


class Start:
    """From when the occurrences of a job count when it is set."""

    def __init__(self, settings: Settings) -> None:
        self._timefile = Timefile(settings.timefile) if settings.timefile else None

    def compute(self, after: float | None, now: float) -> float:
        """Return `after`; without it, the instant in the timefile; without a valid one, `now`."""
        kept = self._timefile.read(now) if after is None and self._timefile else after
        return now if kept is None else kept


def parse_to_set(schedule: ScheduleLike, zone: str, jobid: str, now: float, settings: Settings) -> Schedule:
    """Return a schedule that is set `now`, in its complete form. Raise `BadSchedule`."""
    text = schedule if type(schedule) is str else format_schedule(schedule, zone)
    parsed = parse(text, zone, jobid, now)
    if is_base(jobid):
        parsed = _wrap(parsed, now)
    elif parsed.is_for_hosts:
        raise BadSchedule(f"bad schedule {quoted(parsed.text)}: only a job whose id ends in @all runs on every host")
    if parsed.is_awaiting:
        _check_parents(parsed)
    if zone == "UTC" != settings.timezone:
        # Stored without a zone it would not mean the same when it is loaded again under these settings.
        return parsed.with_zone()
    return parsed


def _wrap(parsed: Schedule, now: float) -> Schedule:
    """Return the schedule of a base, made from the one that its job has on each host. Raise `BadSchedule`."""
    if isinstance(parsed, EveryHost) or parsed.never_runs:
        return parsed
    # New hosts must not run once more what was to run right away.
    if parsed.is_immediate and parsed.runs_once:
        return EveryHost.wrap(parse(f"AT:{now:.6f}"), parsed.text)
    return EveryHost.wrap(parsed)


def _check_parents(parsed: Schedule) -> None:
    parents: Any = (parsed.find_parents() or {}).get("parents", ())
    if base := next(filter(is_base, parents), ""):
        why = f"{base} never ends: it has a job on each host, such as {name_job(base, 'web1')}, which can be followed"
        raise BadSchedule(f"bad schedule {quoted(parsed.text)}: {why}")


def check_base(jobid: str, queue: str, changes: OptionChanges) -> None:
    """Raise `BadJobId` or `BadConfig` for a base that cannot be one; accept any other job."""
    if not is_base(jobid):
        return
    if not is_base(queue):
        why = f"its queue {queue!r} is not named by its id, so it has none for each host"
        raise BadJobId(f"bad job id {jobid!r}: {why}")
    if split_host(split_host(queue)[0])[1]:
        raise BadJobId(f"bad job id {jobid!r}: its queue {queue!r} names a host already")
    if (size := len(jobid.encode())) > MAX_BASE:
        why = f"it has {size} bytes, up to {MAX_BASE} are allowed for a job on every host"
        raise BadJobId(f"bad job id {jobid[:40]!r}: {why}")
    if changes.options.get(GROUP_OF):
        raise BadConfig(
            f"bad {GROUP_OF} {quoted(str(changes.options[GROUP_OF]))}: a job on every host cannot be in a group"
        )


def compute_cancellation(
    state: JobState, settings: Settings, find_pause: Callable[[JobState], tuple[float, float] | None]
) -> Cancellation | str:
    """Return what is to be cancelled of a job, and when it goes on; or a word if there is nothing to cancel.

    `find_pause` is called if its occurrence waits, and returns what `find_queue_pause` has found for its queue.
    """
    if state.schedule is None:
        return "missing"
    found = {name: text for name, text in state.stored.items() if name in ("schedule", "timeline", "queued", "pause")}
    if state.run:
        return Cancellation(state.jobid, found, state.run.tag)
    due = _find_waiting(state)
    if due is None or state.running:
        return "idle"
    queue = state.waiting.queue if state.waiting else None
    tried = RetryState.parse(state.retry_state)
    # What came due since the pause is decided when the job is resumed.
    until = state.pause.since if state.pause else state.now
    run = Run(state.jobid, due, "", until, until, 0, 0, state.schedule, queue or "")
    run.options, run.tries, run.after = state.options, tried.tries, tried.after
    run.queue_pause = find_pause(state)
    decided = decide_rescheduled(run, override(settings, state.options), until, why="")
    next_state = keep_failed(decided, tried.failed)
    # CONTINUE goes on at once.
    goes_on = state.now if isinstance(next_state.due, str) else next_state.due
    skipped, spent = next_state.skipped, goes_on is None and is_one_off(state.schedule)
    return Cancellation(state.jobid, found, None, queue, goes_on, spent, skipped, next_state.retry_state)


def _find_waiting(state: JobState) -> float | None:
    """Return the due time of the occurrence that waits; None if there is none, or if its time is yet to come."""
    if state.waiting:
        return state.waiting.due
    waits_until = state.held if state.pause else state.timeline
    if state.queued or waits_until is None:
        return None
    tried = RetryState.parse(state.retry_state).due
    return tried if tried is not None else waits_until if waits_until <= state.now else None
