"""Run the command tail, which prints each event as it happens, one a line, until it is interrupted."""

import queue
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import asdict
from typing import TypeVar

from redbike.cli.arguments import Arguments, parse_count
from redbike.cli.bike import open_to_look
from redbike.cli.messages import complain
from redbike.cli.output import Lines
from redbike.cli.rows import choose_format, format_row, make_writer, print_json
from redbike.config.file import Config
from redbike.config.labels import read_filter
from redbike.errors import Unreachable
from redbike.facade.redbike import Redbike
from redbike.process.signals import leave_to_others
from redbike.queries.events import FIELDS, Line, make_line
from redbike.schedule.clock import Clock, format_took
from redbike.store.history import PastRun
from redbike.store.live import Printed
from redbike.store.log import LogEntry, localize
from redbike.store.names import check_jobid
from redbike.store.patterns import check_pattern, compile_patterns
from redbike.store.sharded.missing import list_listens
from redbike.text.printable import escape

T = TypeVar("T")
RATE = 1000  # the default of `--limit`, in events a second; nobody reads more
MOST = 10_000  # events that may wait to be printed; further events are dropped
RETRY = 1.0  # seconds, on average, between two attempts to reach a server
NAP = 1.0  # seconds between two warnings, and after which a signal is noticed at the latest


def follow(arguments: Arguments, config: Config) -> None:
    """Print events until interrupted. If the server is unreachable, print that once, and continue when it is back."""
    printing = arguments["--output"]
    patterns = [check_pattern(text) for text in arguments["<PATTERN>"]]
    if printing is not None and not patterns:
        patterns = [check_jobid(printing)]
    rate = parse_count(arguments, "--limit", RATE, most=1_000_000)
    show = _choose(choose_format(arguments), config.settings.timezone)
    listener = _Listener(open_to_look(config), patterns, rate, read_filter(arguments["--tag"]))
    # Listening goes on while a slow terminal is written to. Otherwise the server would have to keep the events.
    with leave_to_others():
        threading.Thread(target=listener.listen, daemon=True).start()
        if printing is not None:
            threading.Thread(target=listener.listen_to_output, args=(check_jobid(printing),), daemon=True).start()
    for line in _read(listener):
        show(line)
        if listener.heard.empty():
            sys.stdout.flush()


def _choose(style: str, timezone: str) -> Callable[[Line], object]:
    """Return a function that prints a line in this format."""
    if style == "csv":
        rows = make_writer()
        return lambda line: rows.writerow(format_row(line, FIELDS))
    if style == "json":
        return lambda line: print_json(asdict(line))
    clock = Clock(0.0, timezone)
    return lambda line: print(describe_line(line, clock))


def _read(listener: "_Listener") -> Iterator[Line]:
    """Yield the events as lines. If there were too many, print how many are missing."""
    told_at = 0.0
    while True:
        try:
            found = listener.heard.get(timeout=NAP)
        except queue.Empty:
            found = None
        if time.monotonic() - told_at >= NAP:
            for problem in listener.take_problems():
                complain(problem)
                told_at = time.monotonic()
        if isinstance(found, Exception):
            raise found
        if found is not None:
            yield found


class _Allowance:
    """A rate limit: `rate` events a second, and at most `rate` events at once."""

    def __init__(self, rate: int) -> None:
        self._rate, self._left = rate, float(rate)
        self._looked = time.monotonic()
        self._lock = threading.Lock()  # a thread listens to each shard

    def has_any(self) -> bool:
        """Return whether the limit allows an event now."""
        with self._lock:
            now = time.monotonic()
            self._left = min(self._left + (now - self._looked) * self._rate, self._rate)
            self._looked = now
            return self._left > 0

    def spend(self) -> None:
        """Count one event."""
        with self._lock:
            self._left -= 1


