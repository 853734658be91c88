"""Backfills: occurrences of a job that run beside its schedule, see `redbike.store.keys`.

An occurrence of one is a job of its own, a one-off. Which job it belongs to is stored with its options: its id alone
does not say so. As it ends, ``lua/_backfill.lua`` puts the next one on the timeline, in the same step.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict

from redbike.config.options import find_all_of, find_backfill
from redbike.errors import BadJobId
from redbike.schedule.clock import Clock
from redbike.store.namespace import PAGE, Part, make_tag, split
from redbike.store.records import decode, encode, format_time
from redbike.store.scripts import Reply
from redbike.text.parsing import load_json, load_object
from redbike.text.printable import name_number

HEAD = "\x1e"  # the field of a record begins with it, as no job id does
PART = 100  # occurrences that a field has
PARTS = 50  # fields that one script writes
DONE = "done"
MOST = 1000  # jobs that follow another one, directly or not
_CONTROL = re.compile("[\x00-\x1f\x7f]")

Found = dict[str, Any]


class BackfillDetails(TypedDict):
    """How far a backfill is. Times are epoch seconds."""

    first: float  #: the range of its due times
    last: float  #: the end of that
    since: float  #: when it was begun
    by: str | None  #: who has begun it; None for a program that does not say who it is
    of: int  #: how many occurrences it has
    done: int  #: those that have ended well
    failed: int  #: those that have failed, with all their retries
    dropped: int  #: those that were cancelled, unset or could not run
    running: list[float]  #: the due times of those that wait or run now
    left: int  #: those that have not begun to wait
    at_once: int  #: how many wait or run at once, at most
    ended: float | None  #: when it has ended; None if it goes on
    cancelled: bool
    preparing: bool  #: its occurrences are still being noted, or whoever did that was killed: begin it again


class DoneRange(NamedTuple):
    """What a backfill has run: the occurrences of a schedule up to an instant, without some."""

    first: float
    last: float
    schedule: str
    options: str  # as they were stored
    bad: frozenset[float]  # those that have not ended well


@dataclass(slots=True)
class NewBackfill:
    """A backfill that is to be begun."""

    jobid: str
    schedule: str  # as it is stored
    options: str  # the same
    first: float
    last: float
    dues: Sequence[float]
    at_once: int = 1
    by: str | None = None
    bad: Sequence[float] = ()  # occurrences that are left out, of which nobody knows yet how they end
    detail: str = ""  # for the log
    alone: bool = False  # without what follows it
    token: str = field(default_factory=make_tag)

    def make_record(self) -> Found:
        """Return the record with which it begins."""
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
        """Yield its occurrences as they are kept."""
        return (json.dumps(page, separators=(",", ":")) for page in split(self.dues, PART))


def make_jobid(jobid: str, due: float) -> str:
    """Return the id of the job that is an occurrence of a backfill of `jobid`, as ``lua/_backfilled.lua`` does."""
    instant = datetime.fromtimestamp(int(due // 1), UTC)
    fraction = f"{due:.6f}".partition(".")[2].rstrip("0")
    return f"{jobid}@{instant:%Y-%m-%dT%H:%M:%S}{'.' * bool(fraction)}{fraction}Z"


def looks_like_one(jobid: str) -> bool:
    """Tell whether a job may be an occurrence of a backfill: what is stored says whether it is."""
    return jobid.endswith("Z") and "@" in jobid


def check_stored(jobid: str, options: str) -> str:
    """Return `options`, as they are stored for a job that is set. Raise `BadJobId` for an occurrence of a backfill."""
    if base := find_backfill(options)[0]:
        raise BadJobId(f"bad job id {jobid!r}: it is an occurrence of a backfill of {base!r}; unset it first")
    if base := find_all_of(options)[0]:
        raise BadJobId(f"bad job id {jobid!r}: it is the job of {base!r} on this host; set that one")
    return options


def read_record(text: str) -> BackfillDetails | None:
    """Read the record of a backfill; None if there is none, or if it is damaged."""
    found = load_object(text)
    try:
        return describe(found) if found else None
    except (ValueError, TypeError, KeyError):
        return None


def describe(found: Found) -> BackfillDetails:
    """Return how far the backfill with this record is. Raise `KeyError`, `TypeError` or `ValueError`."""
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
    """Return in words how far a backfill is, since when, and who has begun it."""
    span = f"{clock.name(found['first'])} to {clock.name(found['last'])}"
    by = f" by {found['by']}" if found["by"] else ""
    if (ended := found["ended"]) is None:
        when = f"since {clock.name(found['since'])}{by}, {found['at_once']:,} at once"
    else:
        when = f"{'cancelled' if found['cancelled'] else 'ended'} {clock.name(ended)}"
    return f"{describe_progress(found)}: {span}, {when}"


class Backfills(Part):
    """Begins and ends backfills, and tells of them."""

    def begin(self, new: NewBackfill) -> tuple[str, BackfillDetails | None]:
        """Begin a backfill; what its first occurrences are is known when its last part is written.

        Return ``ok``, ``gone`` (the job), ``stale`` (its schedule or its options are others now), ``lost`` (another one
        has been begun meanwhile), or ``busy`` and how far the other one is. Until it returns ``ok``, nothing runs.
        """
        parts, record = list(new.list_parts()), new.make_record()
        given: dict[str, Any] = {"job": new.jobid, "schedule": new.schedule, "options": new.options or False}
        for first in range(0, len(parts), PARTS):
            page = parts[first : first + PARTS]
            last = first + len(page) == len(parts)
            more = {"detail": new.detail} if last and new.detail else {}
            reply = self._namespace.run("backfill", record=record, first=first, parts=page, last=last, **given, **more)
            if reply[0] != "ok":
                return reply[0], read_record(decode(reply[1])) if len(reply) > 1 else None
        return "ok", None

    def end(self, jobid: str) -> BackfillDetails | None:
        """End the backfill of a job; return how far it was, None if none is under way."""
        found = map(self._namespace.find_queue, [jobid, *self.list_followers(jobid)])
        reply: Reply = self._namespace.run("end_backfill", dict.fromkeys(name or "-" for name in found), job=jobid)
        return read_record(decode(reply[1])) if reply[0] == "ok" else None

    def list_followers(self, jobid: str) -> list[str]:
        """Return what follows a job, directly or not, as ``lua/_backfilled.lua`` finds it; just over `MOST` at most."""
        found, generation = {jobid: None}, [jobid]
        while generation and len(found) <= MOST + 1:
            asked = [_ask_followers(self._namespace.keys.followers, each) for each in generation]
            links = [decode(link) for page in self._namespace.ask_all(*asked, at_once=False) for link in page]
            names = (link.partition("\n")[2] for link in links)
            generation = [name for name in dict.fromkeys(names) if name not in found and not _CONTROL.search(name)]
            found |= dict.fromkeys(generation)
        return list(found)[1 : MOST + 2]

    def read(self, jobid: str) -> tuple[BackfillDetails | None, BackfillDetails | None]:
        """Return how far the backfill of a job is, and how the last one before it has ended; None for none."""
        now, done = self._read(jobid)
        return read_record(now), read_last(done)

    def list_done(self, jobid: str) -> list[DoneRange]:
        """Return what backfills of a job have run that have ended."""
        return [_read_range(found) for found, _ in _read_list(self._read(jobid)[1])]

    def _read(self, jobid: str) -> list[str]:
        fields = [encode(f"{HEAD}{jobid}"), encode(f"{HEAD}{jobid}\n{DONE}")]
        return list(map(decode, self._namespace.ask("hmget", self._namespace.keys.following, fields)))

    def check(self, jobid: str, parts: Iterable[str], repairs: bool = False) -> list[str]:
        """Return what is wrong with the backfills of a job, a line for each thing; put it right if it `repairs`.

        `parts` are those that were found of them.
        """
        keys, (now, done) = self._namespace.keys, self._read(jobid)
        numbers = [part for part in parts if part not in ("", DONE)]
        there = self._list_there([f"{HEAD}{jobid}\n{part}" for part in numbers])
        is_bad, is_bad_done = bool(now) and read_record(now) is None, bool(done) and not _read_list(done)
        wrong: dict[str, list[str]] = {}
        if not self._namespace.ask("hexists", keys.schedules, encode(jobid)):
            wrong["there is no such job"] = (
                [f"{HEAD}{jobid}", f"{HEAD}{jobid}\n{DONE}", *there] if now or done else there
            )
        elif is_bad or (there and not now):
            wrong["the record of what is left cannot be read"] = [f"{HEAD}{jobid}", *there]
        elif is_bad_done:
            wrong["the record of what it has run cannot be read"] = [f"{HEAD}{jobid}\n{DONE}"]
        wrong = {problem: fields for problem, fields in wrong.items() if fields}
        if wrong and repairs:
            self._namespace.ask("hdel", keys.following, *(encode(each) for fields in wrong.values() for each in fields))
        return [*wrong] or self._check_progress(jobid, repairs)

    def _check_progress(self, jobid: str, repairs: bool) -> list[str]:
        """Return which occurrences do not run that should; let the next ones do so if it `repairs`."""
        found = json.loads(decode(self._namespace.run("repair_backfill", job=jobid, looks=not repairs)[1]))
        lines = [f"it waits for {each!r}, which does not run" for each in found["gone"]]
        lines += [f"it has {each!r}, which does not follow it" for each in found["strays"]]
        return lines or ["what is left of it does not begin"] * bool(found["stalls"])

    def _list_there(self, fields: Sequence[str]) -> list[str]:
        found = list[str]()
        for page in split(fields, PAGE):
            texts = self._namespace.ask("hmget", self._namespace.keys.following, list(map(encode, page)))
            found += [field for field, text in zip(page, texts, strict=True) if text is not None]
        return found

    def leave_out(self, jobs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Yield the jobs, by id and schedule, that are no occurrences of backfills."""
        for page in split(jobs, PAGE):
            bases = self.find_bases([jobid for jobid, _ in page if looks_like_one(jobid)])
            yield from (each for each in page if not bases.get(each[0]))

    def find_bases(self, jobids: Sequence[str]) -> dict[str, str]:
        """Return those of `jobids` that are there, each with the job of whose backfill it is; "" for none."""
        keys, found = self._namespace.keys, dict[str, str]()
        for page in split(jobids, PAGE):
            texts = self._namespace.ask("hmget", keys.schedules, list(map(encode, page)))
            there = [jobid for jobid, text in zip(page, texts, strict=True) if text is not None]
            # Mostly none is.
            options = self._namespace.ask("hmget", keys.options, list(map(encode, there))) if there else ()
            found |= {jobid: find_backfill(decode(own))[0] for jobid, own in zip(there, options, strict=True)}
        return found


def _ask_followers(key: str, jobid: str) -> tuple[str, str, bytes, bytes]:
    return "zrangebylex", key, encode(f"[{jobid}\n"), encode(f"({jobid}\v")


def read_last(text: str) -> BackfillDetails | None:
    """Return how the last of the backfills of a job has ended; None for none."""
    ended = _read_list(text)
    return ended[-1][1] if ended else None


def _read_list(text: str) -> list[tuple[Found, BackfillDetails]]:
    """Return the records of backfills that have ended, without those that are damaged."""
    listed = load_json(text)
    pairs = ((found, read_record(json.dumps(found))) for found in listed) if isinstance(listed, list) else ()
    return [(found, details) for found, details in pairs if details]


def _read_range(found: Found) -> DoneRange:
    bad = frozenset(map(float, found.get("except") or ()))
    last = float(found["to"]) if found.get("to") else float("-inf")
    if unknown := found.get("unknown"):
        last = min(last, float(unknown) - 1e-6)
    return DoneRange(float(found["from"]), last, str(found.get("schedule")), str(found.get("options") or ""), bad)
