"""The queues of a worker: which ones its worker class names, whose turn it is, and the limits that the class names."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any

from redbike.config.queue_limits import Limit, parse_rate
from redbike.errors import BadConfig, RedbikeError, Unreachable
from redbike.loop.host_queues import HostQueues
from redbike.loop.worker_class import WorkerClass, find_queue
from redbike.store.names import check_queue_name
from redbike.store.run import Poll
from redbike.store.store import Store
from redbike.text.parsing import is_number
from redbike.text.printable import describe

log = logging.getLogger("redbike.worker")

ENDLESS = 1_000_000  # names: an iterator that gives more counts as endless
REREAD = 0.5  # seconds: older names are read again
WINDOW = 32  # turns in one request: its cost must not grow with the number of queues
KEEP_LIMITS: Mapping[str, Limit] = MappingProxyType({})  # returned by ``limits()``: all limits stay as they are


@dataclass
class Round:
    """The turns of one shard: the names in the order in which they have a turn, and the position of the next one."""

    names: list[str] = field(default_factory=list)
    position: int = 0


class Queues:
    """The order in which to look into queues. Each turn begins behind the queue that was served last.

    With A:A:B and jobs in both queues, the turns are A, A, B, A, … If a queue is empty, the next one in line is served.
    So the weights are exact while there are jobs, and no turn is lost while any queue has one.

    If the worker class is `strict`, each turn begins with the first queue. The next one is used only if that is empty.

    Each shard has turns of its own: with common ones, some shards would only ever be asked for jobs of the same queue.
    """

    def __init__(
        self,
        worker: WorkerClass,
        default_timeout: float,
        clock: Callable[[], float] = time.monotonic,
        hosts: HostQueues | None = None,
        check: Callable[[Collection[str]], None] = lambda names: None,
    ) -> None:
        self._worker = worker
        self._strict = bool(getattr(worker, "strict", False))
        self._default = default_timeout
        self._clock = clock
        self._hosts = hosts
        self._check = check  # raises `BadQueueName` for names that no worker of the prefix may work
        self._own: list[str] = []  # those that the worker class names
        self._names: list[str] = []
        self._revision: object = None
        self._timeouts: dict[str, float] = {}
        self._rounds: defaultdict[int, Round] = defaultdict(Round)  # by the number of the shard
        self._read_at: float | None = None  # None until the names were read once
        self._complaint = ""
        self.shortest_timeout = default_timeout  # of the timeouts, in seconds

    def names(self) -> list[str]:
        """Return the queues, each once."""
        return list(self._timeouts)

    def list_for_host(self) -> list[str]:
        """Return the queues for the host, also those that were never used."""
        return self._hosts.list_own(self._own) if self._hosts else []

    def list_awaited(self) -> list[str]:
        """Return the queues whose tokens a worker waits for: also some of those for the host that were never used."""
        return [*self._timeouts, *(self._hosts.list_awaited(self._own) if self._hosts else ())]

    def note_token(self, name: str) -> None:
        """Note that the queue `name` has a token, and so is used."""
        if self._hosts and name and name not in self._timeouts:
            self._hosts.note(name)
            self._read_at = self._clock() - REREAD

    def polls(self, shard: int = 0) -> Iterator[Poll]:
        """Yield where to look for jobs in a shard: all turns from this one on, at most `WINDOW` of them at a time."""
        self.refresh(shard)
        own = self._rounds[shard]
        if own.position == 0:
            own.names = self._names
        names, position, count = own.names, own.position, len(own.names)
        if count == 0:
            yield Poll([], [])
        for first in range(position, position + count, WINDOW):
            size = min(WINDOW, position + count - first)
            turns = [names[(first + step) % count] for step in range(size)]
            # Looking twice into an empty queue is of no use.
            numbers = {name: number for number, name in enumerate(dict.fromkeys(turns), 1)}
            found = [(name, self._timeouts[name]) for name in numbers]
            yield Poll(found, [numbers[name] for name in turns], self._strict)

    def advance(self, name: str, shard: int = 0) -> None:
        """Go on behind the queue `name`: one of its jobs was taken from that shard."""
        own = self._rounds[shard]
        count = len(own.names)
        if count > 1 and name in self._timeouts and not self._strict:
            steps = next(step for step in range(count) if own.names[(own.position + step) % count] == name)
            own.position = (own.position + steps + 1) % count

    def refresh(self, shard: int = 0) -> bool:
        """Read the names again if the round of a shard begins or they are old; return whether they have changed.

        Raise `BadConfig` for invalid names at the first time. Later the old names stay, and that is logged once.
        """
        now = self._clock()
        first, own = self._read_at is None, self._rounds[shard]
        # The names may come in another order in the new round.
        if self._read_at is not None and own.position != 0 and now - self._read_at < REREAD:
            return False
        self._read_at = now
        try:
            changed = self._read(own)
            if first and not self._names:
                raise BadConfig("queue_names() gives no queue to work")
        except Exception as error:
            # The worker class is the user's own: it may raise anything.
            if first:
                self._read_at = None
                if isinstance(error, RedbikeError):
                    raise
                raise BadConfig(f"queue_names() or timeout() fails: {describe(error)}") from error
            if isinstance(error, Unreachable):
                return False  # the loop that takes jobs gets this error, too
            self._complain(f"queue_names() or timeout() fails, the queues stay as they are: {describe(error)}")
            return False
        self._complain("" if self._names else "queue_names() gives no queue to work; waiting for one")
        return changed

    def _complain(self, complaint: str) -> None:
        if complaint and complaint != self._complaint:
            log.error("%s", complaint)
        self._complaint = complaint

    def _read(self, asking: Round) -> bool:
        given = self._worker.queue_names()
        if isinstance(given, str):
            raise BadConfig(f"queue_names() gives the text {given!r:.80}: a list of names is needed")
        own, revision = list(islice(given, ENDLESS + 1)), getattr(self._worker, "revision", None)
        if own != self._own:
            if len(own) > ENDLESS:
                raise BadConfig(f"queue_names() gives more than {ENDLESS:,} names: it must have an end")
            for name in own:
                check_queue_name(name)
        if self._hosts:
            self._hosts.look(own)
        names = self._hosts.add(own) if self._hosts else own
        if names == self._names and revision == self._revision:
            return False
        self._check([*names, *(self._hosts.list_awaited(own) if self._hosts else ())])
        self._timeouts = {check_queue_name(name): self._timeout(name) for name in names}
        # If only the order is new, the other rounds keep theirs: a queue must not miss its turn in one after the other.
        rounds = [asking] if Counter(names) == Counter(self._names) else self._rounds.values()
        self._own, self._names, self._revision = own, names, revision
        for each in rounds:
            each.names, each.position = names, each.position % max(1, len(names))
        self.shortest_timeout = min(self._timeouts.values(), default=self._default)
        return True

    def _timeout(self, name: str) -> float:
        base = self._hosts.find_base(name) if self._hosts else name
        find = getattr(self._worker, "_find_timeout", None)  # `Jobs` has it: several functions may share a queue
        seconds = find(base, self._default) if find else self._worker.timeout(base)
        if seconds is None:
            return self._default
        if not is_number(seconds) or not 0.001 <= seconds <= 1e9:
            raise BadConfig(f"bad timeout {seconds!r} for queue {name!r}: 0.001 to 1e9 seconds, or None, are allowed")
        return float(seconds)


def apply_limits(store: Store, worker: Any, names: Collection[str], for_host: Iterable[str] = ()) -> bool:
    """Set the limits of queues as ``limits()`` of `worker` says, unless an operator has set others.

    Return False, and change nothing, if it says nothing of limits: those of other worker classes stay then.

    The worker works the queues `names` and `for_host`. Those that ``limits()`` leaves out get no limit. A limit of any
    other queue is set and logged. Raise `BadConfig` if ``limits()`` fails or returns anything but limits.
    """
    given = read_limits(worker)
    if given is None:
        return False
    wanted = _find_queues(store, worker, given)
    kept = {limits.queue for limits in store.queue_limits.list_all()}
    worked = {*names, *for_host}
    for name in {*wanted, *(kept & worked)}:
        limit = wanted.get(name, Limit())
        store.queue_limits.limit(name, limit.at_once or False, parse_rate(limit.rate) or False, by_code=True)
    for name in wanted:
        if name not in worked:
            log.warning("limits() names the queue %r, which this worker does not work: %s", name, ", ".join(names))
    return True


def _find_queues(store: Store, worker: Any, limits: Mapping[str, Limit]) -> dict[str, Limit]:
    """Return limits by the full names of their queues. Raise `BadConfig` for two of one queue."""
    used = store.queue_limits.list_queues() if limits else []
    found: dict[str, Limit] = {}
    for given, limit in limits.items():
        name = find_queue(worker, given, used)
        if name in found:
            raise BadConfig(f"limits() returned two limits for the queue {name!r}, one of them as {given!r}")
        found[name] = limit
    return found


def read_limits(worker: Any) -> dict[str, Limit] | None:
    """Return the limits by the names of queues; None if `worker` says nothing of limits. Raise `BadConfig`."""
    method = getattr(worker, "limits", None)
    if method is None:
        return None
    try:
        found = method()
    except RedbikeError:
        raise
    except Exception as error:
        # The worker class is the user's own: it may raise anything.
        raise BadConfig(f"limits() fails: {describe(error)}") from error
    if not isinstance(found, Mapping):
        raise BadConfig(f"limits() returned {found!r:.80}: a dict of queue names and limits is needed")
    for name, limit in found.items():
        check_queue_name(name)
        if not isinstance(limit, Limit):
            raise BadConfig(f"limits() returned {limit!r:.80} for the queue {name!r}: a redbike.Limit is needed")
    return None if found is KEEP_LIMITS else dict(found)
