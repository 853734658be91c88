"""A job as an operator sees it, and what one may look for."""

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redbike.errors import BadConfig
from redbike.schedule.parser import recurs
from redbike.store.cursors import Cursor
from redbike.store.enums import Event, Outcome


@dataclass(frozen=True, slots=True)
class Job:
    """A job, at one instant. Times are epoch seconds by Redis' clock; None stands for what there is not."""

    jobid: str
    queue: str  #: in which it waits or from which it was taken, else that of its next run; "" if nobody knows
    status: Event | None
    since: int | None  #: when the status began
    next_run: float | None  #: when it is due on the timeline; of a job for every host, when the first host's job is
    paused: float | None  #: since when
    last_started: float | None  #: the last run that has ended and is kept
    last_outcome: Outcome | None
    schedule: str | None
    has_failed: bool  #: for good, or its last run did
    is_overdue: bool  #: it is due, not paused, and does not run yet
    is_running: bool
    data: Any = field(default=None, hash=False)  #: for its worker, if they were asked for
    paused_until: float | None = None  #: when its pause ends by itself

    @property
    def never_ran(self) -> bool:
        """Tell whether nothing is known of a run; see the option ``history``."""
        return not self.is_running and self.last_started is None and self.status != Event.DIE

    @property
    def is_dead(self) -> bool:
        """Tell whether it has failed for good, though its schedule would go on."""
        return self.status == Event.DIE and self.schedule is not None and recurs(self.schedule)


@dataclass(frozen=True, slots=True)
class JobSearch:
    """Which jobs are looked for: those for which everything that is given here holds."""

    queue: str | None = None
    status: Event | None = None
    failed: bool = False
    paused: bool = False
    overdue: bool = False
    never_ran: bool = False
    planned: bool = False  # it has a due time, which may be past
    tags: Set[str] = frozenset()  # one of them, if there are any
    pattern: str | None = None  # of ids, for the server
    matches: Callable[[str], bool] = field(default=lambda jobid: True)  # tells the same of an id
    by_next: bool = False  # those on the timeline first, in the order in which they are due

    def fits(self, job: Job) -> bool:
        """Tell whether `job` is one of them, if its id is."""
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
    looked_at: int  # entries, on this page and those before it; about, as the server has no exact number
    total: int  # entries that there are
    following: Cursor | None  # where the next page begins; None: nothing is left


def read_event(text: str) -> Event:
    """Return the event of this name, in any case. Raise `BadConfig`."""
    if not isinstance(text, str) or text.upper() not in Event.__members__:
        raise BadConfig(f"bad status {text!r:.40}: {', '.join(Event)} are allowed")
    return Event[text.upper()]
