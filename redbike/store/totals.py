"""Numbers of jobs by state, numbers of each queue, and counts that only grow.

The numbers of a queue: how many jobs wait and run, and how many runs have ended in the last minute. The cost of all of
this does not grow with the number of jobs.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.schedule.moments import AWAITED
from redbike.store.blackouts import OF_QUEUE, is_blackout_name
from redbike.store.enums import Skip
from redbike.store.journal import Journal
from redbike.store.namespace import PAGE, Namespace, Part, read_json, split
from redbike.store.queue_limits import QueueLimiter
from redbike.store.records import COUNT, RunRecord, decode, parse_number
from redbike.store.tally import count

TOGETHER = 20  # queues that one script reads
MOST_LATE = 1000  # late jobs of a queue that are counted


@dataclass(frozen=True, slots=True)
class Total:
    """Numbers of jobs, and the instant in epoch seconds by Redis' clock."""

    now: float
    jobs: int  # that have a schedule
    timeline: int  # that have a due time on the timeline
    due: int  # that are due on the timeline for more than `max_lag` seconds
    first_due: float | None  # the earliest due time that has come, no matter how long ago; None if none has
    paused: int
    failing: int  # that have failed and not succeeded since, as far as that is kept
    unarchived: int  # entries of the journal, not jobs
    dispatched: float | None = None  # the instant up to which all is dispatched; None if there was no dispatcher yet


class Totals(Part):
    """Counts jobs."""

    def read(self, max_lag: float = 0.0) -> Total:
        """Return the numbers of jobs. A job counts as due if it has been due for more than `max_lag` seconds."""
        keys, now = self._namespace.keys, self._namespace.read_clock()
        jobs, timeline, due, first, paused, failing, unarchived, dispatched = self._namespace.ask_all(
            ("hlen", keys.schedules),
            ("zcount", keys.timeline, "-inf", f"({AWAITED!r}"),  # not what waits for other jobs
            ("zcount", keys.timeline, "-inf", f"({now - max_lag!r}" if max_lag else now),
            ("zrange", keys.timeline, 0, 0, False, True),  # with the score
            ("hlen", keys.pauses),
            ("zcard", keys.failure_times),
            ("llen", keys.journal),
            ("zscore", keys.dispatched, "until"),
        )
        # A due time may be negative, if somebody has edited the timeline.
        first_due = max(0.0, float(first[0][1])) if first and float(first[0][1]) <= now else None
        return Total(now, jobs, timeline, due, first_due, paused, failing, unarchived, dispatched)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that was ever used, is paused or limited, or has a blackout. Times are epoch seconds by Redis' clock."""

    queue: str
    waiting: int  #: jobs in the queue, without withdrawn entries
    oldest_due: float | None  #: when the first of these jobs was due
    in_flight: int
    paused: float | None  #: since when the queue, or everything, is paused
    at_once: int | None  #: how many of its jobs may run at once
    rate: int | None  #: runs that ended in the last minute and up to 10 seconds more; None if it was not asked for
    first: str = field(default="", compare=False)  #: the id of the first of the waiting jobs
    late: int = 0  #: jobs that have waited for too long, if that was asked for; at most 1,000 are counted
    blackout: float | None = field(default=None, compare=False)  #: when it is paused again; `Redbike.queues` sets it
    #: since when `first` waits in the queue, which may be later than its due time; None if no job waits
    since: float | None = field(default=None, compare=False)


