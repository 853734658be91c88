"""What the store takes and returns: runs, their outcomes, what a dispatcher sees, the state of a job.

`redbike.state.keys` describes the records that are kept in Redis. In Python, `parse` and `format` of their classes read
and write them, in Lua the functions of ``lua/_records.lua``; nothing else takes them apart.
"""

import re
import time
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Due = float | Literal["now"] | None

STATUS = re.compile(r"(TML|ENQ|WRK|STP|DIE|BAD):(\d{1,12})", re.ASCII)
MOMENT = r"\d{1,12}\.\d{6}"
WAITING = re.compile(rf"({MOMENT}) (.+)", re.ASCII | re.DOTALL)
RUN = re.compile(
    rf"(\S+) ({MOMENT}) ({MOMENT}) ({MOMENT}) (\d{{1,9}}) (\d{{1,9}}) (-|set|once|due:{MOMENT}) (.+)",
    re.ASCII | re.DOTALL,
)
STREAK = re.compile(rf"(\d{{1,9}}) (\d{{1,9}})(?: (\d{{1,9}}) (-|{MOMENT}) (-|{MOMENT}))?( alone)?", re.ASCII)


@dataclass(slots=True)  # not frozen: that makes a new one four times as slow, and there is one for every job
class Run:
    """A run in flight, as its worker holds it. Times are epoch seconds by Redis' clock."""

    jobid: str
    due: float
    tag: str
    start: float
    deadline: float
    failures: int  # runs in a row that raised, before this one
    losses: int  # runs in a row whose worker died, before this one
    schedule: str  # the text at the time when the run was taken
    queue: str
    prefix: str = field(default="", compare=False)  # of the keys: two prefixes may have jobs of the same id
    received: float = field(default_factory=time.monotonic, compare=False)
    over: float = field(default=0.0, compare=False)  # when its work was over, by the monotonic clock; 0.0 before
    tries: int = 0  # of the same occurrence, before this one
    after: float | None = None  # after when the schedule goes on, if that is not `due`

    @property
    def attempt(self) -> int:
        """The number of this try of the same occurrence, from 1."""
        return 1 + self.tries

    @property
    def goes_on_after(self) -> float:
        """The instant after which the schedule has its next occurrence."""
        return self.due if self.after is None else self.after

    @property
    def was_in_time(self) -> bool:
        """Tell whether its work was over before its deadline."""
        return 0.0 < self.over < self.received + self.deadline - self.start

    def now(self) -> float:
        """Return Redis' clock, as far as this process knows it without a request; only drift can put it ahead."""
        return self.start + time.monotonic() - self.received


@dataclass(frozen=True, slots=True)
class Status:
    """The last event of a job and its time, in whole epoch seconds."""

    event: str
    time: float

    @classmethod
    def parse(cls, record: str | None) -> "Status | None":
        """Read a record; None for one that is damaged, and for none."""
        found = STATUS.fullmatch(record or "")
        return None if found is None else cls(found[1], float(found[2]))


@dataclass(frozen=True, slots=True)
class Waiting:
    """The record of a job in a queue."""

    due: float
    queue: str

    @classmethod
    def parse(cls, record: str) -> "Waiting | None":
        """Read a record; None for one that is damaged, and for none."""
        found = WAITING.fullmatch(record)
        return None if found is None else cls(float(found[1]), found[2])

    def format(self) -> str:
        """Write the record."""
        return f"{self.due:.6f} {self.queue}"


@dataclass(slots=True)  # not frozen, as `Run` is not
class RunRecord:
    """The record of a run in flight. `next` is what was left behind for its end, see `redbike.state.keys`."""

    tag: str
    start: float
    deadline: float
    due: float
    failures: int
    losses: int
    next: str
    queue: str

    @classmethod
    def parse(cls, record: str) -> "RunRecord | None":
        """Read a record; None for one that is damaged, and for none."""
        found = RUN.fullmatch(record)
        if found is None:
            return None
        tag, start, deadline, due, failures, losses, anew, queue = found.groups()
        return cls(tag, float(start), float(deadline), float(due), int(failures), int(losses), anew, queue)

    def format(self) -> str:
        """Write the record."""
        times = f"{self.start:.6f} {self.deadline:.6f} {self.due:.6f}"
        return f"{self.tag} {times} {self.failures} {self.losses} {self.next} {self.queue}"


@dataclass(frozen=True, slots=True)
class Streak:
    """What is kept of a job whose occurrence is to be tried again; see `redbike.state.keys`."""

    failures: int = 0  # in a row
    losses: int = 0  # in a row
    tries: int = 0  # of the same occurrence, for whatever reason
    due: float | None = None  # of that occurrence; None if it is the one in the queue
    after: float | None = None  # after when the schedule goes on; None: after `due`
    alone: bool = False  # it must not be taken with others

    @classmethod
    def parse(cls, record: str) -> "Streak":
        """Read a record; a damaged one counts as an empty one."""
        found = STREAK.fullmatch(record)
        if found is None:
            return cls()
        failures, losses, tries, due, after, alone = found.groups()
        return cls(int(failures), int(losses), int(tries or 0), _moment(due), _moment(after), alone is not None)

    def format(self) -> str:
        """Write the record."""
        due, after = ("-" if moment is None else f"{moment:.6f}" for moment in (self.due, self.after))
        tried = f" {self.tries} {due} {after}" if self.tries or (due, after) != ("-", "-") else ""
        return f"{self.failures} {self.losses}{tried}{' alone' if self.alone else ''}"


