"""Jobs for every host: what is stored of them besides, see `redbike.store.keys`.

A job whose id ends in ``@all`` is the *base* of one on each host, which has the name of that host in place of ``all``.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, Self, TypedDict

from redbike.config.options import ALL_OF, format_options, load_mark
from redbike.config.settings import MAX_HOST
from redbike.store.hosts import AT, EVERY, split_host
from redbike.store.names import MAX_JOBID
from redbike.store.namespace import Part
from redbike.store.records import PauseDetails, decode, encode
from redbike.text.parsing import load_object

MAX_BASE = MAX_JOBID - MAX_HOST + len(EVERY)  # bytes of its id: so that of its job is short enough on any host
_ENDING = f"{AT}{EVERY}"  # of the id of a base: it is made once, as each job that is set is asked about it
FORGET = 60.0  # seconds for which it is known that a base was unset: others may be making its jobs


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of a base, each with the instant (epoch seconds) at which a worker of its queue was seen last."""

    seen: Mapping[str, float] = field(default_factory=dict)
    is_over: bool = False  # it was unset
    began: str = ""  # the schedule of a one-off that has had a job on a host which was there

    @classmethod
    def parse(cls, text: str) -> "Hosts":
        """Read a record; no host for none, and for a damaged one."""
        record = load_object(text) or {}
        known = record.get("hosts")
        pairs = known.items() if isinstance(known, dict) else ()
        seen = {host: float(at) for host, at in pairs if isinstance(at, int | float)}
        return cls(seen, record.get("over") is not None, str(record.get("began") or ""))


class HostDetails(TypedDict):
    """A host of a job for every host. Times are epoch seconds."""

    host: str
    jobid: str  #: of its job there
    status: str | None  #: of that, such as ``TML:1900000000``; None if there is none
    next_run: float | None  #: when that is due on the timeline
    seen: float  #: when a worker of its queue was seen there last, as far as it is noted
    taken: NotRequired[bool]  #: True if a job of that id stands there that somebody has set: it stays as it is
    paused: NotRequired[PauseDetails]  #: its job there, by the base or alone
    gone: NotRequired[bool]  #: True if that is too long ago: the job is paused until a worker is back


def is_base(jobid: str) -> bool:
    """Tell whether a job is to run on every host."""
    return jobid.endswith(_ENDING) and split_host(jobid)[1] == EVERY


def name_job(base: str, host: str) -> str:
    """Return the id of the job of a base on one host."""
    return f"{split_host(base)[0]}{AT}{host}"


def make_revision(schedule: str, options: str, data: str) -> str:
    """Return what says whether a job has what its base has; its first 8 characters are for the schedule alone."""
    sums = (zlib.crc32(text.encode(errors="replace")) for text in (schedule, f"{options}\n{data}"))
    return "".join(f"{each:08x}" for each in sums)


def has_same_schedule(revision: str, other: str) -> bool:
    """Tell whether two revisions are of the same schedule."""
    return revision[:8] == other[:8]


@dataclass(frozen=True, slots=True)
class HostStart:
    """From when the occurrences of a base count, where it is not when that was set. Times are epoch seconds."""

    since: float
    set_at: float
    is_given: bool  # by the user, and not by the timefile
    schedule: str = field(default="", compare=False)  # the one that the base got then; its jobs on hosts lack it

    @classmethod
    def parse(cls, stored: str) -> Self | None:
        """Read the options of a base, or of its job on one host, as they are stored; None if there is none."""
        found = load_mark(stored)
        try:
            schedule = str(found.get("schedule", ""))
            return cls(float(found["since"]), float(found["set"]), bool(found["given"]), schedule)
        except (AttributeError, TypeError, KeyError, ValueError):
            return None

    def format(self) -> dict[str, Any]:
        """Return what is stored of it, which `parse` reads."""
        return {"since": round(self.since, 6), "set": round(self.set_at, 6), "given": self.is_given}


def add_start(stored: str, start: HostStart | None) -> str:
    """Return the options of a base with `start` in place of what is stored of another one."""
    if start is None and load_mark(stored) is None:
        return stored
    options = {name: value for name, value in (load_object(stored) or {}).items() if name != ALL_OF}
    mark = {ALL_OF: start.format() | {"schedule": start.schedule}} if start else {}
    return format_options(options | mark)


def make_mark(base: str, revision: str, start: HostStart | None) -> dict[str, Any]:
    """Return what is stored among the options of the job of a base on one host."""
    return {ALL_OF: {"of": base, "revision": revision, **(start.format() if start else {})}}


class HostNotes(Part):
    """Notes on which hosts jobs run."""

    def read_all(self) -> dict[str, Hosts]:
        """Return the hosts of each base."""
        found = self._namespace.ask("hgetall", self._namespace.keys.hosts)
        return {decode(base): Hosts.parse(decode(text)) for base, text in found.items()}

    def list_bad(self) -> Iterator[tuple[str, str, str]]:
        """Yield what is damaged: the key, the field, and in words what is wrong with it."""
        for base, text in self._namespace.scan(self._namespace.keys.hosts):
            if not isinstance((load_object(text) or {}).get("hosts"), dict):
                yield self._namespace.keys.hosts, base, f"holds {text!r:.80} for {base!r:.80}, which names no hosts"

    def scan_bases(self) -> Iterator[tuple[str, str]]:
        """Yield all bases, with their schedules."""
        found = self._namespace.scan(self._namespace.keys.schedules, f"*{AT}{EVERY}")
        return ((jobid, text) for jobid, text in found if is_base(jobid))

    def read(self, base: str) -> Hosts:
        """Return the hosts of one base."""
        return Hosts.parse(decode(self._namespace.ask("hget", self._namespace.keys.hosts, encode(base))))

    def note(
        self,
        base: str,
        seen: Mapping[str, float],
        gone: Iterable[str] = (),
        is_over: bool = False,
        began: str | None = None,
    ) -> None:
        """Note that hosts of a base were seen then, that some do not count any more, and whether it was unset.

        `began` is the schedule of a one-off that has a job on a host; "" takes it back.
        """
        given: dict[str, Any] = ({"seen": seen} if seen else {}) | ({} if began is None else {"began": began})
        more = {"gone": names} if (names := list(gone)) else {}
        self._namespace.run("note_hosts", base=base, over=is_over, forget=FORGET, **given, **more)
