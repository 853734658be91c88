"""Dispatchers and workers: the record that each registers, its meaning at an instant, and which workers take a job.

The records of workers have the queues that they work, and some also have the jobs that they can run.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal
from zlib import crc32

from redbike.errors import RedbikeError
from redbike.store.host_names import has_host_queue, name_host_queue
from redbike.store.lease import CLOCKS_DIFFER
from redbike.store.names import find_function
from redbike.store.records import MOMENT
from redbike.store.shell import QUEUE, TAKER, get_taker, is_of_shell, say_need
from redbike.text.parsing import is_whole_number, load_object

LOST = 15.0  # seconds after which a process that was not seen counts as lost: two sightings may be missed
MOST_JOBS = 1000  # jobs that are listed of one process

REREAD = 1.0  # seconds after which the workers are read again, if no worker seems to take a job
KNOWN = 10.0  # seconds for which the workers that were read are used
TOLD = 60.0  # seconds in which `MOST` different reasons are reported
MOST = 10

CUT = "…"  # the last one of `queues` begins with it if there are more queues
ZONES = "tzdata"  # the name, among its settings, of the IANA database release that it uses
CHECKSUMS = re.compile("(?:[0-9a-f]{8})*")
PROCESS = re.compile(rf"({MOMENT}) (\{{.*\}})", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """The record of a dispatcher or worker. All of its texts are safe to show."""

    since: float
    kind: Literal["dispatcher", "worker"]
    host: str
    pid: int
    queues: tuple[str, ...]
    version: str
    concurrency: int | None = None  # jobs that a worker runs at once; a dispatcher has none
    is_stopping: bool = False  # it takes nothing new, and ends after its current jobs
    takes: frozenset[str] | None = None  # ids of its functions or names of its commands; None: it may take any job
    lacks: tuple[tuple[str, str], ...] = ()  # (job id, queue) for which it has found no worker with the command
    # Its values of settings that all should share, without default values; None: unknown.
    settings: tuple[tuple[str, str], ...] | None = None
    stuck: tuple[str, ...] = ()  # jobs whose functions hold a slot after their deadlines
    lines: tuple[tuple[str, str], ...] = ()  # (name, command line without secrets) of its commands
    for_host: bool = False  # whether it takes the jobs of its queues that are for its host
    # Of the queues that a long list does not name; None: there are none, or they are too many.
    checksums: frozenset[str] | None = None
    unplaced: tuple[tuple[str, str], ...] = ()  # (job id, why) of due jobs for which a dispatcher can name no queue

    @classmethod
    def parse(cls, record: str) -> "ProcessRecord | None":
        """Read a record; None for a damaged or empty one."""
        found = PROCESS.fullmatch(record)
        entry = load_object(found[2]) if found else None
        if found is None or entry is None:
            return None
        host, pid, queues, version = (entry.get(name) for name in ("host", "pid", "queues", "version"))
        kind, concurrency, takes = entry.get("kind"), entry.get("concurrency"), entry.get("takes")
        if kind not in ("dispatcher", "worker") or not is_whole_number(pid) or not isinstance(queues, list):
            return None
        if concurrency is not None and not (is_whole_number(concurrency) and concurrency > 0):
            return None
        if not all(isinstance(text, str) and text.isprintable() for text in (host, version, *queues)):
            return None
        pairs = [entry.get(name, {}) for name in ("lacks", "lines", "settings", "unplaced")]
        if not all(isinstance(each, dict) and _is_list([*each.values()]) for each in pairs):
            return None
        lacks, lines, settings, unplaced = (tuple(each.items()) for each in pairs)
        stuck, sums = entry.get("stuck", []), entry.get("checksums")
        lists = [stuck] if takes is None else [stuck, takes]
        if not (all(map(_is_list, lists)) and all(map(str.isprintable, stuck)) and _are_checksums(sums)):
            return None
        return cls(
            float(found[1]),
            kind,
            str(host),
            pid,
            tuple(queues),
            str(version),
            concurrency=concurrency,
            is_stopping=entry.get("stopping") is True,
            takes=None if takes is None else frozenset(takes),
            lacks=lacks,
            settings=settings if "settings" in entry else None,
            stuck=tuple(stuck),
            lines=lines,
            for_host=entry.get("for_host") is True,
            checksums=None if sums is None else frozenset(sums[at : at + 8] for at in range(0, len(sums), 8)),
            unplaced=unplaced,
        )

    def format_entry(self) -> str:
        """Return the record without its time, which the script adds."""
        entry: dict[str, Any] = {name: getattr(self, name) for name in ("kind", "host", "pid", "queues", "version")}
        others = {
            "concurrency": self.concurrency,
            "stopping": self.is_stopping or None,
            "takes": None if self.takes is None else sorted(self.takes),
            "lacks": dict(self.lacks) or None,
            "settings": None if self.settings is None else dict(self.settings),
            "stuck": self.stuck or None,
            "lines": dict(self.lines) or None,
            "for_host": self.for_host or None,
            "checksums": None if self.checksums is None else "".join(sorted(self.checksums)),
            "unplaced": dict(self.unplaced) or None,
        }
        entry |= {name: value for name, value in others.items() if value is not None}
        return json.dumps(entry, ensure_ascii=False)

    def format_id(self, owner: str) -> str:
        """Return the id of the process as people see it."""
        return f"{self.host}:{self.pid}:{owner}"


def _are_checksums(found: object) -> bool:
    return found is None or (isinstance(found, str) and CHECKSUMS.fullmatch(found) is not None)


def _is_list(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(text, str) for text in found)


@dataclass(frozen=True, slots=True)
class Process:
    """A dispatcher or a worker process. Times are epoch seconds by Redis' clock.

    It is ``stopping`` if it takes no more jobs, and ends after its current ones. It is ``lost`` if it was not seen for
    `LOST` seconds, and has not ended in order. A long list of queues ends in ``…+N``: N queues are not listed. `jobs`
    are its current jobs, `MOST_JOBS` at most.
    """

    id: str
    kind: Literal["dispatcher", "worker"]
    host: str
    pid: int
    queues: tuple[str, ...]
    state: Literal["alive", "stopping", "lost"]
    since: float
    seen: float
    jobs: tuple[str, ...]
    version: str  #: of Redbike
    concurrency: int | None = None  #: jobs that a worker runs at once; None for a dispatcher
    #: ids of the functions, or names of the commands, that a worker has; None if it may take any job
    takes: frozenset[str] | None = None
    #: (job id, queue) of jobs that it left, as no worker of the queue seems to have their command
    lacks: tuple[tuple[str, str], ...] = ()
    #: its values of settings that all processes should share, without default values; None if unknown
    settings: tuple[tuple[str, str], ...] | None = None
    stuck: tuple[str, ...] = ()  #: jobs whose functions go on after their deadlines, and hold a slot
    #: (name, command line) of its first commands, without possible secrets
    lines: tuple[tuple[str, str], ...] = ()
    for_host: bool = False  #: whether it takes the jobs of its queues that are for its host
    #: CRC-32, in hexadecimal, of the queues that a long list does not name; None if there are none, or too many
    checksums: frozenset[str] | None = None
    #: (job id, why) of due jobs for which a dispatcher can name no queue
    unplaced: tuple[tuple[str, str], ...] = ()

    @property
    def is_stuck(self) -> bool:
        """Whether at least half of its slots are held by functions that go on after their deadlines."""
        return 2 * len(self.stuck) >= (self.concurrency or 1)

    @property
    def is_busy(self) -> bool:
        """Whether it runs as many jobs as it can."""
        return len(self.jobs) >= (self.concurrency or 1)

    def works(self, queue: str) -> bool:
        """Tell whether it works a queue, or may work it."""
        return may_work(self, queue)

    def surely_works(self, queue: str) -> bool:
        """Tell whether it works a queue for certain."""
        return find_worked(self, queue) is True

    def has_for(self, jobid: str) -> bool:
        """Tell whether it has, or may have, a function or command for a job."""
        if self.takes is None:
            return not is_of_shell(jobid)
        return TAKER in self.takes if is_of_shell(jobid) else find_function(jobid, self.takes) is not None


def make_process(owner: str, record: ProcessRecord, seen: float, now: float, jobs: Sequence[str]) -> Process:
    """Return the state at the instant `now` of a process with this record that was last seen at `seen`."""
    told: dict[str, Any] = {
        each.name: getattr(record, each.name) for each in fields(record) if each.name != "is_stopping"
    }
    is_lost = not -CLOCKS_DIFFER <= now - seen <= LOST
    state: Any = "lost" if is_lost else "stopping" if record.is_stopping else "alive"
    return Process(id=record.format_id(owner), state=state, seen=seen, jobs=tuple(jobs), **told)


def list_worked(process: Process | ProcessRecord) -> tuple[str, ...]:
    """Return the queues that a worker names, and those for the jobs of its host."""
    queues, host = process.queues, process.host
    own = (name_host_queue(each, host) for each in queues if has_host_queue(each, host)) if process.for_host else ()
    return (*queues, *own)


def find_worked(process: Process | ProcessRecord, queue: str) -> bool | None:
    """Tell whether a worker works a queue; None if its record does not list all of its queues."""
    base = queue.removesuffix(name_host_queue("", process.host)) if process.for_host else queue
    names = [queue, base] if base != queue and has_host_queue(base, process.host) else [queue]
    if any(name in process.queues for name in names):
        return True
    if process.checksums is not None:
        return any(compute_checksum(name) in process.checksums for name in names)
    return None if any(name[:1] == CUT for name in process.queues) else False


def may_work(process: Process | ProcessRecord, queue: str) -> bool:
    """Tell whether a worker works a queue, or may work it."""
    return find_worked(process, queue) is not False


def compute_checksum(queue: str) -> str:
    """Return the CRC-32, in hexadecimal, that the record of a worker has for a queue that it does not name."""
    return f"{crc32(queue.encode(errors='surrogatepass')):08x}"


class CommandLines:
    """The command lines of jobs, from the records of `processes`: of those alive first, then of the newest."""

    def __init__(self, processes: Iterable[Process]) -> None:
        ranked = sorted(processes, key=lambda each: (each.state == "alive", each.since))
        known = [(queue, dict(each.lines)) for each in ranked if each.lines for queue in list_worked(each)]
        self._lines = {(queue, name): line for queue, lines in known for name, line in lines.items()}

    def find(self, jobid: str, queue: str) -> str:
        """Return the command line of a job; "" if no worker of its queue has it in its record."""
        return self._lines.get((queue, get_taker(jobid)), "")


class Takers:
    """Finds jobs that no worker takes when they are set. `read` returns the records of the workers that are alive."""

    def __init__(self, read: Callable[[], Iterable[ProcessRecord]]) -> None:
        self._read = read
        self._workers: list[ProcessRecord] = []
        self._workers_of: dict[str, list[ProcessRecord]] = {}  # by queue: those that work it, or may
        self._read_at = self._told_at = float("-inf")
        self._told: set[str] = set()

    def explain(self, jobs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Yield each of `jobs` (id, queue) that no worker takes, as (id, reason). Without a worker, yield none."""
        for jobid, queue in jobs:
            self._update_if_old(jobid, queue)
            if not self._workers:
                return
            why = self._find_reason(jobid, queue)
            if why and time.monotonic() - self._told_at >= TOLD:
                self._told_at, self._told = time.monotonic(), set()
            if why and why not in self._told and len(self._told) < MOST:
                self._told.add(why)
                yield jobid, why

    def has_taker(self, jobid: str, queue: str) -> bool:
        """Tell whether a worker takes a job of this queue, as far as known; False without any worker."""
        self._update_if_old(jobid, queue)
        return bool(self._workers) and not self._find_reason(jobid, queue)

    def _update_if_old(self, jobid: str, queue: str) -> None:
        age = (now := time.monotonic()) - self._read_at
        if age >= KNOWN or (age >= REREAD and self._find_reason(jobid, queue)):
            self._update()
            self._read_at = now

    def _update(self) -> None:
        self._workers_of = {}
        try:
            self._workers = sorted(self._read(), key=lambda each: each.takes is not None)  # first those for any job
        except RedbikeError:
            self._workers = []  # this is only advice: the call that set the job reports errors of the server

    def _list_workers(self, queue: str) -> list[ProcessRecord]:
        if queue not in self._workers_of:
            self._workers_of[queue] = [each for each in self._workers if may_work(each, queue)]
        return self._workers_of[queue]

    def _find_reason(self, jobid: str, queue: str) -> str:
        """Return why no worker takes the job; "" if one does, or if that is unknown."""
        if not self._workers:
            return ""
        if is_of_shell(jobid):
            takes_it = any(TAKER in (each.takes or ()) for each in self._list_workers(QUEUE))
            return "" if takes_it else f"no worker of its queue {queue!r} {say_need(TAKER)}"
        if not (workers := self._list_workers(queue)):
            return f"no worker works its queue {queue!r}"
        if workers[0].takes is None or any(find_function(jobid, each.takes or ()) is not None for each in workers):
            return ""
        return f"no worker of its queue {queue!r} {say_need(get_taker(jobid))}"
