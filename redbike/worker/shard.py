"""One of several shards of a worker: the worker waits for its tokens, and keeps ends for it while it is away."""

import logging
import threading
import time
from collections.abc import Sequence

from redbike.connection.client import is_in_cluster
from redbike.errors import LoginRefused, RedbikeError, Unreachable
from redbike.loop.loop import FAREWELL, REMINDER, Loop
from redbike.loop.wakeup import Wakeup
from redbike.store.next_state import EndedRun
from redbike.store.run import Run
from redbike.worker.ends import Ends
from redbike.worker.source import Source

log = logging.getLogger("redbike.worker")

RETRY = 0.5  # seconds after which a shard that was away is asked again
PATIENCE = 0.5  # seconds after which a master that does not answer counts as away: others have work to do


class Shard:
    """A shard. While its server is away, this object keeps the ends of its runs, and another thread asks the server."""

    def __init__(self, number: int, source: Source, loop: Loop, ends: Ends) -> None:
        self.number, self.store, self.source = number, source.store, source
        self._loop, self._ends = loop, ends
        self.is_away = False
        self.owed: list[EndedRun] = []  # the ends to send once it answers
        self._changing = threading.Lock()  # of these two
        self._left: list[Run] = []  # the runs to release once it answers: they have not begun
        self._telling = threading.Lock()
        self._told_at, self._is_refused = 0.0, False  # when the outage was logged last; whether it refused the login
        self.wakeup: Wakeup | None = None
        self._patience = PATIENCE if is_in_cluster(self.store.client) else None
        source.hurry(self._patience)
        self.queues: dict[str, str] = {}  # the queues for which it waits, by the key of their tokens
        self.token = ""  # the key of the list from which this worker got its last token

    def begin_to_wait(self, names: Sequence[str]) -> int:
        """Wait for tokens of queues from now on; return a descriptor that is readable when there is one."""
        queues = {self.store.keys.wake(name): name for name in names}
        if self.wakeup is None or queues != self.queues:
            self.give_up()
            self.wakeup = Wakeup(self.store.client, [self.store.keys.halt, *queues], self._loop.stopping)
            self.wakeup.line.patience = self._patience
            self.queues = queues
        return self.wakeup.begin()

    def pass_on(self) -> None:
        """Pass the token of this worker on to another one: nothing was taken for it. Raise `Unreachable`."""
        if self.token in self.queues:
            # By a script: a server without free memory refuses a push, but runs this.
            self.store.queue_limits.open(self.queues[self.token])

    def give_up(self) -> None:
        """Release the connection on which it waits."""
        if self.wakeup:
            self.wakeup.close()
        self.wakeup = None

    def pass_over(self, error: Unreachable, owed: Sequence[EndedRun] = ()) -> None:
        """Skip it until it answers again and has received the ends that are `owed`. Any thread may call this."""
        with self._changing:
            self.owed = [*self.owed, *owed]
            if self.is_away:
                return
            self.is_away = True
        self._is_refused = False
        self._say(error)
        try:
            threading.Thread(target=self._look_after, name="redbike-shard", daemon=True).start()
        except RuntimeError:
            log.exception("no thread can ask the shard %s, so this worker ends", self.store.keys.prefix)
            self._loop.stopping.set()

    def _say(self, error: RedbikeError) -> None:
        """Log that the jobs of this shard wait, and for what."""
        self._told_at = time.monotonic()
        self._is_refused |= isinstance(error, LoginRefused)
        log.warning("the jobs of the shard %s wait: %s", self.store.keys.prefix, error)

    def owe(self, ended: Sequence[EndedRun]) -> bool:
        """Keep these ends if it is away, and tell whether it is. Any thread may call this."""
        with self._changing:
            if self.is_away:
                self.owed = [*self.owed, *ended]
            return self.is_away

    def leave(self, runs: list[Run]) -> None:
        """Keep runs that have not begun for the next `give_back`: the shard does not answer."""
        self._left += runs

    def give_back(self) -> None:
        """Release the runs that `leave` has kept, and those of a take whose reply was lost. Raise `Unreachable`."""
        while self._left:
            tag = self._left[0].tag
            self.source.release([run for run in self._left if run.tag == tag], patience=0.0)
            self._left = [run for run in self._left if run.tag != tag]
        self.source.give_back()

    def tell_owed(self, patience: float = 0.0) -> None:
        """Send it all ends that are owed. Raise `Unreachable` after `patience` seconds."""
        with self._telling:
            while owed := self.owed:
                self._ends.end(owed, patience)
                with self._changing:
                    self.owed = self.owed[len(owed) :]

    def _look_after(self) -> None:
        while not self._loop.stopping.wait(RETRY):
            try:
                self._check()
            except RedbikeError as error:
                # An outage may have been logged before. A refused login is logged, too: a person has to act on it.
                is_news = isinstance(error, LoginRefused) and not self._is_refused
                if is_news or time.monotonic() - self._told_at >= REMINDER:
                    self._say(error)
                continue
            try:
                self.tell_owed()
            except Unreachable:
                continue
            except Exception:
                log.exception("the ends of runs in the shard %s cannot be stored", self.store.keys.prefix)
                self._loop.stopping.set()
                return
            with self._changing:
                self.is_away = bool(self.owed)
            if not self.is_away:
                log.warning("the shard %s answers again", self.store.keys.prefix)
                return

    def _check(self) -> None:
        """Raise `Unreachable` unless it answers and accepts changes. A full server refuses new jobs, but ends runs."""
        refusal = self.store.questions.find_refusal()
        if refusal and not refusal.is_full:
            raise Unreachable(refusal.text)

    def finish(self, began: float) -> None:
        """Send it all ends that are owed, and release the runs that have not begun: the worker stops.

        The stop began at the instant `began`, by the monotonic clock. All shards together have `FAREWELL` seconds.
        """
        try:
            self.tell_owed(max(0.0, began + FAREWELL - time.monotonic()))
            self.give_back()
        except RedbikeError as error:
            names = ", ".join(run.jobid for run, _ in self.owed)
            said = f"{names}: the end of its run could not be stored, so it will count as lost" if names else ""
            log.error("%s: %s", said or f"what was taken from {self.store.keys.prefix} may count as lost", error)
