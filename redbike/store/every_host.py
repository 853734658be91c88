"""Jobs for every host: what is stored only for them, see `redbike.store.keys`.

A job whose id ends in ``@all`` is a *base*. It has one job on each host, named after the host in place of ``all``.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, Self, TypedDict

from redbike.config.options import ALL_OF, format_options, load_mark
from redbike.config.settings import MAX_HOST
from redbike.store.host_names import AT, EVERY, split_host
from redbike.store.names import MAX_JOBID
from redbike.store.namespace import Part
from redbike.store.records import PauseDetails, decode, encode
from redbike.text.parsing import load_object

MAX_BASE = MAX_JOBID - MAX_HOST + len(EVERY)  # bytes of its id: so the id of its job is short enough on any host
_ENDING = f"{AT}{EVERY}"  # of the id of a base: a constant, as each job that is set is checked for it
FORGET = 60.0  # seconds for which an unset base stays known: another process may be setting its jobs


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of a base, each with the instant (epoch seconds) when a worker of its queue was last seen there."""

    seen: Mapping[str, float] = field(default_factory=dict)
    is_over: bool = False  # whether the base was unset
    began: str = ""  # the schedule of a one-off that has had a job on a present host

    @classmethod
    def parse(cls, text: str) -> "Hosts":
        """Read a record; an empty or damaged one has no hosts."""
        record = load_object(text) or {}
        known = record.get("hosts")
        pairs = known.items() if isinstance(known, dict) else ()
        seen = {host: float(at) for host, at in pairs if isinstance(at, int | float)}
        return cls(seen, record.get("over") is not None, str(record.get("began") or ""))


class HostDetails(TypedDict):
    """A host of a job for every host. Times are epoch seconds."""

    host: str
    jobid: str  #: the id of the job on this host
    status: str | None  #: the status of that job, such as ``TML:1900000000``; None if there is no job
    next_run: float | None  #: when that job is due on the timeline
    seen: float  #: when a worker of its queue was last seen on this host, as far as that is stored
    taken: NotRequired[bool]  #: True if somebody has set a job with this id by hand: Redbike leaves it as it is
    paused: NotRequired[PauseDetails]  #: the pause of that job, of its own or from the base
    gone: NotRequired[bool]  #: True if `seen` is too long ago: the job is paused until a worker is back


def is_base(jobid: str) -> bool:
    """Tell whether a job is to run on every host."""
    return jobid.endswith(_ENDING) and split_host(jobid)[1] == EVERY


def name_job(base: str, host: str) -> str:
    """Return the id of the job of a base on one host."""
    return f"{split_host(base)[0]}{AT}{host}"


def make_revision(schedule: str, options: str, data: str) -> str:
    """Return a checksum of a base, to compare with that of its jobs; the first 8 characters are of the schedule."""
    sums = (zlib.crc32(text.encode(errors="replace")) for text in (schedule, f"{options}\n{data}"))
    return "".join(f"{each:08x}" for each in sums)


def has_same_schedule(revision: str, other: str) -> bool:
    """Tell whether two revisions have the same schedule."""
    return revision[:8] == other[:8]


@dataclass(frozen=True, slots=True)
class HostStart:
    """The instant from which the occurrences of a base count, if it is not when the base was set. In epoch seconds."""

    since: float
    set_at: float
    is_given: bool  # whether the user has given it, and not the timefile
    schedule: str = field(default="", compare=False)  # the base's schedule at `set_at`; "" for its jobs on hosts

    @classmethod
    def parse(cls, stored: str) -> Self | None:
        """Read it from the stored options of a base, or of its job on one host; None if they have none."""
        found = load_mark(stored)
        try:
            schedule = str(found.get("schedule", ""))
            return cls(float(found["since"]), float(found["set"]), bool(found["given"]), schedule)
        except (AttributeError, TypeError, KeyError, ValueError):
            return None

    def format(self) -> dict[str, Any]:
        """Return the object to store, which `parse` reads."""
        return {"since": round(self.since, 6), "set": round(self.set_at, 6), "given": self.is_given}


def add_start(stored: str, start: HostStart | None) -> str:
    """Return the stored options of a base with `start` in place of the old start; None removes it."""
    if start is None and load_mark(stored) is None:
        return stored
    options = {name: value for name, value in (load_object(stored) or {}).items() if name != ALL_OF}
    mark = {ALL_OF: start.format() | {"schedule": start.schedule}} if start else {}
    return format_options(options | mark)


def make_mark(base: str, revision: str, start: HostStart | None) -> dict[str, Any]:
    """Return the option that marks the job of a base on one host."""
    return {ALL_OF: {"of": base, "revision": revision, **(start.format() if start else {})}}


class HostNotes(Part):
    """Stores on which hosts jobs run."""

    def read_all(self) -> dict[str, Hosts]:
        """Return the hosts of each base."""
        found = self._namespace.ask("hgetall", self._namespace.keys.hosts)
        return {decode(base): Hosts.parse(decode(text)) for base, text in found.items()}

    def list_bad(self) -> Iterator[tuple[str, str, str]]:
        """Yield for each damaged field: the key, the field, and in words what is wrong."""
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
        """Store when hosts of a base were seen, which are `gone` and do not count, and whether the base was unset.

        `began` is the schedule of a one-off that has a job on a host; "" removes it, and None leaves it as it is.
        """
        given: dict[str, Any] = ({"seen": seen} if seen else {}) | ({} if began is None else {"began": began})
        more = {"gone": names} if (names := list(gone)) else {}
        self._namespace.run("note_hosts", base=base, over=is_over, forget=FORGET, **given, **more)
