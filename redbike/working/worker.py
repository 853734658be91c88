"""Workers: they take due jobs from queues, run them, and say how that ended.

1. Take the next job in the order of the worker class's queues, or several when the last ones were short (see `batch`).
2. Run it, with a heartbeat beside it for as long as it takes.
3. End it where its schedule, its outcome and the policies say; that and taking the next is one round trip.
4. Block when there is nothing to take.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Literal, TypeVar

from redbike.config import Settings
from redbike.errors import RedbikeError, Unreachable
from redbike.running.loop import Loop
from redbike.running.policies import commit
from redbike.running.policies import overrun as overran
from redbike.state.records import Answer, Outcome, Run
from redbike.state.scripts import Call, Conversation, Reply
from redbike.state.store import LEASE, Store, new_tag
from redbike.working.batch import LONG_ENOUGH, STALE, TOGETHER, UNTOLD, Batch, Ended, Pace, Watch
from redbike.working.heartbeat import Heartbeat
from redbike.working.queues import Handler, Look, Rotation
from redbike.working.runner import Performer

log = logging.getLogger("redbike.worker")

NAP = 0.9  # seconds: how often an idle worker looks whether it was suspended, and which queues there are

T = TypeVar("T")


class Worker:
    """Works jobs with `handler`, `concurrency` at once."""

    def __init__(self, store: Store, handler: Handler, settings: Settings, concurrency: int = 1) -> None:
        self.store = store
        self.handler = handler
        self.settings = settings
        self.performer = Performer(handler, settings)
        self.loop = Loop(store, getattr(handler, "abort", None))
        self.rotation = Rotation(handler, settings.default_timeout)
        self.heartbeat = Heartbeat(store, self._overrun)
        self._watch = Watch(self._split)
        self._pace = Pace()
        self._line = Conversation(store.client)
        self._unheard: list[Ended] = []  # the server was told of these ends, and has not answered yet
        self._asked = 0.0  # when jobs were last asked for, by the monotonic clock
        self._ahead = ""  # the tag of a take that waits for a wake-up, or whose reply was lost
        self._free = threading.Semaphore(concurrency)
        self._concurrency = concurrency

    def work(self) -> None:
        """Work until halted."""
        next(self.rotation.looks())
        if self._concurrency == 1:
            self.loop.run(self._turn)
        else:
            with ThreadPoolExecutor(self._concurrency, thread_name_prefix="redbike") as pool:
                self.loop.run(lambda: self._hand_out(pool), pool.shutdown)
        self._watch.stop()
        self.heartbeat.stop()
        self._line.close()

    def work_one(self, now: float | None = None) -> str | None:
        """Take and work at most one job without waiting; its id, or None when every queue was empty."""
        for queues, _ in self.rotation.looks():
            run = self.store.take(queues, new_tag(), self.loop.seen, now=now)
            if run != "empty":
                break
        if isinstance(run, str):
            return None
        self.rotation.served(run.queue)
        outcome = self._perform(run, now)
        self.loop.insist(lambda _: self._end_all([(run, outcome)], now), patience=LEASE)
        return run.jobid

    def _turn(self) -> None:
        """One job, or some short ones, after the other, then one wait."""
        runs = self._take(self._most())
        while runs or (runs := self._idle()):
            ended = self._perform_all(runs)
            runs = self._finish_and_take(ended) or self._take(self._most(), skipped=1)

    def _most(self) -> int:
        """How many jobs to take."""
        together = self.settings.on_lost == "requeue" and self.rotation.shortest >= LONG_ENOUGH
        return self._pace.number if together else 1

    def _perform_all(self, runs: list[Run]) -> list[Ended]:
        """Run jobs that were taken together; those whose end is still to be told."""
        runs = self._still_ours(runs)
        batch = Batch(runs)
        ended = self._perform_one(runs[0]) if len(runs) == 1 else self._perform_batch(batch)
        self._pace.note(max(1, len(batch.over)), time.monotonic() - batch.began)
        return ended

    def _perform_one(self, run: Run) -> list[Ended]:
        self.rotation.served(run.queue)
        return [(run, self._perform(run))]

    def _perform_batch(self, batch: Batch) -> list[Ended]:
        self._watch.begin(batch)
        stopping, stale = self.loop.stopping, self._stale
        try:
            while not batch.closed:
                while batch.todo and not stopping.is_set():
                    if time.monotonic() - self._asked > stale:
                        self._check(batch)
                    try:
                        run = batch.todo.popleft()
                    except IndexError:
                        break
                    # Only now: what is given back takes no turn.
                    self.rotation.served(run.queue)
                    outcome = self.performer.perform(run)
                    batch.over.add(id(run))
                    batch.done.append((run, outcome))
                    if self.performer.spent > UNTOLD or len(batch.done) >= TOGETHER:
                        self._tell(_drained(batch.done.popleft))
                with batch.changing:
                    batch.closed = not batch.todo or stopping.is_set()
        finally:
            batch.closed = True
            for run in batch.watched:
                self.heartbeat.remove(run)
        if batch.todo:
            left = list(batch.todo)
            self.loop.insist(lambda _: self.store.release(left))
        return list(batch.done)

    def _tell(self, ended: list[Ended]) -> None:
        """Let the server end these runs while the next ones are run."""
        self._unheard += ended
        self.performer.spent = 0.0
        if not ended:
            # The thread that splits batches was faster.
            return
        try:
            self._line.tell(self.store.end_call(ended))
        except Unreachable:
            # A worker that was killed now would have all of them run again: so no further one before they are ended.
            self._finish([])

    def _check(self, batch: Batch) -> None:
        """Leave out the runs of `batch` that are not this worker's any more, because it was suspended for so long."""
        with batch.changing:
            batch.todo.extend(self._still_ours(_drained(batch.todo.popleft)))

    def _split(self, batch: Batch) -> None:
        """`batch` takes long: end what is done, and give back what has not begun."""
        with batch.changing:
            if batch.closed:
                return
            # In this order: what is done meanwhile would have to wait for the slow one that is begun after it.
            rest = _drained(batch.todo.pop)[::-1]
            done = _drained(batch.done.popleft)
            # From now on there is time for a heartbeat.
            left = batch.over | {id(run) for run in rest}
            batch.watched = [run for run in batch.runs if id(run) not in left]
            for run in batch.watched:
                self.heartbeat.add(run)
            try:
                self.loop.insist(lambda _: self._end_all(done), patience=LEASE)
                words = self.loop.insist(lambda _: self.store.release(rest), patience=LEASE) if rest else []
            except RedbikeError as error:
                log.error("%d jobs could not be ended or given back, they will count as lost: %s", len(rest), error)
                return
            kept = [run for run, word in zip(rest, words, strict=True) if word == "kept"]
            for run in kept:
                self.heartbeat.add(run)
            batch.watched = batch.watched + kept
            batch.todo.extend(kept)

    def _hand_out(self, pool: ThreadPoolExecutor) -> None:
        """Take a job as soon as a thread is free for it."""
        while not self._free.acquire(timeout=1.0):
            if self.loop.stopping.is_set():
                return
            self.loop.heed(self.store.control())
        runs: list[Run] = []
        try:
            runs = [] if self.loop.stopping.is_set() else self._still_ours(self._take(1) or self._idle())
        finally:
            if not runs:
                self._free.release()
        if runs:
            self.rotation.served(runs[0].queue)
            pool.submit(self._work_through, runs[0])

    def _work_through(self, run: Run) -> None:
        try:
            outcome = self._perform(run)
            self.loop.insist(lambda _: self._end_all([(run, outcome)]))
        except Unreachable as error:
            log.error("%s: its end could not be told, it will count as lost: %s", run.jobid, error)
        except Exception:
            log.exception("%s: its end could not be told, it will count as lost", run.jobid)
            self.loop.stopping.set()
        finally:
            self._free.release()

    def _take(self, most: int, skipped: int = 0) -> list[Run]:
        """Take up to `most` jobs, without the first `skipped` looks, which have just been empty."""
        for look in islice(self.rotation.looks(), skipped, None):
            if self.loop.stopping.is_set():
                break
            found = self._take_from(look, most)
            if found:
                return found
        return []

    def _take_from(self, look: Look, most: int) -> list[Run]:
        tag, seen, known = self._ahead or new_tag(), self.loop.seen, not self._ahead

        def ask(repeated: bool) -> Reply:
            self._asked = time.monotonic()
            reply = ["again"]
            while reply[0] == "again":
                (reply,) = self._line.ask([self.store.take_call(*look, tag, most, seen, repeated or not known)])
            return reply

        reply = self.loop.insist(ask)
        self._ahead = ""
        return self._received(self.store.taken(reply, tag))

    def _received(self, taken: list[Run] | Literal["halted"]) -> list[Run]:
        if taken == "halted":
            self.loop.heed(self.store.control())
            return []
        return taken

    def _finish_and_take(self, ended: list[Ended]) -> list[Run]:
        """End these runs and take the next ones, in one round trip."""
        if self.loop.stopping.is_set() or not (ended or self._unheard):
            self._finish(ended)
            return self._take(self._most())
        tag, look, most, seen = new_tag(), next(self.rotation.looks()), self._most(), self.loop.seen
        reply = self._finish(ended, lambda again: self.store.take_call(*look, tag, most, seen, again))
        return self._received(self.store.taken(reply, tag))

    def _finish(self, ended: list[Ended], then: Callable[[bool], Call] | None = None) -> Reply:
        """See that these runs, and those that the server was told of, are ended; its reply to what comes `then`."""
        told, ended = len(self._unheard), self._unheard + ended
        self._unheard, self.performer.spent = [], 0.0

        def ask(repeated: bool) -> list[Reply]:
            if then:
                self._asked = time.monotonic()
            # Without an answer it is not known whether it did what it was told: once more does no harm.
            rest = ended[told:] if self._line.unanswered else ended
            calls = [self.store.end_call(rest)] if rest else []
            return self._line.ask([*calls, then(repeated)] if then else calls)

        replies = self.loop.insist(ask) if ended or then else []
        reply = replies.pop() if then else []
        self._note_ends(ended, replies)
        return reply

    def _end_all(self, ended: list[Ended], now: float | None = None) -> None:
        """End runs that were taken together."""
        if ended:
            self._note_ends(ended, [self.store.scripts.run(self.store.end_call(ended, now))], now)

    def _note_ends(self, ended: list[Ended], replies: list[Reply], now: float | None = None) -> None:
        answers = [answer for reply in replies for answer in self.store.ended(reply)]
        for (run, outcome), answer in zip(ended, answers, strict=True):
            if answer.word != "ok" or log.isEnabledFor(logging.DEBUG):
                self._ended(run, outcome, answer, now)

    def _ended(self, run: Run, outcome: Outcome, answer: Answer, now: float | None = None) -> None:
        if answer.word == "overrun" and run.was_in_time:
            # Redis was away, and has heard of it late.
            answer = self.store.end(run, outcome, now, late=time.monotonic() - run.over)
        if answer.word in ("changed", "overrun"):
            clock = run.now if now is None else lambda: now
            answer = commit(self.store, run, outcome, self.performer.settings_for(run), clock, now, answer)
        if answer.word == "ok":
            log.debug("%s: run %s ended, now %s", run.jobid, run.tag, answer.detail)
        else:
            lost = "%s: run %s is no longer this worker's (%s); its end changes nothing"
            log.warning(lost, run.jobid, run.tag, answer.word)

    def _overrun(self, run: Run) -> None:
        """The heartbeat found that `run` has outlived its deadline."""
        log.error("%s: overran its timeout of %g s", run.jobid, run.deadline - run.start)
        settings = self.performer.settings_for(run)
        commit(self.store, run, overran(run, settings, run.now()), settings, run.now)

    def _perform(self, run: Run, now: float | None = None) -> Outcome:
        """Run the job, with a heartbeat; where it goes then."""
        self.heartbeat.add(run)
        try:
            return self.performer.perform(run, now)
        finally:
            self.heartbeat.remove(run)

    def _idle(self) -> list[Run]:
        """Block until a queue of ours may have something; what the server has taken for us at that instant."""
        # The look first: it may read the names of the queues again.
        look, seen = next(self.rotation.looks()), self.loop.seen
        wakes = [self.store.keys.wake(name) for name in self.rotation.names()]

        def take() -> Call:
            # One job only: if this process is suspended by then, it is held up.
            self._ahead = new_tag()
            return self.store.take_call(*look, self._ahead, 1, seen)

        woken, runs = False, list[Run]()
        while not (woken or runs or self.loop.stopping.is_set()):
            self._asked = time.monotonic()
            woken, reply = self.loop.wait_and_run(wakes, NAP, take)
            if reply is not None:
                runs, self._ahead = self._received(self.store.taken(reply, self._ahead)), ""
                # It does not look into all when there are very many.
                woken = woken or len(look.queues) < len(wakes)
            elif not woken and self.rotation.refresh():
                # It waits for the queues that there were.
                runs, woken = self._call_off(), True
        if self.loop.stopping.is_set():
            runs += self._call_off()
            if runs:
                self.loop.insist(lambda _: self.store.release(runs))
            return []
        return runs

    def _still_ours(self, runs: list[Run]) -> list[Run]:
        """Those of `runs` that are still this worker's, with a new lease, if it may have been suspended meanwhile."""
        if not runs or time.monotonic() - self._asked <= self._stale:
            return runs
        asked = time.monotonic()
        words = self.loop.insist(lambda _: self.store.heartbeat(runs))
        self._asked = asked
        return [run for run, word in zip(runs, words, strict=True) if word == "ok"]

    @property
    def _stale(self) -> float:
        """Seconds after which runs that have not begun may be another worker's, or late."""
        return min(STALE, self.rotation.shortest / 2)

    def _call_off(self) -> list[Run]:
        """Stop waiting; what the server has taken for this worker meanwhile."""
        self.loop.close()
        if not self._ahead:
            return []
        look, seen = next(self.rotation.looks()), self.loop.seen
        call = self.store.take_call(*look, self._ahead, 0, seen, repeated=True)
        (reply,) = self.loop.insist(lambda _: self._line.ask([call]))
        taken, self._ahead = self.store.taken(reply, self._ahead), ""
        return [run for run in taken if isinstance(run, Run)]


def _drained(pop: Callable[[], T]) -> list[T]:
    """All that `pop` gives until there is no more."""
    found = []
    while True:
        try:
            found.append(pop())
        except IndexError:
            return found
