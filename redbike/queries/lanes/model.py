"""Lanes of a timeline: the past, current and coming runs of each queue, or of each job, in a span of time."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from redbike.queries.counting import MINUTE
from redbike.store.coming import ComingJob
from redbike.store.history import PastRun

LISTED, EACH = 100, 5  # events that are listed; events of each job that are listed first


class Kind(StrEnum):
    """The kind of an event, in one word."""

    FAILED = "failed"
    RUNNING = "running"
    OK = "ok"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class Event:
    """A run, or all coming runs in one minute. Times are epoch seconds."""

    start: float
    end: float
    kind: Kind
    jobid: str
    due: float
    number: int = 1
    run: PastRun | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Band:
    """A time in which a lane is held, with its description."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A change, or the loss of a process."""

    time: float
    text: str
    jobid: str = ""
    is_loss: bool = False


@dataclass(slots=True)
class Lane:
    """The events of a queue or of a job. `name` is "" for jobs whose queue is not known."""

    name: str
    counts: Counter[Kind] = field(default_factory=Counter)
    events: list[Event] = field(default_factory=list)  #: of a job
    parts: dict[Kind, Counter[int]] = field(default_factory=dict)  #: of a queue: the number of runs in each part
    bands: list[Band] = field(default_factory=list)
    kept_from: float | None = None  #: before this, not all runs are kept; None: they are kept all the time
    coming: tuple[ComingJob, "Plan"] | None = None  # coming runs of a job, until the lanes to draw are chosen

    @property
    def rank(self) -> tuple[bool, bool, str]:
        """The sort key of the lane: first lanes with failures, then with runs in flight, then by name."""
        return not self.counts[Kind.FAILED], not self.counts[Kind.RUNNING], self.name


@dataclass(slots=True)
class Plan:
    """The coming runs of jobs of a queue that run in the same minutes. `minutes` count from `base`."""

    queue: str
    minutes: Counter[int]
    base: float
    start: float  # when coming runs begin
    is_frequent: bool
    jobs: int = 0
    seconds: float = 0.0  # that one run of each job takes in all, as far as known
    samples: list[ComingJob] = field(default_factory=list)

    def add(self, job: ComingJob) -> None:
        """Count one more job."""
        self.jobs += 1
        self.seconds += job.duration or 0.0
        if len(self.samples) < LISTED:
            self.samples.append(job)

    def list_events(self, jobid: str, duration: float) -> Iterator[Event]:
        """Yield the coming runs of one of the jobs."""
        for minute, number in sorted(self.minutes.items()):
            moment = max(self.base + minute * MINUTE, self.start)
            yield Event(moment, moment + duration, Kind.PLANNED, jobid, self.base + minute * MINUTE, number)


@dataclass(frozen=True, slots=True)
class Question:
    """The requested time, from `since` to `until` in epoch seconds, and the requested jobs."""

    since: float
    until: float
    by_job: bool = False
    queue: str = ""
    fits: Callable[[str], bool] = field(default=lambda jobid: True, compare=False)
    every: float = 0.0  #: jobs that run more often than each so many seconds are left out

    def has(self, jobid: str, queue: str) -> bool:
        """Tell whether a job of this queue is asked for."""
        return self.queue in ("", queue) and self.fits(jobid)

    def is_in(self, start: float, end: float) -> bool:
        """Tell whether a part of [`start`, `end`] is in it."""
        return end >= self.since and start < self.until


@dataclass(slots=True)
class Lanes:
    """What was found; it was `now`."""

    question: Question
    now: float
    parts: int  #: into which the time is divided for queues
    lanes: list[Lane] = field(default_factory=list)
    more: int = 0  #: lanes that are not among these
    counts: Counter[Kind] = field(default_factory=Counter)  #: of all lanes
    listed: list[Event] = field(default_factory=list)  #: some, by time; what failed is left out last
    marks: list[Mark] = field(default_factory=list)  #: by time
    hidden: set[str] = field(default_factory=set)  #: jobs that run too often
    continuous: int = 0  #: jobs that will run again as soon as they have run
    cuts: list[str] = field(default_factory=list)

    @property
    def events(self) -> int:
        """How many there are in all."""
        return self.counts.total()
