"""Requests to set a job: what the user asks for becomes a job with its first due time, by the job's options."""

from dataclasses import dataclass

from redbike.config.options import NO_CHANGES, OptionChanges
from redbike.config.settings import Settings, override
from redbike.loop.occurrences import find_first_due
from redbike.loop.timefile import Timefile
from redbike.schedule.kinds import Schedule, Stop
from redbike.schedule.objects import ScheduleLike, format_schedule
from redbike.schedule.parser import parse
from redbike.store.jobs import JobToSet
from redbike.store.schedules import apply_options, find_jitter


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
    wants_run: bool = False  # the job is to run again, even if it has failed for good
    membership: str | None = None  # the record of whose row it is; None leaves it as it is
    known: str = ""  # the options that the job has, as far as is known: most jobs have none
    paused: str = ""  # the record of the pause that it has at once if it is new

    @property
    def options(self) -> str:
        """The options that the job will have."""
        return self.changes.apply(self.known) if self.changes.options else self.known

    @property
    def timed_schedule(self) -> Schedule:
        """The schedule with the options that the job will have."""
        return apply_options(self.schedule, self.jobid, self.options)

    def make_job(self, settings: Settings) -> JobToSet:
        """Return the job with its first due time."""
        options = self.options
        schedule = apply_options(self.schedule, self.jobid, options)
        # If the user has not said from when, a one-off that is past is due at once.
        since = float("-inf") if schedule.runs_once and not self.is_given else self.since
        due, skipped = find_first_due(schedule, since, self.now, override(settings, options))
        # A one-off that is never due would be, wherever its text is set again.
        text = Stop.text if due is None and schedule.runs_once else schedule.text
        keeps = not self.is_given and not schedule.is_command
        rests = not self.is_given and not self.wants_run and (keeps or self.schedule.never_runs)
        moves = options != self.known and find_jitter(options) != find_jitter(self.known)
        return JobToSet(
            self.jobid,
            text,
            due,
            schedule.runs_once,
            self.queue,
            keeps,
            stays=self.stays and not moves,
            rests=rests,
            anchor_span=schedule.anchor_span if keeps else None,
            known=self.known,
            options=None if options == self.known else options,
            moves=moves,
            data=self.changes.data,
            group=self.membership,
            paused=self.paused,
            skipped=skipped,
        )


class Start:
    """From when the occurrences of a job count that is set."""

    def __init__(self, settings: Settings) -> None:
        self._timefile = Timefile(settings.timefile) if settings.timefile else None

    def compute(self, after: float | None, now: float) -> float:
        """Return `after`, or the instant in the timefile, or now."""
        kept = self._timefile.read(now) if after is None and self._timefile else after
        return now if kept is None else kept


def parse_to_set(schedule: ScheduleLike, zone: str, jobid: str, now: float, settings: Settings) -> Schedule:
    """Return a schedule that is set `now`, in its complete form. Raise `BadSchedule`."""
    parsed = parse(format_schedule(schedule, zone), zone, jobid, now)
    if zone == "UTC" != settings.timezone:
        # Stored without a zone it would not mean the same when it is loaded again under these settings.
        return parsed.with_zone()
    return parsed
