"""The records that are stored in Redis: how each is read and written.

`redbike.store.keys` describes them. In Python, only the methods `parse` and `format` of their classes read and write
them; in Lua, only the functions of ``lua/_records.lua`` and ``lua/_ended.lua``.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypedDict

from redbike.store.enums import Event, Left
from redbike.text.parsing import load_object

STATUS = re.compile(rf"({'|'.join(Event)}):(\d{{1,12}})", re.ASCII)
MOMENT = r"\d{1,12}\.\d{6}"
WAITING = re.compile(rf"({MOMENT}) (.+)", re.ASCII | re.DOTALL)
LEFT = rf"({re.escape(Left.WAS_CANCELLED)})?({Left.NOTHING}|{Left.SET}|{Left.ONCE}|(?:{Left.OWED}|{Left.ANEW}){MOMENT})"
RUN = re.compile(
    rf"(\S+) ({MOMENT}) ({MOMENT}) ({MOMENT}) (\d{{1,9}}) (\d{{1,9}}) {LEFT} (.+)",
    re.ASCII | re.DOTALL,
)
COUNT = re.compile(r"\d{1,18}", re.ASCII)
RETRY_STATE = re.compile(
    rf"(\d{{1,9}}) (\d{{1,9}})(?: (\d{{1,9}}) (-|{MOMENT}) (-|{MOMENT}))?(?: failed=(\d{{1,9}}))?( alone)?", re.ASCII
)
OWN_END = re.compile(MOMENT, re.ASCII)
SHARE = re.compile(r"[01]\.\d{6}", re.ASCII)
REWIND = re.compile(rf"({MOMENT}) ({MOMENT}) ({MOMENT})", re.ASCII)  # the field, and then the record
PAUSE = re.compile(rf"(-|{MOMENT}) ({MOMENT}) (-|{MOMENT}) (.*)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Status:
    """The last event of a job and its time, in whole epoch seconds."""

    event: Event
    time: float

    @classmethod
    def parse(cls, record: str | None) -> "Status | None":
        """Read a record; None for one that is damaged, and for none."""
        found = STATUS.fullmatch(record or "")
        return None if found is None else cls(Event(found[1]), float(found[2]))


class Membership(NamedTuple):
    """The record that says of which file a job is a row."""

    group: str  # what the file is called; "" for none
    one_off: str = ""  # the schedule of a job that runs once, as the row has it
    asked: str = ""  # `Schedule.asked` of a row without an instant: `one_off` has its computed instant

    @classmethod
    @lru_cache(1024)
    def parse(cls, record: str) -> "Membership":
        """Read a record; "" is the record of a job in no group. Cached, as many jobs have the same record."""
        return cls(*record.split("\n", 2))

    def format(self) -> str:
        """Return the record."""
        return "\n".join(self).rstrip("\n") if self.one_off else self.group


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
        return f"{format_time(self.due)} {self.queue}"


@dataclass(slots=True)  # not frozen, as `Run` is not
class RunRecord:
    """The record of a run in flight. `next` is what changes have left for its end, see `redbike.store.keys`."""

    tag: str
    start: float
    deadline: float
    due: float
    failures: int
    losses: int
    next: str
    queue: str
    cancelled: bool = False

    @classmethod
    def parse(cls, record: str) -> "RunRecord | None":
        """Read a record; None for one that is damaged, and for none."""
        found = RUN.fullmatch(record)
        if found is None:
            return None
        tag, start, deadline, due, failures, losses, mark, left, queue = found.groups()
        times = float(start), float(deadline), float(due)
        return cls(tag, *times, int(failures), int(losses), left, queue, mark is not None)

    @property
    def was_set(self) -> bool:
        """Tell whether the job was set during the run, and may wait on the timeline."""
        return self.next in (Left.SET, Left.ONCE)

    @property
    def left(self) -> str:
        """What changes have left for its end: `next`, with a mark before it if the run was cancelled."""
        return f"{Left.WAS_CANCELLED if self.cancelled else ''}{self.next}"

    def format(self) -> str:
        """Write the record."""
        times = " ".join(map(format_time, (self.start, self.deadline, self.due)))
        return f"{self.tag} {times} {self.failures} {self.losses} {self.left} {self.queue}"


class PauseDetails(TypedDict):
    """The pause of a job."""

    since: float
    until: float | None  #: when it ends by itself; None: never
    by: str | None  #: ``user@host``; None if unknown
    reason: str | None  #: "" if none was given


@dataclass(frozen=True, slots=True)
class Pause:
    """The record of a paused job; see `redbike.store.keys`."""

    due: float | None  # when the held occurrence is due on the timeline; None if none is held
    since: float
    until: float | None  # when it ends by itself; None: never
    note: str  # JSON: who paused it, and why

    @classmethod
    def parse(cls, record: str) -> "Pause | None":
        """Read a record; None for one that is damaged, and for none."""
        found = PAUSE.fullmatch(record)
        if found is None:
            return None
        return cls(parse_number(found[1]), float(found[2]), parse_number(found[3]), found[4])

    def format(self) -> str:
        """Write the record."""
        due, until = ("-" if moment is None else format_time(moment) for moment in (self.due, self.until))
        return f"{due} {format_time(self.since)} {until} {self.note}"

    def copy(self) -> "Pause":
        """Return the pause that a base gives its job on a host."""
        return replace(self, due=None, note=json.dumps({**self._read_note(), "of_base": True}))

    def to_dict(self) -> PauseDetails:
        """Return its details for users."""
        note = self._read_note()
        return {"since": self.since, "until": self.until, "by": note.get("by"), "reason": note.get("reason")}

    def to_row(self) -> dict[str, Any]:
        """Return it as a file of jobs has it: its details, and `every` or `own_end` as arguments of `make_note`."""
        note = self._read_note()
        every, own_end = note.get("every"), str(note.get("own_end"))
        more = {"own_end": float(own_end)} if OWN_END.fullmatch(own_end) else {}
        return {**self.to_dict(), **({"every": every} if every else more)}

    @property
    def is_of_blackout(self) -> bool:
        """Tell whether a blackout has begun it, and nobody else has paused the job since."""
        return "every" in self._read_note()

    @property
    def is_of_base(self) -> bool:
        """Tell whether it comes from the base of the job. If so, the job is resumed with its base."""
        return "of_base" in self._read_note()

    @property
    def is_lengthened(self) -> bool:
        """Tell whether a blackout has lengthened it."""
        return "own_end" in self._read_note()

    def _read_note(self) -> dict[str, Any]:
        return load_object(self.note) or {}


def make_note(
    by: str, reason: str, every: str | None = None, of_base: bool = False, own_end: float | None = None
) -> str:
    """Return the note of a `Pause`: JSON. `own_end` is the end that it had before a blackout lengthened it."""
    more = {"every": every, "of_base": of_base, "own_end": own_end and format_time(own_end)}
    return json.dumps({"by": by, "reason": reason, **{name: value for name, value in more.items() if value}})


class ProgressDetails(TypedDict):
    """How far a run is; see `Run.progress`."""

    share: float  #: from 0 to 1
    text: str


class Progress(NamedTuple):
    """The reported progress of a run: a share from 0 to 1, and one line of text."""

    share: float
    text: str = ""

    @classmethod
    def parse(cls, record: str, tag: str) -> "Progress | None":
        """Read the record of a job; None if it is of a run with another tag, damaged or missing."""
        owner, _, rest = record.partition(" ")
        share, _, text = rest.partition(" ")
        return cls(float(share), text) if owner == tag and SHARE.fullmatch(share) else None

    def format(self, tag: str) -> str:
        """Write the record for the run with this tag."""
        return f"{tag} {self.share:.6f} {self.text}"


@dataclass(frozen=True, slots=True)
class RetryState:
    """The record of a job that has failed or was lost, for its next try; see `redbike.store.keys`."""

    failures: int = 0  # runs in a row that failed
    losses: int = 0  # runs in a row that were lost
    tries: int = 0  # tries of the same occurrence, for any reason
    due: float | None = None  # the due time of that occurrence; None if it is the one in the queue
    after: float | None = None  # the instant after which the schedule goes on; None: after `due`
    alone: bool = False  # whether it must not be taken with others
    failed: int = 0  # occurrences in a row that failed, if the job is to be stopped after some number of them

    @property
    def has_begun(self) -> bool:
        """Tell whether its occurrence may have begun before."""
        return self.tries > 0 or self.alone

    @classmethod
    def parse(cls, record: str) -> "RetryState":
        """Read a record; a damaged one counts as an empty one."""
        found = RETRY_STATE.fullmatch(record)
        if found is None:
            return cls()
        failures, losses, tries, due, after, failed, alone = found.groups()
        counts, moments = (int(failures), int(losses), int(tries or 0)), (parse_number(due), parse_number(after))
        return cls(*counts, *moments, alone is not None, int(failed or 0))

    def format(self) -> str:
        """Write the record."""
        due, after = ("-" if moment is None else format_time(moment) for moment in (self.due, self.after))
        tried = f" {self.tries} {due} {after}" if self.tries or (due, after) != ("-", "-") else ""
        failed = f" failed={self.failed}" if self.failed else ""
        return f"{self.failures} {self.losses}{tried}{failed}{' alone' if self.alone else ''}"


def decode(value: Any) -> str:
    """Return bytes from Redis as text; "" for None. `encode` restores even bytes that are not UTF-8."""
    return "" if value is None else bytes(value).decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Return text as bytes for Redis: the inverse of `decode`."""
    return text.encode("utf-8", "surrogateescape")


def parse_batch(batch: str) -> list[str]:
    """Return the jobs of a stored batch."""
    return [jobid for jobid in batch.split("\n") if jobid]


def format_time(instant: float) -> str:
    """Return epoch seconds as records and requests write them: with six decimals."""
    return f"{instant:.6f}"


def parse_number(value: str | None) -> float | None:
    """Return the number that a text of a script or record has; None if it is missing: "", None or ``-``."""
    return None if not value or value == "-" else float(value)


def pair_up(flat: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of a list that alternates between first and second items."""
    return list(zip(flat[::2], flat[1::2], strict=True))