class Outage:
    """Reports once for each server that it is unreachable, and once when all servers are back."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._away = say, set[int]()
        self._lock = threading.Lock()

    def begin(self, number: int, error: Unreachable) -> None:
        """Note that the server with this number does not answer."""
        with self._lock:
            if number not in self._away:
                self._away.add(number)
                self._say(f"{error}; waiting for it")

    def end(self, number: int) -> None:
        """Note that the server with this number answers."""
        with self._lock:
            if number in self._away:
                self._away.remove(number)
                if not self._away:
                    self._say("the server is back; redbike runs and redbike log show what happened meanwhile")


class _Listener:
    """Listens to events, at most `rate` a second, and keeps up to `MOST` of them until they are printed.

    The events are those of jobs that match one of `patterns`, and have one of `tags` when the event arrives, if any.
    """

    def __init__(
        self, bike: Redbike, patterns: Sequence[str] = (), rate: int = RATE, tags: Set[str] = frozenset()
    ) -> None:
        self.heard: queue.SimpleQueue[Line | Exception] = queue.SimpleQueue()
        self._bike = bike
        self._fits, self._tags = compile_patterns(patterns), tags
        self._rate, self._allowance = rate, _Allowance(rate)
        self._lock = threading.Lock()
        self._is_limited = False  # whether events are missing because of `rate`
        self.unread = 0  # events that are missing because too many others waited to be printed
        self._reported = 0  # how many of these were reported

    def take_problems(self) -> Iterator[str]:
        """Yield why events are missing since the last call."""
        if self._is_limited:
            self._is_limited = False
            yield f"events are missing: there were more than {self._rate:,} a second, see --limit"
        if missing := self.unread - self._reported:
            self._reported += missing
            yield f"{missing:,} events are missing: they came faster than they were read"

    def listen(self) -> None:
        """Listen to the events of each shard until this process ends. An unreachable shard does not stop the others."""
        outage, (first, *others) = Outage(complain), list_listens(self._bike.store)
        for number, each in enumerate(others, 1):
            threading.Thread(target=self._listen_to, args=(each, outage, number), daemon=True).start()
        self._listen_to(first, outage, 0)

    def _listen_to(self, listen: Callable[..., Iterator[PastRun | LogEntry]], outage: Outage, number: int) -> None:
        self._listen(lambda: listen(self._wants), self._keep, outage, number)

    def listen_to_output(self, jobid: str) -> None:
        """Listen to the output of the command of a job, until this process ends."""
        lines = Lines()

        def add(found: Iterable[bytes]) -> None:
            for line in found:
                self._allowance.spend()
                self._add(Line(time.time(), "output", jobid, "", None, None, None, escape(line), ""))

        def begin() -> Iterator[Printed | PastRun | None]:
            add(lines.finish())  # the rest of this line was missed
            return self._bike.store.live.listen([jobid])

        # The other thread reports that the server is unreachable.
        self._listen(begin, lambda part: add(lines.split(part)), Outage(lambda text: None))

    def _listen(
        self, begin: Callable[[], Iterator[T]], keep: Callable[[T], None], outage: Outage, number: int = 0
    ) -> None:
        while True:
            try:
                events = begin()
                outage.end(number)
                for event in events:
                    keep(event)
            except Unreachable as error:
                outage.begin(number, error)
                time.sleep(RETRY * random.uniform(0.5, 1.5))
            except Exception as error:
                self.heard.put(error)  # it is raised where it can be reported
                return

    def _wants(self) -> bool:
        """Return whether the rate limit allows to read further events."""
        has_any = self._allowance.has_any()
        self._is_limited |= not has_any
        return has_any

    def _keep(self, event: PastRun | LogEntry) -> None:
        # Runs arrive only after `_wants` was true; changes by people always do.
        if not self._fits(event.jobid) or (isinstance(event, LogEntry) and not self._wants()):
            return
        if self._tags and not any(self._bike.store.catalog.keep_tagged([event.jobid], self._tags)):
            return
        self._allowance.spend()
        self._add(make_line(event))

    def _add(self, line: Line) -> None:
        if self.heard.qsize() < MOST:
            self.heard.put(line)
        else:
            with self._lock:
                self.unread += 1


def describe_line(line: Line, clock: Clock) -> str:
    """Return a line for a person, without characters that could control the terminal."""
    what = localize(line.detail, clock.name) if line.took is None else line.detail
    detail = f": {what}" if what else ""
    if line.kind == "output":
        said = f"{line.jobid}| {line.detail}"
    elif line.took is None:
        said = f"{line.who}: {line.event} {line.jobid}".rstrip() + detail
    else:
        tried = f", try {line.attempt}" if line.attempt != 1 else ""
        where = f" on {line.who}" if line.who else ""
        said = f"{line.jobid}: {line.event} after {format_took(line.took)}{tried}{where}{detail}"
    return escape(f"{clock.format(line.time)}  {said}".encode(errors="surrogateescape"))
