"""What the store gives and takes: runs, their outcomes, what a dispatcher sees, the state of a job."""

import re
import time
from dataclasses import dataclass, field
from typing import Any, Literal

Due = float | Literal["now"] | None

# Failures, losses, tries, due, after, alone.
STREAK = re.compile(r"(\d{1,9}) (\d{1,9})(?: (\d{1,9}) (-|\d{1,12}\.\d{6}) (-|\d{1,12}\.\d{6}))?( alone)?", re.ASCII)


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
        """Which try of the same occurrence this is, from 1."""
        return 1 + self.tries

    @property
    def goes_on_after(self) -> float:
        """After when the schedule has its next occurrence."""
        return self.due if self.after is None else self.after

    @property
    def was_in_time(self) -> bool:
        """Whether its work was over before its deadline."""
        return 0.0 < self.over < self.received + self.deadline - self.start

    def now(self) -> float:
        """Redis' clock as far as this process can tell without asking: never ahead of it by more than clocks drift."""
        return self.start + time.monotonic() - self.received


@dataclass(frozen=True, slots=True)
class Streak:
    """What is kept of a job whose occurrence is to be tried again; see `redbike.keys`."""

    failures: int = 0  # in a row
    losses: int = 0  # in a row
    tries: int = 0  # of the same occurrence, for whatever reason
    due: float | None = None  # of that occurrence; None if it is the one in the queue
    after: float | None = None  # after when the schedule goes on; None: after `due`
    alone: bool = False  # it must not be taken with others

    @classmethod
    def parse(cls, record: str) -> "Streak":
        """Read a record; one that is damaged counts as none."""
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
    """Where a job goes when its run has ended; see ``lua/end.lua``."""

    # next: due as computed from the schedule; due: whatever the schedule.
    place: Literal["next", "due", "stop", "die", "unset"]
    due: float | str | None = None  # a time, "+n" for n seconds from now, or None: it has run out
    why: Literal["", "overrun", "lost"] = ""
    streak: str = ""
    failure: dict[str, Any] | None = None
    missed: int = 0
    overlapped: int = 0


@dataclass(slots=True)
class Entry:
    """A job to be set: see `Store.set`."""

    jobid: str
    schedule: str
    due: Due
    once: bool
    queue: str
    keeps: bool = False  # left where it is, if it has this schedule already
    rests: bool = False  # so also if it has failed for good
    # How many bytes stand before and after an anchor that was put in just now: another one is no other schedule.
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
    lost: list[Run]

    @property
    def next_due(self) -> float | None:
        """When the next job is due; None when there is none."""
        return float(self.coming[0][1]) if self.coming else None


@dataclass(frozen=True, slots=True)
class State:
    """All that is kept of one job, at one instant; what is not there is None, "" or 0."""

    jobid: str
    schedule: str | None
    status: str | None
    timeline: float | None
    queued: str
    running: str
    lease: float | None
    inflight: str
    inflight_ms: int
    streak: str
    skipped: dict[str, int]
    failure: dict[str, Any] | None
    now: float = field(compare=False)  # Redis' clock then
    entries: dict[str, int]  # how often it stands in the list of each queue in which it was looked for
    withdrawn: frozenset[str] = frozenset()  # those of them in which an entry was left behind when it was withdrawn
    unreadable: tuple[str, ...] = ()  # of streak, failure and the reasons of skips those that nothing can be made of
    seen: tuple[str, ...] = ()  # schedule, status, timeline, queued, running and in-flight key as Redis spells them

    def waits(self, name: str) -> int:
        """How often it stands in the list of the queue `name`, but for the entry that was left behind."""
        return self.entries.get(name, 0) - (name in self.withdrawn)

    @property
    def known(self) -> bool:
        """Whether there is anything but a run of this job."""
        return self.schedule is not None or self.status is not None


def text(value: Any) -> str:
    """The bytes that Redis holds as text, "" for None; bytes that are not UTF-8 survive a round trip."""
    return "" if value is None else bytes(value).decode("utf-8", "surrogateescape")
