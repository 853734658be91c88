"""What is known of a job and of what it depends on."""

from collections.abc import Sequence
from dataclasses import dataclass

from redbike.config.options import parse_options
from redbike.errors import BadSchedule
from redbike.schedule.clock import Clock, format_length
from redbike.schedule.kinds import Schedule
from redbike.store.enums import Outcome
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.processes import Process
from redbike.store.queue_limits import QueueLimits
from redbike.store.schedules import find_schedule

FAR = 10_000  # jobs before one in its queue, beyond which they are not counted

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
    """A job, and what it depends on."""

    job: JobState
    runs: Sequence[PastRun]  # those that are kept, the newest first
    queue: str
    queue_limits: Sequence[QueueLimits]  # that of its queue, and that of all queues
    processes: Sequence[Process]
    ahead: int | None = None  # jobs before it in its queue; None for more than `FAR`
    flying: int = 0  # runs of its queue
    grace: float = 0.0  # the setting of this name
    refusal: str = ""  # why the server takes no changes

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of the job; None if it has none, or a damaged one."""
        return read_schedule(self.job)

    def list_alive(self, kind: str) -> list[Process]:
        """Return the processes of this kind that are alive; of workers, those of its queue."""
        found = [each for each in self.processes if each.kind == kind and each.state == "alive"]
        if kind == "dispatcher":
            return found
        return [each for each in found if each.works(self.queue)]


def read_schedule(job: JobState) -> Schedule | None:
    """Return the schedule of a job; None if it has none, or a damaged one."""
    try:
        return None if job.schedule is None else find_schedule(job.jobid, job.schedule, job.options)
    except BadSchedule:
        return None


def describe_drop(job: JobState, grace: float, clock: Clock) -> str:
    """Return that a job which was to run once was dropped, as the end of a sentence; "" if it was not.

    `grace` is the setting. It may be another one by now: then its length is not told.
    """
    if job.dropped is None:
        return ""
    own = parse_options(job.options).get("grace", grace)
    length = f" of {format_length(float(own))}" if own else ""
    return f"never ran: it was due at {clock.name(job.dropped)}, and its grace{length} had passed before it could run"
