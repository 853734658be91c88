"""Which jobs are late, and which alerts people got: in ``-alerts``, see `redbike.store.keys`.

`redbike.loop.alerts` decides which alerts are sent; this module only reads and stores.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redbike.config.options import parse_options
from redbike.store.namespace import DATA_PAGE, PAGE, Part, read_json, split
from redbike.store.records import MOMENT, RetryState, RunRecord, Waiting, decode, encode, format_time, parse_number
from redbike.store.scripts import Call
from redbike.text.parsing import load_object

ALERTING = ("start-within", "finish-within", "finish-by")  # the options of jobs that alert if they are late
WATCHED = "{}"  # the record of a job without an alert
JOB, MISSED, PROCESS, REWIND = "job:", "missed:", "process:", "rewind:"
DISPATCHER, SHARD = "dispatcher:", "shard:"
WAITING, SENDING, SENT = "waiting:", "sending:", "sent:"
MOST_LINES = 1000  # that wait to be sent
_MISSED = re.compile(rf"(\d{{1,15}})(?: ({MOMENT}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pending:
    """A job that alerts if it is late, and whose occurrence is due or has begun."""

    jobid: str
    options: str  # as they are stored
    schedule: str  # as it is stored; "" for none
    timeline: float | None  # when it is due on the timeline
    waiting: Waiting | None
    run: RunRecord | None
    kept: RetryState
    is_paused: bool

    @classmethod
    def read(cls, columns: Sequence[Any]) -> "Pending":
        """Read the columns that ``lua/find_alerts.lua`` returns for a job."""
        jobid, options, schedule, timeline, queued, running, kept, pause = (each or "" for each in columns)
        places = parse_number(timeline), Waiting.parse(queued), RunRecord.parse(running)
        return cls(jobid, options, schedule, *places, RetryState.parse(kept), bool(pause))


@dataclass(frozen=True, slots=True)
class Told:
    """The alerts that were sent about a job, a process or the server; times are epoch seconds."""

    active: Mapping[str, float] = field(default_factory=dict)  # since when each alert lasts
    told: Mapping[str, float] = field(default_factory=dict)  # when each was sent last

    @classmethod
    def parse(cls, record: str) -> "Told":
        """Read a record. A damaged one counts as no alert."""
        found = load_object(record) or {}
        return cls(_read_times(found.get("active")), _read_times(found.get("told")))

    def is_new(self, alert: str) -> bool:
        """Tell whether an alert neither lasts since it was sent nor was sent a short time ago."""
        return alert not in self.active and alert not in self.told

    def format(self) -> str:
        """Write the record."""
        found = {name: dict(times) for name in ("active", "told") if (times := getattr(self, name))}
        return json.dumps(found, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Missed:
    """How many missed occurrences of a job people were told of, and when (epoch seconds) they were told last."""

    number: int = 0
    told: float | None = None

    @classmethod
    def parse(cls, record: str) -> "Missed":
        """Read a record. A damaged one counts as nothing told."""
        found = _MISSED.fullmatch(record)
        return cls(int(found[1]), parse_number(found[2])) if found else cls()

    def format(self) -> str:
        """Write the record."""
        return f"{self.number}" if self.told is None else f"{self.number} {format_time(self.told)}"


@dataclass(frozen=True, slots=True)
class Message:
    """Lines that wait to be sent from `at` on, or that one process sends until `at`; `more` lines are only counted."""

    at: float
    lines: Sequence[str]
    more: int = 0
    tries: int = 0

    @classmethod
    def parse(cls, record: str) -> "Message | None":
        """Read a record; None for a damaged one."""
        found = load_object(record) or {}
        lines, numbers = found.get("lines"), [found.get(name, 0) for name in ("at", "more", "tries")]
        if not isinstance(lines, list) or not all(isinstance(each, int | float) for each in numbers):
            return None
        return cls(float(numbers[0]), list(map(str, lines)), int(numbers[1]), int(numbers[2]))

    def format(self) -> str:
        """Write the record."""
        found = {"at": self.at, "lines": self.lines, "more": self.more, "tries": self.tries}
        return json.dumps(found, separators=(",", ":"))


def _read_times(found: Any) -> dict[str, float]:
    times = found.items() if isinstance(found, dict) else ()
    return {name: float(time) for name, time in times if isinstance(time, int | float)}


@dataclass(slots=True)
class Known:
    """What ``-alerts`` has, and those of its jobs whose occurrence is due."""

    now: float = 0.0
    told: dict[str, str] = field(default_factory=dict)  # by field, all but `MISSED` and `WATCHED`
    pending: list[Pending] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)  # jobs without an alert that do not alert any more

    @property
    def sent(self) -> float | None:
        """When a message was sent last, in epoch seconds; None if unknown."""
        record = self.told.get(SENT, "")
        return float(record) if re.fullmatch(MOMENT, record, re.ASCII) else None


class Change(NamedTuple):
    """The new `record` of a field, set only if the field still has the record `was`; None for no record.

    If it is set, `lines` are sent, and `more` lines are only counted.
    """

    field: str
    was: str | None
    record: str | None
    lines: Sequence[str] = ()
    more: int = 0


class Alerts(Part):
    """Reads and changes ``-alerts``."""

    def pack_watch(self, options: Mapping[str, str]) -> list[Call]:
        """Return the calls that watch those jobs that alert if they are late. `options` are as stored, by job id."""
        jobs = [jobid for jobid, text in options.items() if is_alerting(text)]
        # The pipeline repeats a script that the server does not know behind the others, so this one may run first.
        return [self._namespace.pack("watch", jobs=page, is_set=True) for page in split(jobs, PAGE)]

    def leave(self, jobids: Sequence[str]) -> None:
        """Stop watching those of `jobids` that do not alert any more, and that have no alert."""
        self._namespace.scripts.run_all(self._namespace.pack("watch", jobs=page) for page in split(jobids, PAGE))

    def watch_all(self) -> Iterator[None]:
        """Watch all jobs that alert if they are late; yield after each step."""
        cursor = ""
        while cursor != "0":
            cursor = decode(self._namespace.run("watch", cursor=cursor or "0", count=PAGE)[1])
            yield

    def read(self) -> Known:
        """Return all that ``-alerts`` has."""
        known, cursor = Known(), ""
        while cursor != "0":
            found = read_json(self._namespace.run("find_alerts", cursor=cursor or "0", count=PAGE)[1])
            cursor, known.now = found["cursor"], float(found["now"])
            # Lua has only one kind of table: an empty one becomes an object in JSON.
            told, due = found["told"] or (), found["due"] or ()
            known.told |= zip(told[::2], told[1::2], strict=True)
            known.pending += map(Pending.read, due)
            known.idle += found["idle"] or ()
        # HSCAN may return a field twice while the server resizes the hash.
        known.pending = list({each.jobid: each for each in known.pending}.values())
        return known

    def read_missed_total(self) -> tuple[str, str | None]:
        """Return how many occurrences of all jobs were missed, and the record of how many were told; None for none."""
        found = read_json(self._namespace.run("find_missed", cursor="0", count=1)[1])
        known = self._namespace.ask("hget", self._namespace.keys.alerts, MISSED)
        return found["total"], None if known is None else decode(known)

    def list_missed(self) -> Iterator[tuple[str, str, str | None]]:
        """Yield each job whose number of missed occurrences is not the told one: id, number, record or None."""
        cursor = ""
        while cursor != "0":
            found = read_json(self._namespace.run("find_missed", cursor=cursor or "0", count=PAGE)[1])
            cursor, missed = found["cursor"], found["missed"] or ()
            for jobid, number, known in zip(missed[::3], missed[1::3], missed[2::3], strict=True):
                yield jobid, number, known or None

    def alert(self, changes: Iterable[Change], gather: float = 0.0, together: bool = False) -> list[bool]:
        """Make changes, each only if its field is unchanged; return for each whether it was made.

        The lines are sent in `gather` seconds, or with waiting lines that are sent sooner. With `together`, all changes
        are made, or none.
        """
        made = list[bool]()
        for page in [list(changes)] if together else split(changes, PAGE):
            given = [each._asdict() | {"was": each.was or False, "record": each.record or False} for each in page]
            more: dict[str, Any] = {"together": True} if together else {}
            reply = self._namespace.run("alert", changes=given, gather=gather, most=MOST_LINES, **more)
            made += [word == "made" for word in decode(reply[1]).split()]
        return made

    def list_failing(self, most: int) -> list[tuple[str, float]]:
        """Return the `most` jobs that failed last and have not succeeded since, with the times; the oldest first."""
        key = self._namespace.keys.failure_times
        found = self._namespace.ask("zrange", key, -most, -1, withscores=True)
        return [(decode(jobid), float(failed)) for jobid, failed in found]

    def read_failures(self, jobids: Sequence[str]) -> dict[str, tuple[str, float | None]]:
        """Return by job its last error, and the due time of that occurrence; None if it is not kept."""
        found: dict[str, tuple[str, float | None]] = {}
        for page in split(jobids, DATA_PAGE):
            texts = self._namespace.ask("hmget", self._namespace.keys.failures, list(map(encode, page)))
            for jobid, text in zip(page, map(decode, texts), strict=True):
                kept = load_object(text) or {}
                due = kept.get("due")
                error = str(kept.get("error") or "nobody knows why")
                found[jobid] = error, float(due) if isinstance(due, int | float) else None
        return found


def is_alerting(options: str) -> bool:
    """Tell whether a job with these stored options alerts if it is late."""
    return bool(options) and any(name in parse_options(options) for name in ALERTING)