def _moment(text: str | None) -> float | None:
    return None if text in (None, "-") else float(text)


@dataclass(slots=True)
class Outcome:
    """Where a job goes when its run has ended, and what is kept of that; see ``lua/end.lua``."""

    # next: at `due`, computed from the schedule; due: at `due`, whatever the schedule; stay: on the timeline, where
    # somebody has put it during the run.
    place: Literal["next", "due", "stay", "stop", "die", "unset"]
    due: float | str | None = None  # a time, "+n" for n seconds from now, or None: it has run out
    why: Literal["", "overrun", "lost"] = ""  # "": the worker is done
    streak: str = ""  # the record of a `Streak`
    failure: dict[str, Any] | None = None
    missed: int = 0  # occurrences that were skipped while none ran
    overlapped: int = 0  # and while this one did
    retried: bool = False  # the worker is done and has failed, but that is no failure yet
    # What was left behind during the run, as far as the place was computed with it: `next` of the record, with
    # "+timeline" at its end if the job is there.
    left: str = "-"


EndedRun = tuple[Run, Outcome]


class Answer(NamedTuple):
    """What a script replied to the end of a run.

    - ``ok``: `detail` is where the job is now: ``timeline``, ``queue``, ``stopped`` or ``unset``.
    - ``stale``: the run is not the tag's any more. ``overrun``: it was too late, which the caller must say.
      ``alive``: it is not lost, or not overrun. ``kept``: others must be computed again first. Nothing was changed.
    - ``changed``: nothing was changed either. The place must be computed again, from the schedule in `detail`, and from
      what was left behind for the end of the run, in `left`.
    """

    word: str
    detail: str = ""
    left: str = "-"


@dataclass(slots=True)
class Entry:
    """A job to set, see `Store.set`."""

    jobid: str
    schedule: str
    due: Due
    once: bool
    queue: str
    keeps: bool = False  # left where it is, if it has this schedule already
    rests: bool = False  # so also if it has failed for good
    # How many bytes come before and after an anchor that was just put in. Another anchor makes no other schedule.
    anchor_span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What a dispatcher found to do. Times are epoch seconds by Redis' clock."""

    now: float
    control: str
    dispatched: float | None
    next_lease: float | None
    due: list[tuple[str, str]]  # job id and due time, the latter as Redis spells it
    coming: list[tuple[str, str]]  # the same, of some of those that are due next, in order
    lost: list[Run]  # those that were taken together one behind the other
    strays: dict[str, list[str]]  # by tag whose worker is not heard of: jobs that are not in flight under it after all
    old: list[str]  # jobs in flight whose worker, of an older version, is not heard of

    @property
    def next_due(self) -> float | None:
        """The instant at which the next job is due; None if there is none."""
        return float(self.coming[0][1]) if self.coming else None


@dataclass(frozen=True, slots=True)
class Held:
    """All that is kept of one tag, at one instant."""

    tag: str
    listed: list[str] | None  # the jobs in flight under it; None without such a list
    deadlines: dict[str, float]  # of the runs that have this tag, by job id
    lease: float | None
    hold_ms: int  # left to its in-flight key; -1 if that does not expire, -2 if there is none
    kind: str  # the type of that key
    named: list[str]  # the jobs that it has, which were taken under the tag
    now: float  # Redis' clock then


@dataclass(frozen=True, slots=True)
class State:
    """All that is kept of one job, at one instant; what is missing is None, "" or 0."""

    jobid: str
    schedule: str | None
    status: str | None
    timeline: float | None
    queued: str
    running: str
    tag: str  # of its run, or else that under which it was said to be in flight; its lease and in-flight key follow
    lease: float | None
    inflight_ms: int  # left to the in-flight key; -1 if it does not expire, -2 if there is none
    streak: str
    skipped: dict[str, int]
    failure: dict[str, Any] | None
    now: float = field(compare=False)  # Redis' clock then
    entries: dict[str, int]  # how often it stands in the list of each queue in which it was looked for
    tombstones: frozenset[str] = frozenset()  # those of them in which it has one
    unreadable: tuple[str, ...] = ()  # of streak, failure and the reasons of skips those that nothing can be made of
    seen: dict[str, str] = field(default_factory=dict)  # schedule, status, timeline, queued, running as Redis has them

    def waits(self, name: str) -> int:
        """Return how often it is in the list of the queue `name`, not counting a tombstone."""
        return self.entries.get(name, 0) - (name in self.tombstones)

    @property
    def run(self) -> RunRecord | None:
        """Its run in flight; None if there is none, or a damaged record."""
        return RunRecord.parse(self.running)

    @property
    def waiting(self) -> Waiting | None:
        """Its place in a queue; None if there is none, or a damaged record."""
        return Waiting.parse(self.queued)

    @property
    def known(self) -> bool:
        """Tell whether there is anything but a run of this job."""
        return self.schedule is not None or self.status is not None


def text(value: Any) -> str:
    """Return what Redis holds as text, "" for None. Bytes that are not UTF-8 survive a round trip."""
    return "" if value is None else bytes(value).decode("utf-8", "surrogateescape")
