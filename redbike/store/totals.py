"""How many jobs are where, at one instant, and what has happened in all; the cost does not grow with their number.

Of each queue: what waits in it, what runs, and how much of that has ended of late.
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

TOGETHER = 20  # queues that one script looks at
MOST_LATE = 1000  # late jobs of a queue that are counted


@dataclass(frozen=True, slots=True)
class Total:
    """Numbers of jobs, and the instant in epoch seconds by Redis' clock."""

    now: float
    jobs: int  # that have a schedule
    timeline: int  # that have a due time there
    due: int  # of those on the timeline, for longer than was asked for
    first_due: float | None  # the due time of the first that is due, however short; None if none is
    paused: int
    failing: int  # those that have failed and not succeeded since, as far as that is kept
    unarchived: int  # entries of the journal
    dispatched: float | None = None  # the instant up to which all is; None if there was no dispatcher yet


class Totals(Part):
    """Counts jobs."""

    def read(self, max_lag: float = 0.0) -> Total:
        """Return all of them. Those count as due that have been due for more than `max_lag` seconds."""
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
        # Somebody may have put a job before the beginning of time.
        first_due = max(0.0, float(first[0][1])) if first and float(first[0][1]) <= now else None
        return Total(now, jobs, timeline, due, first_due, paused, failing, unarchived, dispatched)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that was ever used, is paused or limited, or has a blackout. Times are epoch seconds by Redis' clock."""

    queue: str
    waiting: int  #: jobs, without those that were withdrawn
    oldest_due: float | None  #: when the first of them was due
    in_flight: int
    paused: float | None  #: since when the queue, or everything, is paused
    at_once: int | None  #: how many of its jobs may run at once
    rate: int | None  #: runs that ended in the last minute, up to 10 seconds more; None if nobody has asked for it
    first: str = field(default="", compare=False)  #: the id of the job that waits longest
    late: int = 0  #: those of them that have waited for too long, if that was asked for; 1,000 are counted at most
    blackout: float | None = field(default=None, compare=False)  #: when it is paused again, if `Redbike.queues` tells
    #: since when `first` waits there: it may have come into the queue after its due time; None if nobody waits
    since: float | None = field(default=None, compare=False)


class Depths:
    """Lists the queues."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._limits = QueueLimiter(namespace)
        self._journal = Journal(namespace)

    def list_all(self, with_rates: bool = True, late_since: float | None = None) -> list[Queue]:
        """Return all queues, by name. For their rates, all is read that has ended and is not archived yet.

        Those jobs are late that wait there since `late_since`, in epoch seconds, or for longer.
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
        """Yield the queues that have a blackout, also those that no job has used yet."""
        for name, _ in self._namespace.scan(self._namespace.keys.blackouts, f"{OF_QUEUE}?*"):
            if is_blackout_name(name):
                yield name.removeprefix(OF_QUEUE)

    def count_before(self, queue: str, jobid: str, most: int) -> int | None:
        """Return how many entries are taken before `jobid` in a queue; None for more than `most`, or if it is gone.

        Some of the entries may be withdrawn.
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
    """Reads counts that only grow: those that are kept, and those of runs that are not archived yet.

    One reader serves one thread. If it reads again, it reads only the entries of the journal that it has not read yet.
    """

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._archived = 0  # entries that were ever archived, before those that are known
        self._known: deque[Counter[str]] = deque()  # what each of the next entries adds
        self._pending: Counter[str] = Counter()  # what these add together
        self._last = b""  # the last entry that is known

    def read(self) -> Counter[str]:
        """Return all counts, see tally.py, also of those runs that are not archived yet.

        Those of occurrences that were skipped are ``skipped:REASON:``.
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
                # What was archived meanwhile would count twice, or not at all.
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
        """Forget the entries that were archived since the last time; all, if this cannot be the same journal."""
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
            # Everything was flushed, or some are being archived.
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
