"""A job as an operator sees it, and a search for jobs."""

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redbike.errors import BadConfig
from redbike.schedule.parser import recurs
from redbike.store.cursors import Cursor
from redbike.store.enums import Event, Outcome


@dataclass(frozen=True, slots=True)
class Job:
    """A job, at one instant. Times are epoch seconds by Redis' clock; None means that there is no such value."""

    jobid: str
    queue: str  #: in which it waits or from which it was taken, else the queue of its next run; "" if unknown
    status: Event | None
    since: int | None  #: when the status began
    next_run: float | None  #: when it is due on the timeline; of a job for every host, the first due time of its jobs
    paused: float | None  #: since when it is paused
    last_started: float | None  #: when its last run that has ended and is kept started
    last_outcome: Outcome | None  #: the outcome of that run
    schedule: str | None
    has_failed: bool  #: whether it has failed for good, or its last run has failed
    is_overdue: bool  #: it is due, not paused, and does not run yet
    is_running: bool
    data: Any = field(default=None, hash=False)  #: its data for the worker, if they were asked for
    paused_until: float | None = None  #: when its pause ends by itself

    @property
    def never_ran(self) -> bool:
        """Tell whether no run of it is known; see the option ``history``."""
        return not self.is_running and self.last_started is None and self.status != Event.DIE

    @property
    def is_dead(self) -> bool:
        """Tell whether it has failed for good, though its schedule would go on."""
        return self.status == Event.DIE and self.schedule is not None and recurs(self.schedule)


@dataclass(frozen=True, slots=True)
class JobSearch:
    """A search for jobs: those to which all fields apply that are given."""

    queue: str | None = None
    status: Event | None = None
    failed: bool = False
    paused: bool = False
    overdue: bool = False
    never_ran: bool = False
    planned: bool = False  # it has a due time, which may be past
    tags: Set[str] = frozenset()  # it has one of these tags, if any are given
    pattern: str | None = None  # of ids, for the server
    matches: Callable[[str], bool] = field(default=lambda jobid: True)  # does the same for an id in Python
    by_next: bool = False  # jobs on the timeline come first, in the order in which they are due

    def fits(self, job: Job) -> bool:
        """Tell whether `job` fits, without a check of its id and its tags."""
        return (
            self.queue in (None, job.queue)
            and self.status in (None, job.status)
            and (job.has_failed or not self.failed)
            and (job.paused is not None or not self.paused)
            and (job.is_overdue or not self.overdue)
            and (job.never_ran or not self.never_ran)
            and (job.next_run is not None or not self.planned)
        )


EVERYTHING = JobSearch()


class JobPage(NamedTuple):
    """A page of jobs."""

    jobs: list[Job]
    looked_at: int  # entries read for this page and those before it: an estimate, as the server has no exact number
    total: int  # all entries
    following: Cursor | None  # where the next page begins; None if nothing is left


def read_event(text: str) -> Event:
    """Return the event of this name, in upper or lower case. Raise `BadConfig` for another text."""
    if not isinstance(text, str) or text.upper() not in Event.__members__:
        raise BadConfig(f"bad status {text!r:.40}: {', '.join(Event)} are allowed")
    return Event[text.upper()]