class Depths:
    """Lists the queues."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._limits = QueueLimiter(namespace)
        self._journal = Journal(namespace)

    def list_all(self, with_rates: bool = True, late_since: float | None = None) -> list[Queue]:
        """Return all queues, sorted by name. For their rates, it reads the whole journal.

        A job is late if it has waited in the queue since `late_since` (epoch seconds) or longer.
        """
        queue_limits = {limits.queue: limits for limits in self._limits.list_all()}
        used = map(decode, self._namespace.ask("smembers", self._namespace.keys.queues))
        names = sorted({*used, *filter(None, queue_limits), *self._list_blackouts()})
        flying, everything = self._count_flying(), queue_limits.get("")
        ended: Counter[str] | None = None if with_rates else Counter()
        found = []
        for name, waiting, oldest, begun, first, late, now in self._read(names, late_since):
            ended = self._journal.count_recent(now) if ended is None else ended
            pauses = [limits.pause for limits in (queue_limits.get(name), everything) if limits and limits.pause]
            since = [pause.since for pause in pauses if pause.holds(now)]
            limits = queue_limits.get(name)
            at_once = limits.at_once if limits else None
            rate = ended[name] if with_rates else None
            paused = min(since, default=None)
            found.append(Queue(name, waiting, oldest, flying[name], paused, at_once, rate, first, late, since=begun))
        return found

    def _list_blackouts(self) -> Iterator[str]:
        """Yield the queues that have a blackout, even if no job has used them yet."""
        for name, _ in self._namespace.scan(self._namespace.keys.blackouts, f"{OF_QUEUE}?*"):
            if is_blackout_name(name):
                yield name.removeprefix(OF_QUEUE)

    def count_before(self, queue: str, jobid: str, most: int) -> int | None:
        """Return how many entries of a queue are before `jobid`; None if it is not among the first `most` entries.

        Some of these entries may be withdrawn.
        """
        key = self._namespace.keys.queue(queue)
        place, length = self._namespace.ask_all(("lpos", key, jobid, -1, None, most), ("llen", key))
        return None if place is None else length - 1 - place

    def _read(
        self, names: list[str], latest: float | None
    ) -> Iterator[tuple[str, int, float | None, float | None, str, int, float]]:
        given = {} if latest is None else {"latest": latest, "most": MOST_LATE}
        for page in split(names, TOGETHER):
            told = read_json(self._namespace.run("depths", page, **given)[1])
            columns = (told[name] for name in ("waiting", "oldest", "since", "first", "late"))
            for name, waiting, oldest, since, jobid, late in zip(page, *columns, strict=True):
                yield name, waiting, parse_number(oldest), parse_number(since), jobid, late, float(told["now"])

    def _count_flying(self) -> Counter[str]:
        """Return how many jobs of each queue are in flight."""
        client, key = self._namespace.client, self._namespace.keys.running
        if not self._namespace.ask("hlen", key):
            return Counter()
        with translate_errors():
            records = (RunRecord.parse(decode(record)) for _, record in client.hscan_iter(key, count=PAGE))
            return Counter(record.queue for record in records if record)


class Counts:
    """Reads counts that only grow: the stored counts, plus those of runs that are not archived yet.

    One reader is for one thread. When it reads again, it reads only the new entries of the journal.
    """

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._archived = 0  # entries that were ever archived, before the known ones
        self._known: deque[Counter[str]] = deque()  # by known entry of the journal: what it adds
        self._pending: Counter[str] = Counter()  # what the known entries add together
        self._last = b""  # the last known entry

    def read(self) -> Counter[str]:
        """Return all counts of tally.py, including runs that are not archived yet.

        ``skipped:REASON:`` are the numbers of skipped occurrences.
        """
        client, keys = self._namespace.client, self._namespace.keys
        with self._namespace.translate((keys.counts, "hash"), (keys.journal, "list")):
            while True:
                archived = _parse(client.hget(keys.counts, "archived"))
                self._forget(archived)
                self._read_further(client, keys.journal)
                found = client.hgetall(keys.counts)
                if _parse(found.get(b"archived")) == archived:
                    break
                # Entries that were archived meanwhile would count twice, or not at all.
                self._forget_all()
        fields = [f"{reason}:" for reason in Skip]
        skipped = self._namespace.ask("hmget", keys.skipped, fields)
        found |= {f"skipped:{reason}:".encode(): number for reason, number in zip(Skip, skipped, strict=True) if number}
        counts = Counter(self._pending)
        for name, number in found.items():
            if name.count(b":") >= 2 and COUNT.fullmatch(decode(number)):
                counts[decode(name)] += int(number)
        return counts

    def _forget(self, archived: int) -> None:
        """Forget the entries that were archived since the last read; all, if this is another journal."""
        if archived < self._archived or archived > self._archived + len(self._known):
            self._forget_all()
        for _ in range(min(archived - self._archived, len(self._known))):
            self._pending.subtract(self._known.popleft())
        self._archived = archived

    def _forget_all(self) -> None:
        self._known.clear()
        self._pending.clear()

    def _read_further(self, client: Any, key: str) -> None:
        if self._known and client.lindex(key, len(self._known) - 1) != self._last:
            # The journal was flushed, or entries are being archived.
            self._forget_all()
        while True:
            page = client.lrange(key, len(self._known), len(self._known) + PAGE - 1)
            for entry in page:
                self._known.append(count([entry]))
                self._pending.update(self._known[-1])
            self._last = page[-1] if page else self._last
            if len(page) < PAGE:
                return


def _parse(number: bytes | None) -> int:
    text = decode(number)
    return int(text) if COUNT.fullmatch(text) else 0
