"""The queues as an operator sees them: what waits in each, what runs, and how much of that has ended of late."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from redbike.connection.refusals import translate_errors
from redbike.store.journal import Journal
from redbike.store.namespace import PAGE, Namespace, read_json
from redbike.store.queue_limits import Gates
from redbike.store.records import RunRecord, decode, parse_number

TOGETHER = 20  # queues that one script looks at
MOST_LATE = 1000  # late jobs of a queue that are counted


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that was ever used, or is paused or limited. Times are epoch seconds by Redis' clock."""

    queue: str
    waiting: int  #: jobs, without those that were withdrawn
    oldest_due: float | None  #: when the first of them was due
    in_flight: int
    paused: float | None  #: since when the queue, or everything, is paused
    at_once: int | None  #: how many of its jobs may run at once
    rate: int | None  #: runs that ended in the last minute, up to 10 seconds more; None if nobody has asked for it
    first: str = field(default="", compare=False)  #: the id of the job that waits longest
    late: int = 0  #: those of them that have waited for too long, if that was asked for; 1,000 are counted at most


class Depths:
    """Lists the queues."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._gates = Gates(namespace)
        self._journal = Journal(namespace)

    def list_all(self, with_rates: bool = True, late_since: float | None = None) -> list[Queue]:
        """Return all queues, by name. For their rates, all is read that has ended and is not archived yet.

        Those jobs are late that were due before `late_since`, in epoch seconds.
        """
        client, keys = self._namespace.client, self._namespace.keys
        gates = {gate.queue: gate for gate in self._gates.list_all()}
        with translate_errors():
            used = map(decode, self._namespace.fetch(client.smembers, keys.queues, "set"))
        names = sorted({*used, *filter(None, gates)})
        flying, everything = self._count_flying(), gates.get("")
        ended: Counter[str] | None = None if with_rates else Counter()
        found = []
        for name, waiting, oldest, first, late, now in self._read(names, late_since):
            ended = self._journal.count_recent(now) if ended is None else ended
            pauses = [gate.pause for gate in (gates.get(name), everything) if gate and gate.pause]
            since = [pause.since for pause in pauses if pause.holds(now)]
            gate = gates.get(name)
            at_once = gate.at_once if gate else None
            rate = ended[name] if with_rates else None
            paused = min(since, default=None)
            found.append(Queue(name, waiting, oldest, flying[name], paused, at_once, rate, first, late))
        return found

    def count_before(self, queue: str, jobid: str, most: int) -> int | None:
        """Return how many entries are taken before `jobid` in a queue; None for more than `most`, or if it is gone.

        Some of the entries may be withdrawn.
        """
        client, key = self._namespace.client, self._namespace.keys.queue(queue)
        with self._namespace.translate((key, "list")), client.pipeline(transaction=True) as pipeline:
            pipeline.lpos(key, jobid, rank=-1, maxlen=most)
            pipeline.llen(key)
            place, length = pipeline.execute()
        return None if place is None else length - 1 - place

    def _read(self, names: list[str], since: float | None) -> Iterator[tuple[str, int, float | None, str, int, float]]:
        given = {} if since is None else {"since": since, "most": MOST_LATE}
        for first in range(0, len(names), TOGETHER):
            page = names[first : first + TOGETHER]
            told = read_json(self._namespace.run("depths", page, **given)[1])
            columns = (told[name] for name in ("waiting", "oldest", "first", "late"))
            for name, waiting, oldest, jobid, late in zip(page, *columns, strict=True):
                yield name, waiting, parse_number(oldest), jobid, late, float(told["now"])

    def _count_flying(self) -> Counter[str]:
        """Return how many jobs of each queue are in flight."""
        client, key = self._namespace.client, self._namespace.keys.running
        with translate_errors():
            if not self._namespace.fetch(client.hlen, key, "hash"):
                return Counter()
            records = (RunRecord.parse(decode(record)) for _, record in client.hscan_iter(key, count=PAGE))
            return Counter(record.queue for record in records if record)
