"""The log of what people have changed. Its length is limited. The scripts that make the changes write it.

Events are changes by people and ends of runs, at the moment when they happen. The scripts publish events, and do not
store them. The channels have the names of the keys of the journal and the log, and a message is an entry of that key.
The channels are sharded: in a cluster, an event goes to no other shard.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.errors import BadConfig, RedbikeError
from redbike.store.entries import read_entry
from redbike.store.history import PastRun, read_run
from redbike.store.listening import Listener
from redbike.store.names import is_jobid
from redbike.store.namespace import Part, make_tag
from redbike.store.records import MOMENT, decode
from redbike.text.parsing import load_json
from redbike.text.printable import escape

MAX_WHO = 200  # characters
PAGE = 100  # entries in one request; each may name up to 100 jobs
SLACK = 3600.0  # seconds: an entry may be out of order by so much, if a clock was set back

# As `describe_pause` writes it: at the beginning, or behind the name of what is paused.
_UNTIL = re.compile(r"\A(|all |queue .*? )until (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00)(?=:|\Z)", re.ASCII)
# The detail of a job that keeps its schedule begins with its options or data. The option ``spread`` also moves
# occurrences; it comes first if it has changed.
_KEEPS = re.compile(r"(?!spread: )[a-z-]+: |data changed", re.ASCII)
_TIME = re.compile(rb'\["(%b)"' % MOMENT.encode(), re.ASCII)
REST = 0.1  # seconds for which a listener leaves the channel of runs that nobody wants


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What one person has done to one job. If `jobid` is "", it was to queues, a file of jobs, or everything."""

    time: float  #: epoch seconds
    who: str  #: such as ``user@host``
    action: str  #: the name of the command
    jobid: str
    detail: str


@dataclass(frozen=True, slots=True)
class LogSearch:
    """A search for entries: those to which all fields apply that are given."""

    jobid: str | None = None
    since: float | None = None  # epoch seconds
    until: float | None = None  # epoch seconds
    who: str = ""  # a part of the person's name, in upper or lower case

    def holds(self, moment: float) -> bool:
        """Tell whether an entry of this time may fit."""
        return (self.until is None or moment <= self.until) and (self.since is None or moment >= self.since)

    def is_over(self, moment: float) -> bool:
        """Tell whether no entry that is older than an entry of this time fits."""
        return self.since is not None and moment < self.since - SLACK

    def fits(self, entry: LogEntry) -> bool:
        """Tell whether an entry fits whose time `holds`."""
        return self.jobid in (None, entry.jobid) and self.who.lower() in entry.who.lower()


@dataclass(slots=True)
class Tally:
    """Counts what a loop has done to many things."""

    counts: Counter[str] = field(default_factory=Counter)  # by the word for what was done
    done: int = 0  # how many of them are worth an entry of the log
    tried: bool = False  # whether more may have been done than is counted yet

    def add(self, word: str, is_done: bool, number: int = 1) -> None:
        """Count `number` things under `word`."""
        self.counts[word] += number
        if is_done:
            self.done += number

    def __str__(self) -> str:
        return ", ".join(f"{number} {word}" for word, number in self.counts.items()) or "nothing"


class Log(Part):
    """Reads the log, and adds entries for what many scripts did together."""

    def list_entries(self, search: LogSearch = LogSearch()) -> Iterator[LogEntry]:
        """Yield the entries that fit the search, the newest first. Skip damaged entries."""
        for _, entries in self.list_moments(search):
            yield from entries

    def list_moments(self, search: LogSearch) -> Iterator[tuple[float, list[LogEntry]]]:
        """Yield for each stored entry its time, and those of its jobs that fit, as entries of their own.

        Yield the time even if none fits, so that the caller may stop there, and go on later.
        """
        for kept in self._list_kept():
            found = _TIME.match(kept)
            if found is None:
                continue
            moment = float(found[1])
            if search.is_over(moment):
                return
            # Most entries are skipped by their time alone: to parse one is slow, as it may have a hundred jobs.
            if search.holds(moment):
                yield moment, list(filter(search.fits, parse_entry(kept) or ()))

    def list_bad(self) -> Iterator[tuple[str, bytes, str]]:
        """Yield for each damaged entry, once: the key, the entry, and in words what is wrong."""
        for kept in dict.fromkeys(self._list_kept()):
            if parse_entry(kept) is None:
                yield self._namespace.keys.log, kept, f"holds {decode(kept[:80])!r}, which is no entry of the log"

    def find_order(self, jobid: str, due: float, started: float, is_backfill: bool = False) -> LogEntry | None:
        """Return the last entry before a run `started` that set `jobid` or ordered its run for `due`; None for none.

        Times are epoch seconds. If it `is_backfill`, return the entry that ordered the backfill. It takes one request.
        """
        more: dict[str, Any] = {"backfill": True} if is_backfill else {}
        _, *found = self._namespace.run("find_order", job=jobid, due=due, started=started, **more)
        entries = parse_entry(found[0]) if found else None
        return next((entry for entry in entries or () if entry.jobid == jobid), None)

    @contextmanager
    def note_when_done(self, action: str, subject: str, *words: str) -> Iterator[Tally]:
        """Add an entry when the caller's block ends, or is interrupted: what it has done to `subject`.

        The entry has the counts of `words` in this order, even if they are 0, and then those of other words. If nothing
        was done, there is no entry.
        """
        tally = Tally(Counter(dict.fromkeys(words, 0)))
        try:
            yield tally
        except BaseException:
            # The server may be away: then the first error says so.
            with suppress(RedbikeError):
                if tally.tried or tally.done:
                    self._note(action, f"{subject}{tally}, interrupted")
            raise
        if tally.done:
            self._note(action, f"{subject}{tally}")

    def _note(self, action: str, detail: str) -> None:
        if self._namespace.who is not None:
            # The name of a file may hold anything.
            said = escape(detail.encode(errors="backslashreplace"))
            self._namespace.run("note", detail=said, action=action, request=make_tag())

    def _list_kept(self) -> Iterator[bytes]:
        after: dict[str, Any] = {}
        while True:
            first, *page = self._namespace.run("read_log", most=PAGE, **after)[1:]
            yield from page
            if len(page) < PAGE:
                return
            after = {"after": decode(page[-1]), "at": first + PAGE - 1}


