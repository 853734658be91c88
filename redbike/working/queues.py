"""The queues of a worker: which ones its worker class names, and whose turn it is."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

from redbike.errors import BadConfig, BadJobId, RedbikeError
from redbike.state.keys import check_queue_name
from redbike.texts import describe

log = logging.getLogger("redbike.worker")

ENDLESS = 1_000_000  # names: an iterator that gives more counts as endless
REREAD = 0.5  # seconds: older names are read again
MOST_AT_ONCE = 1000  # jobs in one process
WINDOW = 32  # turns in one request: its cost must not grow with the number of queues


class Handler(Protocol):
    """What a worker class must have. `work` may be a coroutine function.

    It may also have:

    - ``settings_for(run, settings) -> Settings``: Return the settings of one run, for example another ``on_error`` for
      some job ids. `run` is what `redbike.current_run` returns.
    - ``concurrency``: An attribute: how many jobs to run at once in a process if ``--concurrency`` is not given.
    - ``use_folder(folder)``: Look for files with relative names in this folder, which is that of the config file. It
      is called if the config file names the worker.
    - ``abort()``: End all jobs that run, within about two seconds: the process is about to end. It may be called in
      any thread, while `work` goes on in others. What `work` returns or raises after that changes nothing.
    """

    def queue_for(self, jobid: str) -> str:
        """Return the name of the queue for `jobid`."""
        ...

    def queue_names(self) -> Iterable[str]:
        """Return the names of the queues to work, in turn. A name that comes twice is worked twice as often.

        It is called again at least once a second between jobs.
        """
        ...

    def work(self, jobid: str) -> Any:
        """Do the job. The number returned with ``CONTINUE`` is a pause in seconds."""
        ...

    def timeout(self, queue_name: str) -> float | None:
        """Return the seconds that a job of the queue may take; None means the default."""
        ...


class RoundRobin:
    """Works queues in turn: ``RoundRobin("A:A:B")`` takes from A twice as often as from B while both have jobs.

    The part of a job id after its last ``:`` says its queue: ``backup:A`` waits in the queue named ``work-A``.
    """

    def __init__(self, initstring: str) -> None:
        names = initstring.split(":") if isinstance(initstring, str) else [""]
        if not all(names):
            raise BadConfig(f"bad queues {initstring!r}: names with colons between them, as in 'A:A:B', are needed")
        for name in names:
            check_queue_name(f"work-{name}")
        self.initstring = initstring

    def name_queue(self, code: str) -> str:
        """Return the name of the queue for `code`, which is a part of the init string or the end of a job id."""
        return f"work-{code}"

    def queue_for(self, jobid: str) -> str:
        """Return the queue of `jobid`. Raise `BadJobId` for an id that ends in ``:``."""
        code = jobid.rpartition(":")[2]
        if not code:
            raise BadJobId(f"bad job id {jobid!r}: nothing after its last ':' names a queue")
        return self.name_queue(code)

    def queue_names(self) -> Iterable[str]:
        """Return the queues, in the order of the init string."""
        return [self.name_queue(code) for code in self.initstring.split(":")]

    def work(self, jobid: str) -> Any:
        """Do the job. Your class overrides this."""
        raise NotImplementedError(f"{type(self).__name__} has no work() of its own")

    def timeout(self, queue_name: str) -> float | None:
        """Return the seconds that a job may take; None means the default."""
        return None


def default_concurrency(handler: Handler) -> int:
    """Return how many jobs of `handler` run at once by default. Raise `BadConfig` for an invalid number."""
    number = getattr(handler, "concurrency", 1)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_AT_ONCE:
        raise BadConfig(f"bad concurrency {number!r:.80} of {type(handler).__name__}: 1 to {MOST_AT_ONCE} are allowed")
    return number


class Look(NamedTuple):
    """One look into queues: (name, timeout in seconds) of each, and whose turn it is, by numbers from 1."""

    queues: list[tuple[str, float]]
    turns: list[int]


class Queues:
    """The order in which to look into queues. Each turn begins behind the queue that was served last.

    With A:A:B and jobs in both queues, the turns are A, A, B, A, … If a queue is empty, the next one in line is served.
    So the weights are exact while there are jobs, and no turn is lost while any queue has one.
    """

    def __init__(self, handler: Handler, default_timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._handler = handler
        self._default = default_timeout
        self._clock = clock
        self._names: list[str] = []
        self._timeouts: dict[str, float] = {}
        self._position = 0
        self._read_at: float | None = None  # None until the names were read once
        self._complaint = ""
        self.shortest_timeout = default_timeout  # of the timeouts, in seconds

    def names(self) -> list[str]:
        """Return the queues, each once."""
        return list(self._timeouts)

    def looks(self) -> Iterator[Look]:
        """Yield where to look for jobs: all turns from this one on, at most `WINDOW` of them at a time."""
        self.refresh()
        count = len(self._names)
        if count == 0:
            yield Look([], [])
        for first in range(self._position, self._position + count, WINDOW):
            size = min(WINDOW, self._position + count - first)
            turns = [self._names[(first + step) % count] for step in range(size)]
            # Looking twice into an empty queue is of no use.
            numbers = {name: number for number, name in enumerate(dict.fromkeys(turns), 1)}
            yield Look([(name, self._timeouts[name]) for name in numbers], [numbers[name] for name in turns])

    def advance(self, name: str) -> None:
        """Go on behind the queue `name`: one of its jobs was taken."""
        count = len(self._names)
        if count > 1 and name in self._timeouts:
            steps = next(step for step in range(count) if self._names[(self._position + step) % count] == name)
            self._position = (self._position + steps + 1) % count

    def refresh(self) -> bool:
        """Read the names again if a round begins or they are old; return whether they have changed.

        Raise `BadConfig` for invalid names at the first time. Later the old names stay, and that is logged once.
        """
        now = self._clock()
        first = self._read_at is None
        # The names may come in another order in the new round.
        if self._read_at is not None and self._position != 0 and now - self._read_at < REREAD:
            return False
        self._read_at = now
        try:
            changed = self._read()
            if first and not self._names:
                raise BadConfig("queue_names() gives no queue to work")
        except Exception as error:
            # The worker class is the user's own: it may raise anything.
            if first:
                self._read_at = None
                if isinstance(error, RedbikeError):
                    raise
                raise BadConfig(f"queue_names() or timeout() fails: {describe(error)}") from error
            self._complain(f"queue_names() or timeout() fails, the queues stay as they are: {describe(error)}")
            return False
        self._complain("" if self._names else "queue_names() gives no queue to work; waiting for one")
        return changed

    def _complain(self, complaint: str) -> None:
        if complaint and complaint != self._complaint:
            log.error("%s", complaint)
        self._complaint = complaint

    def _read(self) -> bool:
        given = self._handler.queue_names()
        if isinstance(given, str):
            raise BadConfig(f"queue_names() gives the text {given!r:.80}: a list of names is needed")
        names = list(islice(given, ENDLESS + 1))
        if names == self._names:
            return False
        if len(names) > ENDLESS:
            raise BadConfig(f"queue_names() gives more than {ENDLESS:,} names: it must have an end")
        self._timeouts = {check_queue_name(name): self._timeout(name) for name in names}
        self._names = names
        self._position %= max(1, len(names))
        self.shortest_timeout = min(self._timeouts.values(), default=self._default)
        return True

    def _timeout(self, name: str) -> float:
        seconds = self._handler.timeout(name)
        if seconds is None:
            return self._default
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.001 <= seconds <= 1e9:
            raise BadConfig(f"bad timeout {seconds!r} for queue {name!r}: 0.001 to 1e9 seconds, or None, are allowed")
        return float(seconds)
