"""Where a worker's jobs come from: it takes them, and ends their runs, over one pipeline.

To end some runs and to take the next jobs is one round trip. The server may also be told of ends without waiting for
its answer: it ends these runs while the worker is in the next ones.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Literal

from redbike.errors import Unreachable
from redbike.loop.loop import Loop
from redbike.loop.queues import Queues
from redbike.loop.registration import Presence
from redbike.process import leaving
from redbike.store.next_state import EndedRun
from redbike.store.run import Poll, Run
from redbike.store.scripts import Call, Reply
from redbike.store.store import Store
from redbike.worker.ends import Ends, group_by_tag, release

NAP = 0.9  # seconds: how often an idle worker looks whether it was suspended, and which queues there are
SOON = 0.02  # the same at first if it has just run a job: until it looks, it is ended if it is suspended for long
STALE = 3.0  # seconds after which a worker asks whether its runs are still its own: it may have been suspended


def list_naps() -> Iterator[float]:
    """Yield how many seconds a worker that has no job to begin waits at a time."""
    nap = SOON
    while True:
        yield min(nap, NAP) if leaving.is_covered() else NAP
        nap *= 2


class Source:
    """Takes jobs from `queues`, and ends their runs. One thread uses it."""

    def __init__(
        self, store: Store, loop: Loop, queues: Queues, ends: Ends, presence: Presence, number: int = 0
    ) -> None:
        self.store, self.number = store, number  # of the shard
        self._loop = loop
        with suppress(Unreachable):  # of a shard that is away, it is read before the first take
            loop.read_signal(store)
        self._queues = queues
        self._ends = ends
        self._presence = presence
        self._pipeline = store.scripts.pipeline_class(store.client, loop.stopping.is_set)
        self._unheard: list[EndedRun] = []  # the server was told of these ends, and has not answered yet
        self._asked = 0.0  # when jobs were last asked for, by the monotonic clock
        self._ahead = ""  # the tag of a take that waits for a wake-up, or whose reply was lost
        self.when_idle: Callable[[], None] = lambda: None  # called after each of `list_naps` without a job
        self._shortest = math.inf  # seconds: the shortest timeout that one of the jobs taken last has of its own

    def take_turns(self) -> "Iterator[Source]":
        """Yield what takes jobs from each shard, beginning with the one whose turn it is."""
        yield self

    def hurry(self, patience: float | None) -> None:
        """Raise `Unreachable` from now on if there is no reply after `patience` seconds."""
        self._pipeline.line.patience = patience

    def close(self) -> None:
        """Give the connection back."""
        self._pipeline.close()

    def take(self, most: int, skipped: int = 0, patience: float | None = None) -> list[Run]:
        """Take up to `most` jobs, without the first `skipped` polls, which have just been empty.

        Raise `Unreachable` after `patience` seconds.
        """
        self._loop.read_signal(self.store)
        for poll in islice(self._queues.polls(self.number), skipped, None):
            if self._loop.stopping.is_set():
                break
            found = self._take_from(poll, most, patience)
            if found:
                return found
        return []

    def _take_from(self, poll: Poll, most: int, patience: float | None = None) -> list[Run]:
        tag, is_new = self._ahead or self._presence.make_tag(), not self._ahead

        def ask(repeated: bool) -> Reply:
            self._asked = time.monotonic()
            reply = ["again"]
            while reply[0] == "again":
                (reply,) = self._pipeline.run([self._pack_take(poll, tag, most, repeated or not is_new)])
            return reply

        # Until there is a reply: nobody knows whether the server has taken something.
        self._ahead = tag
        reply = self._loop.retry_until_up(ask, patience)
        self._ahead = ""
        return self._check_halt(self.store.runs.read_take(reply, tag))

    def _pack_take(self, poll: Poll, tag: str, most: int, repeated: bool = False, idle_owner: str = "") -> Call:
        return self.store.runs.pack_take(poll, tag, most, self._loop.read_signal(self.store), repeated, idle_owner)

    def _check_halt(self, taken: list[Run] | Literal["halted"]) -> list[Run]:
        if taken == "halted":
            self._loop.check_halt(self.store.signals.read_all())
            return []
        self._shortest = min((run.deadline - run.start for run in taken if run.options), default=math.inf)
        return taken

    def wait(self) -> list[Run]:
        """Block until a queue may have something; return what the server has taken for this worker at that instant."""
        # The poll first: it may read the names of the queues again.
        poll = next(self._queues.polls(self.number))
        number = len(self._queues.names())
        wakes = {self.store.keys.wake(name): name for name in self._queues.list_awaited()}

        def take() -> Call:
            # One job only: if this process is suspended by then, it is held up.
            self._ahead = self._presence.make_tag()
            return self._pack_take(poll, self._ahead, 1, idle_owner=self._presence.idle_owner)

        woken, runs, naps, looked = False, list[Run](), list_naps(), time.monotonic()
        while not (woken or runs or self._loop.stopping.is_set()):
            self._asked = time.monotonic()
            key, reply = self._loop.wait_and_run(list(wakes), next(naps), take)
            if woken := key is not None:
                self._queues.note_token(wakes.get(key, ""))
            if reply is not None:
                runs, self._ahead = self._check_halt(self.store.runs.read_take(reply, self._ahead)), ""
                self._presence.note(self.store.runs.read_registration(reply))
                # It does not look into all when there are very many.
                woken = woken or len(poll.queues) < number
                self._presence.hear(self.store.runs.has_notices(reply))
            elif not woken:
                self.when_idle()
                # The user's own code names the queues: it is not asked after each of the short naps.
                if (now := time.monotonic()) - looked < NAP / 2:
                    continue
                looked = now
                if self._queues.refresh():
                    # It waits for the queues that there were.
                    runs, woken = self._call_off(), True
                    self._presence.check()
        if self._loop.stopping.is_set():
            runs += self._call_off()
            if runs:
                self.release(runs)
            return []
        return runs

    def _call_off(self) -> list[Run]:
        """Stop waiting; return what the server has taken for this worker meanwhile."""
        self._loop.close()
        if not self._ahead:
            return []
        call = self._pack_take(next(self._queues.polls(self.number)), self._ahead, 0, repeated=True)
        (reply,) = self._loop.retry_until_up(lambda _: self._pipeline.run([call]))
        taken, self._ahead = self.store.runs.read_take(reply, self._ahead), ""
        return [run for run in taken if isinstance(run, Run)]

    def give_back(self) -> None:
        """Give back what was taken by a take whose reply was lost. Raise `Unreachable`."""
        if self._ahead:
            call = self._pack_take(next(self._queues.polls(self.number)), self._ahead, 0, repeated=True)
            (reply,) = self._pipeline.run([call])
            if runs := [run for run in self.store.runs.read_take(reply, self._ahead) if isinstance(run, Run)]:
                self.release(runs, patience=0.0)
            self._ahead = ""

    def finish(self) -> None:
        """Leave nothing to be done: the loop is over."""

    def list_owed(self) -> list[EndedRun]:
        """Return the ends that wait for a server of several."""
        return []

    def drain_unheard(self) -> list[EndedRun]:
        """Return the ends that the server was told of without an answer; it is for the caller to tell it again."""
        unheard, self._unheard = self._unheard, []
        return unheard

    def release(self, runs: list[Run], patience: float | None = None) -> None:
        """Give back runs of one tag that have not begun. Raise `Unreachable` after `patience` seconds."""
        self._ends.end(self._loop.retry_until_up(lambda _: release(self.store, runs), patience), patience)

    @property
    def fresh_until(self) -> float:
        """Until when runs that have not begun are surely this worker's, and not late, by the monotonic clock."""
        return self._asked + min(STALE, self._queues.shortest_timeout / 2, self._shortest / 2)

    def keep_own(self, runs: list[Run], patience: float | None = None) -> list[Run]:
        """Return those of `runs` that are still this worker's, with a new lease if it may have been suspended.

        Raise `Unreachable` after `patience` seconds.
        """
        if not runs or time.monotonic() <= self.fresh_until:
            return runs
        asked = time.monotonic()
        words = self._loop.retry_until_up(lambda _: self.store.runs.heartbeat(runs), patience)
        self._asked = asked
        now = self._loop.retry_until_up(lambda _: self.store.timeline.read_clock(), patience)
        for run, word in zip(runs, words, strict=True):
            run.cancelled = word == "cancelled"
            # Its reply may have been read long after it was sent.
            run.received = min(run.received, time.monotonic() - max(0.0, now - run.start))
        return [run for run, word in zip(runs, words, strict=True) if word in ("ok", "cancelled")]

    def tell(self, ended: Sequence[EndedRun], patience: float | None = None) -> None:
        """End runs, in any thread. Raise `Unreachable` after `patience` seconds."""
        self._ends.end(ended, patience)

    def send_ends(self, ended: list[EndedRun], patience: float | None = None) -> None:
        """Let the server end these runs while the next ones are run. Raise `Unreachable` after `patience` seconds."""
        self._unheard += ended
        if not ended:
            # The thread that splits batches was faster.
            return
        try:
            self._pipeline.send_all([self.store.runs.pack_end(ended)])
        except Unreachable:
            # A worker that was killed now would have all of them run again: so no further one before they are ended.
            self.end([], patience=patience)

    def end_and_take(self, ended: list[EndedRun], most: int) -> list[Run]:
        """End these runs and take up to `most` jobs, in one round trip."""
        if self._loop.stopping.is_set() or not (ended or self._unheard):
            self.end(ended)
            return self.take(most)
        tag, poll = self._presence.make_tag(), next(self._queues.polls(self.number))
        reply = self.end(ended, lambda repeated: self._pack_take(poll, tag, most, repeated))
        return self._check_halt(self.store.runs.read_take(reply, tag))

    def end(
        self, ended: list[EndedRun], then: Callable[[bool], Call] | None = None, patience: float | None = None
    ) -> Reply:
        """See that these runs, and those that the server was told of, are ended; its reply to what comes `then`.

        Raise `Unreachable` after `patience` seconds; what the server was told of is seen to by the next call.
        """
        told, groups = self._unheard, group_by_tag(ended)
        self._unheard = []
        order = [*told, *(each for group in groups for each in group)]

        def ask(repeated: bool) -> list[Reply]:
            if then:
                self._asked = time.monotonic()
            # Without an answer it is not known whether it did what it was told: once more does no harm.
            again = group_by_tag(told) if told and not self._pipeline.unanswered else []
            calls = [self.store.runs.pack_end(group) for group in (*again, *groups)]
            return self._pipeline.run([*calls, then(repeated)] if then else calls)

        try:
            replies = self._loop.retry_until_up(ask, patience) if order or then else []
        except Unreachable:
            self._unheard = told
            raise
        reply = replies.pop() if then else []
        self._ends.follow_up(order, replies)
        return reply
