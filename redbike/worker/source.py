"""The source of a worker's jobs: it takes them, and ends their runs, over one pipeline.

Ending some runs and taking the next jobs is one round trip. Ends may also be sent without waiting for a reply: the
server ends these runs while the worker runs the next ones.
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

NAP = 0.9  # seconds between two checks of an idle worker: whether it was suspended, and which queues there are
SOON = 0.02  # the same just after a job: until the first check, a worker that is suspended for long is ended
STALE = 3.0  # seconds after which a worker asks whether its runs are still its own: it may have been suspended


def list_naps() -> Iterator[float]:
    """Yield how many seconds a worker that has no job to begin waits each time."""
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
        with suppress(Unreachable):  # if the shard is away, the signal is read before the first take
            loop.read_signal(store)
        self._queues = queues
        self._ends = ends
        self._presence = presence
        self._pipeline = store.scripts.pipeline_class(store.client, loop.stopping.is_set)
        self._unheard: list[EndedRun] = []  # ends that were sent to the server, which has not answered yet
        self._asked = 0.0  # when jobs were last asked for, by the monotonic clock
        self._ahead = ""  # the tag of a take that waits for a wake-up, or whose reply was lost
        self.when_idle: Callable[[], None] = lambda: None  # called after each of `list_naps` without a job
        self._shortest = math.inf  # seconds: the shortest timeout among the jobs taken last that have options

    def take_turns(self) -> "Iterator[Source]":
        """Yield the source of each shard, beginning with the one whose turn it is."""
        yield self

    def hurry(self, patience: float | None) -> None:
        """Raise `Unreachable` from now on if there is no reply after `patience` seconds."""
        self._pipeline.line.patience = patience

    def close(self) -> None:
        """Release the connection."""
        self._pipeline.close()

    def take(self, most: int, skipped: int = 0, patience: float | None = None) -> list[Run]:
        """Take up to `most` jobs. Skip the first `skipped` polls, which have just been empty.

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
            # One job only: if this process is suspended by then, the job is delayed.
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
                # If there are very many queues, the poll has only some of them.
                woken = woken or len(poll.queues) < number
                self._presence.hear(self.store.runs.has_notices(reply))
            elif not woken:
                self.when_idle()
                # The user's own code names the queues: it is not called after each of the short naps.
                if (now := time.monotonic()) - looked < NAP / 2:
                    continue
                looked = now
                if self._queues.refresh():
                    # The pending wait is for the old queues.
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
        """Release the runs of a take whose reply was lost. Raise `Unreachable`."""
        if self._ahead:
            call = self._pack_take(next(self._queues.polls(self.number)), self._ahead, 0, repeated=True)
            (reply,) = self._pipeline.run([call])
            if runs := [run for run in self.store.runs.read_take(reply, self._ahead) if isinstance(run, Run)]:
                self.release(runs, patience=0.0)
            self._ahead = ""

    def finish(self) -> None:
        """Finish pending requests, as the loop is over: a single server has none."""

    def list_owed(self) -> list[EndedRun]:
        """Return the ends that wait for shards that are away: none on a single server."""
        return []

    def drain_unheard(self) -> list[EndedRun]:
        """Return the ends that were sent but not answered, and forget them: the caller must send them again."""
        unheard, self._unheard = self._unheard, []
        return unheard

    def release(self, runs: list[Run], patience: float | None = None) -> None:
        """Release runs of one tag that have not begun. Raise `Unreachable` after `patience` seconds."""
        self._ends.end(self._loop.retry_until_up(lambda _: release(self.store, runs), patience), patience)

    @property
    def fresh_until(self) -> float:
        """Until when runs that have not begun surely belong to this worker and are not late, by the monotonic clock."""
        return self._asked + min(STALE, self._queues.shortest_timeout / 2, self._shortest / 2)

    def keep_own(self, runs: list[Run], patience: float | None = None) -> list[Run]:
        """Return those of `runs` that still belong to this worker, with a new lease if it may have been suspended.

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
            # The reply with this run may have been read long after it was sent.
            run.received = min(run.received, time.monotonic() - max(0.0, now - run.start))
        return [run for run, word in zip(runs, words, strict=True) if word in ("ok", "cancelled")]

    def tell(self, ended: Sequence[EndedRun], patience: float | None = None) -> None:
        """End runs, in any thread. Raise `Unreachable` after `patience` seconds."""
        self._ends.end(ended, patience)

    def send_ends(self, ended: list[EndedRun], patience: float | None = None) -> None:
        """Send these ends, without waiting for a reply. Raise `Unreachable` after `patience` seconds."""
        self._unheard += ended
        if not ended:
            # The thread that splits batches was faster.
            return
        try:
            self._pipeline.send_all([self.store.runs.pack_end(ended)])
        except Unreachable:
            # If this worker were killed now, all of them would run again: so no further run before they are ended.
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
        """End these runs, and those whose ends were not answered yet; return the reply to the call of `then`.

        Raise `Unreachable` after `patience` seconds: the next call repeats the ends that were not answered.
        """
        told, groups = self._unheard, group_by_tag(ended)
        self._unheard = []
        order = [*told, *(each for group in groups for each in group)]

        def ask(repeated: bool) -> list[Reply]:
            if then:
                self._asked = time.monotonic()
            # Without an answer, nobody knows whether the server has ended them. Sending them again does no harm.
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
