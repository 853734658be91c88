"""A backfill: its records, and its progress."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict

from redbike.config.options import find_all_of, find_backfill
from redbike.errors import BadJobId
from redbike.schedule.clock import Clock
from redbike.store.namespace import make_tag, split
from redbike.store.records import format_time
from redbike.text.parsing import load_json, load_object
from redbike.text.printable import name_number

HEAD = "\x1e"  # the field of a record begins with it; no job id does
PART = 100  # occurrences in one field
DONE = "done"
Found = dict[str, Any]


class BackfillDetails(TypedDict):
    """How far a backfill is. Times are epoch seconds."""

    first: float  #: the start of the range of its due times
    last: float  #: the end of that range
    since: float  #: when it began
    by: str | None  #: who began it; None for a program that gives no name
    of: int  #: the number of its occurrences
    done: int  #: how many have ended well
    failed: int  #: how many have failed, with all their retries
    dropped: int  #: how many were cancelled, unset or could not run
    running: list[float]  #: the due times of those that wait or run now
    left: int  #: how many have not begun to wait
    at_once: int  #: the most occurrences that wait or run at the same time
    ended: float | None  #: when it ended; None if it goes on
    cancelled: bool
    preparing: bool  #: its occurrences are still being stored; if that process was killed, begin the backfill again


class DoneRange(NamedTuple):
    """What a backfill has run: the occurrences of a schedule from `first` to `last`, except those in `bad`."""

    first: float
    last: float
    schedule: str
    options: str  # as they were stored
    bad: frozenset[float]  # those that have not ended well
    begun: float  # when it began


@dataclass(slots=True)
class NewBackfill:
    """A backfill to begin."""

    jobid: str
    schedule: str  # as it is stored
    options: str  # as they are stored
    first: float
    last: float
    dues: Sequence[float]
    at_once: int = 1
    by: str | None = None
    bad: Sequence[float] = ()  # due times of occurrences that are left out, as their end is not known yet
    detail: str = ""  # for the log
    alone: bool = False  # without the jobs that follow it
    token: str = field(default_factory=make_tag)

    def make_record(self) -> Found:
        """Return its first record."""
        record: Found = {
            "id": self.token,
            "from": format_time(self.first),
            "to": format_time(self.last),
            "schedule": self.schedule,
            "options": self.options,
            "at_once": self.at_once,
            "of": len(self.dues),
            "except": list(map(format_time, self.bad)),
            "running": [],
            **dict.fromkeys(("begun", "done", "failed", "dropped", "part", "at"), 0),
        }
        record |= {"alone": True} if self.alone else {}
        return record | {"by": self.by} if self.by else record

    def list_parts(self) -> Iterator[str]:
        """Yield its due times in parts of `PART`, each as the JSON to store."""
        return (json.dumps(page, separators=(",", ":")) for page in split(self.dues, PART))


def make_jobid(jobid: str, due: float) -> str:
    """Return the id of the one-off for an occurrence of a backfill of `jobid`, as ``lua/_backfilled.lua`` does."""
    instant = datetime.fromtimestamp(int(due // 1), UTC)
    fraction = f"{due:.6f}".partition(".")[2].rstrip("0")
    return f"{jobid}@{instant:%Y-%m-%dT%H:%M:%S}{'.' * bool(fraction)}{fraction}Z"


def looks_like_one(jobid: str) -> bool:
    """Tell whether a job may be an occurrence of a backfill, by its id alone; its stored options say whether it is."""
    return jobid.endswith("Z") and "@" in jobid


def check_stored(jobid: str, options: str) -> str:
    """Return the stored `options` of a job to set. Raise `BadJobId` if Redbike has set it, for another job."""
    if base := find_backfill(options)[0]:
        raise BadJobId(f"bad job id {jobid!r}: it is an occurrence of a backfill of {base!r}; unset it first")
    if base := find_all_of(options)[0]:
        raise BadJobId(f"bad job id {jobid!r}: Redbike sets it for {base!r}, on one host; set {base!r}")
    return options


def read_record(text: str) -> BackfillDetails | None:
    """Read the record of a backfill; None if there is none, or if it is damaged."""
    found = load_object(text)
    try:
        return describe(found) if found else None
    except (ValueError, TypeError, KeyError):
        return None


def describe(found: Found) -> BackfillDetails:
    """Return how far the backfill with this record is. Raise `KeyError`, `TypeError` or `ValueError` for a bad one."""
    running = [float(due) for due in found.get("running") or ()]
    begun = found["done"] + found["failed"] + found["dropped"] + len(running)
    ended = found.get("ended")
    return {
        "first": float(found["from"]),
        "last": float(found.get("to") or found["from"]),
        "since": float(found["since"]),
        "by": found.get("by"),
        "of": int(found["of"]),
        "done": int(found["done"]),
        "failed": int(found["failed"]),
        "dropped": int(found["dropped"]),
        "running": running,
        "left": max(0, int(found["of"]) - begun),
        "at_once": int(found["at_once"]),
        "ended": None if ended is None else float(ended),
        "cancelled": bool(found.get("how")),
        "preparing": bool(found.get("open")),
    }


def describe_progress(found: BackfillDetails) -> str:
    """Return in words how far a backfill is."""
    if found["preparing"]:
        return f"{name_number(found['of'], 'occurrence')}, which are being noted"
    bad = [f"{number:,} {name}" for name in ("failed", "dropped") if (number := found[name])]
    going = [f"{len(found['running']):,} begun"] if found["ended"] is None else []
    going += [f"{found['left']:,} left"] if going or found["left"] else []
    return f"{found['done']:,} of {found['of']:,} done{''.join(f', {each}' for each in [*bad, *going])}"


def describe_backfill(found: BackfillDetails, clock: Clock) -> str:
    """Return in words how far a backfill is, when it began or ended, and who began it."""
    span = f"{clock.name(found['first'])} to {clock.name(found['last'])}"
    by = f" by {found['by']}" if found["by"] else ""
    if (ended := found["ended"]) is None:
        when = f"since {clock.name(found['since'])}{by}, {found['at_once']:,} at once"
    else:
        when = f"{'cancelled' if found['cancelled'] else 'ended'} {clock.name(ended)}"
    return f"{describe_progress(found)}: {span}, {when}"


def read_last(text: str) -> BackfillDetails | None:
    """Return how the last ended backfill of a job has ended; None if there is none."""
    ended = _read_list(text)
    return ended[-1][1] if ended else None


def _read_list(text: str) -> list[tuple[Found, BackfillDetails]]:
    """Return the records of ended backfills, without damaged ones."""
    listed = load_json(text)
    pairs = ((found, read_record(json.dumps(found))) for found in listed) if isinstance(listed, list) else ()
    return [(found, details) for found, details in pairs if details]


def _read_range(found: Found) -> DoneRange:
    bad = frozenset(map(float, found.get("except") or ()))
    last = float(found["to"]) if found.get("to") else float("-inf")
    if unknown := found.get("unknown"):
        last = min(last, float(unknown) - 1e-6)
    texts = str(found.get("schedule")), str(found.get("options") or "")
    return DoneRange(float(found["from"]), last, *texts, bad, float(found["since"]))