def parse_entry(kept: bytes) -> list[LogEntry] | None:
    """Read a stored entry: return one entry for each of its jobs, the last job first; None if it is damaged."""
    texts = load_json(decode(kept))
    if not isinstance(texts, list) or len(texts) < 4 or not all(isinstance(text, str) for text in texts):
        return None
    time, who, action, detail, *jobids = texts
    if not re.fullmatch(MOMENT, time, re.ASCII) or not all(map(is_jobid, jobids)):
        return None
    return [LogEntry(float(time), who, action, jobid, detail) for jobid in reversed(jobids or [""])]


def moves_job(entry: LogEntry) -> bool:
    """Tell whether an entry says that a job was set to other times."""
    return entry.action == "set" and not _KEEPS.match(entry.detail)


def localize(detail: str, name: Callable[[float], str]) -> str:
    """Return the detail of an entry, with the end of a pause in the form that `name` gives it."""
    until = find_until(detail)
    return detail if until is None else _UNTIL.sub(lambda found: f"{found[1]}until {name(until)}", detail)


def find_until(detail: str) -> float | None:
    """Return the end of a pause (epoch seconds) from the detail of an entry; None if it has none."""
    try:
        return datetime.fromisoformat(found[2]).timestamp() if (found := _UNTIL.match(detail)) else None
    except ValueError:
        return None  # a person wrote this text


def describe_pause(until: float | None, reason: str, subject: str = "") -> str:
    """Return in words what is paused, until when, and why, as far as it is given."""
    end = "" if until is None else f"until {datetime.fromtimestamp(until, UTC).isoformat(timespec='seconds')}"
    return ": ".join(part for part in (f"{subject} {end}".strip(), reason) if part)


def check_who(who: str | None, subject: str = "noted_as") -> str | None:
    """Return `who` if it is None or a line of text of limited length. Raise `BadConfig`, which names the `subject`."""
    if who is None or (isinstance(who, str) and who.isprintable() and 1 <= len(who) <= MAX_WHO):
        return who
    raise BadConfig(f"bad {subject} {who!r:.80}: one line of 1 to {MAX_WHO} characters is needed")


class Events(Listener):
    """Listens to the events of the prefix."""

    def listen(
        self, wants: Callable[[], bool] | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> Iterator[PastRun | LogEntry]:
        """Listen from now on; yield events until `is_over`, which is called at least once a second.

        Raise `Unreachable` if the server is away, and `BadConfig` if the jobs have moved to other shards.

        `wants` is called before runs that have ended together are read. If it returns False, the channel of runs is
        left for `REST` seconds. Runs that end meanwhile are not received, and cost nothing.
        """
        subscription = self._subscribe(self._namespace.keys.journal, self._namespace.keys.log)
        return self._read(subscription, wants, is_over)

    def _read(
        self, subscription: Any, wants: Callable[[], bool] | None, is_over: Callable[[], bool]
    ) -> Iterator[PastRun | LogEntry]:
        journal, is_resting = self._namespace.keys.journal, False
        with closing(self._receive(subscription, is_over)) as messages, translate_errors():
            for message in messages:
                if message and message["type"] == "ssubscribe":
                    is_resting = False
                if not message or message["type"] != "smessage":
                    continue
                if decode(message["channel"]) != journal:
                    yield from reversed(list(parse_entry(message["data"]) or ()))
                elif is_resting:
                    pass
                elif wants is None or wants():
                    runs = (run for run in read_entry(message["data"]) or () if not isinstance(run, str))
                    yield from (read_run(run.jobid, run.packed, run.worker) for run in runs)
                else:
                    is_resting = True
                    subscription.sunsubscribe(journal)
                    time.sleep(REST)
                    subscription.ssubscribe(journal)
